"""TFDS still has what it has no public name for."""

import inspect

import pytest

from transformer_jax.data.corpora.tfds import _import_tfds


@pytest.fixture(scope='module')
def tfds():
    pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    pytest.importorskip('tensorflow_datasets', reason='tensorflow-datasets is not installed')
    return _import_tfds()


@pytest.mark.parametrize(
    'part',
    [
        'core.naming.parse_builder_name_kwargs',
        'core.read_only_builder.builder_from_files',
        'core.registered.imported_builder_cls',
        'features.FeatureConnector.cls_from_name',
    ],
)
def test_tfds_has_what_is_used_of_it(tfds, part):
    owner = tfds
    for name in part.split('.'):
        owner = inspect.getattr_static(owner, name, None)
        assert owner is not None, (
            f'TFDS {tfds.__version__} has no {part} any more: mend data/corpora/tfds_private.py'
        )


def test_a_name_is_parsed(tfds):
    from transformer_jax.data.corpora import tfds_private

    name, options = tfds_private.parsed_name('some:corpus/part:1.0.0')
    assert (name.namespace, name.name) == ('some', 'corpus')
    assert options == {'config': 'part', 'version': '1.0.0'}
