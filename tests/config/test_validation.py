"""Types and ranges of all fields."""

import dataclasses
import inspect
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


def test_configs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().model = ModelConfig()


def test_an_int_for_a_float_field_becomes_a_float():
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
def test_a_wrong_type_is_refused(section, field, value, message):
    with pytest.raises(UserError, match=re.escape(message)):
        section(**{field: value})


# The range of each number.

NUMBERS = [
    (section.type, field.name, field.type)
    for section in dataclasses.fields(Config)
    for field in dataclasses.fields(section.type)
    if field.type in (int, float)
]
RATES = {
    ModelConfig: ('dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate'),
    DataConfig: ('subword_sampling',),
    OptimizerConfig: ('beta1', 'beta2', 'label_smoothing', 'ema_decay'),
}
MAY_BE_ZERO = {
    ModelConfig: ('d_k', 'd_v'),
    DataConfig: ('sentences_per_batch', 'seed'),
    OptimizerConfig: ('learning_rate', 'clip_norm', 'r_drop', 'weight_decay'),
    TrainConfig: ('epochs', 'seed', 'patience'),
    DecodeConfig: (
        'length_penalty',
        'coverage_penalty',
        'min_length',
        'no_repeat_ngram',
        'max_extra_length',
        'max_source_length',
        'alignment_layer',
    ),
}


def refusal(section, name, value):
    """Return the error message for a value of a field, without the section before the field."""
    with pytest.raises(UserError) as error:
        section(**{name: value})
    return str(error.value).partition('.')[2]


@pytest.mark.parametrize('section, name, kind', NUMBERS)
def test_every_number_above_its_limit_is_refused_by_name(section, name, kind):
    absurd = {int: 10**12, float: 1e38}[kind]
    assert refusal(section, name, absurd).startswith(f'{name}={absurd} must be ')


@pytest.mark.parametrize('section, name, kind', NUMBERS)
def test_every_number_below_its_range_is_refused_by_name(section, name, kind):
    assert refusal(section, name, kind(-3)).startswith(f'{name}={kind(-3)} must be ')


@pytest.mark.parametrize('section, name, kind', NUMBERS)
def test_every_limit_is_in_the_docstring_of_its_section(section, name, kind):
    said = refusal(section, name, {int: 10**12, float: 1e38}[kind])
    limit = re.search(r'(?:from \S+ to|at most|below) ([\d,e+]*\d)', said)[1]
    doc = inspect.getdoc(section)  # without the indentation, which Python 3.13 leaves out
    entries = re.findall(r'^  (\w[\w, ]*): (.*?)(?=^  \w|\Z)', doc, re.M | re.S)
    described = next(' '.join(text.split()) for names, text in entries if name in names.split(', '))
    assert re.search(rf'([Aa]t most|[Bb]elow| to) {re.escape(limit)}(?!,?\d)', described)


@pytest.mark.parametrize('section, name, kind', NUMBERS)
def test_zero_is_refused_unless_it_has_a_meaning(section, name, kind):
    if name in (*MAY_BE_ZERO.get(section, ()), *RATES.get(section, ())):
        assert getattr(section(**{name: 0}), name) == 0
    else:
        assert refusal(section, name, kind(0)).startswith(f'{name}={kind(0)} must be ')


@pytest.mark.parametrize(
    'section, name', [(section, name) for section, names in RATES.items() for name in names]
)
def test_a_rate_is_at_least_0_and_below_1(section, name):
    for value in (-0.1, 1.0):
        assert refusal(section, name, value) == f'{name}={value} must be at least 0 and below 1.'


@pytest.mark.parametrize(
    ('section', 'name', 'least', 'most', 'message'),
    [
        (ModelConfig, 'num_layers', 1, 1000, 'must be from 1 to 1,000.'),
        (ModelConfig, 'd_model', 8, 65_536, 'must be from 1 to 65,536.'),
        (ModelConfig, 'max_positions', 1, 1_000_000, 'must be from 1 to 1,000,000.'),
        (DataConfig, 'vocab_size', 4, 10_000_000, 'must be from 4 to 10,000,000.'),
        (DataConfig, 'character_coverage', 0.98, 1.0, 'must be from 0.98 to 1.'),
        (OptimizerConfig, 'weight_decay', 0.0, 1000.0, 'must be from 0 to 1,000.'),
        (TrainConfig, 'steps', 1, 2**31 - 1, 'must be from 1 to 2,147,483,647.'),
        (TrainConfig, 'seed', 0, 2**32 - 1, 'must be from 0 to 4,294,967,295.'),
        (TrainConfig, 'accumulate_steps', 1, 10_000, 'must be from 1 to 10,000.'),
        (DecodeConfig, 'beam_size', 1, 1000, 'must be from 1 to 1,000.'),
    ],
)
def test_both_ends_of_a_range_are_accepted(section, name, least, most, message):
    for value in (least, most):
        assert getattr(section(**{name: value}), name) == value
    for value in (type(most)(-1), most + 1):
        assert refusal(section, name, value) == f'{name}={value} {message}'


def test_a_factor_must_be_above_0_and_at_most_its_limit():
    said = 'must be greater than 0 and at most 100.'
    for value in (0.0, 101.0):
        assert refusal(ModelConfig, 'attention_gain', value).endswith(said)
    assert ModelConfig(attention_gain=100).attention_gain == 100.0


def test_a_path_with_a_nul_character_is_refused():
    with pytest.raises(UserError, match=r'data\.cache_dir=.* has a NUL character: leave it out'):
        DataConfig(cache_dir='a\0')


def test_a_path_that_is_not_utf_8_is_refused():
    with pytest.raises(UserError, match=r"data\.train_source='donn\\udce9es' is not UTF-8: rename"):
        DataConfig(train_source='donn\udce9es')


def test_a_number_too_large_for_a_float_is_refused():
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
def test_a_number_that_is_not_finite_is_refused(section, name, value):
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
def test_a_number_beyond_single_precision_is_refused(field, value, message):
    with pytest.raises(UserError, match=re.escape(f'optimizer.{field}={value} {message}')):
        OptimizerConfig(**{field: value})
