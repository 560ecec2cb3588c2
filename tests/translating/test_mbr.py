"""Minimum Bayes risk: utilities equal sacreBLEU's scores of all pairs; the choice in a thread."""

import random
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from transformer_jax.runtime import signals
from transformer_jax.runtime.signals import Stopped
from transformer_jax.translating import mbr
from transformer_jax.translating.mbr import METRICS, MbrChooser, expected_utilities
from transformer_jax.translating.translation_metrics import tokenizer


def utilities_by_sacrebleu(texts, weights, metric, target_language=''):
    if metric == 'chrf':
        scorer = CHRF()
    else:
        scorer = BLEU(effective_order=True, tokenize=tokenizer(target_language), force=True)
    scores = [[scorer.sentence_score(text, [other]).score for other in texts] for text in texts]
    return np.average(scores, axis=1, weights=weights)


def assert_equals_sacrebleu(texts, weights, metric, target_language=''):
    found = expected_utilities(texts, weights, metric, target_language)
    expected = utilities_by_sacrebleu(texts, weights, metric, target_language)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize('metric', METRICS)
def test_utilities_of_sentences_equal_sacrebleu(metric):
    texts = [
        'The cat sat on the mat.',
        'A cat sat on the mat.',
        'The cat is sitting on a mat, they said.',
        'On the mat the cat sat.',
        'Dogs bark.',
    ]
    assert_equals_sacrebleu(texts, [5, 4, 3, 2, 1], metric)


@pytest.mark.parametrize('metric', METRICS)
@pytest.mark.parametrize(
    'texts',
    [
        ['', '', ''],
        ['', ' ', '\n', 'a'],
        ['a', 'b', 'a b', 'ab'],
        ['the', 'the the', 'the the the the the the the', 'the cat the'],
        ['a  b\tc', 'a b c', ' a b c ', 'abc'],
        ['aaaa', 'aaaaaaaa', 'aa aa'],
        ['2 &lt; 3', '2 < 3', '1,000.5', '<skipped>', 'well-\n', 'well-', 'well'],
        ['e\u0301t\u00e9', '\u00e9t\u00e9', '\U0001d518\U0001f600', '\u00a0\u3000', '\ud800'],
    ],
)
def test_utilities_of_unusual_texts_equal_sacrebleu(texts, metric):
    assert_equals_sacrebleu(texts, [1.0] * len(texts), metric)


@pytest.mark.parametrize('metric', METRICS)
@pytest.mark.parametrize(
    ('language', 'alphabet'),
    [
        ('', 'ab '),
        ('en', 'abc. -,'),
        ('ru', 'кот сидел'),
        ('zh', '他的猫坐在 垫子上。a'),
        ('ja', 'ねこがすわる。'),
    ],
)
def test_utilities_of_random_texts_equal_sacrebleu(language, alphabet, metric):
    draw = random.Random(0)
    for _ in range(30):
        lengths = [draw.choice([0, 1, 2, 4, 8, 40]) for _ in range(draw.randint(1, 8))]
        texts = [''.join(draw.choices(alphabet, k=length)) for length in lengths]
        weights = [1 - draw.random() for _ in texts]
        assert_equals_sacrebleu(texts, weights, metric, language)


@pytest.mark.parametrize('metric', METRICS)
def test_more_n_grams_than_bits_of_a_word_are_counted(metric):
    draw = random.Random(0)
    words = [f'word{number}' for number in range(300)]
    texts = [' '.join(draw.choices(words, k=200)) for _ in range(3)]
    assert_equals_sacrebleu(texts, [1, 2, 3], metric)


def test_the_sum_of_the_weights_does_not_matter():
    texts = ['the cat', 'a cat', 'a dog']
    expected = expected_utilities(texts, [0.5, 0.25, 0.25], 'chrf')
    for factor in (3, 1e-300, 8e307):  # also if their sum is not finite
        weights = [2 * factor, factor, factor]
        np.testing.assert_allclose(expected_utilities(texts, weights, 'chrf'), expected)


def test_a_candidate_of_weight_0_is_no_reference():
    found = expected_utilities(['the cat', 'a dog'], [1, 0], 'chrf')
    score = CHRF().sentence_score('a dog', ['the cat']).score
    assert found == pytest.approx([100, score])


def test_a_repeated_text_counts_by_the_sum_of_its_weights():
    repeated = expected_utilities(['a cat', 'a dog', 'a cat'], [1, 2, 3], 'chrf')
    once = expected_utilities(['a cat', 'a dog'], [4, 2], 'chrf')
    assert repeated == pytest.approx([once[0], once[1], once[0]])


