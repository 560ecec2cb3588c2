"""Sentences for checks of conversions."""

import dataclasses

from conversion.random_models import random_model, shared

from transformer_jax.conversion.parity.check_sentences import CheckSentences, bleu_in_words
from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair


def ours(original):
    return Ours(original.config, original.vocabulary, original.params)


def test_they_are_the_dev_set_if_it_can_be_read():
    original = random_model()
    found = CheckSentences.of(original)
    assert found.origin == 'the dev set'
    assert len(found.sources) == len(found.references) == 12
    (source, target), *_ = found.pairs(ours(original), 3)
    assert ours(original).text(source) == found.sources[0]  # the vocabulary is shared
    assert ours(original).text(target) == found.references[0]


def test_pairs_that_do_not_fit_learned_positions_are_left_out():
    original = random_model(positions='learned', max_positions=64)
    found = CheckSentences.of(original)
    assert 0 < len(found.sources) < 12
    longest = 1 + max(len(pieces) for pair in found.pairs(ours(original)) for pieces in pair)
    assert longest <= 64 - 8  # the output may be longer by 8


def test_without_a_dev_set_they_are_built_in():
    original = random_model()
    run = dataclasses.replace(original.run, split_fingerprints={})
    found = CheckSentences.of(dataclasses.replace(original, run=run))
    assert found.origin == 'built-in sentences'
    assert found.sources[0] == 'The house is old.'
    assert not found.references


def test_built_in_sentences_begin_with_a_language_code_if_the_model_needs_one():
    original = random_model()
    run = dataclasses.replace(original.run, split_fingerprints={})
    table = ['<pad>', '</s>', '<unk>', '>>fra<<', '>>deu<<']
    source = TableVocabulary(shared().source.model, table, is_source=True)
    vocabulary = VocabularyPair(source, shared().target)
    found = CheckSentences.of(dataclasses.replace(original, run=run, vocabulary=vocabulary))
    assert found.sources[0] == '>>fra<< The house is old.'


def test_drawn_sentences_begin_with_each_language_code_in_turn():
    table = ['<pad>', '</s>', '<unk>', '>>fra<<', '>>deu<<', '▁the', '▁cat', 's']
    source = TableVocabulary(shared().source.model, table, is_source=True)
    texts = CheckSentences.drawn(source, 4).sources
    assert [text.split()[0] for text in texts] == ['>>fra<<', '>>deu<<'] * 2
    assert all(len(text.split()) > 1 for text in texts)
    assert texts == CheckSentences.drawn(source, 4).sources


def test_bleu_lost_compares_two_lists_of_outputs_with_the_references():
    sentences = CheckSentences(
        'text', ['a'] * 3, ['The cat sat on the mat.', 'A dog ran off.', 'b']
    )
    perfect = list(sentences.references[:2])
    found = sentences.bleu_lost(perfect, ['The cat sat on a mat.', 'A dog ran off.'], 'en')
    assert found['before'] == 100.0 and 20 < found['after'] < 100
    assert '100.00 (nrefs:1|' in bleu_in_words(found, 'greedy search')
    assert CheckSentences('text', ['a'], []).bleu_lost(['a'], ['a'], 'en') is None
    assert 'not measured' in bleu_in_words(None, 'greedy search')
