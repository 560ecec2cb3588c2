"""Exports to Hugging Face: the files, and that MarianMTModel computes what the model computes."""

import json

import numpy as np
import pytest
from conversion.random_models import SENTENCES, random_model, separate, shared

from transformer_jax.conversion.huggingface import to_huggingface
from transformer_jax.conversion.huggingface.from_huggingface import read_model
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.storage.weights import WeightsFile
from transformer_jax.translator import Translator

# Marian's own choices; the paper's are the defaults.
MARIAN = {
    'tied_embeddings': 'none',
    'decoder_start': 'zero',
    'positions': 'sinusoidal_halves',
    'activation': 'swish',
    'attention_bias': True,
    'output_bias': True,
    'norm_epsilon': 1e-5,
}


RULES = {
    'tied_embeddings': 'decoder',
    'decode': {'no_repeat_ngram': 2, 'min_length': 3, 'suppress_tokens': 'e'},
}


@pytest.mark.parametrize('options', [{}, {'tied_embeddings': 'decoder'}, MARIAN, RULES])
def test_marian_computes_the_same(tmp_path, options):
    for name in ('torch', 'transformers'):
        pytest.importorskip(name)
    vocabulary = separate() if options else None
    found = to_huggingface.export(random_model(vocabulary, **options), tmp_path)
    checks = json.loads((tmp_path / 'conversion.json').read_text())['checks']
    assert checks['differences'].keys() == {'logits'}
    assert checks['differences']['logits'] < 5e-5
    (outputs,) = checks['searches']
    assert outputs['number'] == outputs['same'] == checks['same_pieces'] == 12
    assert 'with float32 weights, compared with transformers' in found


def test_config_has_what_transformers_needs(tmp_path):
    original = random_model(decode={'length_norm': 'power', 'length_penalty': 0.8})
    to_huggingface.save_huggingface(original, tmp_path)
    config = json.loads((tmp_path / 'config.json').read_text())
    sizes = (
        'vocab_size',
        'd_model',
        'encoder_layers',
        'decoder_attention_heads',
        'encoder_ffn_dim',
    )
    assert [config[name] for name in sizes] == [310, 16, 2, 4, 24]
    assert config['decoder_start_token_id'] == config['pad_token_id'] == 0
    search = json.loads((tmp_path / 'generation_config.json').read_text())
    assert search['length_penalty'] == 0.8
    assert search['bad_words_ids'] == [[0]]
    ids = json.loads((tmp_path / 'vocab.json').read_text())
    assert (ids['<pad>'], ids['</s>'], ids['<unk>'], len(ids)) == (0, 1, 2, 310)
    assert (tmp_path / 'source.spm').read_bytes() == (tmp_path / 'target.spm').read_bytes()


def test_vocabularies_of_two_sides_have_their_own_files(tmp_path):
    original = random_model(separate(), tied_embeddings='decoder')
    to_huggingface.save_huggingface(original, tmp_path)
    sizes = [
        len(json.loads((tmp_path / f'{n}.json').read_text())) for n in ('vocab', 'target_vocab')
    ]
    assert sizes == [300, 290]
    assert json.loads((tmp_path / 'tokenizer_config.json').read_text())['separate_vocabs']
    weights = WeightsFile(tmp_path / 'model.safetensors')
    assert weights.shapes['model.encoder.embed_tokens.weight'] == (300, 16)
    assert weights.shapes['model.decoder.embed_tokens.weight'] == (290, 16)
    assert 'lm_head.weight' not in weights.shapes


def test_tensors_are_outputs_by_inputs_in_the_order_of_halves():
    original = random_model()
    tensors = to_huggingface.huggingface_tensors(original)
    ours = original.params['encoder']['layer_1']
    columns = [*range(0, 16, 2), *range(1, 16, 2)]
    fc1 = tensors['model.encoder.layers.1.fc1.weight']
    assert (fc1 == ours['feed_forward']['inner']['kernel'].T[:, columns]).all()
    out = tensors['model.encoder.layers.1.self_attn.out_proj.weight']
    assert (out == ours['self_attention']['output'].reshape(16, 16).T[columns]).all()
    assert not tensors['model.encoder.layers.1.self_attn.q_proj.bias'].any()
    assert not tensors['final_logits_bias'].any()
    assert tensors['final_logits_bias'].shape == (1, 310)


