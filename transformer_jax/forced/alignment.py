"""Word alignments from cross attention."""

from collections.abc import Sequence

import numpy as np

from transformer_jax.config import DecodeConfig
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.forced.teacher_forcing import TeacherForcing
from transformer_jax.inference.network import CrossAttention, Network

Alignment = tuple[tuple[int, int], ...]


def word_alignment(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    target_words: Sequence[int | None],
    shift: bool = False,
) -> Alignment:
    """Return the source word of each target word: the one with the most attention.

    The attention to a word is the sum over its tokens. Attention to tokens without a word is
    ignored, as fairseq does (Garg et al., 2019): the models look at EOS when they need no source
    word, so it would win over the right word. So each target word has exactly one source word,
    unless no token of the source belongs to a word.

    Args:
      weights: [T, S] attention of T target tokens to S source tokens, EOS included. Row t is the
        step that predicts token t.
      source_words: index of the word of each source token, None for EOS.
      target_words: index of the word of each target token, None for EOS.
      shift: takes the step that reads a token, which is the one after the step that predicts it
        (Chen et al., 2020).

    Returns:
      Pairs (source word, target word), sorted.

    Raises:
      ValueError: if `weights` has not a row for each target token and a column for each source
        token.
    """
    if weights.shape != (len(target_words), len(source_words)):
        raise ValueError(
            f'weights has shape {weights.shape}: it must be [{len(target_words)}, '
            f'{len(source_words)}].'
        )
    if shift:
        weights, target_words = weights[1:], target_words[:-1]  # nothing reads the last token, EOS
    weights_YS, targets = _sums_by_word(weights, target_words)
    weights_XY, sources = _sums_by_word(weights_YS.T, source_words)
    if not len(sources):
        return ()
    best_Y = sources[np.argmax(weights_XY, axis=0)]
    return tuple(sorted(zip(best_Y.tolist(), targets.tolist(), strict=True)))


def _sums_by_word(
    weights_TS: np.ndarray, words: Sequence[int | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of the rows of each word that has any, and the indices of these words."""
    rows = [row for row, word in enumerate(words) if word is not None]
    present, index = np.unique(np.array([words[row] for row in rows], int), return_inverse=True)
    sums_WS = np.zeros((len(present), weights_TS.shape[1]))
    np.add.at(sums_WS, index, weights_TS[rows])
    return sums_WS, present


class Aligner:
    """Aligns the words of outputs with those of their sources."""

    def __init__(self, network: Network, vocabulary: VocabularyPair):
        """Align by the attention of the models of `network`."""
        self._vocabulary = vocabulary
        self._teacher_forcing = TeacherForcing(network)

    def fix_shapes(self, longest: int, decode: DecodeConfig) -> None:
        """Compile what pairs of up to `longest` tokens need, so that nothing is compiled later.

        Args:
          longest: tokens of a source, or of an output.
          decode: as in `__call__`.
        """
        for ids in self._teacher_forcing.fix_shapes(longest):
            _ = [*self._teacher_forcing.attention([ids], [ids], CrossAttention.of(decode))]

    def __call__(
        self,
        texts: Sequence[str],
        sources: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        decode: DecodeConfig,
        numbers: Sequence[int] | None = None,
    ) -> list[Alignment]:
        """Return the alignment of each output.

        Args:
          texts: raw source of each output, behind its tag if there is one, which is no word. Its
            words are those of `str.split`, as are the words of the text of an output.
          sources: int32 ids of each source, which end with EOS; if a source was cut, its further
            words are not aligned.
          outputs: int32 ids of each output, which end with EOS, then 0.
          decode: names layer, heads and step of the attention.
          numbers: the line number of each source, for error messages; None counts from 1.

        Returns:
          Pairs (source word, output word) for each output, see `word_alignment`.

        Raises:
          UserError: if an output is too long for the memory of a device.
        """
        outputs = [ids[: np.count_nonzero(ids)] for ids in outputs]
        found: list[Alignment] = [()] * len(outputs)
        for k, weights_TS in self._teacher_forcing.attention(
            sources, outputs, CrossAttention.of(decode), numbers
        ):
            source_words = self._vocabulary.source.source_words(texts[k])[: len(sources[k]) - 1]
            output_words = self._vocabulary.target.output_words(outputs[k].tolist())
            found[k] = word_alignment(
                weights_TS, [*source_words, None], output_words, decode.alignment_shift
            )
        return found
