import time

import pytest
from fake_translator import FakeTranslator

from transformer_jax.errors import UserError
from transformer_jax.serving.batcher import LENGTHS, Batcher, QueueFull
from transformer_jax.serving.languages import translators_by_pair

PAIR = ('en', 'fr')


@pytest.fixture
def translator():
    return FakeTranslator()


@pytest.fixture
def started(translator):
    """Call it to start a batcher, whose translator is busy with the sentence 'first'."""
    batchers = []

    def start(**options):
        batcher = Batcher({PAIR: translator}, batch_timeout=0.0, **options)
        batchers.append(batcher)
        batcher.start()
        translator.gate.clear()
        first = batcher.submit(PAIR, ['first'])
        deadline = time.monotonic() + 10
        while not translator.batches and time.monotonic() < deadline:
            time.sleep(0.001)
        return batcher, first

    yield start
    translator.gate.set()
    for batcher in batchers:
        batcher.end()


def texts(job):
    return [[output.text for output in outputs] for outputs in job.results.result(10)]


def test_requests_that_wait_are_translated_together(started, translator):
    batcher, first = started()
    jobs = [batcher.submit(PAIR, [f'a {k}', f'b {k}'], n_best=1 + k) for k in range(2)]
    translator.gate.set()
    assert texts(first) == [['FIRST']]
    assert texts(jobs[0]) == [['A 0'], ['B 0']]
    assert texts(jobs[1]) == [['A 1', 'A 1 1'], ['B 1', 'B 1 1']]
    assert [len(batch) for batch in translator.batches] == [1, 4]


def test_outputs_of_another_kind_fail_their_request_only(started, translator, monkeypatch):
    batcher, _ = started()
    monkeypatch.setattr(translator, 'translate', lambda texts, **_: [[]] * len(texts))
    job = batcher.submit(PAIR, ['a'])
    translator.gate.set()
    with pytest.raises(IndexError):
        job.results.result(10)
    assert batcher.is_alive()


def test_a_batch_has_sentences_of_one_length(started, translator):
    batcher, _ = started()
    long = ' '.join(['word'] * 20)
    jobs = [batcher.submit(PAIR, [text]) for text in ('a', long, 'b')]
    translator.gate.set()
    for job in jobs:
        texts(job)
    assert sorted(translator.batches[1:], key=len) == [[long], ['a', 'b']]


def test_a_program_is_not_filled_less_than_half(started, translator):
    batcher, _ = started()
    job = batcher.submit(PAIR, list('abcdef'))
    translator.gate.set()
    assert texts(job) == [[letter] for letter in 'ABCDEF']
    assert [len(batch) for batch in translator.batches[1:]] == [4, 2]


def test_a_short_text_does_not_wait_for_all_of_a_long_one(started, translator):
    batcher, _ = started()
    long = batcher.submit(PAIR, [f'long {k}' for k in range(64)])
    short = batcher.submit(PAIR, ['short'])
    translator.gate.set()
    texts(short)
    texts(long)
    position = next(k for k, batch in enumerate(translator.batches) if 'short' in batch)
    assert position == 1


def test_sentences_that_take_long_give_way_for_as_long(started, translator):
    batcher, _ = started()
    batcher._seconds[LENGTHS[-1]] = 0.1
    long = batcher.submit(PAIR, [' '.join(['word'] * 100)] * 40)
    time.sleep(0.5)
    short = batcher.submit(PAIR, ['short'])
    translator.gate.set()
    texts(short)
    texts(long)
    assert [len(batch) for batch in translator.batches] == [1, 16, 1, 16, 8]


def test_a_batch_of_slow_sentences_is_small(started, translator):
    batcher, _ = started()
    batcher._seconds[LENGTHS[0]] = 1.0
    job = batcher.submit(PAIR, ['a'] * 16)
    translator.gate.set()
    texts(job)
    assert [len(batch) for batch in translator.batches[1:3]] == [4, 4]


def test_what_a_sentence_takes_is_measured(started, translator, monkeypatch):
    batcher, _ = started()
    translate = translator.translate
    monkeypatch.setattr(
        translator, 'translate', lambda *a, **k: time.sleep(0.1) or translate(*a, **k)
    )
    translator.gate.set()
    for _ in range(20):
        texts(batcher.submit(PAIR, ['a']))
    assert 0.09 < batcher._seconds[LENGTHS[0]] < 1


def test_a_full_queue_takes_no_more(started, translator):
    batcher, _ = started(most_waiting=3)
    job = batcher.submit(PAIR, ['a', 'b'])
    with pytest.raises(QueueFull):
        batcher.submit(PAIR, ['c', 'd'])
    third = batcher.submit(PAIR, ['c'])
    translator.gate.set()
    assert texts(job) + texts(third) == [['A'], ['B'], ['C']]


def test_a_client_that_fills_the_queue_leaves_places_for_others(started, translator):
    batcher, _ = started(most_waiting=8)
    jobs = [batcher.submit(PAIR, list('abcdefghij'), client='greedy')]
    with pytest.raises(QueueFull):
        batcher.submit(PAIR, ['k'], client='greedy')
    jobs += [batcher.submit(PAIR, [name], client=name) for name in 'xyz']
    translator.gate.set()
    assert [x for job in jobs for (x,) in texts(job)] == list('ABCDEFGHIJXYZ')


def test_a_client_with_many_requests_for_attention_leaves_places_for_others(translator):
    batcher = Batcher({PAIR: translator})
    for _ in range(4):
        batcher.attention(PAIR, ['a'], 'greedy')
    with pytest.raises(QueueFull):
        batcher.attention(PAIR, ['a'], 'greedy')
    batcher.attention(PAIR, ['a'], 'other')


def test_a_text_longer_than_an_empty_queue_is_taken(translator):
    batcher = Batcher({PAIR: translator}, most_waiting=2)
    batcher.start()
    assert len(texts(batcher.submit(PAIR, list('abcd')))) == 4
    batcher.end()


def test_what_nobody_waits_for_is_not_translated(started, translator):
    batcher, _ = started()
    gone = batcher.submit(PAIR, ['gone'])
    stays = batcher.submit(PAIR, ['stays'])
    gone.cancel()
    translator.gate.set()
    assert texts(stays) == [['STAYS']]
    assert translator.batches == [['first'], ['stays']]


def test_a_batch_that_fails_does_not_end_the_thread(started, translator, caplog):
    batcher, _ = started()
    failing = batcher.submit(PAIR, ['fail'])
    translator.gate.set()
    with pytest.raises(ZeroDivisionError):
        failing.results.result(10)
    assert texts(batcher.submit(PAIR, ['next'])) == [['NEXT']]
    assert 'A batch of 1 sentences failed.' in caplog.text


def test_the_thread_ends_when_all_that_waits_is_translated(translator):
    batcher = Batcher({PAIR: translator})
    batcher.start()
    job = batcher.submit(PAIR, ['a'])
    batcher.end()
    assert texts(job) == [['A']]


def test_batches_are_observed(translator):
    seen = []
    batcher = Batcher({PAIR: translator}, observe=lambda *counts: seen.append(counts))
    batcher.start()
    texts(batcher.submit(PAIR, ['a b c']))
    batcher.end()
    assert seen == [(1, 3)]


def test_sentences_are_padded_to_few_lengths(translator):
    Batcher({PAIR: translator})
    assert translator.shapes == {'lengths': LENGTHS}


def test_two_models_of_one_pair_are_refused():
    with pytest.raises(UserError, match=r"--workdir='b' translates en to fr, as --workdir='a' doe"):
        translators_by_pair({'a': FakeTranslator(), 'b': FakeTranslator()})