@pytest.mark.parametrize(
    'changes',
    [
        {},  # the paper's model: interleaved positions, no biases in attention
        {'positions': 'sinusoidal_halves', 'attention_bias': True, 'output_bias': True},
        {'tied_embeddings': 'decoder'},  # one vocabulary, two embeddings
        {'vocabulary': separate, 'tied_embeddings': 'none', 'decoder_start': 'zero'},
    ],
    ids=['paper', 'biases', 'decoder', 'separate'],
)
def test_an_exported_folder_can_be_imported_and_translates_the_same(tmp_path, changes):
    vocabulary = changes.pop('vocabulary', shared)()
    decode = {
        'length_norm': 'power',
        'min_length': 3,
        'no_repeat_ngram': 2,
        'suppress_tokens': '▁ e',
    }
    original = random_model(vocabulary, decode, norm_epsilon=1e-5, **changes)
    to_huggingface.save_huggingface(original, tmp_path)
    path = tmp_path / 'config.json'
    config = json.loads(path.read_text())
    # Earlier versions wrote their own config there, which could be of any format.
    path.write_text(json.dumps(config | {'transformer_jax': {'format': 99}}))
    model = read_model(tmp_path)
    for name in ('tied_embeddings', 'decoder_start', 'activation', 'num_heads'):
        assert getattr(model.config.model, name) == getattr(original.config.model, name)
    ours = Translator(original.config, original.vocabulary, original.params)
    imported = Translator(model.config, model.vocabulary, model.parameters())
    texts = [*SENTENCES[:3], SENTENCES[-1]]
    for before, after in zip(
        ours.translate(texts, max_extra_length=8),
        imported.translate(texts, max_extra_length=8),
        strict=True,
    ):
        assert after[0].tokens == before[0].tokens
        assert after[0].score == pytest.approx(before[0].score, abs=1e-4)
        assert after[0].text == before[0].text


def test_tags_of_an_exported_folder_are_known(tmp_path):
    vocabulary = Vocabulary.train(SENTENCES[:6], size=310, tags=['<2fr>'])
    original = random_model(VocabularyPair(vocabulary, vocabulary))
    to_huggingface.save_huggingface(original, tmp_path)
    source = read_model(tmp_path).vocabulary.source
    assert source.tags == ('<2fr>',)
    assert source.take_tag('<2fr> Where?') == ('<2fr>', 'Where?')
    (ids,) = source.encode(['<2fr> Where?'])
    np.testing.assert_array_equal(ids, vocabulary.encode(['<2fr> Where?'])[0])
    assert source.source_words('<2fr> Where?') == vocabulary.source_words('<2fr> Where?')


def test_weights_can_be_bfloat16(tmp_path):
    original = random_model(positions='sinusoidal_halves')
    to_huggingface.save_huggingface(original, tmp_path, 'bfloat16')
    weights = WeightsFile(tmp_path / 'model.safetensors')
    assert {*weights.dtypes.values()} == {'bfloat16'}
    found = weights.read('model.shared.weight')
    np.testing.assert_allclose(found, original.params['embedding'], rtol=2**-8)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'norm': 'pre'}, "model.norm='pre' cannot be expressed in Hugging Face's MarianMTModel"),
        ({'positions': 'learned'}, "model.positions='learned' cannot be expressed"),
        ({'positions': 'sinusoidal_marian'}, "model.positions='sinusoidal_marian' cannot be"),
        ({'d_k': 8, 'd_v': 4}, 'model.d_k=8 and model.d_v=4 cannot be expressed'),
    ],
)
def test_what_marian_does_not_have_is_refused(options, message):
    with pytest.raises(UserError) as error:
        to_huggingface.check_huggingface(random_model(**options).config)
    assert message in str(error.value)


def test_what_hugging_face_does_otherwise_is_said():
    epsilon, penalty = to_huggingface.huggingface_notes(random_model().config)
    assert 'adds 1e-05 to the variance in MarianMTModel and 1e-06 here' in epsilon
    assert 'by log-probability / length^0.6 and not by' in penalty
    same = random_model(norm_epsilon=1e-5, decode={'length_norm': 'power'})
    assert to_huggingface.huggingface_notes(same.config) == []


def test_without_the_peers_nothing_is_compared_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(to_huggingface, 'peers_are_installed', lambda: False)
    found = to_huggingface.export(random_model(), tmp_path)
    assert 'Nothing was compared, because transformers and torch are not installed' in found
    assert json.loads((tmp_path / 'conversion.json').read_text())['checks'] == {}
