"""Raw text in, raw text out.

translator = Translator.load('runs/demo')
translator('The cat sleeps.')
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config, DecodeConfig
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference.batch_decoder import BatchDecoder
from transformer_jax.inference.load import load_trained
from transformer_jax.inference.search_methods import Sampling
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.sharding import data_mesh

_MOST_DRAWS = 10_000  # of a text
_logger = logging.getLogger('transformer_jax')


@dataclasses.dataclass(frozen=True)
class Translation:
    """One output.

    Attributes:
      text: raw text.
      score: log-probability in nats over the length penalty (for sampling, not divided).
      tokens: the pieces it is made of.
      cut: whether it ended because it had as many tokens as it may have, those of the source and
        decode.max_extra_length more.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    cut: bool = False


def _as_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str | bytes):
        raise UserError(f'texts={texts[:40]!r} must be several: give a list of texts.')
    if not isinstance(texts, Iterable):
        raise UserError(f'texts={texts!r} is no text: give a str, or a list of them.')
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f'text {number} is of type {type(text).__name__}: give a str.')
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f'text {number} has {text[error.start]!r} in place {error.start}, which is half a '
                'character: read the text as what it was written in, UTF-8 most likely.'
            ) from error
    return texts


class Translator:
    """Translates raw text with one model.

    Attributes:
      config: of the run that trained it.
      vocabulary: of both languages.
      search: over token ids, with its parameters on its devices.
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
        self.search = BatchDecoder(
            config, vocabulary.size, vocabulary.eos_id, params, mesh, vocabulary.unknown_id
        )

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
        mesh = data_mesh()  # before orbax asks for devices, in words of its own if there are none
        found = load_trained(workdir, checkpoints=checkpoints, average=average, steps=steps)
        return cls(*found, mesh=mesh)

    def __call__(self, text: str | Iterable[str], **options: Any) -> Any:
        """Translates a text to a text, or a list of texts to a list of texts.

        Args:
          text: one text, or several.
          **options: of `translate`. With n_best, each text gives a list of `Translation`s.
        """
        results = self.translate([text] if isinstance(text, str) else text, **options)
        if 'n_best' not in options:
            results = [outputs[0].text for outputs in results]
        return results[0] if isinstance(text, str) else results

    def translate(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        max_source_length: int | None = None,
        sampling: Sampling | None = None,
        first_line: int = 1,
        progress: bool = False,
    ) -> list[list[Translation]]:
        """Translates texts of any length, in batches of similar length.

        An empty text, or one of which normalisation leaves nothing, stays empty. A text longer than
        the limit, where there is one, is cut, and a warning names its line.

        Args:
          texts: raw texts, a sentence each.
          n_best: outputs for each text, the best first; at most the beam size, or 10,000 when
            sampling.
          beam_size: hypotheses; None takes the config's.
          length_penalty: alpha; None takes the config's.
          max_extra_length: most tokens that an output has more than its text; None takes the
            config's.
          max_source_length: most tokens of a text, the end mark included; None takes the config's.
          sampling: draws outputs instead of searching.
          first_line: the number of the first text, for warnings and for the draws of sampling.
          progress: shows a bar on stderr.

        Returns:
          For each text, its outputs; fewer than n_best where the search found fewer.

        Raises:
          UserError: if an option is out of range, what is given is no text, or a text needs more
            memory than there is.
        """
        texts = _as_texts(texts)
        decode = self.decode_config(beam_size, length_penalty, max_extra_length, max_source_length)
        if type(n_best) is not int:
            raise UserError(f'n_best={n_best!r} must be a whole number, from 1 to the beam size.')
        if sampling is not None and not isinstance(sampling, Sampling):
            raise UserError(f'sampling={sampling!r} must be a Sampling(), or None to search.')
        if sampling is not None and not 1 <= n_best <= _MOST_DRAWS:
            raise UserError(f'n_best={n_best} must be from 1 to {_MOST_DRAWS:,} when sampling.')
        if sampling is None and not 1 <= n_best <= decode.beam_size:
            raise UserError(
                f'n_best={n_best} must be from 1 to the beam size, which is {decode.beam_size}: '
                'raise beam_size, or lower n_best.'
            )
        results: list[list[Translation]] = [[Translation('', 0.0, ())] * n_best for _ in texts]
        ids_of = self.vocabulary.encode(texts)
        full = [k for k, ids in enumerate(ids_of) if len(ids) > 1]
        limit = self.search.source_limit(decode)
        lines = [ids_of[k] for k in full]
        for n, ids in enumerate(lines):
            if limit and len(ids) > limit:
                _logger.warning(
                    'Line %d has %d tokens and is cut to the limit of %d.',
                    first_line + full[n],
                    len(ids),
                    limit,
                )
                lines[n] = np.append(ids[: limit - 1], self.vocabulary.eos_id)
        numbers = [first_line + k for k in full]
        longest = [self.search.output_limit(len(ids), decode) for ids in lines]
        without: list[int] = []  # numbers of lines without an output
        with progress_bar('Translating', total=len(full), unit=' lines', shown=progress) as bar:
            for index, tokens, scores in self.search(
                lines, decode, n_best=n_best, sampling=sampling, numbers=numbers
            ):
                results[full[index]] = [
                    self._translation(tokens[n], scores[n], longest[index])
                    for n in range(n_best)
                    if n == 0 or scores[n] > -np.inf
                ]
                if not np.isfinite(scores[0]):
                    without.append(numbers[index])
                bar.update()
        if without:
            _logger.warning(
                '%d lines, of which line %d is the first, stay empty: the scores of their outputs '
                'are not finite. The model has diverged in training, or its weights are damaged.',
                len(without),
                min(without),
            )
        return results

    def check(self, texts: Iterable[str], *, beam_size: int | None = None) -> None:
        """A UserError if a device has too little memory to translate one of `texts`."""
        self.search.check(self._lengths(texts), self.decode_config(beam_size))

    def prepare(self, texts: Iterable[str], *, beam_size: int | None = None) -> None:
        """Compiles all that translating `texts` takes, by translating nothing in its shapes."""
        self.search.prepare(self._lengths(texts), self.decode_config(beam_size))

    def _lengths(self, texts: Iterable[str]) -> list[int]:
        """Tokens of those that have any, cut as they are by default."""
        lengths = [len(ids) for ids in self.vocabulary.encode(_as_texts(texts)) if len(ids) > 1]
        limit = self.search.source_limit()
        return [min(n, limit or n) for n in lengths]

    def decode_config(
        self,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        max_source_length: int | None = None,
    ) -> DecodeConfig:
        """What a search goes by.

        Args:
          beam_size: hypotheses; None takes the config's.
          length_penalty: alpha; None takes the config's.
          max_extra_length: most tokens that an output has more than its input; None takes the
            config's.
          max_source_length: most tokens of an input; None takes the config's.

        Raises:
          UserError: if one is out of range.
        """
        given = {
            'beam_size': beam_size,
            'length_penalty': length_penalty,
            'max_extra_length': max_extra_length,
            'max_source_length': max_source_length,
        }
        decode = dataclasses.replace(
            self.config.decode, **{k: v for k, v in given.items() if v is not None}
        )
        # Which checks that learned positions have places for the output.
        return dataclasses.replace(self.config, decode=decode).decode

    def _translation(self, ids: np.ndarray, score: np.ndarray, longest: int) -> Translation:
        return Translation(
            self.vocabulary.decode(ids.tolist()),
            float(score),
            tuple(self.vocabulary.pieces(ids.tolist())),
            cut=bool(np.count_nonzero(ids) >= longest),
        )


def warn_of_cut_outputs(count: int, of: int, decode: DecodeConfig) -> None:
    """Says how many outputs were cut, if any.

    Args:
      count: of outputs that were cut.
      of: how many outputs.
      decode: what the search went by.
    """
    if count:
        _logger.warning(
            '%s of %s outputs ended at the limit of max_extra_length=%d tokens more than the '
            'source, and may be cut: raise it (--max_extra_length) if translations are longer.',
            f'{count:,}',
            f'{of:,}',
            decode.max_extra_length,
        )
