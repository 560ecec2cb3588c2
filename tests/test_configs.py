"""Every config file loads, and the paper's configs have the paper's values."""

import dataclasses
from pathlib import Path

import pytest

from transformer_jax.config import Config
from transformer_jax.config.loading import load_config
from transformer_jax.errors import UserError
from transformer_jax.storage.workdir import Workdir

CONFIGS = Path(__file__).parent.parent / 'configs'
RELEASE = Path(__file__).parent / 'conversion' / 'fixtures' / 'release_1'
ARGUMENTS = {
    'fine_tune': str(RELEASE),
    'multi30k': 'data',
    'multi30k_fr': 'data',
    'multi30k_fr_regularised': 'data',
    'multi30k_regularised': 'data',
    'multi30k_tok': 'data',
    'multi30k_tok_regularised': 'data',
    'multi30k_tok_wide': 'data',
    'parsing': 'data',
    'parsing_small': 'data',
    'tatoeba': 'data',
    'table3': 'base',
}


def load(name):
    argument = f':{ARGUMENTS[name]}' if name in ARGUMENTS else ''
    return load_config(f'{CONFIGS / name}.py{argument}')


@pytest.mark.parametrize('name', sorted(path.stem for path in CONFIGS.glob('*.py')))
def test_every_config_loads(name):
    assert isinstance(load(name), Config)


def test_the_argument_is_the_folder_of_the_files():
    assert load('multi30k').data.train_source == 'data/multi30k/train.en'
    assert load('tatoeba').data.test_target == 'data/tatoeba_en-fr/test.fr'


def test_multi30k_into_french_differs_from_german_only_in_its_files():
    german, french = load('multi30k'), load('multi30k_fr')
    assert french.data.test_target == 'data/multi30k/test_2016_flickr.fr'
    assert french.data.test_source == german.data.test_source
    assert dataclasses.replace(french, data=german.data) == german


def test_regularised_multi30k_into_french_differs_only_in_files_and_init_from():
    german, french = load('multi30k_regularised'), load('multi30k_fr_regularised')
    assert french.data == load('multi30k_fr').data
    assert french.train.init_from == 'runs/multi30k_fr_4000'
    train = dataclasses.replace(french.train, init_from=german.train.init_from)
    assert dataclasses.replace(french, data=german.data, train=train) == german


def test_fine_tuning_takes_the_network_of_the_model():
    config = load('fine_tune')
    assert config.model == Workdir(RELEASE).read_run().config.model
    assert config.train.init_from == str(RELEASE)


def test_fine_tuning_without_a_model_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match='is no folder of a model: name one that translates'):
        load_config(f'{CONFIGS / "fine_tune"}.py:{tmp_path}')


def test_base_is_the_base_model_of_the_paper():
    config = load('base')
    model, optimizer, decode = config.model, config.optimizer, config.decode
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.key_size, model.value_size, model.dropout_rate) == (64, 64, 0.1)
    assert (model.positions, model.norm) == ('sinusoidal', 'post')
    assert (optimizer.warmup_steps, optimizer.label_smoothing) == (4000, 0.1)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert (config.data.vocab_size, config.data.tokens_per_batch) == (37_000, 25_000)
    assert config.train.steps == 100_000
    assert (decode.beam_size, decode.length_penalty, decode.max_extra_length) == (4, 0.6, 50)
    assert decode.average_checkpoints == 5


def test_big_is_the_big_model_of_the_paper():
    config = load('big')
    assert (config.model.d_model, config.model.d_ff, config.model.num_heads) == (1024, 4096, 16)
    assert (config.model.dropout_rate, config.train.steps) == (0.3, 300_000)
    assert config.decode.average_checkpoints == 20
    assert config.train.checkpoint_every == 600  # ten minutes
    assert config.data == load('base').data


@pytest.mark.parametrize('name', ['base', 'big', 'base_en_fr', 'big_en_fr'])
def test_wmt14_comes_from_the_hub_as_well(name):
    tfds, hub = load(name), load_config(f'{CONFIGS / name}.py:huggingface')
    pair = 'fr-en' if name.endswith('fr') else 'de-en'
    assert tfds.data.dataset == f'wmt14_translate/{pair}'
    assert (hub.data.corpus, hub.data.dataset) == ('huggingface', f'wmt/wmt14/{pair}')
    changes = {'corpus': 'tfds', 'dataset': tfds.data.dataset}
    assert dataclasses.replace(hub, data=dataclasses.replace(hub.data, **changes)) == tfds
    with pytest.raises(UserError, match=r':hub must end in one of tfds, huggingface'):
        load_config(f'{CONFIGS / name}.py:hub')


def test_big_into_french_differs_from_german_in_data_and_dropout():
    german, french = load('big'), load('big_en_fr')
    assert (french.model.dropout_rate, french.data) == (0.1, load('base_en_fr').data)
    model = dataclasses.replace(french.model, dropout_rate=0.3)
    assert dataclasses.replace(french, model=model, data=german.data) == german


def test_base_en_fr_is_base_on_another_corpus():
    assert load('base_en_fr').model == load('base').model
    assert load('base_en_fr').data.dataset == 'wmt14_translate/fr-en'
