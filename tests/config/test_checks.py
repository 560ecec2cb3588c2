"""What is checked of many fields: types and bounds."""

import dataclasses
import re

import pytest

from transformer_jax.config import (
    Config,
    DataConfig,
    DecodeConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from transformer_jax.errors import UserError


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().model = ModelConfig()


def test_an_int_is_welcome_where_a_float_is_wanted_and_becomes_one():
    rate = ModelConfig(dropout_rate=0).dropout_rate
    assert (rate, type(rate)) == (0.0, float)


@pytest.mark.parametrize(
    'section, field, value, message',
    [
        (ModelConfig, 'num_layers', True, 'model.num_layers=True is of type bool but must be int.'),
        (ModelConfig, 'dropout_rate', True, 'is of type bool but must be float.'),
        (ModelConfig, 'num_layers', 2.0, 'model.num_layers=2.0 is of type float but must be int.'),
        (ModelConfig, 'norm', None, 'model.norm=None is of type NoneType but must be str.'),
        (DataConfig, 'seed', '1', "data.seed='1' is of type str but must be int."),
        (
            OptimizerConfig,
            'beta1',
            '0.9',
            "optimizer.beta1='0.9' is of type str but must be float.",
        ),
        (TrainConfig, 'steps', 1e5, 'train.steps=100000.0 is of type float but must be int.'),
        (DecodeConfig, 'beam_size', 4.5, 'decode.beam_size=4.5 is of type float but must be int.'),
    ],
)
def test_a_wrong_type(section, field, value, message):
    with pytest.raises(UserError, match=re.escape(message)):
        section(**{field: value})


# What is not a value it may have.

POSITIVE = {
    ModelConfig: (
        'num_layers',
        'd_model',
        'd_ff',
        'num_heads',
        'max_positions',
        'norm_epsilon',
        'attention_gain',
    ),
    DataConfig: (
        'vocab_size',
        'tokens_per_batch',
        'num_buckets',
        'train_size',
        'dev_size',
        'test_size',
    ),
    OptimizerConfig: ('warmup_steps', 'learning_rate_scale', 'epsilon'),
    TrainConfig: (
        'steps',
        'log_every',
        'eval_every',
        'checkpoint_every',
        'keep',
        'keep_best',
        'accumulate_steps',
        'eval_beam_size',
    ),
    DecodeConfig: ('beam_size', 'average_checkpoints'),
}


NOT_NEGATIVE = {
    ModelConfig: ('d_k', 'd_v'),
    DataConfig: ('seed',),
    OptimizerConfig: ('r_drop', 'weight_decay'),
    TrainConfig: ('seed', 'patience'),
    DecodeConfig: ('length_penalty', 'max_extra_length', 'max_source_length'),
}


RATES = {
    ModelConfig: ('dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate'),
    DataConfig: ('subword_sampling',),
    OptimizerConfig: ('beta1', 'beta2', 'label_smoothing', 'ema_decay'),
}


def flat(table):
    return [(section, name) for section, names in table.items() for name in names]


@pytest.mark.parametrize('section, name', flat(POSITIVE))
def test_must_be_positive(section, name):
    for value in (0, -3):
        with pytest.raises(UserError, match=rf'\.{name}={value}.* must be greater than 0\.'):
            section(**{name: value})


@pytest.mark.parametrize('section, name', flat(NOT_NEGATIVE))
def test_must_not_be_negative(section, name):
    with pytest.raises(UserError, match=rf'\.{name}=-1.* must be 0 or greater\.'):
        section(**{name: -1})
    assert getattr(section(**{name: 0}), name) == 0


@pytest.mark.parametrize('section, name', flat(RATES))
def test_must_be_a_rate(section, name):
    for value in (-0.1, 1.0):
        with pytest.raises(UserError, match=rf'\.{name}={value} must be at least 0 and below 1\.'):
            section(**{name: value})
    assert getattr(section(**{name: 0.0}), name) == 0.0


@pytest.mark.parametrize(
    'section, name, limit',
    [
        (DataConfig, 'seed', 2**63),
        (DataConfig, 'vocab_size', 2**31),
        (TrainConfig, 'seed', 2**32),
        (TrainConfig, 'steps', 2**31),
        (OptimizerConfig, 'warmup_steps', 2**31),
    ],
)
def test_must_be_below_what_a_number_holds(section, name, limit):
    assert getattr(section(**{name: limit - 1}), name) == limit - 1
    with pytest.raises(UserError, match=rf'\.{name}={limit} must be below {limit}\.'):
        section(**{name: limit})


def test_paths_have_no_nul():
    with pytest.raises(UserError, match=r'data\.cache_dir=.* holds a NUL character: leave it out'):
        DataConfig(cache_dir='a\0')


def test_names_are_utf_8():
    with pytest.raises(UserError, match=r"data\.train_source='donn\\udce9es' is not UTF-8: rename"):
        DataConfig(train_source='donn\udce9es')


def test_a_number_that_no_float_can_hold():
    with pytest.raises(UserError, match=r'learning_rate_scale=inf must be a finite number'):
        OptimizerConfig(learning_rate_scale=10**400)


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
@pytest.mark.parametrize(
    'section, name',
    [
        (OptimizerConfig, 'learning_rate_scale'),
        (OptimizerConfig, 'epsilon'),
        (DecodeConfig, 'length_penalty'),
    ],
)
def test_must_be_finite(section, name, value):
    with pytest.raises(UserError, match=rf'\.{name}={value}'):
        section(**{name: value})


@pytest.mark.parametrize(
    ('field', 'value', 'message'),
    [
        ('epsilon', 1e-46, 'is beyond single precision'),
        ('learning_rate_scale', 1e300, 'is beyond single precision'),
        ('beta2', 0.99999999, 'is 1 in single precision: set it to 0.9999999 or less.'),
    ],
)
def test_what_single_precision_cannot_hold(field, value, message):
    with pytest.raises(UserError, match=re.escape(f'optimizer.{field}={value} {message}')):
        OptimizerConfig(**{field: value})
