"""The proof and the README of an export."""

import dataclasses

import pytest
from conversion.nearly_ours import Program, original
from conversion.random_models import random_model

from transformer_jax.conversion.exported import Proof, write_readme
from transformer_jax.storage.release import Release

TEST = {
    'sentences': 12,
    'bleu': 34.5,
    'bleu_signature': 'signature of BLEU',
    'chrf': 56.7,
    'chrf_signature': 'signature of chrF',
}


def test_the_card_has_licence_note_and_scores(tmp_path):
    release = Release([1], license='cc-by-4.0', data_note='From Tatoeba.', test=TEST)
    original = dataclasses.replace(random_model(), release=release)
    write_readme(original, tmp_path, 'Load it.')
    card = (tmp_path / 'README.md').read_text()
    for text in ('license: "cc-by-4.0"', 'From Tatoeba.', '34.50', 'signature of chrF', 'Load it.'):
        assert text in card


def test_an_export_that_computes_something_else_fails():
    with pytest.raises(RuntimeError, match=r'export to program computes something else: .* logits'):
        Proof('program', original(), []).check(Program(error=1e-2))
    proof = Proof('program', original(), ['It is blue.'])
    proof.check(Program())
    assert '12 of 12 source pieces, 12 of 12 greedy outputs' in proof.text()
    assert proof.text().endswith('\nIt is blue.')
    assert proof.checks['tolerance'] == 1e-4


def test_what_quantized_weights_lose_is_stated():
    proof = Proof('program', original(), [])
    proof.check_quantized(Program(error=0.25, told=['log-probabilities']), 'int8', 'int8_float32')
    quantized = proof.checks['quantized']
    assert quantized['differences']['log-probabilities'] == pytest.approx(0.25, abs=1e-5)
    assert quantized['searches'][0]['same'] == 12
    assert quantized['bleu'].keys() == {'before', 'after', 'signature'}
    assert proof.text().startswith('with int8 weights, computed in int8_float32: compared with')
