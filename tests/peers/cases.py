"""Models, weights and batches for us and our peers, made with NumPy only."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.config import ModelConfig
from transformer_jax.decoding import beam_search
from transformer_jax.model import Transformer, grow_cache, reorder_hypotheses, shift_right
from transformer_jax.training.loss import label_smoothed_loss

VOCAB_SIZE = 23
EOS = 1
LABEL_SMOOTHING = 0.1
BEAM_SIZE = 4
LONGEST = 30
# torch.nn.Transformer and Marian have biases, and 1e-5 in their norms.
_CONFIG = ModelConfig(
    num_layers=2,
    d_model=16,
    d_ff=24,
    num_heads=4,
    dropout_rate=0.0,
    attention_bias=True,
    norm_epsilon=1e-5,
    dtype='float32',
)
TORCH = {
    'torch_post_norm': _CONFIG,
    'torch_pre_norm': dataclasses.replace(_CONFIG, norm='pre'),
    'torch_gelu': dataclasses.replace(_CONFIG, activation='gelu'),
}
_MARIAN = dataclasses.replace(_CONFIG, positions='sinusoidal_halves', output_bias=True)
MARIAN = {
    'marian_swish': dataclasses.replace(_MARIAN, activation='swish'),
    'marian_relu': _MARIAN,
}
SOURCE = np.array(
    [[5, 6, 7, 8, 9, 1], [10, 4, 2, 1, 0, 0], [21, 22, 3, 3, 1, 0], [11, 1, 0, 0, 0, 0]], np.int32
)
TARGET = np.array(
    [[12, 13, 14, 1, 0], [15, 1, 0, 0, 0], [9, 8, 7, 6, 1], [16, 17, 1, 0, 0]], np.int32
)


# Sentences for weights that were trained briefly to reverse a sentence. Random weights would repeat
# one token for ever.
SENTENCES = np.array(
    [
        [*np.random.RandomState(k).randint(3, VOCAB_SIZE, 2 + k % 5), EOS, *[0] * (4 - k % 5)]
        for k in range(40)
    ],
    np.int32,
)
_FOLDER = Path(__file__).parent


def weights(config):
    """Nested dicts of float32, far from the initial zeros and ones of biases and norms."""
    random = np.random.RandomState(1)
    model = Transformer(config, VOCAB_SIZE)
    tokens = jnp.zeros((1, 1), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)['params']

    def draw(path, leaf):
        values = 0.4 * random.randn(*leaf.shape)
        return (values + (path[-1].key == 'scale')).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def our_results(config):
    """Logits [B, T, V], mean loss per token and its gradient, all as NumPy."""
    model = Transformer(config, VOCAB_SIZE)

    def loss(params):
        logits = model.apply({'params': params}, SOURCE, shift_right(TARGET))
        sums = label_smoothed_loss(logits, TARGET, LABEL_SMOOTHING)
        return sums.loss / sums.tokens, logits

    (value, logits), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(weights(config))
    return {'logits': logits, 'loss': value, 'gradient': gradient}


def trained_weights():
    """The weights that `record.py` has trained, of the model MARIAN['marian_swish']."""
    params = {}
    with np.load(_FOLDER / 'trained.npz') as arrays:
        for name, array in arrays.items():
            *path, last = name.split('/')
            node = params
            for part in path:
                node = node.setdefault(part, {})
            node[last] = array
    return params


def recorded():
    """Return the results of peers that `record.py` has recorded."""
    return json.loads((_FOLDER / 'recorded.json').read_text())


def our_translations(config, params):
    """Return the best output of beam search for each sentence, up to EOS."""
    model = Transformer(config, VOCAB_SIZE)
    rows = len(SENTENCES)
    cache = model.apply({'params': params}, SENTENCES, method='start_decoding')

    def step(tokens, position, cache):
        return model.apply({'params': params}, tokens, position, cache, method='decode_step')

    found = beam_search(
        step,
        grow_cache(cache, LONGEST),
        jnp.full(rows, LONGEST),
        length=LONGEST,
        beam_size=BEAM_SIZE,
        eos_id=EOS,
        length_penalty=0.0,
        reorder=reorder_hypotheses,
    )
    return [up_to_end(row) for row in np.asarray(found.tokens[:, 0])]


def up_to_end(ids):
    """Return ids up to EOS, without EOS."""
    ids = [int(i) for i in ids]
    return ids[: ids.index(EOS)] if EOS in ids else ids


def digest(results):
    """Numbers to be kept: logits of real positions, loss, and two sums of each gradient."""
    random = np.random.RandomState(2)
    sums = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(results['gradient']):
        leaf = np.asarray(leaf, np.float64)
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        sums[name] = [np.linalg.norm(leaf), np.sum(leaf * random.randn(*leaf.shape))]
    return {
        'logits': np.asarray(results['logits'], np.float64)[TARGET != 0].round(7).tolist(),
        'loss': float(results['loss']),
        'gradient': sums,
    }


def assert_close(ours, theirs):
    """Two digests agree to 1e-4, relative to what is largest of each kind."""
    near(ours['logits'], theirs['logits'])
    near(ours['loss'], theirs['loss'])
    assert ours['gradient'].keys() == theirs['gradient'].keys()
    for name, sums in ours['gradient'].items():
        size = theirs['gradient'][name][0]
        # A bias on keys adds the same to all scores: its gradient is 0 but for rounding.
        tolerance = 1e-4 * size + 1e-6
        np.testing.assert_allclose(sums, theirs['gradient'][name], 0, tolerance, err_msg=name)


def near(ours, theirs):
    """Agrees to 1e-4 of the largest."""
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
