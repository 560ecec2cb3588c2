"""Curves show what metrics.jsonl holds."""

import math

import numpy as np
import pytest

from transformer_jax.inspection.curves import Run, draw_curves, loss_floor


def train(step, **values):
    return {'step': step, 'kind': 'train', 'learning_rate': 0.1, 'loss': 2.0} | values


def dev(step, bleu):
    return {'step': step, 'kind': 'dev', 'loss': 1.5, 'bleu': bleu}


def lines(axes):
    """The y values of each line of a panel."""
    return [np.asarray(line.get_ydata(), float).tolist() for line in axes.get_lines()]


def test_the_floor_is_the_entropy_of_the_smoothed_targets():
    # 0.9 and a third of 0.1 on each of three tokens.
    p = [0.9 + 0.1 / 3, 0.1 / 3, 0.1 / 3]
    assert loss_floor(0.1, 3) == pytest.approx(-sum(x * math.log(x) for x in p))
    assert loss_floor(0.1, 1500) == pytest.approx(1.056, abs=5e-4)
    assert loss_floor(0.0, 1500) == 0.0


def test_each_panel_has_the_numbers_of_its_field():
    records = [train(10, target_tokens_per_second=7), train(20, loss=1.8), dev(20, bleu=30.0)]
    loss, bleu, rate, speed = draw_curves([Run('a', records, 1.2, {'bleu': 33.0})]).axes
    assert lines(loss) == [[2.0, 1.8], [1.5], [1.2, 1.2]]
    assert lines(bleu) == [[30.0], [33.0]]
    assert lines(rate) == [[0.1, 0.1]]
    assert lines(speed)[0][0] == 7 and math.isnan(lines(speed)[0][1])


def test_a_window_of_skipped_steps_leaves_a_gap_in_the_loss():
    skipped = {'step': 20, 'kind': 'train', 'learning_rate': 0.1}
    loss = draw_curves([Run('a', [train(10), skipped, train(30)])]).axes[0]
    assert [math.isnan(y) for y in lines(loss)[0]] == [False, True, False]


def test_numbers_that_are_not_finite_leave_a_gap_and_no_star():
    records = [train(1, loss=math.inf), train(2, loss=None), train(3, loss=2.0), dev(3, 1.0)]
    figure = draw_curves([Run('a', records, test={'bleu': None})])
    loss, scores, *_ = figure.axes
    assert [math.isnan(y) for y in lines(loss)[0]] == [True, True, False]
    assert len(scores.lines) == 1


def test_runs_have_their_own_colour_and_a_name_in_the_legend():
    figure = draw_curves([Run('a', [train(10)]), Run('b', [train(10)])])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ['a', 'b']
    assert [line.get_color() for line in legend.get_lines()] == ['C0', 'C1']


def test_a_parser_is_drawn_by_its_f1():
    records = [dev(20, bleu=30.0) | {'f1': 60.0}]
    _, scores, _, _ = draw_curves([Run('a', records, None, {'bleu': 33.0, 'f1': 61.0})]).axes
    assert (lines(scores), scores.get_title('left')) == ([[60.0], [61.0]], 'F1')
