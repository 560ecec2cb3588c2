"""The section model: the paper's base, and values that it refuses and accepts."""

import re

import pytest

from transformer_jax.config import ModelConfig
from transformer_jax.errors import UserError


def test_the_default_model_is_the_base_model_of_the_paper():
    model = ModelConfig()
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.key_size, model.value_size) == (64, 64)
    assert model.dropout_rate == 0.1
    assert (model.positions, model.norm) == ('sinusoidal', 'post')


def test_key_and_value_sizes_default_to_d_model_over_num_heads():
    assert ModelConfig(d_k=16).key_size == 16
    assert ModelConfig(d_k=16).value_size == 64
    assert ModelConfig(d_v=32).value_size == 32
    odd = ModelConfig(d_model=10, num_heads=3, d_k=4, d_v=5)
    assert (odd.key_size, odd.value_size) == (4, 5)


@pytest.mark.parametrize(
    'values, message',
    [
        (
            {'positions': 'sinusoid'},
            "model.positions='sinusoid' must be one of sinusoidal, sinusoidal_halves, "
            "sinusoidal_marian, learned, none: did you mean 'sinusoidal'?",
        ),
        (
            {'tied_embeddings': 'both'},
            "model.tied_embeddings='both' must be one of all, decoder, none.",
        ),
        ({'decoder_start': 'eos'}, "model.decoder_start='eos' must be one of padding, zero."),
        (
            {'positions': 'sinusoidal_marian', 'd_model': 2, 'num_heads': 1},
            "model.d_model=2 must be at least 4 for model.positions='sinusoidal_marian'.",
        ),
        (
            {'activation': 'silu'},
            "model.activation='silu' must be one of relu, gelu, quick_gelu, swish.",
        ),
        ({'norm': 'x'}, "model.norm='x' must be one of post, pre."),
        ({'dtype': 'float16'}, "model.dtype='float16' must be one of auto, float32, bfloat16"),
        (
            {'d_model': 10, 'num_heads': 4},
            'model.d_model=10 is not divisible by model.num_heads=4: '
            'choose a multiple of it, or set model.d_k and model.d_v.',
        ),
        ({'d_model': 10, 'num_heads': 4, 'd_k': 3}, 'is not divisible by'),
        ({'d_model': 9, 'num_heads': 3}, 'model.d_model=9 must be even for sinusoidal positions'),
        (
            {'attention_implementation': 'flash'},
            "model.attention_implementation='flash' must be one of auto, xla, cudnn.",
        ),
        (
            {'attention_implementation': 'cudnn', 'dtype': 'float32'},
            "model.attention_implementation='cudnn' does not go with model.dtype='float32': choose "
            "'auto' or 'bfloat16', or 'auto' here.",
        ),
        (
            {'attention_implementation': 'cudnn', 'attention_dropout_rate': 0.1},
            'does not go with model.attention_dropout_rate=0.1: choose 0',
        ),
        (
            {'attention_implementation': 'cudnn', 'd_model': 36, 'num_heads': 3},
            'does not go with model.d_k=12 and model.d_v=12: choose the same for both, a multiple',
        ),
        (
            {'attention_implementation': 'cudnn', 'd_k': 16},
            'does not go with model.d_k=16 and model.d_v=64',
        ),
        ({'attention_implementation': 'cudnn', 'num_heads': 2}, 'at most 128'),
        ({'activation_dtype': 'float16'}, 'must be one of float32, bfloat16'),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        ModelConfig(**values)


def test_values_at_their_limits_are_accepted():
    ModelConfig(d_model=9, num_heads=3, positions='learned')
