"""The whole config: checks across sections, conversion to mappings, and differences."""

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


def test_default_training_is_the_training_of_the_paper():
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


@pytest.mark.parametrize(
    'key, message',
    [
        (
            'model.d_modle',
            'model.d_modle is not a field of the config; did you mean model.d_model?',
        ),
        ('model.heads', 'did you mean model.num_heads?'),
        ('data.vocabsize', 'did you mean data.vocab_size?'),
        ('modle.d_ff', 'did you mean model.d_ff?'),  # correct field, unknown section
        ('train.warmup_steps', 'did you mean optimizer.warmup_steps?'),  # field of another section
        ('model.label_smoothing', 'did you mean optimizer.label_smoothing?'),
        ('beam_size', 'did you mean decode.beam_size?'),  # field without its section
        ('modle', 'did you mean model?'),
        ('qqq', 'qqq is not a field of the config; the sections are model, data, optimizer'),
    ],
)
def test_an_unknown_key_gets_the_nearest_name(key, message):
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
        ({'model': {'d_model': 0}}, 'model.d_model=0 must be from 1 to 65,536.'),
    ],
)
def test_from_mapping_refuses_bad_fields(mapping, message):
    with pytest.raises(UserError, match=re.escape(message)):
        Config.from_mapping(mapping)


@pytest.mark.parametrize(
    'values, message',
    [
        (
            {'train': TrainConfig(log_every=100_000)},
            'train.log_every=100000 times data.tokens_per_batch=25000 must be less than 2^31',
        ),
        (
            {
                'train': TrainConfig(log_every=10_000),
                'data': DataConfig(max_length=256, sentences_per_batch=1024),
            },
            'train.log_every=10000 times 1024 sentences of data.max_length=256 must be less',
        ),
        (
            {
                'train': TrainConfig(steps=100),
                'optimizer': OptimizerConfig(schedule='linear', learning_rate=1e-3),
            },
            "optimizer.warmup_steps=4000 must be at most train.steps=100, at which the schedule 'l",
        ),
        (
            {'decode': DecodeConfig(average_checkpoints=6)},
            'decode.average_checkpoints=6 asks for more checkpoints than train.keep=5 keeps',
        ),
        (
            {'decode': DecodeConfig(average_checkpoints=2, average='best')},
            'decode.average_checkpoints=2 asks for more checkpoints than train.keep_best=1 keeps: '
            'raise train.keep_best',
        ),
        (
            {
                'model': ModelConfig(positions='learned', max_positions=128),
                'data': DataConfig(max_length=129),
            },
            'data.max_length=129 is more than model.max_positions=128',
        ),
    ],
)
def test_sections_that_do_not_fit_together_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        Config(**values)


def test_max_length_may_equal_max_positions():
    learned = ModelConfig(positions='learned', max_positions=128)
    assert Config(model=learned, data=DataConfig(max_length=128)).data.max_length == 128


def test_learned_positions_must_leave_space_for_the_source():
    model = ModelConfig(positions='learned', max_positions=300)
    with pytest.raises(UserError, match=r'decode\.max_extra_length=299 leaves no learned position'):
        Config(model=model, decode=DecodeConfig(max_extra_length=299))
    Config(model=model, decode=DecodeConfig(max_extra_length=298))


def test_vocabulary_and_init_from_exclude_each_other():
    with pytest.raises(
        UserError, match=r"data.vocabulary='v.model' does not go with train.init_from"
    ):
        Config(data=DataConfig(vocabulary='v.model'), train=TrainConfig(init_from='runs/a'))
    each = {'source_vocabulary': 'a.model', 'target_vocabulary': 'b.model'}
    with pytest.raises(
        UserError, match=r"data.source_vocabulary='a.model' does not go with train.init_from"
    ):
        Config(
            model=ModelConfig(tied_embeddings='none'),
            data=DataConfig(shared_vocabulary=False, **each),
            train=TrainConfig(init_from='runs/a'),
        )


def test_one_matrix_needs_one_vocabulary():
    with pytest.raises(
        UserError,
        match=r"model.tied_embeddings='all' is one matrix for both languages, but data.shared_voc",
    ):
        Config(data=DataConfig(shared_vocabulary=False))
    Config(model=ModelConfig(tied_embeddings='none'))


# To mappings and back.

CHANGED = Config(
    model=ModelConfig(d_model=64, dropout_rate=0.3),
    data=DataConfig(corpus='files', train_source='é.tsv'),
    decode=DecodeConfig(beam_size=2),
)


