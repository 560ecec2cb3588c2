"""From attention to words: sums over pieces, the step that reads, and tokens without a word."""

import numpy as np
import pytest

from transformer_jax.forced.alignment import Aligner, word_alignment
from transformer_jax.runtime.compile_counter import CompileCounter

# Three source words of one piece each, then EOS; two target words, then EOS.
SOURCE, TARGET = [0, 1, 2, None], [0, 1, None]
WEIGHTS = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.2, 0.7, 0.0], [0.1, 0.8, 0.1, 0.0]])


def test_each_target_word_gets_the_source_word_with_the_most_attention():
    assert word_alignment(WEIGHTS, SOURCE, TARGET) == ((0, 0), (2, 1))


def test_shift_takes_the_step_that_reads_the_token():
    assert word_alignment(WEIGHTS, SOURCE, TARGET, shift=True) == ((1, 1), (2, 0))


def test_attention_is_summed_over_the_pieces_of_a_source_word():
    weights = np.array([[0.4, 0.3, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert word_alignment(weights, [0, 1, 2, None], [0, None]) == ((0, 0),)
    assert word_alignment(weights, [0, 1, 1, None], [0, None]) == ((1, 0),)


def test_attention_is_summed_over_the_pieces_of_a_target_word():
    weights = np.array([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    assert word_alignment(weights, [0, 1, None], [0, 0, None]) == ((1, 0),)
    assert word_alignment(weights, [0, 1, None], [0, 1, None]) == ((0, 0), (1, 1))


def test_the_most_attention_to_eos_does_not_leave_a_word_unaligned():
    weights = np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]])
    assert word_alignment(weights, [0, 1, None], [0, None]) == ((1, 0),)


def test_words_without_pieces_are_not_aligned():
    weights = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    assert word_alignment(weights, [1, 3, None], [2, 4, None]) == ((1, 2), (1, 4))


@pytest.mark.parametrize('shift', [False, True])
def test_nothing_is_aligned_to_an_empty_source_or_target(shift):
    assert word_alignment(np.ones((2, 1)), [None], [0, None], shift) == ()
    assert word_alignment(np.ones((1, 2)), [0, None], [None], shift) == ()
    assert word_alignment(np.ones((1, 1)), [None], [None], shift) == ()


def test_every_target_word_with_pieces_gets_one_source_word():
    rng = np.random.default_rng(0)
    for _ in range(100):
        source, target = (
            [*np.sort(rng.integers(0, 5, rng.integers(1, 9))).tolist(), None] for _ in range(2)
        )
        weights = rng.random((len(target), len(source)))
        for shift in (False, True):
            found = word_alignment(weights, source, target, shift)
            assert sorted(y for _, y in found) == sorted({*target} - {None})
            assert {x for x, _ in found} <= {*source} - {None}
            # By the definition, one sum at a time.
            for x, y in found:
                rows = [t + shift for t, word in enumerate(target) if word == y]
                sums = {
                    word: sum(
                        weights[t, s] for t in rows for s, w in enumerate(source) if w == word
                    )
                    for word in {*source} - {None}
                }
                assert sums[x] == pytest.approx(max(sums.values()), rel=1e-5)


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r'weights has shape \(3, 4\): it must be \[3, 3\]'):
        word_alignment(WEIGHTS, [0, 1, None], TARGET)


@pytest.fixture(scope='module')
def align(translator):
    """Call it with texts and outputs for the alignments of the outputs."""
    aligner = Aligner(translator.network, translator.vocabulary)

    def run(texts, outputs):
        sources = translator.vocabulary.source.encode(texts)
        padded = [np.append(ids, [0, 0]) for ids in translator.vocabulary.target.encode(outputs)]
        return aligner(texts, sources, padded, translator.config.decode)

    return run


def test_outputs_are_aligned_with_the_words_of_their_raw_texts(align):
    texts = ['  The cat\u00a0sleeps. ', '', 'Où ?', 'The cat.', '☃☃ Ж']
    outputs = ['Le chat dort.', 'Non.', '', 'Le chat.', 'Ж ☃']
    found = align(texts, outputs)
    for text, output, pairs in zip(texts, outputs, found, strict=True):
        assert list(pairs) == sorted(pairs)
        assert sorted(y for _, y in pairs) == [*range(len(output.split()) if text else 0)]
        assert {x for x, _ in pairs} <= set(range(len(text.split())))


def test_order_of_the_outputs_changes_nothing(align):
    texts, outputs = ['The cat sleeps.', 'Where is the house?'], ['Où est la maison ?', 'Le chat.']
    assert align(texts[::-1], outputs[::-1]) == align(texts, outputs)[::-1]


def test_the_words_of_a_source_that_was_cut_off_are_not_aligned(translator):
    text = 'The cat sleeps and the dog eats the apple near the table.'
    (ids,) = translator.vocabulary.source.encode([text])
    cut = np.append(ids[:3], translator.vocabulary.eos_id)
    aligner = Aligner(translator.network, translator.vocabulary)
    outputs = translator.vocabulary.target.encode(['Le chat dort et le chien mange la pomme.'])
    (found,) = aligner([text], [cut], outputs, translator.config.decode)
    kept = {*translator.vocabulary.source.source_words(text)[:3]}
    assert {x for x, _ in found} <= kept
    assert len(found) == 9


def test_with_fixed_shapes_nothing_is_compiled_later(translator):
    aligner = Aligner(translator.network, translator.vocabulary)
    aligner.fix_shapes(12, translator.config.decode)
    compiled = CompileCounter()
    for count in (1, 9):
        ids = translator.vocabulary.source.encode(['The cat sleeps.'] * count)
        aligner(['The cat sleeps.'] * count, ids, ids, translator.config.decode)
    assert compiled.new() == 0
