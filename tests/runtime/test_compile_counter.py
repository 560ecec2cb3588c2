"""Compiled programs are counted."""

import jax

from transformer_jax.runtime.compile_counter import CompileCounter


def test_compilations_are_counted():
    counter = CompileCounter()
    jax.jit(lambda x: x + 271)(1)
    assert (counter.new(), counter.new()) == (1, 0)
