"""Records what our peers answer, for machines without them: python tests/peers/record.py.

Needs the extra `peers`. Writes recorded.json, and trained.npz: weights of ours, trained for a
moment, to translate with.
"""

import functools
import json
import sys
from pathlib import Path

import jax
import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import torch  # noqa: E402
import transformers  # noqa: E402
from peers import cases, marian_peer, torch_peer  # noqa: E402

from transformer_jax.config import OptimizerConfig  # noqa: E402
from transformer_jax.model import Transformer  # noqa: E402
from transformer_jax.training.optimizer import make_optimizer  # noqa: E402
from transformer_jax.training.state import init_state  # noqa: E402
from transformer_jax.training.step import train_step  # noqa: E402

_STEPS = 150  # after which it errs often


def train():
    """Weights that reverse a sentence, more or less."""
    config = cases.MARIAN['marian_swish']
    model = Transformer(config, cases.VOCAB_SIZE)
    optimizer = make_optimizer(OptimizerConfig(warmup_steps=100), config.d_model)
    step = jax.jit(
        functools.partial(train_step, model=model, optimizer=optimizer, label_smoothing=0.1, seed=0)
    )
    state = init_state(model, optimizer, 0)
    random = np.random.RandomState(0)
    for _ in range(_STEPS):
        source, target = np.zeros((2, 64, 7), np.int32)
        for row in range(64):
            words = random.randint(3, cases.VOCAB_SIZE, random.randint(2, 7))
            source[row, : len(words) + 1] = [*words, cases.EOS]
            target[row, : len(words) + 1] = [*words[::-1], cases.EOS]
        state = step(state, {'source': source, 'target': target})
    return state.params


def main():
    """Writes both files."""
    leaves = jax.tree_util.tree_leaves_with_path(train())
    arrays = {jax.tree_util.keystr(p, simple=True, separator='/'): x for p, x in leaves}
    np.savez_compressed(FOLDER / 'trained.npz', **arrays)
    found = {'versions': {'torch': torch.__version__, 'transformers': transformers.__version__}}
    for name, config in cases.TORCH.items():
        found[name] = cases.digest(torch_peer.results(config))
    for name, config in cases.MARIAN.items():
        found[name] = cases.digest(marian_peer.results(config))
    config = cases.MARIAN['marian_swish']
    found['translations'] = marian_peer.translations(config, cases.trained_weights())
    (FOLDER / 'recorded.json').write_text(json.dumps(found) + '\n')


if __name__ == '__main__':
    main()
