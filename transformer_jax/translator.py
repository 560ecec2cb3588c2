"""Raw text in, raw text out.

translator = Translator.load('runs/demo')
translator('The cat sleeps.')
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config, DecodeConfig
from transformer_jax.data.batching import round_length
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.decoding import Hypotheses, beam_search, sample
from transformer_jax.errors import UserError
from transformer_jax.model import (
    DecodingCache,
    Transformer,
    reorder_hypotheses,
    select_sentences,
    with_room,
)
from transformer_jax.progress import progress_bar
from transformer_jax.sharding import (
    MeshLayout,
    data_mesh,
    padded_rows,
    row_shards,
    shard_whole_batch,
    state_shardings,
)
from transformer_jax.workdir import Workdir

# Rows of a compiled program: a sentence alone, a few, many. Fewer shapes compile less often.
_ROWS = (1, 4, 16, 64)
# Positions times hypotheses that one batch may hold, which bounds the size of its cache.
_POSITIONS = 64 * 64 * 4
_logger = logging.getLogger('transformer_jax')


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs instead of searching for the best one.

    Attributes:
      temperature: divides the log-probabilities; below 1 is bolder, above 1 wilder.
      top_k: draws from the k likeliest tokens only; 0 from all.
      top_p: draws from the likeliest tokens that add up to p; 1 from all.
      seed: of the draws; with the number of the line it determines each of them.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if self.temperature <= 0.0:
            raise UserError(f'temperature={self.temperature} must be greater than 0.')
        if self.top_k < 0:
            raise UserError(f'top_k={self.top_k} must be 0 (all tokens) or greater.')
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f'top_p={self.top_p} must be greater than 0 and at most 1.')
        if self.seed < 0:
            raise UserError(f'seed={self.seed} must be 0 or greater.')


@dataclasses.dataclass(frozen=True)
class Translation:
    """One output.

    Attributes:
      text: raw text.
      score: log-probability in nats over the length penalty (for sampling, not divided).
      tokens: the pieces it is made of.
    """

    text: str
    score: float
    tokens: tuple[str, ...]


class Translator:
    """Translates raw text with one model.

    Attributes:
      config: of the run that trained it.
      vocabulary: of both languages.
      model: the Transformer.
      mesh: the devices that share out the sentences.
      params: its parameters, on these devices.
      steps: of the checkpoints its parameters are the mean of; empty if it was given parameters.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        params: Any,
        steps: Sequence[int] = (),
        mesh: Mesh | None = None,
    ):
        """Wraps parameters, nested dicts of arrays, that are at hand.

        Args:
          config: of the run that trained it.
          vocabulary: of both languages.
          params: its parameters.
          steps: of the checkpoints they are the mean of.
          mesh: the devices to use; None takes all of this process.
        """
        self.config = config
        self.vocabulary = vocabulary
        self.steps = list(steps)
        self.mesh = data_mesh() if mesh is None else mesh
        self.model = Transformer(config.model, vocabulary.size, MeshLayout(self.mesh))
        self.params = jax.device_put(params, state_shardings(params, self.mesh))

    @classmethod
    def load(
        cls,
        workdir: str | os.PathLike[str],
        *,
        checkpoints: int | None = None,
        average: str | None = None,
        steps: Sequence[int] | None = None,
    ):
        """Loads a trained model from its work directory.

        Args:
          workdir: the folder.
          checkpoints: how many to average; None takes decode.average_checkpoints of its config.
          average: which, the 'latest' or the 'best'; None takes decode.average of its config.
          steps: average the checkpoints of these steps instead.

        Raises:
          UserError: if nothing has been trained there.
        """
        from transformer_jax.training.checkpoints import Checkpoints  # orbax: seconds to import

        folder = Workdir(workdir)
        saved = folder.read_config()
        if saved is None or not folder.checkpoints.is_dir():
            raise UserError(
                f'workdir={str(workdir)!r} holds no trained model: '
                'train one there first (python -m transformer_jax.main), or name another folder.'
            )
        config, _ = saved
        if checkpoints is not None and checkpoints < 1:
            raise UserError(f'checkpoints={checkpoints} must be 1 or more.')
        manager = Checkpoints(folder.checkpoints, read_only=True)
        try:
            there = manager.steps()
            if steps is not None and not set(steps) <= set(there):
                raise UserError(
                    f'steps={",".join(map(str, steps))} are not all saved in {str(workdir)!r}: '
                    f'choose among {", ".join(map(str, there))}.'
                )
            params, used = manager.average(
                manager.ranked(average or config.decode.average) if steps is None else steps,
                (checkpoints or config.decode.average_checkpoints) if steps is None else None,
            )
        except FileNotFoundError as error:
            raise UserError(
                f'workdir={str(workdir)!r} holds no readable checkpoint yet: '
                'let its training reach train.checkpoint_every steps, or resume it.'
            ) from error
        finally:
            manager.close()
        vocabulary = Vocabulary.load(folder.vocabulary, field='vocabulary of the workdir')
        return cls(config, vocabulary, params, used)

    def __call__(self, text: str | Sequence[str], **options: Any) -> Any:
        """Translates a text to a text, or a list of texts to a list of texts.

        Args:
          text: one text, or a sequence of them.
          **options: of `translate`. With n_best, each text gives a list of `Translation`s.
        """
        texts = [text] if isinstance(text, str) else list(text)
        results = self.translate(texts, **options)
        if 'n_best' not in options:
            results = [outputs[0].text for outputs in results]
        return results[0] if isinstance(text, str) else results

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        sampling: Sampling | None = None,
        first_line: int = 1,
        progress: bool = False,
    ) -> list[list[Translation]]:
        """Translates texts of any length, in batches of similar length.

        An empty text, or one of spaces only, stays empty. A text longer than the limit, where there
        is one, is cut, and a warning names its line.

        Args:
          texts: raw texts, a sentence each.
          n_best: outputs for each text, the best first; at most the beam size, unless sampling.
          beam_size: hypotheses; None takes the config's.
          length_penalty: alpha; None takes the config's.
          sampling: draws outputs instead of searching.
          first_line: the number of the first text, for warnings and for the draws of sampling.
          progress: shows a bar on stderr.

        Returns:
          For each text, its outputs; fewer than n_best where the search found fewer.

        Raises:
          UserError: if an option is out of range.
        """
        decode = self._decode_config(n_best, beam_size, length_penalty, sampling)
        results: list[list[Translation]] = [[Translation('', 0.0, ())] * n_best for _ in texts]
        full = [k for k, text in enumerate(texts) if text.strip()]
        limit = self._source_limit()
        lines = {}
        for k, ids in zip(full, self.vocabulary.encode([texts[k] for k in full]), strict=True):
            if limit and len(ids) > limit:
                _logger.warning(
                    'Line %d has %d tokens and is cut to the limit of %d.',
                    first_line + k,
                    len(ids),
                    limit,
                )
                ids = np.append(ids[: limit - 1], self.vocabulary.eos_id)
            lines[k] = ids
        width = n_best if sampling else decode.beam_size
        bar = progress_bar('Translating', total=len(lines), unit=' lines') if progress else None
        for rows, length, batch in self._batches({k: len(ids) for k, ids in lines.items()}, width):
            source_BS = np.zeros((rows, length), np.int32)
            for row, k in enumerate(batch):
                source_BS[row, : len(lines[k])] = lines[k]
            numbers_B = np.zeros(rows, np.int32)
            numbers_B[: len(batch)] = [first_line + k for k in batch]
            found = self._decode(source_BS, numbers_B, decode, n_best, sampling)
            for row, k in enumerate(batch):
                results[k] = [
                    self._translation(found.tokens[row, n], found.scores[row, n])
                    for n in range(n_best)
                    if n == 0 or found.scores[row, n] > -np.inf
                ]
            if bar is not None:
                bar.update(len(batch))
        if bar is not None:
            bar.close()
        return results

    def prepare(self, texts: Sequence[str], *, beam_size: int | None = None) -> None:
        """Compiles all that translating `texts` takes, by translating nothing in its shapes."""
        decode = self._decode_config(1, beam_size, None, None)
        ids = self.vocabulary.encode([text for text in texts if text.strip()])
        limit = self._source_limit()
        lengths = {k: min(len(x), limit or len(x)) for k, x in enumerate(ids)}
        batches = self._batches(lengths, decode.beam_size)
        for rows, length in sorted({(rows, length) for rows, length, _ in batches}):
            empty_BS, numbers_B = np.zeros((rows, length), np.int32), np.zeros(rows, np.int32)
            self._decode(empty_BS, numbers_B, decode, 1, None)

    def _batches(self, lengths: dict[int, int], width: int) -> Iterator[tuple[int, int, list[int]]]:
        """Rows, length and keys of each batch; longest first: what cannot fit fails at once."""
        order = sorted(lengths, key=lambda k: (-lengths[k], k))
        while order:
            longest = round_length(lengths[order[0]])
            most = max(1, _POSITIONS // (longest * width))
            rows = max(r for r in _ROWS if r <= most)
            rows = min(r for r in _ROWS if r >= min(len(order), rows))
            rows = padded_rows(rows, row_shards(self.mesh))
            yield rows, longest, order[:rows]
            order = order[rows:]

    def _decode_config(
        self,
        n_best: int,
        beam_size: int | None,
        length_penalty: float | None,
        sampling: Sampling | None,
    ) -> DecodeConfig:
        given = {'beam_size': beam_size, 'length_penalty': length_penalty}
        decode = dataclasses.replace(
            self.config.decode, **{k: v for k, v in given.items() if v is not None}
        )
        if n_best < 1 or (n_best > decode.beam_size and sampling is None):
            raise UserError(
                f'n_best={n_best} must be from 1 to the beam size, which is {decode.beam_size}: '
                'raise beam_size, or lower n_best.'
            )
        return decode

    def _source_limit(self) -> int:
        """Most tokens of an input, the end mark included; 0 for no limit."""
        limit = self.config.decode.max_source_length
        if self.config.model.positions == 'learned':
            # The output, too, has to fit into the table.
            reach = self.config.model.max_positions - self.config.decode.max_extra_length
            limit = min(limit or reach, max(reach, 2))
        return limit

    def _decode(
        self,
        source_BS: np.ndarray,
        numbers_B: np.ndarray,
        decode: DecodeConfig,
        n_best: int,
        sampling: Sampling | None,
    ) -> Hypotheses:
        batch = shard_whole_batch({'source': source_BS, 'numbers': numbers_B}, self.mesh)
        hypotheses = decode.beam_size if sampling is None else n_best
        found = _search(
            self.params,
            _start(self.params, batch['source'], self.model, hypotheses),
            **batch,
            model=self.model,
            eos_id=self.vocabulary.eos_id,
            decode=decode,
            n_best=n_best,
            sampling=sampling,
        )
        return jax.device_get(found)

    def _translation(self, ids: np.ndarray, score: np.ndarray) -> Translation:
        ids = ids.tolist()
        return Translation(
            self.vocabulary.decode(ids), float(score), tuple(self.vocabulary.pieces(ids))
        )


# Apart from the search: within one program XLA would lay out the encoder's output as it comes, and
# turn it around in each step of the search.
@functools.partial(jax.jit, static_argnums=(2, 3))
def _start(params: Any, source: jax.Array, model: Transformer, hypotheses: int) -> DecodingCache:
    """Encodes [B, S] ids."""
    return model.apply({'params': params}, source, hypotheses, method='start_decoding')


@functools.partial(jax.jit, static_argnames=('model', 'eos_id', 'decode', 'n_best', 'sampling'))
def _search(
    params: Any,
    cache: DecodingCache,
    source: jax.Array,
    numbers: jax.Array,
    *,
    model: Transformer,
    eos_id: int,
    decode: DecodeConfig,
    n_best: int,
    sampling: Sampling | None,
) -> Hypotheses:
    """Decodes [B, S] ids; an empty row ends at once, so that filling up a batch costs nothing."""
    batch, hypotheses, _ = cache.ancestors.shape
    longest = source.shape[1] + decode.max_extra_length
    if model.config.positions == 'learned':
        longest = min(longest, model.config.max_positions)
    lengths_B = jnp.sum(source != 0, axis=1)
    limits_B = jnp.where(lengths_B > 0, lengths_B + decode.max_extra_length, 1)
    limits_B = jnp.minimum(limits_B, longest)

    def step_fn(tokens, position, cache):
        return model.apply({'params': params}, tokens, position, cache, method='decode_step')

    if sampling is not None:
        key = jax.random.key(sampling.seed)
        numbers_R = jnp.repeat(numbers, hypotheses)
        draws_R = jnp.tile(jnp.arange(hypotheses), batch)
        fold = jax.vmap(jax.random.fold_in)
        keys_R = fold(jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers_R), draws_R)
        found = sample(
            step_fn,
            with_room(cache, longest),
            jnp.repeat(limits_B, hypotheses),
            keys_R,
            length=longest,
            eos_id=eos_id,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        )
        found = jax.tree.map(lambda x: x.reshape(batch, hypotheses, *x.shape[2:]), found)
        order_BK = jnp.argsort(-found.scores, axis=1)

        def sort(x: jax.Array) -> jax.Array:
            return jnp.take_along_axis(x, order_BK.reshape(order_BK.shape + (1,) * (x.ndim - 2)), 1)

        found = jax.tree.map(sort, found)
    else:
        # Few outputs are much longer than their sources: most of the search does without the room
        # that these few need. Devices that share out the sentences do not exchange them.
        in_parts = model.layout.row_groups == 1
        likely = (
            min(longest, source.shape[1] + max(8, source.shape[1] // 4)) if in_parts else longest
        )
        found = beam_search(
            step_fn,
            with_room(cache, likely),
            limits_B,
            length=longest,
            beam_size=decode.beam_size,
            eos_id=eos_id,
            alpha=decode.length_penalty,
            n_best=n_best,
            reorder=reorder_hypotheses,
            select=select_sentences if in_parts else None,
            first_length=likely,
        )
    # All of it everywhere, for every process to read.
    return jax.tree.map(lambda x: model.layout(x, '-' * x.ndim), found)
