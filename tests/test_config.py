"""The config: the paper by default, and a clear sentence for every mistake."""

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
    check_key,
)
from transformer_jax.errors import UserError


def test_the_model_is_the_papers_base():
    model = ModelConfig()
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.key_size, model.value_size) == (64, 64)
    assert model.dropout_rate == 0.1
    assert (model.positions, model.norm) == ('sinusoidal', 'post')


def test_training_is_the_papers():
    config = Config()
    assert config.optimizer == OptimizerConfig(
        warmup_steps=4000,
        learning_rate_scale=1.0,
        beta1=0.9,
        beta2=0.98,
        epsilon=1e-9,
        label_smoothing=0.1,
    )
    assert config.train.steps == 100_000
    assert (config.data.vocab_size, config.data.tokens_per_batch) == (37_000, 25_000)
    assert (config.data.source_language, config.data.target_language) == ('en', 'de')


def test_decoding_is_the_papers():
    decode = Config().decode
    assert (decode.beam_size, decode.length_penalty, decode.max_extra_length) == (4, 0.6, 50)
    assert decode.average_checkpoints == 5


def test_sizes_of_heads():
    assert ModelConfig(d_k=16).key_size == 16
    assert ModelConfig(d_k=16).value_size == 64
    assert ModelConfig(d_v=32).value_size == 32
    odd = ModelConfig(d_model=10, num_heads=3, d_k=4, d_v=5)
    assert (odd.key_size, odd.value_size) == (4, 5)


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().model = ModelConfig()


# What is not a field, or not of its type.


@pytest.mark.parametrize(
    'key, message',
    [
        (
            'model.d_modle',
            'model.d_modle is not a field of the config; did you mean model.d_model?',
        ),
        ('model.heads', 'did you mean model.num_heads?'),
        ('data.vocabsize', 'did you mean data.vocab_size?'),
        ('modle.d_ff', 'did you mean model.d_ff?'),  # right name, no such section
        ('train.warmup_steps', 'did you mean optimizer.warmup_steps?'),  # right name elsewhere
        ('model.label_smoothing', 'did you mean optimizer.label_smoothing?'),
        ('beam_size', 'did you mean decode.beam_size?'),  # the section left out
        ('modle', 'did you mean model?'),
        ('qqq', 'qqq is not a field of the config; the sections are model, data, optimizer'),
    ],
)
def test_an_unknown_key_names_the_nearest(key, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_key(key)


@pytest.mark.parametrize('key', ['model', 'model.d_ff', 'decode.average_checkpoints'])
def test_a_known_key_passes(key):
    assert check_key(key) is None


@pytest.mark.parametrize(
    'mapping, message',
    [
        ({'model': {'d_modle': 8}}, 'did you mean model.d_model?'),
        ({'modle': {'d_model': 8}}, 'modle is not a field of the config; did you mean model?'),
        ({'model': {'warmup_steps': 8}}, 'did you mean optimizer.warmup_steps?'),
        ({'model': 3}, 'model=3 must be a section'),
        ({'model': {'d_model': '512'}}, "model.d_model='512' is of type str but must be int."),
        ({'model': {'d_model': 0}}, 'model.d_model=0 must be greater than 0.'),
    ],
)
def test_from_mapping_refuses(mapping, message):
    with pytest.raises(UserError, match=re.escape(message)):
        Config.from_mapping(mapping)


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
    ],
)
def test_must_be_below_what_a_number_holds(section, name, limit):
    assert getattr(section(**{name: limit - 1}), name) == limit - 1
    with pytest.raises(UserError, match=rf'\.{name}={limit} must be below {limit}\.'):
        section(**{name: limit})


def test_learned_positions_leave_a_place_for_the_source():
    model = ModelConfig(positions='learned', max_positions=300)
    with pytest.raises(UserError, match=r'decode\.max_extra_length=299 leaves no place'):
        Config(model=model, decode=DecodeConfig(max_extra_length=299))
    Config(model=model, decode=DecodeConfig(max_extra_length=298))


