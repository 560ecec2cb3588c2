"""Exports to CTranslate2: CTranslate2 computes what the model computes, or the export says so."""

import json

import pytest
from conversion.random_models import random_model, separate

from transformer_jax.conversion.ctranslate2 import to_ctranslate2
from transformer_jax.errors import UserError

ctranslate2 = pytest.importorskip('ctranslate2')
# Each runs a model of every option that CTranslate2 has.
MODELS = {
    'paper': {},
    'options': {
        'norm': 'pre',
        'positions': 'learned',
        'attention_bias': True,
        'output_bias': True,
        'activation': 'gelu',
        'norm_epsilon': 0.01,
    },
    'marian': {
        'vocabulary': separate,
        'tied_embeddings': 'decoder',
        'decoder_start': 'zero',
        'positions': 'sinusoidal_marian',
        'activation': 'swish',
    },
    'untied': {
        'tied_embeddings': 'none',
        'positions': 'sinusoidal_halves',
        'activation': 'quick_gelu',
    },
}


def model(name):
    options = dict(MODELS[name])
    if 'vocabulary' in options:
        options['vocabulary'] = options['vocabulary']()
    return random_model(**options)


@pytest.mark.parametrize('name', MODELS)
def test_ctranslate2_computes_the_same(tmp_path, name):
    found = to_ctranslate2.export(model(name), tmp_path)
    report = json.loads((tmp_path / 'conversion.json').read_text())
    checks = report['checks']
    assert checks['differences'].keys() == {'log-probabilities without padding'}
    assert max(checks['differences'].values()) < 2e-5
    (outputs,) = checks['searches']
    # The longest sentence does not fit learned positions.
    number = 11 if name == 'options' else 12
    assert checks['sentences'] == checks['same_pieces'] == outputs['number'] == number
    assert (outputs['same'], outputs['spelt_otherwise']) == (number, 0)
    assert f'{number} of {number} greedy outputs' in found


def test_quantized_weights_are_compared_with_float32(tmp_path):
    found = to_ctranslate2.export(model('paper'), tmp_path, quantization='int8')
    quantized = json.loads((tmp_path / 'conversion.json').read_text())['checks']['quantized']
    assert quantized['weights'] == 'int8'
    assert max(quantized['differences'].values()) > 1e-3
    assert quantized['bleu']['signature'].startswith('nrefs:1')
    assert 'with int8 weights, computed in int8_float32' in found


def test_bfloat16_is_rounded_without_torch(tmp_path):
    to_ctranslate2.save_ctranslate2(model('paper'), tmp_path, 'bfloat16')
    translator = ctranslate2.Translator(str(tmp_path), compute_type='float32')
    assert translator.translate_batch([['▁The']], max_decoding_length=2)
    assert (tmp_path / 'model.bin').stat().st_size < 110_000


def test_quantization_leaves_the_model_as_it_was(tmp_path):
    original = model('paper')
    before = original.params['embedding'].copy()
    to_ctranslate2.save_ctranslate2(original, tmp_path, 'int8')
    assert (original.params['embedding'] == before).all()


def test_other_sizes_of_heads_are_refused():
    with pytest.raises(UserError, match=r'model.d_k=3 and model.d_v=4 cannot be expressed in CTr'):
        to_ctranslate2.check_ctranslate2(random_model(d_k=3, d_v=4).config, '--to=ctranslate2')


def test_what_ctranslate2_does_otherwise_is_said():
    decode = {'length_penalty': 0.6, 'alignment_heads': '2'}
    notes = to_ctranslate2.ctranslate2_notes(random_model(decode=decode).config)
    assert 'by / ((5 + length) / 6)^0.6' in notes[0]
    assert "decode.alignment_heads='2'" in notes[1]
    power = random_model(decode={'length_norm': 'power'}).config
    assert to_ctranslate2.ctranslate2_notes(power) == []


def test_alignments_come_from_the_same_layer_and_heads():
    decode = {'alignment_layer': 2, 'alignment_heads': '1 2'}
    spec = to_ctranslate2.ctranslate2_spec(random_model(decode=decode))
    assert (int(spec.decoder.alignment_layer), int(spec.decoder.alignment_heads)) == (1, 2)
    spec = to_ctranslate2.ctranslate2_spec(random_model())
    assert (int(spec.decoder.alignment_layer), int(spec.decoder.alignment_heads)) == (0, 0)
