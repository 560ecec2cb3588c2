"""A set of texts says of each whether it has seen it, whatever their number."""

import pytest

from transformer_jax.data.cleaning import hash_set
from transformer_jax.data.cleaning.hash_set import HashSet


@pytest.mark.parametrize('recent', [0, 3, 1000])
def test_a_text_is_new_once(monkeypatch, recent):
    monkeypatch.setattr(hash_set, '_RECENT', recent)
    texts = [f'text {k * k % 101}' for k in range(500)]
    seen, known = HashSet(), set()
    for text in texts:
        assert seen.add(text) == (text not in known)
        known.add(text)
        assert text in seen
    assert 'text' not in seen and '' not in seen