def test_a_folder_to_begin_from_has_one_name():
    assert TrainConfig(init_from='runs/mine/') == TrainConfig(init_from='runs//mine')


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
    'section, values, message',
    [
        (
            ModelConfig,
            {'positions': 'sinusoid'},
            "model.positions='sinusoid' must be one of sinusoidal, sinusoidal_halves, learned "
            "(did you mean 'sinusoidal'?).",
        ),
        (
            ModelConfig,
            {'activation': 'silu'},
            "model.activation='silu' must be one of relu, gelu, swish.",
        ),
        (DecodeConfig, {'average': 'last'}, "must be one of latest, best (did you mean 'latest'?)"),
        (ModelConfig, {'norm': 'x'}, "model.norm='x' must be one of post, pre."),
        (
            ModelConfig,
            {'dtype': 'float16'},
            "model.dtype='float16' must be one of auto, float32, bfloat16",
        ),
        (
            ModelConfig,
            {'d_model': 10, 'num_heads': 4},
            'model.d_model=10 is not divisible by model.num_heads=4: '
            'choose a multiple of it, or set model.d_k and model.d_v.',
        ),
        (ModelConfig, {'d_model': 10, 'num_heads': 4, 'd_k': 3}, 'is not divisible by'),
        (
            ModelConfig,
            {'d_model': 9, 'num_heads': 3},
            'model.d_model=9 must be even for sinusoidal positions.',
        ),
        (
            ModelConfig,
            {'attention_implementation': 'flash'},
            "model.attention_implementation='flash' must be one of xla, cudnn.",
        ),
        (
            ModelConfig,
            {'attention_implementation': 'cudnn', 'dtype': 'float32'},
            "model.attention_implementation='cudnn' does not go with model.dtype='float32': choose "
            "'auto' or 'bfloat16', or 'xla' here.",
        ),
        (
            ModelConfig,
            {'attention_implementation': 'cudnn', 'attention_dropout_rate': 0.1},
            'does not go with model.attention_dropout_rate=0.1: choose 0',
        ),
        (
            ModelConfig,
            {'attention_implementation': 'cudnn', 'd_model': 36, 'num_heads': 3},
            'does not go with model.d_k=12 and model.d_v=12: choose the same for both, a multiple',
        ),
        (
            ModelConfig,
            {'attention_implementation': 'cudnn', 'd_k': 16},
            'does not go with model.d_k=16 and model.d_v=64',
        ),
        (ModelConfig, {'attention_implementation': 'cudnn', 'num_heads': 2}, 'at most 128'),
        (DataConfig, {'corpus': 'file'}, "(did you mean 'files'?)"),
        (
            DataConfig,
            {'normalization': 'nfc'},
            "data.normalization='nfc' must be one of nmt_nfkc, nmt_nfkc_cf, nfkc, nfkc_cf, ",
        ),
        (
            DataConfig,
            {'subword_sampling_sides': 'target_'},
            'must be one of both, source, target',
        ),
        (DataConfig, {'max_length': 1}, 'data.max_length=1 must be at least 2'),
        (
            DataConfig,
            {'character_coverage': 0.97},
            'data.character_coverage=0.97 must be from 0.98 to 1.',
        ),
        (DataConfig, {'character_coverage': 1.1}, 'data.character_coverage=1.1 must be from'),
        (
            DataConfig,
            {'tokens_per_batch': 799, 'max_length': 100},
            'data.tokens_per_batch=799 holds fewer than 8 sentences of data.max_length=100: '
            'set it to 800 or more, or lower data.max_length.',
        ),
        (
            DataConfig,
            {'corpus': 'files'},
            "data.train_source='' must name a file, since data.corpus is 'files'.",
        ),
        (
            DataConfig,
            {'corpus': 'files', 'train_source': 'a', 'dev_target': 'b'},
            "data.dev_target='b' needs data.dev_source beside it.",
        ),
        (
            DataConfig,
            {'corpus': 'files', 'train_source': 'a', 'test_target': 'b'},
            "data.test_target='b' needs data.test_source beside it.",
        ),
        (
            DataConfig,
            {'corpus': 'tfds', 'dataset': ''},
            "data.dataset='' must name a dataset, since data.corpus is 'tfds'.",
        ),
        (
            DataConfig,
            {'corpus': 'huggingface', 'dataset': ''},
            "must name a dataset, since data.corpus is 'huggingface'.",
        ),
        (
            DataConfig,
            {'source_language': 'de'},
            "data.target_language='de' is the source language as well.",
        ),
        (
            TrainConfig,
            {'eval_every': 1500, 'checkpoint_every': 1000},
            'train.eval_every=1500 must be a multiple of train.checkpoint_every=1000',
        ),
        (
            DecodeConfig,
            {'max_source_length': 1},
            'decode.max_source_length=1 leaves room for the end mark only.',
        ),
        (
            Config,
            {'train': TrainConfig(log_every=100_000)},
            'train.log_every=100000 times data.tokens_per_batch=25000 is more than can be counted',
        ),
        (
            Config,
            {'decode': DecodeConfig(average_checkpoints=6)},
            'decode.average_checkpoints=6 asks for more checkpoints than train.keep=5 keeps',
        ),
        (
            Config,
            {'decode': DecodeConfig(average_checkpoints=2, average='best')},
            'decode.average_checkpoints=2 asks for more checkpoints than train.keep_best=1 keeps: '
            'raise train.keep_best',
        ),
        (
            Config,
            {
                'model': ModelConfig(positions='learned', max_positions=128),
                'data': DataConfig(max_length=129),
            },
            'data.max_length=129 is more than model.max_positions=128',
        ),
    ],
)
def test_a_value_that_does_not_fit(section, values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        section(**values)


def test_values_just_within_their_bounds():
    ModelConfig(d_model=9, num_heads=3, positions='learned')
    DataConfig(tokens_per_batch=800, max_length=100)
    DataConfig(max_length=2, character_coverage=0.98)
    DataConfig(corpus='files', train_source='a', dev_source='b', dev_target='c')
    DataConfig(corpus='phrasebook', dataset='')
    TrainConfig(eval_every=2000, checkpoint_every=1000)
    DecodeConfig(max_source_length=2)
    learned = ModelConfig(positions='learned', max_positions=128)
    assert Config(model=learned, data=DataConfig(max_length=128)).data.max_length == 128


# There and back.

CHANGED = Config(
    model=ModelConfig(d_model=64, dropout_rate=0.3),
    data=DataConfig(corpus='files', train_source='é.tsv'),
    decode=DecodeConfig(beam_size=2),
)


def test_an_empty_mapping_is_the_default():
    assert Config.from_mapping({}) == Config()


def test_a_mapping_changes_what_it_names_only():
    config = Config.from_mapping({'model': {'d_model': 64}, 'decode': {'beam_size': 2}})
    assert config == Config(model=ModelConfig(d_model=64), decode=DecodeConfig(beam_size=2))


def test_dict_and_back():
    assert CHANGED.to_dict()['model']['d_model'] == 64
    assert Config.from_mapping(CHANGED.to_dict()) == CHANGED


def test_config_dict_and_back():
    pytest.importorskip('ml_collections')
    config_dict = CHANGED.to_config_dict()
    assert Config.from_mapping(config_dict) == CHANGED
    config_dict.model.num_layers = 2
    assert Config.from_mapping(config_dict).model.num_layers == 2
    with pytest.raises(AttributeError):
        config_dict.model.num_layer  # noqa: B018  config files hear of a slip at once


def test_a_config_dict_does_not_change_the_config_it_came_from():
    pytest.importorskip('ml_collections')
    config = Config()
    config.to_config_dict().model.d_model = 4
    assert config.model.d_model == 512


# Is it the same run?


def test_no_differences():
    assert CHANGED.differences(CHANGED) == []


def test_differences_name_field_and_both_values():
    assert Config().differences(CHANGED) == [
        'model.d_model: 512 against 64',
        'model.dropout_rate: 0.1 against 0.3',
        "data.corpus: 'tfds' against 'files'",
    ]


def test_what_may_change_between_two_starts_is_no_difference():
    later = Config(
        train=TrainConfig(steps=7, keep=9, patience=2),
        data=DataConfig(cache_dir='a', data_dir='b', vocabulary='c', train_source='d'),
        decode=DecodeConfig(beam_size=1, length_penalty=1.0, average_checkpoints=8),
    )
    assert Config().differences(later) == []
    assert Config().differences(Config(train=TrainConfig(seed=1))) == ['train.seed: 0 against 1']


def test_weights_do_not_fit_another_model():
    other = Config(model=ModelConfig(d_ff=64, norm='pre'))
    assert Config().model_differences(other) == [
        'model.d_ff: 2048 against 64',
        "model.norm: 'post' against 'pre'",
    ]


def test_weights_fit_whatever_they_are_trained_with():
    other = Config(
        model=ModelConfig(dropout_rate=0.3, attention_gain=0.5, dtype='bfloat16', remat=True),
        data=DataConfig(corpus='phrasebook'),
        train=TrainConfig(seed=1),
    )
    assert Config().model_differences(other) == []


def test_weights_to_begin_from_bring_their_vocabulary():
    with pytest.raises(
        UserError, match=r"data.vocabulary='v.model' cannot go with train.init_from"
    ):
        Config(data=DataConfig(vocabulary='v.model'), train=TrainConfig(init_from='runs/a'))
