"""Sampling translations of raw text."""

import re

import pytest
from tiny_run import TEXTS

from transformer_jax.errors import UserError
from transformer_jax.runtime.compile_counter import CompileCounter
from transformer_jax.translator import Sampling

pytestmark = pytest.mark.usefixtures('programs_kept')


def test_a_seed_fixes_the_samples_for_every_batch(translator):
    sampling = Sampling(temperature=1.5, seed=3)
    draws = translator(TEXTS, sampling=sampling)
    assert translator(TEXTS, sampling=sampling) == draws
    assert translator(TEXTS[:2], sampling=sampling) == draws[:2]
    assert translator(TEXTS, sampling=Sampling(temperature=1.5, seed=4)) != draws
    assert draws[0] != draws[4]  # the same text on another line has its own random numbers


def test_another_seed_temperature_penalty_or_n_best_compiles_nothing(translator):
    translator(TEXTS[0], sampling=Sampling(seed=1)), translator(TEXTS[0], length_penalty=0.5)
    compiled = CompileCounter()
    translator(TEXTS[0], sampling=Sampling(seed=2, temperature=1.1))
    translator(TEXTS[0], length_penalty=0.7, n_best=3)
    assert compiled.new() == 0


def test_the_unknown_token_is_never_sampled(translator):
    # At this temperature all tokens are equally likely.
    draws = translator(TEXTS[1], n_best=100, sampling=Sampling(temperature=1e6))
    drawn = {token for draw in draws for token in draw.tokens}
    assert len(drawn) > 100
    assert '<unk>' not in drawn


def test_top_k_1_is_greedy_search(translator):
    greedy = translator(TEXTS, beam_size=1)
    assert translator(TEXTS, sampling=Sampling(top_k=1)) == greedy


def test_samples_of_a_line_differ_and_come_best_first(translator):
    found = translator(TEXTS[1], n_best=6, sampling=Sampling(temperature=1.5))  # beyond the beam
    scores = [one.score for one in found]
    assert len(found) == 6 and scores == sorted(scores, reverse=True)
    assert len({one.text for one in found}) > 1


def test_samples_do_not_depend_on_their_number(translator):
    sampling = Sampling(temperature=1.5)
    few, many = (translator(TEXTS[1], n_best=n, sampling=sampling) for n in (6, 80))
    assert len(many) > 64  # more than one batch holds; the same texts are put together
    assert {one.text for one in few} <= {one.text for one in many}
    assert many[0].score == max(one.score for one in many)


@pytest.mark.parametrize(
    'field, value',
    [
        ('temperature', 0.0),
        ('temperature', 1e-9),
        ('temperature', float('nan')),
        ('temperature', float('inf')),
        ('temperature', 1e38),
        ('top_p', 0.0),
        ('top_p', float('nan')),
        ('seed', -1),
        ('seed', 2**32),
        ('seed', 1.5),
        ('top_k', 2.5),
        ('top_k', -1),
        ('top_k', 10**12),
    ],
)
def test_a_sampling_option_out_of_range_is_refused(field, value):
    with pytest.raises(
        UserError, match=rf'{field}={re.escape(str(value))} (is of type float but )?must be '
    ):
        Sampling(**{field: value})
