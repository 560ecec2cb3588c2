"""Decoding is a library of its own: importing it loads jax, but neither flax nor a model."""

import subprocess
import sys

PROGRAM = """
import sys
import transformer_jax.decoding

print([name for name in ('flax', 'optax', 'tensorflow') if name in sys.modules])
print(sorted({n.split('.')[1] for n in sys.modules if n.startswith('transformer_jax.')}))
"""


def test_decoding_alone_loads_neither_flax_nor_a_model():
    done = subprocess.run([sys.executable, '-c', PROGRAM], capture_output=True, text=True)
    assert done.stdout.splitlines() == ['[]', "['_version', 'decoding', 'lazy']"], done.stderr
