"""Promise 11: a signal saves the step at hand, and the run resumes to the same bytes."""

import os
import signal

import pytest
from tiny_run import remembered, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.runtime.signals import Stopped, stop_if_requested
from transformer_jax.training import device_batches, loop, train
from transformer_jax.training.scoring import evaluation

pytestmark = pytest.mark.usefixtures('programs_kept')


@pytest.mark.parametrize(
    ('number', 'step'),
    [(signal.SIGINT, 5), (signal.SIGTERM, 6)],  # 6 is one to be evaluated
)
def test_a_signal_saves_the_current_step(tmp_path, uninterrupted, monkeypatch, number, step):
    lay, asked = device_batches.shard_batch, iter(range(100))

    def shard_batch(*args):
        if next(asked) == step:  # a batch is laid out one step ahead
            os.kill(os.getpid(), number)
        return lay(*args)

    monkeypatch.setattr(device_batches, 'shard_batch', shard_batch)
    with pytest.raises(Stopped, match=f'Stopped by {number.name} after step {step} of 12'):
        train(tiny(), tmp_path)
    assert Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()[-1] == step
    train(tiny(), tmp_path)
    assert remembered(tmp_path) == remembered(uninterrupted)


@pytest.mark.parametrize('step', [6, 12])  # the last, too
def test_a_stop_during_an_evaluation_saves_the_step_and_evaluates_on_resume(
    tmp_path, uninterrupted, monkeypatch, step
):
    with monkeypatch.context() as patch:
        patch.setattr(
            evaluation,
            'score',
            lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM) or stop_if_requested(),
        )
        config = tiny(train={'eval_every': step, 'checkpoint_every': 3})
        with pytest.raises(Stopped, match=f'Stopped by SIGTERM after step {step}'):
            train(config, tmp_path)
    checkpoints = Checkpoints(tmp_path / 'checkpoints', read_only=True)
    assert checkpoints.steps()[-1] == step and checkpoints.scores.quality(step) is None
    train(config, tmp_path)
    whole = tmp_path / 'whole' if step == 12 else uninterrupted
    if step == 12:
        train(config, whole)
    assert remembered(tmp_path) == remembered(whole)
    if step == 12:  # the other is not kept
        assert Checkpoints(tmp_path / 'checkpoints', read_only=True).scores.quality(12) is not None


def test_after_a_signal_in_the_last_step_the_next_start_scores(tmp_path, monkeypatch):
    evaluate = loop.evaluate

    def evaluated(run, state):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(run, state)

    monkeypatch.setattr(loop, 'evaluate', evaluated)
    with pytest.raises(Stopped, match='Stopped by SIGTERM after step 6, the last'):
        train(tiny(train={'steps': 6}), tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / 'results.json').exists()
    assert train(tiny(train={'steps': 6}), tmp_path)['step'] == 6
