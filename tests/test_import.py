"""What people want is exported at the first try, and nothing heavy loads before it is used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_jax

PACKAGES = ['transformer_jax', 'transformer_jax.training', 'transformer_jax.data']
PACKAGE = Path(transformer_jax.__file__).parent
COMMANDS = [
    'main',
    'translate',
    'serve',
    'evaluate',
    'score',
    'average',
    'convert',
    'paper',
    'corpus',
    'attention',
    'plot',
    'benchmark',
]
# What is not always installed, or takes time that only some users have to spend.
OPTIONAL = set(
    'babel ctranslate2 datasets etils fsspec google huggingface_hub matplotlib ml_collections '
    'mlflow py3langid readline sacrebleu sentencex tensorflow tensorflow_datasets torch '
    'transformers wandb'.split()
)
MAIN = """
import runpy, sys

sys.argv = ['command', '{flag}']
try:
    runpy.run_module('transformer_jax.{command}', run_name='__main__', alter_sys=True)
except SystemExit as end:
    heavy = ('jax', 'flax', 'optax', 'tensorflow', 'sentencepiece', 'orbax', 'sacrebleu')
    print(end.code or 0, [name for name in heavy if name in sys.modules])
"""
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


@pytest.mark.parametrize('command', COMMANDS)
def test_help_and_mistakes_are_answered_before_anything_heavy_is_imported(command):
    for flag, wanted in (('--help', 0), ('--no_such_flag=1', 2)):
        program = MAIN.format(flag=flag, command=command)
        done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == f'{wanted} []', done.stderr


def test_imports_stand_at_the_top():
    """A command has one function with imports. Below, functions import what may be missing."""
    found = {}
    for path in PACKAGE.rglob('*.py'):
        name = path.relative_to(PACKAGE).with_suffix('').as_posix()
        for function in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(function, ast.FunctionDef):
                inner = [
                    x for x in ast.walk(function) if isinstance(x, ast.Import | ast.ImportFrom)
                ]
                modules = [getattr(x, 'module', None) or x.names[0].name for x in inner]
                if name.removesuffix('/__main__') in COMMANDS and inner:
                    assert function.name == '_run' and function.body[: len(inner)] == inner, name
                elif inner:
                    found.setdefault(name, set()).update(x.split('.')[0] for x in modules)
    ours = {name for name, modules in found.items() if 'transformer_jax' in modules}
    # The last two import a file that imports TFDS or epath.
    expected = {'command_line', 'documents/files', 'inference/load'}
    assert ours == expected | {'data/corpora/tfds', 'storage/bucket_workdir'}
    others = set().union(*found.values()) - {'transformer_jax'}
    assert others <= OPTIONAL, others - OPTIONAL


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
