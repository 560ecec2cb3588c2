"""Puts sentences of many requests together into batches, which one thread translates."""

import collections
import contextlib
import functools
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

from transformer_jax.errors import UserError
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import to_the_end
from transformer_jax.serving.languages import Pair
from transformer_jax.translator import Attention, Translation, Translator

_logger = logging.getLogger('transformer_jax')
# Tokens to which sentences are padded: few programs are compiled, all before the first request.
LENGTHS = (16, 32, 64, 128)
_ROWS = (1, 4, 16, 64)
_WAITS = 8
_MOST_CALLS = 16
_LONGEST = 2.0  # seconds that a batch may take: whoever comes meanwhile has to wait
_LEARN = 0.2  # weight of the last batch in what a sentence takes


class QueueFull(Exception):
    """More sentences wait than are allowed."""


class Job:
    """Sentences of one request, until they are translated.

    Attributes:
      client: whose request it is.
      results: a future of the outputs of each sentence, the best first.
    """

    def __init__(self, sentences: Sequence[str], n_best: int, align: bool, client: str):
        self.n_best, self.align, self.client = n_best, align, client
        self.results: Future[list[list[Translation]]] = Future()
        self._outputs: list[list[Translation]] = [[] for _ in sentences]
        self._missing = len(sentences)

    def cancel(self) -> None:
        """Translate no more sentences, because nobody waits for them."""
        self.results.cancel()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for further sentences."""
        return self.results.done()

    def take(self, place: int, outputs: list[Translation]) -> None:
        """Take the outputs of a sentence; the last one completes the results."""
        self._outputs[place] = outputs[: self.n_best]
        self._missing -= 1
        if not self._missing:
            with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                self.results.set_result(self._outputs)

    def fail(self, error: Exception) -> None:
        """Complete the results with an error."""
        with contextlib.suppress(InvalidStateError):  # cancelled, or failed before
            self.results.set_exception(error)


class _Waiting(NamedTuple):
    due: float
    number: int  # no two are equal, so that nothing else is compared
    job: Job
    place: int
    text: str


class Batcher:
    """Translates sentences of many requests, in one thread.

    A sentence gets the same output alone or together with others, except for rounding.

    Attributes:
      translators: by pair of languages.
    """

    def __init__(
        self,
        translators: Mapping[Pair, Translator],
        *,
        most_waiting: int = 4096,
        batch_timeout: float = 0.005,
        observe: Callable[[int, int], None] = lambda sentences, tokens: None,
    ):
        """Start no thread yet.

        Args:
          translators: by pair of languages.
          most_waiting: number of sentences that may wait. A client with more than a quarter of
            them counts as a quarter, and may not add to them.
          batch_timeout: seconds that a sentence waits for others if the device is idle; as long as
            more come, up to eight times that.
          observe: is called with the sentences and the output tokens of each batch.
        """
        self.translators = translators
        self._most_waiting, self._observe = most_waiting, observe
        self._batch_timeout = batch_timeout
        # A model of several target languages has several pairs, of which the first stands for all.
        self._models: dict[Pair, Pair] = {
            pair: next(first for first, other in translators.items() if other is translator)
            for pair, translator in translators.items()
        }
        # By what a batch shares: the model, and the length to which its sentences are padded.
        self._queues: dict[tuple[Pair, int], list[_Waiting]] = {
            (model, length): [] for model in self._models.values() for length in LENGTHS
        }
        # Seconds per sentence, by padded length; first those of a slow machine.
        self._seconds = {length: length / 300 for length in LENGTHS}
        self._calls: collections.deque[tuple[str, Future, Callable[[], Any]]] = collections.deque()
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name='device', daemon=True)
        for translator in translators.values():
            translator.decoder.fix_shapes(lengths=LENGTHS)

    def prepare(self) -> None:
        """Compile all programs that requests can need, several at a time."""
        tasks: list[Callable[[], None]] = []
        for model in dict.fromkeys(self._models.values()):
            translator = self.translators[model]
            decode, segments = translator.config.decode, translator.segments
            longest = translator.decoder.output_limit(LENGTHS[-1], decode)
            tasks += [
                functools.partial(segments.attention_reader.fix_shapes, longest),
                functools.partial(segments.aligner.fix_shapes, longest, decode),
            ]
            tasks += [
                functools.partial(translator.prepare, lengths=[length] * rows)
                for length in LENGTHS[::-1]
                for rows in _ROWS[::-1]
            ]
        pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        try:
            with progress_bar('Compiling', total=len(tasks), unit=' parts') as bar:
                for done in as_completed([pool.submit(task) for task in tasks]):
                    done.result()
                    bar.update()
        finally:
            pool.shutdown(cancel_futures=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread when nothing waits any more."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def submit(
        self,
        pair: Pair,
        sentences: Sequence[str],
        n_best: int = 1,
        align: bool = False,
        client: str = '',
    ) -> Job:
        """Queue sentences.

        Args:
          pair: source and target language, one of `translators`.
          sentences: none empty, none of more than `LENGTHS[-1]` tokens; each begins with the tag of
            the target language if the model has tags.
          n_best: number of outputs of each.
          align: whether the outputs have alignments.
          client: whose sentences they are; '' has no share of its own.

        Raises:
          QueueFull: if too many sentences wait, of all or of this client.
        """
        job = Job(sentences, n_best, align, client)
        if not sentences:
            job.results.set_result([])
            return job
        encoded = self.translators[pair].vocabulary.source.encode(sentences)
        now = time.monotonic()
        with self._changed:
            if self._is_full(client, len(sentences)):
                raise QueueFull
            # The sentences of a long text are due one after the other: a short text need not wait
            # for all of them.
            due = now
            for place, (text, ids) in enumerate(zip(sentences, encoded, strict=True)):
                length = next(n for n in LENGTHS if n >= len(ids))
                item = _Waiting(due, next(self._numbers), job, place, text)
                heapq.heappush(self._queues[self._models[pair], length], item)
                due += self._seconds[length]
            self._changed.notify_all()
        return job

    def attention(
        self, pair: Pair, sentences: Sequence[str], client: str = ''
    ) -> Future[list[Attention]]:
        """Return a future of the attention of some sentences and their best outputs.

        Args:
          pair: as for `submit`.
          sentences: as for `submit`.
          client: as for `submit`.

        Raises:
          QueueFull: if too many requests for attention wait, of all or of this client.
        """
        future: Future[list[Attention]] = Future()
        with self._changed:
            waiting = [call[0] for call in self._calls]
            share = _MOST_CALLS // 4
            if len(waiting) >= _MOST_CALLS or (client and waiting.count(client) >= share):
                raise QueueFull
            call = client, future, lambda: self.translators[pair].attention(sentences)
            self._calls.append(call)
            self._changed.notify_all()
        return future

    def waiting(self) -> int:
        """Return the number of sentences that wait, including those whose client has gone."""
        return sum(map(len, self._queues.values()))

    def _is_full(self, client: str, count: int) -> bool:
        """Whether a client has to wait with `count` sentences."""
        share = max(1, self._most_waiting // 4)
        waiting = collections.Counter(x.job.client for q in self._queues.values() for x in q)
        if client and waiting[client] and waiting[client] + count > share:
            return True
        # One text of a client may be longer than its share, and than the whole queue.
        counted = sum(min(n, share) if name else n for name, n in waiting.items())
        return bool(counted) and counted + (min(count, share) if client else count) > (
            self._most_waiting
        )

    def _work(self) -> None:
        with to_the_end():  # those who wait get their answers, whatever signal comes
            self._answer_all()

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                idle = not self.waiting()
                while not self.waiting() and not self._calls:
                    if self._ending:
                        return
                    self._changed.wait()
                call = self._calls.popleft() if self._calls else None
                items = list[_Waiting]()
                if self.waiting():
                    if idle:
                        self._wait_for_company()
                    pair, length, items = self._batch()
            if items:
                self._translate(pair, length, items)
            if call is not None:
                _answer_call(*call[1:])

    def _wait_for_company(self) -> None:
        """Wait until no sentence has come for a while, but not much longer than that."""
        for _ in range(_WAITS):
            before = self.waiting()
            self._changed.wait_for(lambda: self.waiting() >= _ROWS[-1], self._batch_timeout)
            if self.waiting() == before or self.waiting() >= _ROWS[-1]:
                return

    def _batch(self) -> tuple[Pair, int, list[_Waiting]]:
        """Remove the sentences of the next batch: those that are due, of one pair and length.

        Returns:
          The pair, the length and the sentences.
        """
        key = min((k for k, queue in self._queues.items() if queue), key=self._due)
        pair, length = key
        translator = self.translators[pair]
        most = min(
            translator.decoder.rows(length, translator.config.decode.beam_size),
            max(_ROWS[1], int(_LONGEST / self._seconds[length])),
        )
        queue, items = self._queues[key], list[_Waiting]()
        while queue and len(items) < most:
            item = heapq.heappop(queue)
            if not item.job.is_over:
                items.append(item)
        # Fill a program that would be less than half full with the next smaller one only.
        full = max((r for r in _ROWS if r <= len(items)), default=0)
        larger = min((r for r in _ROWS if r >= len(items)), default=full)
        if len(items) < larger / 2:
            for item in items[full:]:
                heapq.heappush(queue, item)
            del items[full:]
        return pair, length, items

    def _due(self, key: tuple[Pair, int]) -> float:
        return self._queues[key][0].due

    def _translate(self, pair: Pair, length: int, items: list[_Waiting]) -> None:
        began = time.monotonic()
        try:
            found: list[Any] = self.translators[pair].translate(
                [item.text for item in items],
                n_best=max(item.job.n_best for item in items),
                align=any(item.job.align for item in items),
            )
            tokens = sum(len(outputs[0].tokens) for outputs in found)
            self._observe(len(items), tokens)
            took = (time.monotonic() - began) / len(items)
            self._seconds[length] += _LEARN * (took - self._seconds[length])
            for item, outputs in zip(items, found, strict=True):
                item.job.take(item.place, outputs)
        except Exception as error:  # the server has to live on
            if not isinstance(error, UserError):
                _logger.exception('A batch of %d sentences failed.', len(items))
            for item in items:
                item.job.fail(error)


def _answer_call(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except Exception as error:  # the server has to live on
        if not isinstance(error, UserError):
            _logger.exception('A request for attention failed.')
        future.set_exception(error)
