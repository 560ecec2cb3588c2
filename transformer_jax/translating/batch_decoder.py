"""Decodes sentences of token ids, in batches of similar length, on all devices of a mesh."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.config import DecodeConfig
from transformer_jax.data.batching.buckets import round_length
from transformer_jax.decoding import Constraints, Hypotheses
from transformer_jax.inference.network import Caches, Ensemble, Network
from transformer_jax.runtime import memory
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import data_shards, padded_rows, shard_whole_batch
from transformer_jax.translating.search_methods import Batch, Search, SearchMethod

# Rows of a compiled program. Few different shapes compile less often.
_ROWS = (1, 4, 16, 64, 256)
_PREFIX_MULTIPLE = 8
# So that the draws of a sentence do not depend on their number.
_DRAWS_OF_PART = 10_000
# The greatest number of rows of a batch, and of positions times hypotheses, which bounds the cache.
# On CPUs, more rows are no faster.
_LIMITS = {'cpu': (64, 2**14)}
_ACCELERATOR_LIMITS = (256, 2**17)


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
      min_length: the least length of a batch, to which shorter sentences are padded. A greater one
        is slower for them, but fewer programs have to be compiled.
      lengths: the lengths of batches, ascending, to which sentences are padded that are not longer
        than the last; empty for the lengths of `round_length`.
    """

    def __init__(self, network: Network, eos_id: int):
        """Do no work yet.

        Args:
          network: the models, on their devices.
          eos_id: the token that ends an output.
        """
        self.network = network
        self.max_rows, self._positions = _LIMITS.get(jax.default_backend(), _ACCELERATOR_LIMITS)
        self.min_length = 1
        self.lengths: Sequence[int] = ()
        self._eos_id = eos_id
        self._memory_check = memory.MemoryCheck(network.mesh.local_devices[0])

    def __call__(
        self,
        sentences: Sequence[np.ndarray],
        search: Search,
        *,
        prefixes: Sequence[np.ndarray] | None = None,
        lines: Sequence[tuple[int, int]] | None = None,
    ) -> Iterator[DecodeResult]:
        """Decode batch by batch, the longest sentences first.

        Args:
          sentences: int32 ids that end with EOS, at most `source_limit` of them each.
          search: what is asked for about each sentence.
          prefixes: forced first tokens of each sentence's outputs, int32 ids without EOS, or none.
          lines: the line number of each sentence, which appears in error messages, and which
            sentence of its line it is, counted from 0. Both determine its samples. None counts
            lines from 0.

        Raises:
          UserError: if a device has too little memory for one of the sentences.
        """
        lines = lines or [(k, 0) for k in range(len(sentences))]
        prefixes = prefixes or [np.zeros(0, np.int32)] * len(sentences)
        results = self._decode_rows(sentences, search, prefixes, lines)
        return merge_outputs(results, search.method.rows_per_sentence(search.n_best))

    def _decode_rows(
        self,
        sentences: Sequence[np.ndarray],
        search: Search,
        prefixes: Sequence[np.ndarray],
        lines: Sequence[tuple[int, int]],
    ) -> Iterator[DecodeResult]:
        """Yield a result for each row; the rows of a sentence follow one another."""
        copies = search.method.rows_per_sentence(search.n_best)
        lengths = [
            max(len(ids), 1 + len(prefix))
            for ids, prefix in zip(sentences, prefixes, strict=True)
            for _ in range(copies)
        ]
        for rows, length, items in self._batches(lengths, search.method.hypotheses_per_row):
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
            found = self._search(batch, search, name)
            for row, item in enumerate(items):
                outputs = found.tokens[row], found.scores[row], found.log_probs[row]
                yield DecodeResult(item // copies, *outputs)

    def check(self, lengths: Sequence[int], search: Search) -> None:
        """Raise UserError if a device has too little memory for sentences of these lengths."""
        width = search.method.hypotheses_per_row
        # The longest sentence is in the first batch and, if it is long, alone there.
        for rows, length, _ in itertools.islice(self._batches(lengths, width), 1):
            arguments = self._arguments(_empty(rows, length), search)
            self._check_memory(arguments, f'a line of up to {length:,} tokens')

    def prepare(self, lengths: Sequence[int], search: Search) -> None:
        """Compile what sentences of these lengths need, by decoding empty batches."""
        batches = self._batches(lengths, search.method.hypotheses_per_row)
        for rows, length in sorted({(rows, length) for rows, length, _ in batches}):
            stop_if_requested()
            self._search(_empty(rows, length), search, f'a line of {length:,} tokens')

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
            longest = self._padded(max(lengths[order[0]], self.min_length))
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
        fixed = next((n for n in self.lengths if n >= length), None)
        return round_length(length, most) if fixed is None else min(fixed, most or fixed)

    def _arguments(self, batch: Batch, search: Search) -> tuple[Batch, dict[str, Any]]:
        """Return the batch on its devices, and the keyword arguments of `_search`."""
        values, method = search.method.split()
        arrays = {name: x for name, x in batch._asdict().items() if x is not None}
        return Batch(**shard_whole_batch(arrays, self.network.mesh)), {
            'values': values,
            'method': method,
            'constraints': search.constraints,
            'ensemble': self.network.ensemble,
            'eos_id': self._eos_id,
            'max_extra_length': search.max_extra_length,
        }

    def _search(self, batch: Batch, search: Search, name: str) -> Hypotheses:
        arguments = self._arguments(batch, search)
        self._check_memory(arguments, name)
        batch, options = arguments
        caches = _start(self.network.variables, batch.source, ensemble=self.network.ensemble)
        return jax.device_get(_search(self.network.variables, caches, batch, **options))

    def _check_memory(self, arguments: tuple[Batch, dict[str, Any]], name: str) -> None:
        """Raise UserError if long lines, or wide beams, take more memory than a device has."""
        batch, options = arguments
        rows, length = batch.source.shape
        hypotheses, extra = options['method'].hypotheses_per_row, options['max_extra_length']
        if (
            length + extra < memory.CHECK_FROM_TOKENS
            and rows * length * hypotheses <= self._positions
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
            yield _search.lower(variables, caches, batch, **options)

        self._memory_check.check(
            (rows, length, extra, options['method']),
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
    values: Any,
    *,
    ensemble: Ensemble,
    method: SearchMethod,
    constraints: Constraints,
    eos_id: int,
    max_extra_length: int,
) -> Hypotheses:
    """Decode a batch; an empty row ends at once, so that filling up a batch costs nothing.

    Args:
      variables: of each model.
      caches: from `Ensemble.start_decoding`.
      batch: the rows.
      values: from `SearchMethod.split`, as is the method.
      ensemble: the models.
      method: how outputs are found.
      constraints: what outputs must not contain.
      eos_id: the token that ends an output.
      max_extra_length: limit on the tokens that an output has more than its source.
    """
    longest = batch.source.shape[1] + max_extra_length
    if ensemble.max_sequence_length is not None:
        longest = min(longest, ensemble.max_sequence_length)
    lengths_B = jnp.sum(batch.source != 0, axis=1)
    is_empty_B = lengths_B == 0
    if batch.prefix is not None:
        lengths_B = jnp.maximum(lengths_B, 1 + jnp.sum(batch.prefix != 0, axis=1))
    limits_B = jnp.where(is_empty_B, 1, lengths_B + max_extra_length)
    layout = ensemble.models[0].layout
    found = method.run(
        ensemble.step_fn(variables, method.attention),
        caches,
        batch,
        jnp.minimum(limits_B, longest),
        values,
        length=longest,
        eos_id=eos_id,
        constraints=constraints,
        one_device=layout.row_groups == 1,
    )
    # Replicate the outputs, so that every process can read all of them.
    return jax.tree.map(lambda x: layout(x, '-' * x.ndim), found)


_search = cached_jit(
    static_argnames=('ensemble', 'method', 'constraints', 'eos_id', 'max_extra_length')
)(search_batch)
