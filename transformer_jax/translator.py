"""Translates raw text with a trained model.

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

_MOST_SAMPLES = 10_000  # for each text
_logger = logging.getLogger('transformer_jax')


@dataclasses.dataclass(frozen=True)
class Translation:
    """One output for a text.

    Attributes:
      text: the output as raw text.
      score: log-probability in nats, divided by the length penalty; from sampling it is undivided.
      tokens: the pieces of the output, without EOS.
      cut: whether the output ended at its limit, which is decode.max_extra_length tokens more than
        its source has.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    cut: bool = False


def _as_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str | bytes):
        raise UserError(f'texts={texts[:40]!r} is a single text: give a list of texts.')
    if not isinstance(texts, Iterable):
        raise UserError(f'texts={texts!r} is no text: give a str, or a list of str.')
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f'text {number} is of type {type(text).__name__}: give a str.')
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f'text {number} has {text[error.start]!r} at position {error.start}, which is half '
                'a character: decode the text with its own encoding, which is probably UTF-8.'
            ) from error
    return texts


class Translator:
    """Translates raw text with one model.

    Attributes:
      config: config of the run that trained the model.
      vocabulary: vocabulary of both languages.
      search: decoder of token ids, which holds the parameters on their devices.
      steps: steps of the checkpoints that were averaged; empty if parameters were given.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        params: Any,
        steps: Sequence[int] = (),
        mesh: Mesh | None = None,
    ):
        """Take parameters that are in memory already; `load` reads them from a work directory.

        Args:
          config: config of the run that trained the model.
          vocabulary: vocabulary of both languages.
          params: the model's parameters, as nested dicts of arrays.
          steps: steps of the checkpoints that the parameters are the mean of.
          mesh: devices to use; None takes all devices of this process.
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
        """Load a trained model from its work directory.

        Args:
          workdir: folder of the run.
          checkpoints: number of checkpoints to average; None takes the run's
            decode.average_checkpoints.
          average: 'latest' averages the latest checkpoints, 'best' those with the highest dev BLEU;
            None takes the run's decode.average.
          steps: steps of the checkpoints to average; excludes `checkpoints` and `average`.

        Raises:
          UserError: if the folder holds no trained model, or the model cannot be read.
        """
        mesh = data_mesh()  # orbax would report missing devices with a trace
        found = load_trained(workdir, checkpoints=checkpoints, average=average, steps=steps)
        return cls(*found, mesh=mesh)

    def __call__(self, text: str | Iterable[str], **options: Any) -> Any:
        """Translate a text to a text, or a list of texts to a list of texts.

        Args:
          text: one raw text, or several.
          **options: options of `translate`. With n_best, each text gives a list of `Translation`s.
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
        """Translate texts of any length, in batches of similar length.

        An empty text stays empty, and so does a text that normalisation empties. A text longer than
        max_source_length is cut, and a warning gives its line number.

        Args:
          texts: raw texts, each one sentence.
          n_best: outputs for each text, best first; at most the beam size, or 10,000 when
            sampling.
          beam_size: number of hypotheses; None takes the config's.
          length_penalty: alpha of the length penalty; None takes the config's.
          max_extra_length: limit on the tokens that an output has more than its text; None takes
            the config's.
          max_source_length: limit on the tokens of a text, EOS included; 0 is no limit; None takes
            the config's.
          sampling: how to sample outputs; None searches for them.
          first_line: line number of the first text, for warnings and for the seed of sampling.
          progress: whether to show a progress bar on stderr.

        Returns:
          For each text, its outputs; fewer than n_best if the search found fewer.

        Raises:
          UserError: if an option is out of range, an item of `texts` is no text, or a text needs
            more memory than a device has.
        """
        decode = self.check_options(
            n_best=n_best,
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_extra_length=max_extra_length,
            max_source_length=max_source_length,
            sampling=sampling,
        )
        texts = _as_texts(texts)
        ids_of = self._encode_and_cut(texts, decode, first_line)
        indices, lines = list(ids_of), list(ids_of.values())
        numbers = [first_line + index for index in indices]
        limits = [self.search.output_limit(len(ids), decode) for ids in lines]
        results: list[list[Translation]] = [[Translation('', 0.0, ())] * n_best for _ in texts]
        failed: list[int] = []  # numbers of the lines without an output
        with progress_bar('Translating', total=len(lines), unit=' lines', shown=progress) as bar:
            for k, tokens, scores in self.search(
                lines, decode, n_best=n_best, sampling=sampling, numbers=numbers
            ):
                results[indices[k]] = [
                    self._translation(tokens[n], scores[n], limits[k])
                    for n in range(n_best)
                    if n == 0 or scores[n] > -np.inf
                ]
                if not np.isfinite(scores[0]):
                    failed.append(numbers[k])
                bar.update()
        if failed:
            _logger.warning(
                '%d lines have no translation, the first of them is line %d: the scores of their '
                'outputs are not finite. The model diverged in training, or its weights are '
                'damaged.',
                len(failed),
                min(failed),
            )
        return results

    def _encode_and_cut(
        self, texts: Sequence[str], decode: DecodeConfig, first_line: int
    ) -> dict[int, np.ndarray]:
        """Return the token ids of each text that is not empty, by index, cut to the limit."""
        ids_of = {k: ids for k, ids in enumerate(self.vocabulary.encode(texts)) if len(ids) > 1}
        limit = self.search.source_limit(decode)
        for index, ids in ids_of.items():
            if limit and len(ids) > limit:
                _logger.warning(
                    'Line %d has %d tokens and is cut to the limit of %d.',
                    first_line + index,
                    len(ids),
                    limit,
                )
                ids_of[index] = np.append(ids[: limit - 1], self.vocabulary.eos_id)
        return ids_of

    def check_options(
        self,
        *,
        n_best: int = 1,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        max_source_length: int | None = None,
        sampling: Sampling | None = None,
    ) -> DecodeConfig:
        """Check options of `translate`, which has the same names for them.

        Returns:
          The search settings: the config's, with the given options in their place.

        Raises:
          UserError: if an option is out of range.
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
        # The config as a whole checks that learned positions are enough for the output.
        decode = dataclasses.replace(self.config, decode=decode).decode
        if type(n_best) is not int:
            raise UserError(f'n_best={n_best!r} must be a whole number, from 1 to the beam size.')
        if sampling is not None and not isinstance(sampling, Sampling):
            raise UserError(f'sampling={sampling!r} must be a Sampling(), or None to search.')
        if sampling is not None and not 1 <= n_best <= _MOST_SAMPLES:
            raise UserError(f'n_best={n_best} must be from 1 to {_MOST_SAMPLES:,} when sampling.')
        if sampling is None and not 1 <= n_best <= decode.beam_size:
            raise UserError(
                f'n_best={n_best} must be from 1 to the beam size, which is {decode.beam_size}: '
                'raise beam_size, or lower n_best.'
            )
        return decode

    def check(self, texts: Iterable[str], *, beam_size: int | None = None) -> None:
        """Raise a UserError if a device has too little memory to translate one of `texts`."""
        self.search.check(self._lengths(texts), self.check_options(beam_size=beam_size))

    def prepare(self, texts: Iterable[str], *, beam_size: int | None = None) -> None:
        """Compile the programs that translating `texts` needs; translate nothing."""
        self.search.prepare(self._lengths(texts), self.check_options(beam_size=beam_size))

    def _lengths(self, texts: Iterable[str]) -> list[int]:
        """Return the token counts of the texts that are not empty, cut to the config's limit."""
        lengths = [len(ids) for ids in self.vocabulary.encode(_as_texts(texts)) if len(ids) > 1]
        limit = self.search.source_limit()
        return [min(n, limit or n) for n in lengths]

    def _translation(self, ids: np.ndarray, score: np.ndarray, limit: int) -> Translation:
        return Translation(
            self.vocabulary.decode(ids.tolist()),
            float(score),
            tuple(self.vocabulary.pieces(ids.tolist())),
            cut=bool(np.count_nonzero(ids) >= limit),
        )


def warn_of_cut_outputs(count: int, of: int, decode: DecodeConfig) -> None:
    """Log a warning about outputs that were cut, if there are any.

    Args:
      count: number of outputs that were cut.
      of: number of all outputs.
      decode: settings of the search.
    """
    if count:
        _logger.warning(
            '%s of %s outputs ended at the limit of max_extra_length=%d tokens more than the '
            'source, and may be cut: raise it (--max_extra_length) if translations are longer.',
            f'{count:,}',
            f'{of:,}',
            decode.max_extra_length,
        )
