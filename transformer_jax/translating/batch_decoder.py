"""Decodes sentences of token ids, in batches of similar length, on all devices of a mesh."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from transformer_jax.config import DecodeConfig
from transformer_jax.data.batching.buckets import round_length
from transformer_jax.decoding import Hypotheses, SearchOptions, beam_search, sample
from transformer_jax.inference.network import (
    Caches,
    CrossAttention,
    Ensemble,
    Network,
    grow,
    reorder,
    select,
)
from transformer_jax.runtime import memory
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import data_shards, padded_rows, shard_whole_batch

# Rows of a compiled program. Few different shapes compile less often.
_ROWS = (1, 4, 16, 64, 256)
_PREFIX_MULTIPLE = 8
# So that the draws of a sentence do not depend on their number.
_DRAWS_OF_PART = 10_000
# The greatest number of rows of a batch, and of positions times hypotheses, which bounds the cache.
# On CPUs, more rows are no faster.
_LIMITS = {'cpu': (64, 2**14)}
_ACCELERATOR_LIMITS = (256, 2**17)


class Batch(NamedTuple):
    """Rows that are decoded together.

    Attributes:
      source: [B, S] int32 ids; a row of padding is an empty one.
      line: [B] int32, the line number of each row's sentence.
      draw: [B] int32, which of its line's draws each row is.
      prefix: [B, P] int32, the forced first tokens of each output, then 0; None if there are none.
    """

    source: Any
    line: Any
    draw: Any
    prefix: Any = None


class DecodeResult(NamedTuple):
    """The outputs of one sentence, the best first.

    Attributes:
      index: the index of the sentence.
      tokens: [K, T] int32, each output ends with EOS, then 0.
      scores: [K] float32, see `beam_search` (when sampling, the log-probability); -inf if there
        are fewer outputs.
      log_probs: [K] float32, natural logs of the outputs' probabilities.
    """

    index: int
    tokens: np.ndarray
    scores: np.ndarray
    log_probs: np.ndarray


class BatchDecoder:
    """Decodes sentences, in batches.

    Attributes:
      network: the models, on their devices.
      max_rows: the greatest number of rows of a batch.
    """

    def __init__(self, network: Network, eos_id: int):
        """Do no work yet.

        Args:
          network: the models, on their devices.
          eos_id: the token that ends an output.
        """
        self.network = network
        self.max_rows, self._positions = _LIMITS.get(jax.default_backend(), _ACCELERATOR_LIMITS)
        self._min_length, self._lengths = 1, ()
        self._eos_id = eos_id
        self._memory_check = memory.MemoryCheck(network.mesh.local_devices[0])

    def __call__(
        self,
        sentences: Sequence[np.ndarray],
        options: SearchOptions,
        *,
        prefixes: Sequence[np.ndarray] | None = None,
        lines: Sequence[tuple[int, int]] | None = None,
    ) -> Iterator[DecodeResult]:
        """Decode batch by batch, the longest sentences first.

        Args:
          sentences: int32 ids that end with EOS, at most `source_limit` of them each.
          options: what to look for, the same for all sentences.
          prefixes: forced first tokens of each sentence's outputs, int32 ids without EOS, or none.
          lines: (line number, number of the sentence in its line) of each sentence; they seed its
            samples and appear in errors. None counts lines from 0.

        Raises:
          UserError: if a device has too little memory for one of the sentences.
        """
        lines = lines or [(k, 0) for k in range(len(sentences))]
        prefixes = prefixes or [np.zeros(0, np.int32)] * len(sentences)
        results = self._decode_rows(sentences, options, prefixes, lines)
        return merge_outputs(results, options.rows_per_sentence)

    def _decode_rows(
        self,
        sentences: Sequence[np.ndarray],
        options: SearchOptions,
        prefixes: Sequence[np.ndarray],
        lines: Sequence[tuple[int, int]],
    ) -> Iterator[DecodeResult]:
        """Yield a result for each row; the rows of a sentence follow one another."""
        copies = options.rows_per_sentence
        lengths = [
            max(len(ids), 1 + len(prefix))
            for ids, prefix in zip(sentences, prefixes, strict=True)
            for _ in range(copies)
        ]
        for rows, length, items in self._batches(lengths, options.hypotheses_per_row):
            stop_if_requested()
            longest_prefix = max(len(prefixes[item // copies]) for item in items)
            batch = _empty(rows, length, longest_prefix)
            for row, (k, draw) in enumerate(divmod(item, copies) for item in items):
                batch.source[row, : len(sentences[k])] = sentences[k]
                line, part = lines[k]
                batch.line[row] = line
                batch.draw[row] = (draw + part * _DRAWS_OF_PART) % 2**31
                if len(prefixes[k]):
                    batch.prefix[row, : len(prefixes[k])] = prefixes[k]
            first = sentences[items[0] // copies]
            name = f'line {batch.line[0]}, with {len(first):,} tokens,'
            found = self._search(batch, options, name)
            for row, item in enumerate(items):
                outputs = found.tokens[row], found.scores[row], found.log_probs[row]
                yield DecodeResult(item // copies, *outputs)

    def fix_shapes(
        self, *, lengths: Sequence[int] = (), min_length: int = 1, max_rows: int | None = None
    ) -> None:
        """Choose the shapes of batches; fewer shapes need fewer programs, but more padding.

        Args:
          lengths: the lengths of batches, ascending, to which sentences are padded that are not
            longer than the last; empty for the lengths of `round_length`.
          min_length: the least length of a batch.
          max_rows: the greatest number of rows; None for what is fast on the devices.
        """
        self._lengths, self._min_length = tuple(lengths), min_length
        self.max_rows = self.max_rows if max_rows is None else max_rows

    def check(self, lengths: Sequence[int], options: SearchOptions) -> None:
        """Raise UserError if a device has too little memory for sentences of these lengths."""
        width = options.hypotheses_per_row
        # The longest sentence is in the first batch and, if it is long, alone there.
        for rows, length, _ in itertools.islice(self._batches(lengths, width), 1):
            batch = self._on_devices(_empty(rows, length))
            self._check_memory(batch, options, f'a line of up to {length:,} tokens')

    def prepare(self, lengths: Sequence[int], options: SearchOptions) -> None:
        """Compile what sentences of these lengths need, by decoding empty batches."""
        batches = self._batches(lengths, options.hypotheses_per_row)
        for rows, length in sorted({(rows, length) for rows, length, _ in batches}):
            stop_if_requested()
            self._search(_empty(rows, length), options, f'a line of {length:,} tokens')

    def source_limit(self, decode: DecodeConfig) -> int:
        """Return the greatest number of tokens of an input, including EOS; 0 for no limit."""
        longest = self.network.max_sequence_length
        limit = decode.max_source_length
        if longest is not None:
            # The table of positions must hold the output, too.
            longest -= decode.max_extra_length
            limit = min(limit or longest, longest)
        return limit

    def output_limit(self, length: int, decode: DecodeConfig) -> int:
        """Return the greatest number of tokens of an output, including EOS.

        Args:
          length: tokens of its source, including EOS, or of its prefix and EOS if that is longer.
          decode: the options.
        """
        longest = self.network.max_sequence_length
        limit = length + decode.max_extra_length
        return limit if longest is None else min(limit, longest)

    def _batches(self, lengths: Sequence[int], width: int) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the rows, length and item indices of each batch, the longest items first.

        If an item does not fit into memory, this shows in the first batch. Items of equal length
        stay in their order.
        """
        order = sorted(range(len(lengths)), key=lambda k: (-lengths[k], k))
        while order:
            longest = self._padded(max(lengths[order[0]], self._min_length))
            rows = self.rows(longest, width)
            rows = min(r for r in _ROWS if r >= min(len(order), rows))
            rows = padded_rows(rows, data_shards(self.network.mesh))
            yield rows, longest, order[:rows]
            order = order[rows:]

    def rows(self, length: int, width: int) -> int:
        """Return the most rows of a batch.

        Args:
          length: positions of a row.
          width: hypotheses of a row.
        """
        most = max(1, min(self.max_rows, self._positions // (length * width)))
        return max(r for r in _ROWS if r <= most)

    def _padded(self, length: int) -> int:
        most = self.network.max_sequence_length
        fixed = next((n for n in self._lengths if n >= length), None)
        return round_length(length, most) if fixed is None else min(fixed, most or fixed)

    def _search(self, batch: Batch, options: SearchOptions, name: str) -> Hypotheses:
        batch = self._on_devices(batch)
        self._check_memory(batch, options, name)
        variables, ensemble = self.network.variables, self.network.ensemble
        caches = _start(variables, batch.source, ensemble=ensemble)
        found = _search(variables, caches, batch, options, ensemble=ensemble, eos_id=self._eos_id)
        return jax.device_get(found)

    def _on_devices(self, batch: Batch) -> Batch:
        arrays = {name: x for name, x in batch._asdict().items() if x is not None}
        return Batch(**shard_whole_batch(arrays, self.network.mesh))

    def _check_memory(self, batch: Batch, options: SearchOptions, name: str) -> None:
        """Raise UserError if long lines, or wide beams, take more memory than a device has."""
        rows, length = batch.source.shape
        if (
            length + options.max_extra_length < memory.CHECK_FROM_TOKENS
            and rows * length * options.hypotheses_per_row <= self._positions
        ):
            return
        variables, ensemble = self.network.variables, self.network.ensemble

        def programs() -> Iterator[jax.stages.Lowered]:
            start = _start.lower(variables, batch.source, ensemble=ensemble)
            yield start
            caches = jax.tree.map(
                lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                start.out_info,
                start.compile().output_shardings,
            )
            yield _search.lower(
                variables, caches, batch, options, ensemble=ensemble, eos_id=self._eos_id
            )

        self._memory_check.check(
            (rows, length, jax.tree.structure(options)),
            programs,
            name,
            'split it into sentences, have longer lines cut with max_source_length, or lower '
            'beam_size.',
        )


def merge_outputs(results: Iterable[DecodeResult], count: int) -> Iterator[DecodeResult]:
    """Merge every `count` results, those of one sentence, into one with the best output first.

    Args:
      results: the results of each row.
      count: rows of a sentence. The results of 1 are yielded as they are.
    """
    if count == 1:
        yield from results
        return
    results = iter(results)
    while draws := list(itertools.islice(results, count)):
        draws.sort(key=lambda draw: -draw.scores[0])
        longest = max(draw.tokens.shape[1] for draw in draws)
        tokens = [np.pad(x.tokens, ((0, 0), (0, longest - x.tokens.shape[1]))) for x in draws]
        scores = np.concatenate([draw.scores for draw in draws])
        log_probs = np.concatenate([draw.log_probs for draw in draws])
        yield DecodeResult(draws[0].index, np.concatenate(tokens), scores, log_probs)


def _empty(rows: int, length: int, prefix_length: int = 0) -> Batch:
    """Return a batch of padding."""
    batch = Batch(np.zeros((rows, length), np.int32), *np.zeros((2, rows), np.int32))
    if not prefix_length:
        return batch
    # Few different shapes compile less often.
    width = -(-prefix_length // _PREFIX_MULTIPLE) * _PREFIX_MULTIPLE
    return batch._replace(prefix=np.zeros((rows, width), np.int32))


# A program of its own: within the search, XLA would keep the encoder's output in a layout that has
# to be transposed in each step.
@cached_jit(static_argnames=('ensemble',))
def _start(variables: Any, source: jax.Array, *, ensemble: Ensemble) -> Caches:
    """Encode [B, S] ids."""
    return ensemble.start_decoding(variables, source)


def search_batch(
    variables: Any,
    caches: Caches,
    batch: Batch,
    options: SearchOptions,
    *,
    ensemble: Ensemble,
    eos_id: int,
) -> Hypotheses:
    """Decode a batch; an empty row ends at once, so that filling up a batch costs nothing.

    Args:
      variables: of each model.
      caches: from `Ensemble.start_decoding`.
      batch: the rows.
      options: what to look for.
      ensemble: the models.
      eos_id: the token that ends an output.
    """
    longest = batch.source.shape[1] + options.max_extra_length
    if ensemble.max_sequence_length is not None:
        longest = min(longest, ensemble.max_sequence_length)
    lengths_B = jnp.sum(batch.source != 0, axis=1)
    is_empty_B = lengths_B == 0
    if batch.prefix is not None:
        lengths_B = jnp.maximum(lengths_B, 1 + jnp.sum(batch.prefix != 0, axis=1))
    limits_B = jnp.where(is_empty_B, 1, lengths_B + options.max_extra_length)
    limits_B = jnp.minimum(limits_B, longest)
    layout = ensemble.models[0].layout
    common = {'length': longest, 'eos_id': eos_id, 'prefixes': batch.prefix}
    if options.is_sampling:
        fold = jax.vmap(jax.random.fold_in)
        keys_B = jnp.repeat(jax.random.key(options.seed)[None], len(batch.line))
        keys_B = fold(fold(keys_B, batch.line), batch.draw)
        step_fn, caches = ensemble.step_fn(variables), grow(caches, longest)
        found = sample(step_fn, caches, limits_B, keys_B, options, **common)
    else:
        coverage_BS = attention = None
        if options.coverage_penalty is not None:
            coverage_BS = (batch.source == 0).astype(jnp.float32)
            attention = CrossAttention(options.coverage_layer, options.coverage_heads)
        found = beam_search(
            ensemble.step_fn(variables, attention),
            caches,
            limits_B,
            options,
            **common,
            coverage=coverage_BS,
            reorder=reorder,
            grow=grow,
            cache_lengths=_cache_lengths(*batch.source.shape, longest),
            # Devices do not exchange their sentences.
            select=select if layout.row_groups == 1 else None,
        )
    # Replicate the outputs, so that every process can read all of them.
    return jax.tree.map(lambda x: layout(x, '-' * x.ndim), found)


_search = cached_jit(static_argnames=('ensemble', 'eos_id'))(search_batch)


def _cache_lengths(rows: int, source_length: int, longest: int) -> list[int]:
    """Return the lengths to which the cache grows before the longest.

    Few outputs are much longer than their sources, so most of the search runs with a shorter cache.
    If the sizes are symbolic, there is one length only.
    """
    if export.is_symbolic_dim(longest):
        return []
    if export.is_symbolic_dim(rows):
        rows = 1
    likely = min(longest, source_length + max(8, source_length // 4))
    stages = min(4, math.ceil(likely / 30)) if rows >= 16 else 1
    return [math.ceil(likely * stage / stages) for stage in range(1, stages + 1)]
