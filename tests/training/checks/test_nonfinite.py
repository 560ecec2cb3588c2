"""Steps whose loss or gradient is not finite."""

import pytest
from tiny_run import stop_at, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.errors import UserError
from transformer_jax.training import train
from transformer_jax.training.logs.metrics_writer import read_metrics

pytestmark = pytest.mark.usefixtures('programs_kept')


def test_a_non_finite_loss_stops_the_run_and_names_the_batch(tmp_path):
    config = tiny(optimizer={'learning_rate_scale': 1e30})
    with pytest.raises(UserError, match=r'step 2 was not finite \(learning rate .*, batch of'):
        train(config, tmp_path)
    # Step 1 was finite but not yet due to be saved; no later step may be.
    assert not Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()


def test_non_finite_steps_can_be_skipped(tmp_path, caplog):
    config = tiny(optimizer={'learning_rate_scale': 1e30}, train={'on_nonfinite': 'skip'})
    train(config, tmp_path)
    first, *rest = [r for r in read_metrics(tmp_path / 'metrics.jsonl') if r['kind'] == 'train']
    assert sum(r['skipped_steps'] for r in (first, *rest)) == 11
    assert 'Skipped 4 steps: the loss or the gradient of step 2 was not finite' in caplog.text
    assert first['loss'] > 0 and first['target_tokens'] > 0
    for record in rest:  # no step was taken: there is no loss
        assert record['target_tokens'] == 0 and 'loss' not in record and 'nll' not in record


def test_steps_skipped_earlier_do_not_stop_a_run_that_no_longer_skips(tmp_path, monkeypatch):
    hot = {'learning_rate_scale': 1e30}
    config = tiny(optimizer=hot, train={'on_nonfinite': 'skip', 'log_every': 100})
    stop_at(monkeypatch, 6)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path)
    monkeypatch.undo()
    begun = Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()[-1]
    # The message names the next step, not one that was skipped while that was allowed.
    config = tiny(optimizer=hot, train={'log_every': 100})
    with pytest.raises(UserError, match=f'of step {begun + 1} was not finite'):
        train(config, tmp_path)
