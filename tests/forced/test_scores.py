"""Scores of texts: what the search says of its own outputs, for any order, batch and mesh."""

import numpy as np
import pytest
from closeness import assert_close
from tiny_run import TEXTS

from transformer_jax.errors import UserError

TARGETS = ['Le chat dort.', '', 'Où est la maison ?', 'Le médecin lit un livre. ' * 3, 'Non.']


def test_an_output_of_the_search_has_the_log_probability_that_the_search_gave_it(translator):
    options = {'length_norm': 'none', 'n_best': 4}
    outputs = [(s, o) for s in TEXTS for o in translator.translate([s], **options)[0]]
    scores = translator.score([s for s, _ in outputs], [o.text for _, o in outputs])
    same = [
        (score.log_prob, output.score)
        for score, (_, output) in zip(scores, outputs, strict=True)
        if score.pieces[:-1] == output.tokens  # the text may have other pieces, too
    ]
    assert len(same) > len(outputs) / 2
    assert_close(*zip(*same, strict=True))


def test_a_score_is_the_sum_of_its_pieces(translator):
    (score,) = translator.score([TEXTS[0]], [TARGETS[0]])
    assert ''.join(score.pieces).replace('▁', ' ') == ' Le chat dort.</s>'
    assert score.tokens == len(score.pieces) == len(score.log_probs)
    assert score.log_prob == pytest.approx(sum(score.log_probs), rel=1e-5)
    assert score.mean == pytest.approx(score.log_prob / score.tokens, rel=1e-5)
    assert max(score.log_probs) <= 0


def test_order_and_neighbours_change_nothing(translator):
    together = translator.score(TEXTS, TARGETS)
    for k, (source, target) in enumerate(zip(TEXTS, TARGETS, strict=True)):
        (alone,) = translator.score([source], [target])
        assert alone.pieces == together[k].pieces
        assert_close(alone.log_probs, together[k].log_probs)


def test_an_empty_target_is_the_end_of_the_sentence(translator):
    (score,) = translator.score([TEXTS[0]], [''])
    assert (score.tokens, score.pieces) == (1, ('</s>',))


def test_an_empty_source_is_scored(translator):
    (score,) = translator.score([''], [TARGETS[0]])
    assert np.isfinite(score.log_prob)


def test_a_source_is_cut_to_its_limit_as_translate_does_and_a_target_is_not(translator, caplog):
    source, target = 'The cat sleeps. ' * 9, 'Le chat dort. ' * 9
    (score,) = translator.score([source], [target], max_source_length=8, first_line=7)
    assert 'Line 7 has ' in caplog.text and 'is cut to the limit of 8.' in caplog.text
    (whole,) = translator.score([source], [target])
    assert score.tokens == whole.tokens > 30
    assert score.log_prob != pytest.approx(whole.log_prob, rel=1e-3)


def test_as_many_sources_as_targets_are_needed(translator):
    with pytest.raises(UserError, match='sources has 5 texts but targets has 1: give a target'):
        translator.score(TEXTS, TARGETS[:1])


def test_no_pairs_have_no_scores(translator):
    assert translator.score([], []) == []


def test_scores_that_are_not_finite_are_reported(translator, monkeypatch, caplog):
    monkeypatch.setattr(
        'transformer_jax.forced.teacher_forcing.TeacherForcing.log_probs',
        lambda *_: iter([(1, np.full(1, np.nan)), (0, np.zeros(1))]),
    )
    translator.score(['', ''], ['', ''], first_line=4)
    assert '1 lines have scores that are not finite, the first of them is line 5' in caplog.text
