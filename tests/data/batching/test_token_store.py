"""Stores are read as they were written, or written again if they are damaged."""

import errno
import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from transformer_jax.data.batching import token_store
from transformer_jax.data.batching.token_store import (
    cached_store,
    open_store,
    sentences_from,
    write_store,
)
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair

PAIRS = [('the cat', 'le chat'), ('', 'rien'), ('the dog sleeps', 'le chien dort'), ('x', '  ')]


@pytest.fixture(scope='module')
def vocabulary():
    vocabulary = Vocabulary.train([text for pair in PAIRS for text in pair], size=280)
    return VocabularyPair(vocabulary, vocabulary)


def never():
    raise AssertionError('tokenised again')
    yield


def test_a_written_store_has_the_tokens_of_its_pairs(tmp_path, vocabulary):
    store = write_store(tmp_path / 'store', PAIRS, vocabulary)
    assert len(store) == 2
    for side, texts in ((store.source, ['the cat', 'the dog sleeps']),
                        (store.target, ['le chat', 'le chien dort'])):  # fmt: skip
        for k, text in enumerate(texts):
            ids = side.tokens[side.offsets[k] : side.offsets[k + 1]]
            assert ids.tolist() == vocabulary.source.encode([text])[0].tolist()
            assert side.lengths[k] == len(ids)


def test_small_vocabularies_take_two_bytes_per_token(tmp_path, vocabulary):
    assert write_store(tmp_path / 'store', PAIRS, vocabulary).source.tokens.dtype == np.uint16


def test_pairs_with_an_empty_side_are_counted(tmp_path, vocabulary):
    # Normalisation removes zero-width spaces.
    pairs = [*PAIRS, ('\u200b', 'x'), ('x', '\u200b')]
    assert write_store(tmp_path / 'store', pairs, vocabulary).empty == 4


def test_a_complete_store_is_not_written_again(tmp_path, vocabulary):
    write_store(tmp_path / 'store', PAIRS, vocabulary)
    assert len(cached_store(tmp_path / 'store', never(), vocabulary)) == 2


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def shorten(path):
    path.write_bytes(path.read_bytes()[:-2])


def other_format(path):
    meta = json.loads(path.read_text())
    path.write_text(json.dumps(meta | {'format': 0}))


@pytest.mark.parametrize(
    ('name', 'damage'),
    [
        ('source.tokens', flip),
        ('target.offsets', flip),
        ('target.tokens', shorten),
        ('source.offsets', lambda path: path.unlink()),
        ('meta.json', shorten),
        ('meta.json', other_format),
    ],
)
def test_a_damaged_store_is_written_again_with_a_warning(
    tmp_path, vocabulary, caplog, name, damage
):
    whole = write_store(tmp_path / 'store', PAIRS, vocabulary).source.tokens.tolist()
    damage(tmp_path / 'store' / name)
    again = cached_store(tmp_path / 'store', PAIRS, vocabulary)
    assert again.source.tokens.tolist() == whole
    assert 'cannot be used' in caplog.text
    assert len(open_store(tmp_path / 'store')) == 2


def test_several_writers_of_one_store_do_not_conflict(tmp_path, vocabulary):
    with ThreadPoolExecutor(8) as pool:
        stores = list(
            pool.map(lambda _: cached_store(tmp_path / 'store', PAIRS, vocabulary), range(32))
        )
    assert [len(store) for store in stores] == [2] * 32
    assert list(tmp_path.iterdir()) == [tmp_path / 'store']


@pytest.mark.parametrize('whole', [True, False])
def test_a_store_of_another_process_is_used_if_it_is_complete(tmp_path, vocabulary, whole):
    def pairs():
        yield from PAIRS
        write_store(tmp_path / 'store', PAIRS, vocabulary)
        if not whole:
            shorten(tmp_path / 'store' / 'target.tokens')

    store = write_store(tmp_path / 'store', pairs(), vocabulary)
    assert len(store) == len(open_store(tmp_path / 'store')) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / 'store']


def test_an_error_while_writing_leaves_nothing(tmp_path, vocabulary):
    def pairs():
        yield from PAIRS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / 'store', pairs(), vocabulary)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_raises_its_error_and_nothing_is_left(tmp_path, vocabulary, small_disk):
    restore = small_disk()
    with pytest.raises(OSError) as caught:
        write_store(tmp_path / 'store', PAIRS * 1000, vocabulary)
    restore()
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_can_be_read(tmp_path, vocabulary):
    store = write_store(tmp_path / 'store', [('', '')], vocabulary)
    assert (len(store), store.empty, store.source.tokens.tolist()) == (0, 1, [])


def test_padded_rows_end_with_zeros():
    sentences = sentences_from([np.array([5, 6, 1]), np.array([7, 1])])
    assert sentences.padded(np.array([1, -1, 0]), 4).tolist() == [
        [7, 1, 0, 0],
        [0, 0, 0, 0],
        [5, 6, 1, 0],
    ]


@pytest.fixture
def chunks_of_two(monkeypatch):
    monkeypatch.setattr(token_store, '_CHUNK', 2)
    monkeypatch.setattr(token_store, '_SAVED_CHUNKS', 2)


def stopped_after(count):
    """Yield pairs of which every third is empty, and stop before the one after `count`."""
    for k in range(100):
        if k == count:
            raise KeyboardInterrupt
        yield f'A cat {k}.', '' if k % 3 == 0 else f'Un chat {k}.'


def write_some(path, vocabulary, count):
    with pytest.raises(KeyboardInterrupt):
        write_store(path, stopped_after(count), vocabulary)


@pytest.mark.parametrize('count', [3, 4, 5, 50, 99])
def test_a_store_whose_writing_was_stopped_goes_on_and_is_the_same(
    tmp_path, vocabulary, chunks_of_two, count, caplog
):
    caplog.set_level('INFO')
    write_some(tmp_path / 'stopped', vocabulary, count)
    resumed = write_store(tmp_path / 'stopped', stopped_after(None), vocabulary)
    whole = write_store(tmp_path / 'whole', stopped_after(None), vocabulary)
    assert ('Tokenising goes on after' in caplog.text) == (count >= 4)
    assert (resumed.empty, len(resumed)) == (whole.empty, len(whole)) == (34, 66)
    for path in (tmp_path / 'whole').iterdir():
        assert (tmp_path / 'stopped' / path.name).read_bytes() == path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['stopped', 'whole']


@pytest.mark.parametrize('damage', ['short', 'text', 'format'])
def test_progress_that_does_not_fit_its_files_is_not_used(
    tmp_path, vocabulary, chunks_of_two, damage
):
    write_some(tmp_path / 'store', vocabulary, 50)
    unfinished = tmp_path / 'store.unfinished'
    if damage == 'short':
        (unfinished / 'source.tokens').write_bytes(b'')
    elif damage == 'text':
        (unfinished / 'progress.json').write_text('{}')
    else:
        progress = json.loads((unfinished / 'progress.json').read_text())
        (unfinished / 'progress.json').write_text(json.dumps(progress | {'format': 0}))
    assert len(write_store(tmp_path / 'store', stopped_after(None), vocabulary)) == 66


def test_a_second_writer_does_not_touch_the_files_of_the_first(tmp_path, vocabulary, chunks_of_two):
    def pairs():
        yield from itertools.islice(stopped_after(None), 50)
        write_some(tmp_path / 'store', vocabulary, 90)
        yield from itertools.islice(stopped_after(None), 50, None)

    assert len(write_store(tmp_path / 'store', pairs(), vocabulary)) == 66
    assert list(tmp_path.iterdir()) == [tmp_path / 'store']
