"""BLEU and chrF: values by hand, signatures, tokenizers and intervals."""

import numpy as np
import pytest

from transformer_jax.translating import translation_metrics
from transformer_jax.translating.translation_metrics import (
    all_scores,
    score,
    split_compounds,
    tokenizer,
)


def test_a_perfect_translation_scores_100():
    scores = score(['The cat sat on the rug.'], ['The cat sat on the rug.'])
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)


def test_bleu_matches_a_calculation_by_hand():
    # 1- to 4-gram precisions 5/6, 4/5, 3/4 and 2/3, no brevity penalty.
    scores = score(['the cat sat on the rug'], ['the cat sat on the mat'])
    assert scores.bleu == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


def test_bleu_is_case_sensitive():
    assert score(['THE CAT SAT ON IT'], ['the cat sat on it']).bleu == 0


def test_signatures_describe_the_metric():
    scores = score(['a'], ['a'])
    assert 'case:mixed|eff:no|tok:13a|smooth:exp|version:' in scores.bleu_signature
    assert 'nc:6|nw:0' in scores.chrf_signature


@pytest.mark.parametrize(
    ('language', 'expected'),
    [('de', '13a'), ('', '13a'), ('zh', 'zh'), ('zh-TW', 'zh'), ('ZH_cn', 'zh'), ('ja', 'char')],
)
def test_the_tokenizer_depends_on_the_language(language, expected):
    assert tokenizer(language) == expected


def test_languages_without_spaces_are_scored_by_characters():
    hypotheses, references = ['他的猫坐在垫子上。'], ['她的猫坐在垫子上。']
    assert score(hypotheses, references).bleu == 0
    scores = score(hypotheses, references, target_language='zh')
    # 1- to 4-gram precisions of nine characters that differ in the first.
    precisions = 8 / 9 * 7 / 8 * 6 / 7 * 5 / 6
    assert scores.bleu == pytest.approx(100 * precisions**0.25)
    assert 'tok:zh' in scores.bleu_signature
    names = [found.name for found in all_scores(hypotheses, references, target_language='zh')]
    assert names == ['BLEU', 'chrF2', 'BLEU, lowercased', 'BLEU, lowercased, split at spaces']


def test_one_sentence_has_no_margin_and_no_bootstrap_in_its_signatures():
    found = all_scores(['a b c d e'], ['a b c d f'])
    assert all(np.isnan(one.margin) and 'bs:' not in one.signature for one in found)


def test_a_score_of_0_has_no_margin():
    bleu, *_ = all_scores(['a b'] * 2, ['c d'] * 2)
    assert (bleu.score, bleu.margin) == (0.0, 0.0)


def test_different_numbers_of_texts_are_refused():
    with pytest.raises(ValueError, match='1 translations but 2 references'):
        score(['a'], ['a', 'b'])
    with pytest.raises(ValueError, match='nothing to score'):
        score([], [])


def test_a_single_text_is_refused():
    with pytest.raises(ValueError, match=r"'The cat\.' is a single text: give lists of texts"):
        score('The cat.', 'The cat.')


def test_the_nearest_of_several_references_decides():
    hypotheses = ['the cat sat on the rug']
    assert score(hypotheses, ['a dog'], ['the cat sat on the rug']).bleu == pytest.approx(100)


def test_all_scores_gives_every_metric_in_order():
    texts = ['The Rich-text cat sat on it .'], ['the rich-text cat sat on it .']
    found = all_scores(*(2 * side for side in texts))
    cased, _, lowercased, at_spaces, split = found
    assert [s.name for s in found] == [
        'BLEU',
        'chrF2',
        'BLEU, lowercased',
        'BLEU, lowercased, split at spaces',
        'BLEU, 13a, compounds split',
    ]
    assert lowercased.score == at_spaces.score == pytest.approx(100)
    assert cased.score < split.score < 100  # a split compound has more words that agree
    assert 'case:lc|eff:no|tok:13a' in lowercased.signature
    assert 'case:lc|eff:no|tok:none' in at_spaces.signature
    assert 'bs:1000' in cased.signature
    assert 'tok:13a+compounds' in split.signature


def test_compounds_are_split_as_tensor2tensor_does():
    assert split_compounds('a rich-text editor.') == 'a rich ##AT##-##AT## text editor .'


def test_the_interval_is_wider_if_sentence_scores_differ_more():
    alike = all_scores(['the cat sat on a rug'] * 20, ['the cat sat on the rug'] * 20)[0]
    mixed = all_scores(
        ['the cat sat on the rug', 'no such words here at all'] * 10,
        ['the cat sat on the rug'] * 20,
    )[0]
    assert alike.margin == pytest.approx(0.0, abs=1e-6)
    assert mixed.margin > 5


def test_chrf_has_no_interval_if_a_resample_has_no_score():
    hypotheses, references = ['le le le le'] * 4, ['le chat dort', 'le chien', 'x y z', 'a b c']
    bleu, chrf, *_ = all_scores(hypotheses, references)
    assert chrf.score == pytest.approx(score(hypotheses, references).chrf)
    assert np.isnan(chrf.margin)
    assert 'bs:' not in chrf.signature
    assert bleu.margin > 0


def test_large_corpora_get_no_intervals_and_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(translation_metrics, '_MOST_RESAMPLED', 3)
    with caplog.at_level('WARNING', 'transformer_jax'):
        found = all_scores(['the cat sat on a rug'] * 4, ['the cat sat on the rug'] * 4)
    assert found[0].score > 0
    assert all(np.isnan(score.margin) for score in found)
    assert not any('bs:' in score.signature for score in found)
    assert '4 sentences are scored without confidence intervals' in caplog.text
