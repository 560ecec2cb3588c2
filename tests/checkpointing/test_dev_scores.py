"""Dev scores lie beside checkpoints; damaged ones count as absent."""

import pytest
from tiny_checkpoints import latest_state, same, save, state

from transformer_jax.checkpointing.average_choice import best
from transformer_jax.checkpointing.manager import Checkpoints


def test_scores_can_be_added_to_a_checkpoint(tmp_path):
    save(tmp_path / 'c', [1, 2], at_2=7.0)
    manager = Checkpoints(tmp_path / 'c')
    assert manager.scores.quality(1) is None
    manager.scores.add(1, {'bleu': 9.0})
    manager.close()
    again = Checkpoints(tmp_path / 'c')
    assert best(again.steps(), again.scores.quality) == [1, 2]
    assert same(latest_state(again, state(0)), state(2))


@pytest.mark.parametrize('text', ['[]', '{"bleu": "x"}', '{"bleu": null}', '[' * 100_000])
def test_damaged_scores_are_read_as_none(tmp_path, text):
    save(tmp_path / 'c', [1, 2], at_1=7.0, at_2=9.0)
    (tmp_path / 'c' / '2' / 'scores' / 'scores.json').write_text(text)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    assert best(manager.steps(), manager.scores.quality) == [1]
