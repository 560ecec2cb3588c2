"""The model is a library: importing it loads jax and flax, and changes no settings."""

import subprocess
import sys

PROGRAM = """
import os, sys
import jax
import flax.linen  # it may set what it needs; the question is what is added to that

settings, environment = dict(jax.config.values), dict(os.environ)
import transformer_jax.model

heavy = ('tensorflow', 'tensorflow_datasets', 'sentencepiece', 'ml_collections', 'optax', 'orbax')
print('heavy:', [name for name in heavy if name in sys.modules])
print('settings changed:', dict(jax.config.values) != settings)
print('environment changed:', dict(os.environ) != environment)
print('ours:', sorted({n.split('.')[1] for n in sys.modules if n.startswith('transformer_jax.')}))
"""


def test_the_model_alone_loads_nothing_heavy_and_sets_nothing():
    result = subprocess.run([sys.executable, '-c', PROGRAM], capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        'heavy: []',
        'settings changed: False',
        'environment changed: False',
        "ours: ['_version', 'config', 'errors', 'lazy', 'model']",
    ], result.stderr