def test_a_candidate_is_its_own_reference():
    assert expected_utilities(['the cat sat'], [1], 'bleu') == pytest.approx([100])


def test_memory_does_not_grow_with_pairs_times_n_grams():
    draw = random.Random(0)
    texts = [''.join(draw.choices('abcdefghijklmnop', k=1000)) for _ in range(64)]
    tracemalloc.start()
    try:
        expected_utilities(texts, [1] * len(texts), 'chrf')
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    n_grams = len({text[k : k + 6] for text in texts for k in range(995)})
    assert peak < 64 * 64 * n_grams / 10


@pytest.mark.parametrize(
    ('texts', 'weights', 'metric', 'message'),
    [
        ([], [], 'chrf', 'there are no candidates'),
        (['a'], [1, 2], 'chrf', r'shape is \(2,\) for 1 candidates'),
        (['a', 'b'], [1, -1], 'chrf', 'weights from .*0 or greater'),
        (['a', 'b'], [1, float('nan')], 'chrf', 'weights from .*finite'),
        (['a', 'b'], [1, float('inf')], 'bleu', 'weights from .*finite'),
        (['a', 'b'], [0, 0], 'bleu', 'weights from .*not all 0'),
        (['a'], [1], 'ter', "metric='ter': unknown, choose one of chrf, bleu"),
    ],
)
def test_wrong_candidates_weights_and_metrics_are_refused(texts, weights, metric, message):
    with pytest.raises(ValueError, match=message):
        expected_utilities(texts, weights, metric)


def test_a_chooser_of_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="metric='ter'"):
        MbrChooser('ter')


def test_the_candidate_that_agrees_most_is_chosen():
    texts = ['A dog barks.', 'The cat sat on the mat.', 'The cat sat on a mat.']
    with MbrChooser('bleu') as chooser:
        chooser.submit(7, texts, [1, 1, 1])
        chooser.submit(2, texts, [8, 1, 1])
        results = chooser.results()
    assert results[7][0] == 1
    assert results[7][1] == pytest.approx(utilities_by_sacrebleu(texts, [1, 1, 1], 'bleu')[1])
    assert results[2][0] == 0


def test_the_target_language_selects_the_tokenizer_of_the_choice():
    texts, weights = ['他的猫坐在垫子上', '她的猫坐在垫子上'], [1, 1]
    with MbrChooser('bleu') as chooser:
        chooser.submit(0, texts, weights, 'zh')
        assert chooser.results()[0][1] == pytest.approx(
            utilities_by_sacrebleu(texts, weights, 'bleu', 'zh')[0]
        )


def test_the_earliest_of_equal_candidates_is_chosen():
    # By symmetry all utilities are equal, but each sum has another order and another rounding.
    rotations = ['a b c d e', 'b c d e a', 'c d e a b', 'd e a b c', 'e a b c d']
    with MbrChooser('chrf') as chooser:
        chooser.submit(0, rotations, [1] * 5)
        assert chooser.results()[0] == (0, pytest.approx(60))


def test_an_error_of_the_thread_is_raised():
    with MbrChooser('chrf') as chooser:
        chooser.submit(0, ['a'], [1])
        chooser.submit(1, [], [])
        with pytest.raises(ValueError, match='there are no candidates'):
            chooser.results()


def test_an_interruption_cancels_the_choices_that_have_not_begun(monkeypatch):
    begun = []
    all_submitted = threading.Event()

    def choose_until_the_next_is_cancelled(texts, *_):
        begun.append(texts)
        all_submitted.wait(60)
        deadline = time.monotonic() + 60
        while not chooser._choices[1].cancelled() and time.monotonic() < deadline:
            time.sleep(0.01)

    monkeypatch.setattr(mbr, '_choose', choose_until_the_next_is_cancelled)
    with pytest.raises(KeyboardInterrupt), MbrChooser('chrf') as chooser:
        for index in range(3):
            chooser.submit(index, [str(index)], [1])
        while not begun:
            time.sleep(0.01)
        all_submitted.set()
        raise KeyboardInterrupt
    assert begun == [['0']]


def test_waiting_for_choices_stops_on_request(monkeypatch):
    with MbrChooser('chrf') as chooser:
        chooser.submit(0, ['a'], [1])
        monkeypatch.setattr(signals, '_asked', signal.SIGTERM)
        with pytest.raises(Stopped):
            chooser.results()
