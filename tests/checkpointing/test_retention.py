"""The latest checkpoints and the best ones stay."""

from tiny_checkpoints import save, state

from transformer_jax.checkpointing.manager import Checkpoints


def test_the_latest_and_the_best_are_kept(tmp_path):
    save(tmp_path / 'c', [1, 2, 3, 4, 5], keep=2, at_2=30.0, at_4=20.0)
    assert Checkpoints(tmp_path / 'c').steps() == [2, 4, 5]


def test_a_resumed_run_keeps_the_best(tmp_path):
    save(tmp_path / 'c', [1, 2, 3], keep=1, at_2=30.0, at_3=20.0)
    save(tmp_path / 'c', [4, 5], keep=1, at_4=10.0)
    assert Checkpoints(tmp_path / 'c').steps() == [2, 5]


def test_keep_best_checkpoints_are_kept_for_their_bleu(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=1, keep_best=2)
    for step, bleu in [(1, 20.0), (2, 30.0), (3, 25.0), (4, 10.0)]:
        manager.save(state(step).items(), {'bleu': bleu})
    manager.close()
    assert Checkpoints(tmp_path / 'c').steps() == [2, 3, 4]


def test_a_checkpoint_off_the_interval_stays_while_it_is_the_newest(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2, every=3)
    kept = []
    for step in (3, 6, 8, 9, 11):
        manager.save(state(step).items())
        manager.wait()
        kept.append(manager.steps())
    assert kept == [[3], [3, 6], [6, 8], [6, 9], [9, 11]]
