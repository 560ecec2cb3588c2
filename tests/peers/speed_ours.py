"""Ours, for speed.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from peers.speed import BEAM_SIZE

from transformer_jax.config import OptimizerConfig
from transformer_jax.decoding import beam_search
from transformer_jax.model import Transformer, grow_cache, reorder_hypotheses, transposed_kernels
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state
from transformer_jax.training.step import train_step


def prepare(work, option=''):
    """The versions, and a function that does the work and returns its target tokens."""
    del option  # it is the peer's
    versions = f'transformer_jax on JAX {jax.__version__}'
    model = Transformer(work.model, work.vocab_size)
    optimizer = make_optimizer(OptimizerConfig(), work.model.d_model)
    state = init_state(model, optimizer, 0)
    if work.kind == 'decode':
        return versions, _decoder(work, model, state.params)
    step = jax.jit(
        functools.partial(
            train_step, model=model, optimizer=optimizer, label_smoothing=0.1, seed=0
        ),
        donate_argnums=0,
    )
    batch = {name: jnp.asarray(ids) for name, ids in work.batch().items()}

    def run():
        nonlocal state
        for _ in range(work.repeats):
            state = step(state, batch)
        jax.block_until_ready(state)
        return work.repeats * batch['target'].size

    return versions, run


def _decoder(work, model, params):
    # EOS has logit 0 and other tokens have far more, so EOS comes at the limit and not before.
    params['embedding'] = params['embedding'].at[1].set(0.0)
    variables = {'params': params, 'transposed_kernels': transposed_kernels(work.model, params)}
    length = work.length

    @jax.jit
    def start(variables, source):
        return model.apply(variables, source, method='start_decoding')

    @jax.jit
    def search(variables, cache):
        return beam_search(
            lambda *args: model.apply(variables, *args, method='decode_step'),
            cache,
            jnp.full(cache.ancestors.shape[0], length),
            length=length,
            beam_size=BEAM_SIZE,
            eos_id=1,
            reorder=reorder_hypotheses,
            grow=grow_cache,
            cache_lengths=(length // 2,) if work.together >= 16 else (),
        )

    batches = list(work.batches(work.together))

    def run():
        found = [jax.device_get(search(variables, start(variables, source))) for source in batches]
        return sum(int(np.sum(outputs.lengths[:, 0])) for outputs in found)

    return run
