"""The comparison of programs: one that computes something else does not pass."""

import numpy as np
import pytest
from conversion.nearly_ours import Program, ours

from transformer_jax.conversion.parity import compare
from transformer_jax.conversion.parity.compare import Comparison, Findings, Outputs
from transformer_jax.conversion.parity.peer import Output

SOURCES = [('▁', 'T', 'h'), ('▁', 'W'), ('e',)]
LIMIT = 6


def comparison(**options):
    return Comparison(ours(), Program(**options), 'the dev set')


def pairs():
    return [(('▁', 'W'), ('e', 'a')), (('▁', 'T', 'h', 'e'), ('e',))]


def test_values_of_the_same_model_pass():
    same = comparison(error=1e-6)
    same.values(pairs())
    assert same.findings.passed
    assert same.findings.differences.keys() == {
        'encoder',
        'logits',
        'log-probabilities',
        'log-probabilities without padding',
    }
    assert 0 < max(same.findings.differences.values()) < 1e-5


@pytest.mark.parametrize('told', ['encoder', 'logits', 'log-probabilities'])
@pytest.mark.parametrize('error', [1e-2, np.nan])
def test_other_values_do_not_pass(told, error):
    other = comparison(error=error, told=[told])
    other.values(pairs())
    assert not other.findings.passed
    assert f'largest differences: {told} ' in str(other.findings)


def test_logits_may_be_told_without_padding():
    logits = np.arange(6.0).reshape(2, 3)
    assert compare._difference(logits, logits[:, 1:]) == 0
    assert compare._difference(logits, logits[:, 1:] + 0.5) == 0.1


def test_other_source_pieces_do_not_pass():
    other = comparison(source=('e',))
    other.pieces(['The cat.', 'Where?'])
    assert not other.findings.passed
    assert '1 of 2 source pieces' in str(other.findings)


def test_the_same_greedy_outputs_pass_and_texts_that_are_spelt_otherwise_are_stated():
    same = comparison(suffix='!')
    texts = same.greedy(SOURCES, LIMIT)
    assert same.findings.passed and texts[0] == texts[1]
    assert same.findings.searches == [Outputs(1, 3, same=3, spelt_otherwise=3)]
    assert str(same.findings).endswith('the text of 3 greedy outputs is spelt otherwise')


def test_another_greedy_output_does_not_pass():
    other = comparison(piece='<0x00>')
    other.greedy(SOURCES, LIMIT)
    assert not other.findings.passed
    assert '2 of 3 greedy outputs' in str(other.findings)


def test_a_greedy_output_is_a_tie_if_our_search_goes_on_as_the_program_does(monkeypatch):
    monkeypatch.setattr(compare, 'TOLERANCE', 1e9)  # all tokens are equally likely
    first = SOURCES[0]
    (own,) = ours().search([first], 1, LIMIT)
    (after,) = ours().search([first], 1, LIMIT, prefix=('<0x00>',))
    assert own.pieces[0] != after.pieces[0] == '<0x00>'
    tied = comparison()._is_tie
    assert tied(first, own.pieces[:5], after.pieces[:5], LIMIT)
    assert tied(first, own.pieces[:5], (), LIMIT)  # it chose EOS
    monkeypatch.setattr(compare, 'TOLERANCE', 1e-4)
    assert not tied(first, own.pieces[:5], after.pieces[:5], LIMIT)


def test_the_same_outputs_of_a_beam_pass_and_other_scores_do_not():
    same, other = comparison(), comparison(score=1e-2)
    for one in (same, other):
        one.search(SOURCES)
    assert same.findings.passed and same.findings.searches == [Outputs(4, 3, same=3)]
    assert not other.findings.passed
    assert 'largest differences: scores' in str(other.findings)


def test_another_output_of_a_beam_passes_if_both_networks_give_it_the_same_scores():
    source, (best,) = SOURCES[0], ours().search(SOURCES[:1], 4, None)
    output = ('e',)
    score = ours().score(next(ours().values([source], [output]))['log-probabilities'])

    def explained(score, error=0.0, log_probs=True):
        (theirs,) = Program(error=error).values([source], [best.pieces])
        found = Outputs(4, 1)
        told = theirs['log-probabilities'] if log_probs else None
        comparison()._explain(found, source, best, Output(output, score), told)
        return found

    assert explained(score) == Outputs(4, 1, explained=1, better=1)
    assert explained(score + 0.01) == Outputs(4, 1)  # our network gives theirs another
    assert explained(score, error=0.01) == Outputs(4, 1)  # theirs gives ours another
    # Of a program that tells no more than outputs and scores.
    assert explained(best.score, log_probs=False) == Outputs(4, 1, ties=1)
    assert explained(score, log_probs=False) == Outputs(4, 1)


def test_all_outputs_must_be_the_same_or_have_a_reason():
    assert Findings('p', 't', searches=[Outputs(1, 3, 1, 1, 1)]).passed
    assert not Findings('p', 't', searches=[Outputs(1, 3, 1, 1, 0)]).passed
