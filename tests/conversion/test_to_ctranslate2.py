"""Exports to CTranslate2: CTranslate2 computes what the model computes, or the export says so."""

import json

import pytest
from conversion.random_models import random_model, separate

from transformer_jax.conversion import to_ctranslate2

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
    'untied': {'tied_embeddings': 'none', 'positions': 'sinusoidal_halves'},
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
    assert checks['largest_difference'] < 2e-5
    assert checks['sentences'] == 12
    assert checks['greedy'] == {'sentences': 12, 'same': 12, 'near_ties': 0, 'same_text': 12}
    assert '12 of 12 greedy outputs are the same' in found
