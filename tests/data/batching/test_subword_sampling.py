"""Segmentations change from epoch to epoch, and the texts stay."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece

from transformer_jax.data.batching.buckets import Batch, Bucket
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore, sentences_from
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair

TEXTS = [
    f'the {a} {b} number {n}' for n in range(8) for a in ('old', 'new') for b in ('cat', 'dog')
]


@pytest.fixture(scope='module')
def vocabulary():
    return Vocabulary.train(TEXTS * 4, size=300)


@pytest.fixture(scope='module')
def store(vocabulary):
    ids = vocabulary.encode(TEXTS)
    return TokenStore(sentences_from(ids), sentences_from(ids[::-1]))


def sampler(store, vocabulary, seed=0, rate=0.3, **more):
    pair = VocabularyPair(vocabulary, vocabulary)
    return SubwordSampler(store, pair, rate=rate, seed=seed, **more)


WIDE = Batch(Bucket(32, 60, 60), np.arange(32))


def texts(vocabulary, rows):
    return [vocabulary.decode(row) for row in rows]


def test_the_pieces_change_and_the_text_stays(store, vocabulary):
    drawn = sampler(store, vocabulary)
    first, second = (drawn.arrays(WIDE, epoch, 0) for epoch in (0, 1))
    assert (first['source'] != second['source']).any()
    assert texts(vocabulary, first['source']) == TEXTS
    assert texts(vocabulary, second['target']) == TEXTS[::-1]


def test_a_unigram_model_can_be_sampled():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=model,
        vocab_size=28,
        model_type='unigram',
        minloglevel=2,
    )
    unigram = Vocabulary(model.getvalue())
    ids = unigram.encode(TEXTS)
    drawn = sampler(TokenStore(sentences_from(ids), sentences_from(ids)), unigram)
    first, again, other = (drawn.arrays(WIDE, epoch, 0)['source'] for epoch in (0, 0, 1))
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert texts(unigram, first) == texts(unigram, other) == TEXTS


def test_one_side_may_keep_its_stored_tokens(store, vocabulary):
    both = sampler(store, vocabulary)
    one = sampler(store, vocabulary, drawn=('source',))
    first = one.arrays(WIDE, 0, 0)
    np.testing.assert_array_equal(first['target'], store.target.padded(np.arange(32), 60))
    np.testing.assert_array_equal(first['source'], both.arrays(WIDE, 0, 0)['source'])
    np.testing.assert_array_equal(one.planned_lengths('target', 60), store.target.lengths)


def test_a_batch_is_a_function_of_seed_epoch_and_index(store, vocabulary):
    def source(seed, epoch, index):
        return sampler(store, vocabulary, seed).arrays(WIDE, epoch, index)['source']

    places = [(seed, epoch, index) for seed in (0, 1) for epoch in (0, 1) for index in (0, 1)]
    with ThreadPoolExecutor(4) as pool:  # all threads share one seed of SentencePiece
        together = list(pool.map(lambda place: source(*place), places * 4))
    alone = [source(*place) for place in places]
    for k, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[k % len(alone)])
    assert len({found.tobytes() for found in alone}) == len(places)


def test_a_process_gets_its_rows_of_the_same_batch(store, vocabulary):
    drawn = sampler(store, vocabulary)
    whole = drawn.arrays(WIDE, 0, 0)
    part = drawn.arrays(WIDE, 0, 0, lambda _, values: np.append(values[8:16], -1))
    np.testing.assert_array_equal(part['target'][:8], whole['target'][8:16])
    assert not part['target'][8].any()


def test_a_draw_that_does_not_fit_is_repeated_or_the_stored_tokens_are_kept(store, vocabulary):
    shortest = int(store.source.lengths.max())
    tight = Batch(Bucket(32, shortest, shortest), np.arange(32))
    arrays = sampler(store, vocabulary, rate=0.9).arrays(tight, 0, 0)
    assert texts(vocabulary, arrays['source']) == TEXTS  # nothing is cut
    stored = store.source.padded(np.arange(32), shortest)
    assert (arrays['source'] == stored).all(axis=1).any()


def test_a_sentence_with_an_unknown_token_keeps_its_stored_tokens(store, vocabulary, monkeypatch):
    stored = store.source.padded(np.arange(32), 60)
    unknown = max(stored[0], key=lambda token: (stored != token).all(axis=1).sum())  # a rare one
    monkeypatch.setattr(vocabulary, 'unknown_id', unknown)
    drawn = sampler(store, vocabulary, rate=0.9).arrays(WIDE, 0, 0)['source']
    holds = (stored == unknown).any(axis=1)
    assert 0 < holds.sum() < 32
    assert (drawn[holds] == stored[holds]).all()
    assert (drawn[~holds] != stored[~holds]).any()


def test_empty_rows_stay_empty(store, vocabulary):
    batch = Batch(Bucket(8, 60, 60), np.array([3, -1, 5, -1, -1, -1, -1, -1]))
    arrays = sampler(store, vocabulary).arrays(batch, 0, 0)
    assert texts(vocabulary, arrays['source'])[:3] == [TEXTS[3], '', TEXTS[5]]


def test_planned_lengths_allow_for_longer_draws(store, vocabulary):
    drawn = sampler(store, vocabulary)
    stored, longest = store.source.lengths, int(store.source.lengths.max()) + 1
    planned = drawn.planned_lengths('source', 60)
    assert (planned >= stored).all() and planned.mean() > 1.1 * stored.mean()
    # A pair that fits as stored is not left out.
    np.testing.assert_array_equal(
        drawn.planned_lengths('source', longest) <= longest, np.ones(len(stored), bool)
    )


def test_every_pair_is_in_the_plan(store, vocabulary):
    drawn = sampler(store, vocabulary)
    lengths = [drawn.planned_lengths(side, 40) for side in ('source', 'target')]
    plan = BatchPlan(*lengths, max_length=40, tokens_per_batch=320, num_buckets=2, seed=0)
    found = np.concatenate([batch.ids for batch in plan.epoch(0)])
    assert sorted(found[found >= 0]) == list(range(len(TEXTS)))
