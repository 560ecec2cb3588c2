"""What people want is exported at the first try, and nothing heavy loads before it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ['transformer_jax', 'transformer_jax.training', 'transformer_jax.data']
PROGRAM = """
import sys
import transformer_jax, transformer_jax.training, transformer_jax.data

heavy = ('numpy', 'jax', 'flax', 'optax', 'tensorflow', 'sentencepiece', 'orbax')
print([name for name in heavy if name in sys.modules])
print(transformer_jax.model.MultiHeadAttention is transformer_jax.MultiHeadAttention)
from transformer_jax import *
print(Transformer.__name__)
"""


def test_importing_the_packages_loads_nothing_heavy():
    done = subprocess.run([sys.executable, '-c', PROGRAM], capture_output=True, text=True)
    assert done.stdout.splitlines() == ['[]', 'True', 'Transformer'], done.stderr


@pytest.mark.parametrize(
    'command', ['main', 'translate', 'serve', 'evaluate', 'score', 'attention']
)
def test_a_command_can_open_its_program_cache_before_jax_is_imported(command):
    program = f"import sys, transformer_jax.{command}; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.stdout == 'False\n', done.stderr


def test_keras_is_loaded_only_if_somebody_asks_for_it():
    program = (
        'import sys; from transformer_jax.data._tensorflow import import_tensorflow; '
        "tf = import_tensorflow(); print('keras' in sys.modules, tf.keras.__version__[0]); "
        'from tensorflow.keras import layers; print(layers.Dense is tf.keras.layers.Dense)'
    )
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.stdout == 'False 3\nTrue\n', done.stderr


@pytest.mark.parametrize('package', PACKAGES)
def test_every_export_exists_and_type_checkers_see_it(package):
    module = importlib.import_module(package)
    assert all(getattr(module, name).__doc__ for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    tree = ast.parse(Path(module.__file__).read_text(encoding='utf-8'))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {(i.module, alias.asname) for i in block.body for alias in i.names}
    assert sorted(name for _, name in seen) == module.__all__
    for source, name in seen:
        assert getattr(importlib.import_module(source), name) is getattr(module, name)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'transformer_jax' has no attribute 'Trasformer'"):
        importlib.import_module('transformer_jax').Trasformer  # noqa: B018
