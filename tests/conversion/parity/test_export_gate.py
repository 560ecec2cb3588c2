"""The gate of exports: a program that computes something else does not pass."""

import functools
import json

import numpy as np
import pytest
from conversion.random_models import random_model

from transformer_jax.conversion.parity.export_gate import Agreement, Report
from transformer_jax.conversion.piece_tables import piece_table


@functools.cache
def agreement():
    return Agreement(random_model())


class Program:
    """Computes what the model computes, or nearly."""

    name, compared, compute_type = 'Program 1.0', 'logits', 'float32'
    is_relative = False

    def __init__(self, error=0.0, replaced=None, suffix=''):
        self.error, self.replaced, self.suffix = error, replaced, suffix

    def values(self, source, target):
        return agreement()._reference.logits(source, target) + self.error

    def of_logits(self, logits, target):
        return logits

    def greedy(self, sources, limit):
        outputs = [list(pieces) for pieces in greedy_outputs(limit)[: len(sources)]]
        if self.replaced is not None:
            outputs[2][0] = self.replaced
        return outputs

    def text(self, pieces):
        return agreement()._text(pieces) + self.suffix


@functools.cache
def greedy_outputs(limit):
    """Greedy search by the definition: the best token after those that came before."""
    original = random_model()
    table = piece_table(original.vocabulary.target)
    outputs = []
    for source in original.vocabulary.source.encode(agreement().sentences.sources):
        ids = []
        while len(ids) < 5 and ids[-1:] != [1]:
            next_logits = agreement()._reference.logits(source, np.array([*ids, 0]))[-1]
            ids.append(1 + int(np.argmax(next_logits[1:])))
        # These outputs end at a limit of 6.
        outputs.append([table[k] for k in ids if k != 1])
    return outputs


@pytest.fixture(autouse=True)
def _limit(monkeypatch):
    monkeypatch.setattr(agreement(), '_limit', 6)


def test_the_same_model_passes(tmp_path):
    report = Report('program', ['It is blue.'])
    report.check(agreement(), Program(error=1e-6))
    assert report.text().endswith(
        'in 12 sentences; 12 of 12 greedy outputs are the same\nIt is blue.'
    )
    report.write(tmp_path)
    written = json.loads((tmp_path / 'conversion.json').read_text())
    assert written['checks']['greedy'] == {
        'sentences': 12,
        'same': 12,
        'near_ties': 0,
        'same_text': 12,
    }
    assert 0 < written['checks']['largest_difference'] < 1e-5


@pytest.mark.parametrize('error', [1e-3, np.nan])
def test_other_logits_do_not_pass(error):
    with pytest.raises(RuntimeError, match=r'computes something else.* largest difference'):
        Report('program', []).check(agreement(), Program(error=error))


def test_other_outputs_do_not_pass():
    with pytest.raises(RuntimeError, match='11 of 12 greedy outputs'):
        Report('program', []).check(agreement(), Program(replaced='<0x00>'))


def test_other_texts_of_the_same_pieces_are_stated():
    report = Report('program', [])
    report.check(agreement(), Program(suffix='!'))
    assert report.text().endswith('the text of 12 is spelt otherwise')


def test_what_quantized_weights_lose_is_stated():
    report = Report('program', [])
    report.check(agreement(), Program())
    report.check_quantized(agreement(), Program(), Program(0.25, '<0x00>'), 'int8')
    quantized = report.checks['quantized']
    assert quantized['largest_difference'] == pytest.approx(0.25, abs=1e-5)
    assert (quantized['sentences'], quantized['same']) == (12, 11)
    assert quantized['bleu'].keys() == {'before', 'after', 'signature'}
    assert 'int8 weights, computed in float32: largest difference 2.5e-01' in report.text()
