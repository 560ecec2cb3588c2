"""Search over sentences of token ids, in batches of similar length, on all devices of a mesh."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config, DecodeConfig, ModelConfig
from transformer_jax.config.validation import check_types
from transformer_jax.data.batching import round_length
from transformer_jax.decoding import Hypotheses, beam_search, sample
from transformer_jax.errors import UserError
from transformer_jax.model import (
    DecodingCache,
    Transformer,
    grow_cache,
    in_compute_dtype,
    reorder_hypotheses,
    select_sentences,
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

# Rows of a compiled program: a sentence alone, a few, many. Fewer shapes compile less often.
_ROWS = (1, 4, 16, 64, 256)
# Most sentences of a batch, and most positions times hypotheses, which bound the size of its cache.
# On CPUs more are no faster: 64 already fill the matrix products.
_LIMITS = {'cpu': (64, 2**14)}
_ACCELERATOR_LIMITS = (256, 2**17)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs instead of searching for the best one.

    Attributes:
      temperature: divides the log-probabilities; below 1 is bolder, above 1 wilder. From 1e-6 to
        1,000,000.
      top_k: draws from the k likeliest tokens only, at most 10,000,000; 0 from all.
      top_p: draws from the likeliest tokens that add up to p; 1 from all.
      seed: of the draws; with the number of the line it determines each of them.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        check_types('sampling', self)
        # With less it is greedy search by another name.
        if not 1e-6 <= self.temperature <= 1e6:
            raise UserError(
                f'temperature={self.temperature} must be a number from 1e-6 to 1,000,000; '
                'leave out --sample for the likeliest tokens.'
            )
        if not 0 <= self.top_k <= 10_000_000:
            raise UserError(f'top_k={self.top_k} must be from 0 (all tokens) to 10,000,000.')
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f'top_p={self.top_p} must be greater than 0 and at most 1.')
        if not 0 <= self.seed < 2**32:  # JAX would drop the higher bits
            raise UserError(f'seed={self.seed} must be from 0 to 2^32 - 1.')


class DecodeResult(NamedTuple):
    """The outputs of one sentence, the best first.

    Attributes:
      index: of the sentence.
      tokens: [n_best, T] int32, each ended by the end mark, then 0.
      scores: [n_best] float32 log-probabilities over the length penalty (for sampling, not
        divided); -inf where fewer were found.
    """

    index: int
    tokens: np.ndarray
    scores: np.ndarray


class BatchDecoder:
    """Searches with one model.

    Attributes:
      decode: how, unless a call says otherwise.
      model: the Transformer.
      mesh: the devices that share out the sentences.
      params: its parameters, on these devices, kernels in the dtype of their products.
      max_rows: most sentences of a batch.
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
        """Lays out parameters.

        Args:
          config: of the run that trained the model.
          vocab_size: V.
          eos_id: the end mark.
          params: nested dicts of arrays.
          mesh: the devices to use; None takes all of this process.
          unknown_id: a token that is never drawn: label smoothing makes each a little likely.
        """
        self.decode = config.decode
        self.mesh = data_mesh() if mesh is None else mesh
        self.model = Transformer(config.model, vocab_size, MeshLayout(self.mesh))
        placed = jax.device_put(params, state_shardings(params, self.mesh))
        self.params = in_compute_dtype(config.model, placed)
        self._variables = {'params': self.params}
        if self.mesh.size == 1:
            self._variables['transposed_kernels'] = _turned(self.params, config=config.model)
        self.max_rows, self._positions = _LIMITS.get(jax.default_backend(), _ACCELERATOR_LIMITS)
        self._eos_id, self._unknown_id = eos_id, unknown_id
        self._long_lines = memory.MemoryCheck(self.mesh.local_devices[0])

    def __call__(
        self,
        sentences: Sequence[np.ndarray],
        decode: DecodeConfig | None = None,
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[DecodeResult]:
        """Searches batch by batch, the longest sentences first.

        Args:
          sentences: int32 ids with the end mark, at most `source_limit` of them each.
          decode: how to search; None takes `self.decode`.
          n_best: outputs for each sentence, at most the beam size, unless sampling.
          sampling: draws outputs instead of searching.
          numbers: of the sentences, which determine their draws, and by which errors name them.

        Raises:
          UserError: if a device has too little memory for one of them.
        """
        decode = decode or self.decode
        # A draw is a row of its own: it has nothing to do with the others of its sentence.
        copies, width = (1, decode.beam_size) if sampling is None else (n_best, 1)
        drawn: list[Hypotheses] = []
        lengths = [len(ids) for ids in sentences for _ in range(copies)]
        for rows, length, batch in self._batches(lengths, width):
            stop_if_requested()
            source_BS = np.zeros((rows, length), np.int32)
            numbers_B, draws_B = np.zeros((2, rows), np.int32)
            for row, (k, draw) in enumerate(divmod(item, copies) for item in batch):
                source_BS[row, : len(sentences[k])] = sentences[k]
                numbers_B[row] = k if numbers is None else numbers[k]
                draws_B[row] = draw
            name = f'line {numbers_B[0]}, with {len(sentences[batch[0] // copies]):,} tokens,'
            arguments = self._arguments(source_BS, numbers_B, draws_B, decode, n_best, sampling)
            found = self._search(*arguments, name)
            for row, item in enumerate(batch):
                outputs = jax.tree.map(lambda x, row=row: x[row, :n_best], found)
                if sampling is not None:
                    drawn.append(outputs)
                    if len(drawn) < n_best:
                        continue
                    outputs, drawn = _best_first(drawn), []
                yield DecodeResult(item // copies, outputs.tokens, outputs.scores)

    def check(self, lengths: Sequence[int], decode: DecodeConfig | None = None) -> None:
        """A UserError if a device has too little memory for a sentence of one of these lengths."""
        decode = decode or self.decode
        # The longest is in the first batch, and alone there if it is long.
        for rows, length, _ in itertools.islice(self._batches(lengths, decode.beam_size), 1):
            self._check_room(
                *self._arguments(*_empty(rows, length), decode, 1, None),
                f'a line of up to {length:,} tokens',
            )

    def prepare(self, lengths: Sequence[int], decode: DecodeConfig | None = None) -> None:
        """Compiles what sentences of these lengths take, by searching for nothing in its shapes."""
        decode = decode or self.decode
        batches = self._batches(lengths, decode.beam_size)
        for rows, length in sorted({(rows, length) for rows, length, _ in batches}):
            stop_if_requested()
            arguments = self._arguments(*_empty(rows, length), decode, 1, None)
            self._search(*arguments, f'a line of {length:,} tokens')

    def source_limit(self, decode: DecodeConfig | None = None) -> int:
        """Most tokens of an input, the end mark included; 0 for no limit."""
        decode, reach = decode or self.decode, self.model.config.max_sequence_length
        limit = decode.max_source_length
        if reach is not None:
            # The output, too, has to fit into the table.
            reach -= decode.max_extra_length
            limit = min(limit or reach, reach)
        return limit

    def output_limit(self, source_length: int, decode: DecodeConfig | None = None) -> int:
        """Most tokens of an output, the end mark included, for an input of `source_length`."""
        decode, reach = decode or self.decode, self.model.config.max_sequence_length
        limit = source_length + decode.max_extra_length
        return limit if reach is None else min(limit, reach)

    def _batches(self, lengths: Sequence[int], width: int) -> Iterator[tuple[int, int, list[int]]]:
        """Rows, length and indices of each batch; longest first: what cannot fit fails at once.

        Those of equal length stay in their order.
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
        self,
        source_BS: np.ndarray,
        numbers_B: np.ndarray,
        draws_B: np.ndarray,
        decode: DecodeConfig,
        n_best: int,
        sampling: Sampling | None,
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """The batch on its devices, and the other arguments of `_search`."""
        batch = {'source': source_BS, 'numbers': numbers_B, 'draws': draws_B}
        return shard_whole_batch(batch, self.mesh), {
            # Arrays: to try another penalty, or to draw anew, compiles nothing.
            'alpha': np.float32(decode.length_penalty),
            'seed': np.uint32(0 if sampling is None else sampling.seed),
            'temperature': np.float32(1 if sampling is None else sampling.temperature),
            'model': self.model,
            'eos_id': self._eos_id,
            'unknown_id': self._unknown_id,
            'beam_size': decode.beam_size if sampling is None else 1,
            'max_extra_length': decode.max_extra_length,
            'n_best': n_best,
            'sampling': sampling and dataclasses.replace(sampling, seed=0, temperature=1.0),
        }

    def _search(
        self, batch: dict[str, jax.Array], options: dict[str, Any], name: str
    ) -> Hypotheses:
        self._check_room(batch, options, name)
        cache = _start(self._variables, batch['source'], model=self.model)
        return jax.device_get(_search(self._variables, cache, **batch, **options))

    def _check_room(self, batch: dict[str, jax.Array], options: dict[str, Any], name: str) -> None:
        """A UserError if long lines, or wide beams, take more memory than a device has."""
        rows, length = batch['source'].shape
        positions = rows * length * options['beam_size']
        if (
            length + options['max_extra_length'] < memory.CHECK_FROM_TOKENS
            and positions <= self._positions
        ):
            return

        def programs() -> Iterator[jax.stages.Lowered]:
            start = _start.lower(self._variables, batch['source'], model=self.model)
            yield start
            cache = jax.tree.map(
                lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                start.out_info,
                start.compile().output_shardings,
            )
            yield _search.lower(self._variables, cache, **batch, **options)

        self._long_lines.check(
            (rows, length, options['beam_size'], options['max_extra_length']),
            programs,
            name,
            'split it into sentences, have longer lines cut with max_source_length, or lower '
            'beam_size.',
        )


def _empty(rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, numbers and draws of a batch that holds nothing."""
    return np.zeros((rows, length), np.int32), *np.zeros((2, rows), np.int32)


def _best_first(drawn: Sequence[Hypotheses]) -> Hypotheses:
    """The draws of a sentence, of one output each, put together."""
    drawn = sorted(drawn, key=lambda output: -output.scores[0])
    longest = max(output.tokens.shape[1] for output in drawn)
    tokens = [np.pad(x.tokens, ((0, 0), (0, longest - x.tokens.shape[1]))) for x in drawn]
    rest = zip(*(output[1:] for output in drawn), strict=True)
    return Hypotheses(np.concatenate(tokens), *map(np.concatenate, rest))


def _cache_lengths(rows: int, source_length: int, longest: int) -> list[int]:
    """Lengths to which the cache grows, before the longest.

    Few outputs are much longer than their sources: most of the search does without the room that
    these few need. With base on CPUs four stages are an eighth faster than one for 64 sentences of
    96 tokens, a twentieth for 64 of 64.
    """
    likely = min(longest, source_length + max(8, source_length // 4))
    stages = min(4, math.ceil(likely / 30)) if rows >= 16 else 1
    return [math.ceil(likely * stage / stages) for stage in range(1, stages + 1)]


@cached_jit(static_argnames=('config',))
def _turned(params: Any, *, config: ModelConfig) -> Any:
    return transposed_kernels(config, params)


# Apart from the search: within one program XLA would lay out the encoder's output as it comes, and
# turn it around in each step of the search.
@cached_jit(static_argnames=('model',))
def _start(variables: Any, source: jax.Array, *, model: Transformer) -> DecodingCache:
    """Encodes [B, S] ids."""
    return model.apply(variables, source, method='start_decoding')


@cached_jit(
    static_argnames=(
        'model',
        'eos_id',
        'unknown_id',
        'beam_size',
        'max_extra_length',
        'n_best',
        'sampling',
    )
)
def _search(
    variables: Any,
    cache: DecodingCache,
    source: jax.Array,
    numbers: jax.Array,
    draws: jax.Array,
    alpha: jax.Array,
    seed: jax.Array,
    temperature: jax.Array,
    *,
    model: Transformer,
    eos_id: int,
    unknown_id: int | None,
    beam_size: int,
    max_extra_length: int,
    n_best: int,
    sampling: Sampling | None,
) -> Hypotheses:
    """Decodes [B, S] ids; an empty row ends at once, so that filling up a batch costs nothing."""
    longest = source.shape[1] + max_extra_length
    if model.config.max_sequence_length is not None:
        longest = min(longest, model.config.max_sequence_length)
    lengths_B = jnp.sum(source != 0, axis=1)
    limits_B = jnp.where(lengths_B > 0, lengths_B + max_extra_length, 1)
    limits_B = jnp.minimum(limits_B, longest)

    def step_fn(tokens, position, cache):
        return model.apply(variables, tokens, position, cache, method='decode_step')

    if sampling is not None:

        def known_step_fn(*args):
            logits_RV, cache = step_fn(*args)
            if unknown_id is not None:
                logits_RV = logits_RV.at[:, unknown_id].set(-jnp.inf)
            return logits_RV, cache

        fold = jax.vmap(jax.random.fold_in)
        keys_B = fold(jnp.repeat(jax.random.key(seed)[None], len(numbers)), numbers)
        found = sample(
            known_step_fn,
            grow_cache(cache, longest),
            limits_B,
            fold(keys_B, draws),
            length=longest,
            eos_id=eos_id,
            temperature=temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        )
    else:
        found = beam_search(
            step_fn,
            cache,
            limits_B,
            length=longest,
            beam_size=beam_size,
            eos_id=eos_id,
            alpha=alpha,
            n_best=n_best,
            reorder=reorder_hypotheses,
            grow=grow_cache,
            cache_lengths=_cache_lengths(*source.shape, longest),
            # Devices that share out the sentences do not exchange them.
            select=select_sentences if model.layout.row_groups == 1 else None,
        )
    # All of it everywhere, for every process to read.
    return jax.tree.map(lambda x: model.layout(x, '-' * x.ndim), found)
