import pytest

from transformer_jax.scoring import score


def test_a_perfect_translation():
    scores = score(['The cat sat on the rug.'], ['The cat sat on the rug.'])
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)


def test_bleu_by_hand():
    # 1- to 4-gram precisions 5/6, 4/5, 3/4 and 2/3, no brevity penalty.
    scores = score(['the cat sat on the rug'], ['the cat sat on the mat'])
    assert scores.bleu == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


def test_case_counts():
    assert score(['THE CAT SAT ON IT'], ['the cat sat on it']).bleu == 0


def test_signatures_tell_how():
    scores = score(['a'], ['a'])
    assert 'case:mixed|eff:no|tok:13a|smooth:exp|version:' in scores.bleu_signature
    assert 'nc:6|nw:0' in scores.chrf_signature


def test_lengths_must_agree():
    with pytest.raises(ValueError, match='1 translations but 2 references'):
        score(['a'], ['a', 'b'])
    with pytest.raises(ValueError, match='nothing to score'):
        score([], [])
