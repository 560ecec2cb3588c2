"""Measurements of the benchmark."""

import types

import numpy as np
import pytest
from tiny_run import config_file, tiny

from transformer_jax.benchmark import measure
from transformer_jax.config import Config
from transformer_jax.errors import UserError
from transformer_jax.translating.options import search_options


def test_repeated_makes_the_requested_number_of_calls_and_returns_the_median(monkeypatch):
    now, taken = [0.0], []

    def run():
        taken.append([9.0, 1.0, 5.0, 2.0][len(taken) % 4])  # the first call warms up
        now[0] += taken[-1]

    monkeypatch.setattr(measure, 'time', types.SimpleNamespace(perf_counter=lambda: now[0]))
    assert measure.repeated(run, seconds=0.0, least=3) == 2.0
    assert len(taken) == 4
    measure.repeated(run, seconds=100.0, least=1, most=2)
    assert len(taken) == 4 + 3


def test_benchmark_outputs_are_as_long_as_their_sources():
    model = {'num_layers': 1, 'd_model': 32, 'd_ff': 32, 'num_heads': 2}
    random = np.random.default_rng(0)
    sentences = [random.integers(2, 300, n).astype(np.int32) for n in (3, 9, 20, 5, 12)]
    speed = measure.DecodingSpeed(Config.from_mapping({'model': model}), 300, sentences)
    for found in speed._search(sentences, search_options(speed._decode)):
        assert np.count_nonzero(found.tokens[0]) == len(sentences[found.index])


def test_sources_longer_than_the_learned_positions_are_cut():
    model = {'num_layers': 1, 'd_model': 32, 'd_ff': 32, 'num_heads': 2}
    model |= {'positions': 'learned', 'max_positions': 4}
    sections = {'model': model, 'data': {'max_length': 3}, 'decode': {'max_extra_length': 0}}
    config = Config.from_mapping(sections)
    speed = measure.DecodingSpeed(config, 300, [np.array([5, 6, 7, 8, 9, 1], np.int32)])
    assert [ids.tolist() for ids in speed._sentences] == [[5, 6, 7, 1]]


@pytest.mark.slow
def test_start_times_a_training_to_its_first_step(tmp_path):
    config = config_file(tmp_path / 'config.py', tiny(data={'num_buckets': 1}))
    assert measure.start([f'--config={config}']) > 0.0


def test_start_does_not_take_an_evaluation_before_step_1_for_a_step(monkeypatch, tmp_path):
    config = config_file(tmp_path / 'config.py', tiny())
    found = iter([[], [{'kind': 'dev'}], [{'kind': 'dev'}, {'kind': 'train'}]])
    monkeypatch.setattr(measure, 'read_metrics', lambda path: next(found))
    measure.start([f'--config={config}'])
    assert not list(found)


def test_start_reports_why_a_training_failed(tmp_path):
    config = config_file(tmp_path / 'config.py', tiny())
    with pytest.raises(
        UserError, match=r'the training to be timed has failed: error: .*d_model=-1'
    ):
        measure.start([f'--config={config}', '--config.model.d_model=-1'])
