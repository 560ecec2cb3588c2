"""What TFDS has no public name for: the one file to mend if a new version has moved it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import naming, read_only_builder, registered

from transformer_jax.errors import UserError


def parsed_name(name: str) -> tuple[Any, dict[str, Any]]:
    """Return the name of a dataset, with `namespace` and `name`, and its options.

    Raises:
      ValueError: if the name is not valid.
    """
    return naming.parse_builder_name_kwargs(name)


def builder_from_files(name: str, data_dir: str | None, import_code: bool = True) -> Any:
    """Return the builder of a dataset that is prepared.

    Args:
      name: of the dataset.
      data_dir: the folder of TFDS; None for its default.
      import_code: whether TFDS may import its code of the dataset, for the default configuration.

    Raises:
      DatasetNotFoundError: if the dataset is not prepared.
    """

    def no_code(name):
        raise tfds.core.DatasetNotFoundError(name)

    with contextlib.ExitStack() as stack:
        if not import_code:
            stack.enter_context(_replaced(registered, 'imported_builder_cls', no_code))
        return read_only_builder.builder_from_files(name, data_dir=data_dir)


def only_features_of_tfds(dataset: str) -> contextlib.AbstractContextManager:
    """Refuse feature classes of other packages within a context.

    A dataset's features.json names its feature classes, and TFDS would import any module there.
    """
    connector = tfds.features.FeatureConnector
    resolve = connector.cls_from_name

    def resolve_own(_, name):
        if name.startswith('tensorflow_datasets.core.features.'):
            with contextlib.suppress(ValueError):  # TFDS has no such class
                return resolve(name)
        raise UserError(
            f'data.dataset={dataset!r} has a feature of the class {name!r}, which is not a class '
            'of TFDS and may run any code: prepare the dataset with features of TFDS.'
        )

    return _replaced(connector, 'cls_from_name', classmethod(resolve_own))


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a class or module within a context."""
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
