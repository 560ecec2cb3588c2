"""Decodes sentences of token ids, in batches of similar length, on all devices of a mesh."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config, DecodeConfig, ModelConfig
from transformer_jax.data.batching import round_length
from transformer_jax.decoding import Hypotheses
from transformer_jax.inference.search_methods import Batch, BeamSearch, Sampling, SearchMethod
from transformer_jax.model import (
    DecodingCache,
    Transformer,
    in_compute_dtype,
    transposed_kernels,
)
from transformer_jax.runtime import memory
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import (
    MeshLayout,
    data_mesh,
    data_shards,
    padded_rows,
    shard_whole_batch,
    state_shardings,
)

# Rows of a compiled program. Few different shapes compile less often.
_ROWS = (1, 4, 16, 64, 256)
# The greatest number of rows of a batch, and of positions times hypotheses, which bounds the cache.
# On CPUs, more rows are no faster.
_LIMITS = {'cpu': (64, 2**14)}
_ACCELERATOR_LIMITS = (256, 2**17)


class DecodeResult(NamedTuple):
    """The outputs of one sentence, the best first.

    Attributes:
      index: the index of the sentence.
      tokens: [n_best, T] int32, each output ends with EOS, then 0.
      scores: [n_best] float32, log-probabilities divided by the length penalty (when sampling, not
        divided); -inf if there are fewer outputs.
    """

    index: int
    tokens: np.ndarray
    scores: np.ndarray


class BatchDecoder:
    """Decodes sentences with one model, in batches.

    Attributes:
      decode: the options of a call that gives none.
      model: the Transformer.
      mesh: the devices, which divide the sentences of a batch among them.
      params: the model's parameters on these devices, kernels in the dtype of their products.
      max_rows: the greatest number of rows of a batch.
    """

    def __init__(
        self,
        config: Config,
        vocab_size: int,
        eos_id: int,
        params: Any,
        mesh: Mesh | None = None,
        unknown_id: int | None = None,
    ):
        """Put the parameters on the devices.

        Args:
          config: the config of the run that trained the model.
          vocab_size: V.
          eos_id: the token that ends an output.
          params: the model's parameters, nested dicts of arrays.
          mesh: the devices to use; None for all devices of this process.
          unknown_id: a token that is never sampled, because label smoothing makes it too likely.
        """
        self.decode = config.decode
        self.mesh = data_mesh() if mesh is None else mesh
        self.model = Transformer(config.model, vocab_size, MeshLayout(self.mesh))
        placed = jax.device_put(params, state_shardings(params, self.mesh))
        self.params = in_compute_dtype(config.model, placed)
        self._variables = {'params': self.params}
        if self.mesh.size == 1:
            self._variables['transposed_kernels'] = _transposed(self.params, config=config.model)
        self.max_rows, self._positions = _LIMITS.get(jax.default_backend(), _ACCELERATOR_LIMITS)
        self._eos_id, self._unknown_id = eos_id, unknown_id
        self._memory_check = memory.MemoryCheck(self.mesh.local_devices[0])

    def __call__(
        self,
        sentences: Sequence[np.ndarray],
        decode: DecodeConfig | None = None,
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[DecodeResult]:
        """Decode batch by batch, the longest sentences first.

        Args:
          sentences: int32 ids that end with EOS, at most `source_limit` of them each.
          decode: the options; None takes `self.decode`.
          n_best: outputs for each sentence; for beam search, at most the beam size.
          sampling: samples the outputs; None searches for the best ones.
          numbers: the line number of each sentence, which determines its samples and appears in
            error messages; None counts from 0.

        Raises:
          UserError: if a device has too little memory for one of the sentences.
        """
        decode = decode or self.decode
        method = sampling or _beam_search(decode, n_best)
        results = self._decode_rows(sentences, method, n_best, decode.max_extra_length, numbers)
        return merge_outputs(results, method.rows_per_sentence(n_best))

    def _decode_rows(
        self,
        sentences: Sequence[np.ndarray],
        method: SearchMethod,
        n_best: int,
        max_extra_length: int,
        numbers: Sequence[int] | None,
    ) -> Iterator[DecodeResult]:
        """Yield a result for each row; the rows of a sentence follow one another."""
        copies = method.rows_per_sentence(n_best)
        lengths = [len(ids) for ids in sentences for _ in range(copies)]
        for rows, length, items in self._batches(lengths, method.hypotheses_per_row):
            stop_if_requested()
            batch = _empty(rows, length)
            for row, (k, draw) in enumerate(divmod(item, copies) for item in items):
                batch.source[row, : len(sentences[k])] = sentences[k]
                batch.line[row] = k if numbers is None else numbers[k]
                batch.draw[row] = draw
            first = sentences[items[0] // copies]
            name = f'line {batch.line[0]}, with {len(first):,} tokens,'
            found = self._search(batch, method, max_extra_length, name)
            for row, item in enumerate(items):
                tokens, scores = found.tokens[row, :n_best], found.scores[row, :n_best]
                yield DecodeResult(item // copies, tokens, scores)

    def check(self, lengths: Sequence[int], decode: DecodeConfig | None = None) -> None:
        """Raise UserError if a device has too little memory for sentences of these lengths."""
        decode = decode or self.decode
        # The longest sentence is in the first batch and, if it is long, alone there.
        for rows, length, _ in itertools.islice(self._batches(lengths, decode.beam_size), 1):
            arguments = self._arguments(
                _empty(rows, length), _beam_search(decode), decode.max_extra_length
            )
            self._check_memory(arguments, f'a line of up to {length:,} tokens')

    def prepare(self, lengths: Sequence[int], decode: DecodeConfig | None = None) -> None:
        """Compile what sentences of these lengths need, by decoding empty batches."""
        decode = decode or self.decode
        batches = self._batches(lengths, decode.beam_size)
        for rows, length in sorted({(rows, length) for rows, length, _ in batches}):
            stop_if_requested()
            batch, name = _empty(rows, length), f'a line of {length:,} tokens'
            self._search(batch, _beam_search(decode), decode.max_extra_length, name)

    def source_limit(self, decode: DecodeConfig | None = None) -> int:
        """Return the greatest number of tokens of an input, including EOS; 0 for no limit."""
        decode, longest = decode or self.decode, self.model.config.max_sequence_length
        limit = decode.max_source_length
        if longest is not None:
            # The table of positions must hold the output, too.
            longest -= decode.max_extra_length
            limit = min(limit or longest, longest)
        return limit

    def output_limit(self, source_length: int, decode: DecodeConfig | None = None) -> int:
        """Return the greatest number of tokens of an output, including EOS."""
        decode, longest = decode or self.decode, self.model.config.max_sequence_length
        limit = source_length + decode.max_extra_length
        return limit if longest is None else min(limit, longest)

    def _batches(self, lengths: Sequence[int], width: int) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the rows, length and item indices of each batch, the longest items first.

        If an item does not fit into memory, this shows in the first batch. Items of equal length
        stay in their order.
        """
        order = sorted(range(len(lengths)), key=lambda k: (-lengths[k], k))
        while order:
            longest = round_length(lengths[order[0]], self.model.config.max_sequence_length)
            most = max(1, min(self.max_rows, self._positions // (longest * width)))
            rows = max(r for r in _ROWS if r <= most)
            rows = min(r for r in _ROWS if r >= min(len(order), rows))
            rows = padded_rows(rows, data_shards(self.mesh))
            yield rows, longest, order[:rows]
            order = order[rows:]

    def _arguments(
        self, batch: Batch, method: SearchMethod, max_extra_length: int
    ) -> tuple[Batch, dict[str, Any]]:
        """Return the batch on its devices, and the keyword arguments of `_search`."""
        values, method = method.split()
        return Batch(**shard_whole_batch(batch._asdict(), self.mesh)), {
            'values': values,
            'method': method,
            'model': self.model,
            'eos_id': self._eos_id,
            'unknown_id': self._unknown_id,
            'max_extra_length': max_extra_length,
        }

    def _search(
        self, batch: Batch, method: SearchMethod, max_extra_length: int, name: str
    ) -> Hypotheses:
        arguments = self._arguments(batch, method, max_extra_length)
        self._check_memory(arguments, name)
        batch, options = arguments
        cache = _start(self._variables, batch.source, model=self.model)
        return jax.device_get(_search(self._variables, cache, batch, **options))

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

        def programs() -> Iterator[jax.stages.Lowered]:
            start = _start.lower(self._variables, batch.source, model=self.model)
            yield start
            cache = jax.tree.map(
                lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                start.out_info,
                start.compile().output_shardings,
            )
            yield _search.lower(self._variables, cache, batch, **options)

        self._memory_check.check(
            (rows, length, hypotheses, extra),
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
        yield DecodeResult(draws[0].index, np.concatenate(tokens), scores)


def _beam_search(decode: DecodeConfig, n_best: int = 1) -> BeamSearch:
    return BeamSearch(decode.beam_size, decode.length_penalty, n_best)


def _empty(rows: int, length: int) -> Batch:
    """Return a batch of padding."""
    return Batch(np.zeros((rows, length), np.int32), *np.zeros((2, rows), np.int32))


@cached_jit(static_argnames=('config',))
def _transposed(params: Any, *, config: ModelConfig) -> Any:
    return transposed_kernels(config, params)


# A program of its own: within the search, XLA would keep the encoder's output in a layout that has
# to be transposed in each step.
@cached_jit(static_argnames=('model',))
def _start(variables: Any, source: jax.Array, *, model: Transformer) -> DecodingCache:
    """Encode [B, S] ids."""
    return model.apply(variables, source, method='start_decoding')


@cached_jit(static_argnames=('model', 'method', 'eos_id', 'unknown_id', 'max_extra_length'))
def _search(
    variables: Any,
    cache: DecodingCache,
    batch: Batch,
    values: Any,
    *,
    model: Transformer,
    method: SearchMethod,
    eos_id: int,
    unknown_id: int | None,
    max_extra_length: int,
) -> Hypotheses:
    """Decode a batch; an empty row ends at once, so that filling up a batch costs nothing."""
    longest = batch.source.shape[1] + max_extra_length
    if model.config.max_sequence_length is not None:
        longest = min(longest, model.config.max_sequence_length)
    lengths_B = jnp.sum(batch.source != 0, axis=1)
    limits_B = jnp.where(lengths_B > 0, lengths_B + max_extra_length, 1)

    def step_fn(tokens, position, cache):
        return model.apply(variables, tokens, position, cache, method='decode_step')

    found = method.run(
        step_fn,
        cache,
        batch,
        jnp.minimum(limits_B, longest),
        values,
        length=longest,
        eos_id=eos_id,
        unknown_id=unknown_id,
        one_device=model.layout.row_groups == 1,
    )
    # Replicate the outputs, so that every process can read all of them.
    return jax.tree.map(lambda x: model.layout(x, '-' * x.ndim), found)