def test_an_empty_mapping_is_the_default():
    assert Config.from_mapping({}) == Config()


def test_a_mapping_changes_only_its_own_fields():
    config = Config.from_mapping({'model': {'d_model': 64}, 'decode': {'beam_size': 2}})
    assert config == Config(model=ModelConfig(d_model=64), decode=DecodeConfig(beam_size=2))


def test_a_config_survives_a_round_trip_through_a_dict():
    assert CHANGED.to_dict()['model']['d_model'] == 64
    assert Config.from_mapping(CHANGED.to_dict()) == CHANGED


def test_a_config_survives_a_round_trip_through_a_config_dict():
    pytest.importorskip('ml_collections')
    config_dict = CHANGED.to_config_dict()
    assert Config.from_mapping(config_dict) == CHANGED
    config_dict.model.num_layers = 2
    assert Config.from_mapping(config_dict).model.num_layers == 2
    with pytest.raises(AttributeError):
        config_dict.model.num_layer  # noqa: B018  a misspelt field fails at once


def test_changing_a_config_dict_does_not_change_its_config():
    pytest.importorskip('ml_collections')
    config = Config()
    config.to_config_dict().model.d_model = 4
    assert config.model.d_model == 512


# Differences between configs.


def test_a_config_has_no_differences_from_itself():
    assert CHANGED.differences(CHANGED) == []


def test_differences_give_field_and_both_values():
    assert Config().differences(CHANGED) == [
        'model.d_model: 512 against 64',
        'model.dropout_rate: 0.1 against 0.3',
        "data.corpus: 'tfds' against 'files'",
    ]


def test_fields_that_a_resumed_run_may_change_are_no_difference():
    later = Config(
        train=TrainConfig(steps=7, keep=9, patience=2),
        data=DataConfig(corpus='files', train_source='a', cache_dir='b', vocabulary='c'),
        decode=DecodeConfig(beam_size=1, length_penalty=1.0, average_checkpoints=8),
    )
    assert Config(data=DataConfig(corpus='files', train_source='d')).differences(later) == []
    assert Config().differences(Config(train=TrainConfig(seed=1))) == ['train.seed: 0 against 1']


def test_a_huggingface_dataset_may_move_to_another_folder():
    def config(corpus, dataset):
        return Config(data=DataConfig(corpus=corpus, dataset=dataset))

    moved = config('huggingface', 'here'), config('huggingface', 'there')
    assert moved[0].differences(moved[1]) == []
    assert config('tfds', 'wmt14').differences(config('tfds', 'wmt17')) != []


def test_model_differences_give_the_fields_that_change_weights():
    other = Config(model=ModelConfig(d_ff=64, norm='pre'))
    assert Config().model_differences(other) == [
        'model.d_ff: 2048 against 64',
        "model.norm: 'post' against 'pre'",
    ]


def test_model_differences_ignore_fields_that_change_no_weights():
    other = Config(
        model=ModelConfig(dropout_rate=0.3, attention_gain=0.5, dtype='bfloat16', remat=True),
        data=DataConfig(corpus='phrasebook'),
        train=TrainConfig(seed=1),
    )
    assert Config().model_differences(other) == []


def test_a_section_name_that_is_no_text_is_refused():
    with pytest.raises(UserError, match='1 is not a field of the config'):
        Config.from_mapping({1: 2})


def test_the_length_of_a_training_may_change_unless_the_schedule_depends_on_it():
    def config(schedule, steps, epochs=0):
        rate = {} if schedule == 'noam' else {'learning_rate': 1e-3}
        return Config(
            optimizer=OptimizerConfig(schedule=schedule, **rate),
            train=TrainConfig(steps=steps, epochs=epochs),
        )

    for schedule in ('noam', 'constant'):
        assert not config(schedule, 8000).differences(config(schedule, 9000))
        assert not config(schedule, 8000, 3).differences(config(schedule, 9000, 4))
    cosine = config('cosine', 8000)
    assert cosine.differences(config('cosine', 9000)) == ['train.steps: 8000 against 9000']
    by_epochs = config('cosine', 8000, 3)  # whose steps are not known yet
    assert not by_epochs.differences(config('cosine', 9000, 3))
    assert by_epochs.differences(config('cosine', 9000, 4)) == ['train.epochs: 3 against 4']
