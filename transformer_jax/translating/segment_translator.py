"""Translates segments, each a line or a sentence: ids, search, choice of outputs, alignment."""

import itertools
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.config import DataConfig, DecodeConfig
from transformer_jax.config.sampling import Sampling
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.decoding import SearchOptions
from transformer_jax.errors import UserError
from transformer_jax.forced import features
from transformer_jax.forced.alignment import Aligner
from transformer_jax.forced.attention_maps import Attention, AttentionReader
from transformer_jax.inference.network import Network
from transformer_jax.inference.source_cut import cut_source
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.translating.batch_decoder import BatchDecoder, DecodeResult
from transformer_jax.translating.mbr import MbrChooser
from transformer_jax.translating.options import search_options
from transformer_jax.translating.outputs import Translation, distinct
from transformer_jax.translating.target_languages import TargetLanguages, tagged

_logger = logging.getLogger('transformer_jax')
_LINE_ENDS = re.compile('[\r\n]+')
# Options that can leave a sentence without any allowed output.
_CONSTRAINTS = ('min_length', 'no_repeat_ngram', 'suppress_tokens')


class Segment(NamedTuple):
    """A text that is translated as a whole.

    Attributes:
      text: raw text, without a tag.
      line: number of its line, for warnings and samples.
      part: which segment of its line it is, counted from 0.
      prefix: [P] int32 ids of the forced beginning of its outputs, without EOS; None if there is
        none.
      tag: what names the language to translate into; '' for nothing.
      needs_alignment: whether an output with this text is aligned though nobody asks for that.
    """

    text: str
    line: int
    part: int = 0
    prefix: np.ndarray | None = None
    tag: str = ''
    needs_alignment: Callable[[str], bool] = lambda _: False

    @property
    def tagged(self) -> str:
        """The text behind its tag."""
        return tagged(self.tag, self.text)


class SegmentTranslator:
    """Translates segments with the models of a network.

    Attributes:
      network: the models.
      vocabulary: vocabularies of both sides.
      languages: the languages to translate into, and their tags.
      decoder: searches for token ids.
      aligner: aligns words.
      attention_reader: reads the attention of all layers and heads.
    """

    def __init__(self, network: Network, vocabulary: VocabularyPair, data: DataConfig):
        """Do no work yet.

        Args:
          network: the models.
          vocabulary: vocabularies of both sides.
          data: section of the config, for the languages.
        """
        self.network, self.vocabulary = network, vocabulary
        self.decoder = BatchDecoder(network, vocabulary.eos_id)
        self.aligner = Aligner(network, vocabulary)
        self.attention_reader = AttentionReader(network, vocabulary)
        self.languages = TargetLanguages(vocabulary.source, data)

    def __call__(
        self,
        segments: Sequence[Segment],
        decode: DecodeConfig,
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        mbr: str | None = None,
        align: bool = False,
        progress: bool = False,
    ) -> list[list[Translation]]:
        """Return the outputs of each segment, at least one, the best first.

        Args:
          segments: the segments.
          decode: options of the search and of alignments.
          n_best: as for `Translator.translate`, like the others.
          sampling: how to sample outputs.
          mbr: metric of minimum Bayes risk.
          align: whether to align words.
          progress: whether to show a progress bar.
        """
        ids_of = self._encode_and_cut(segments, decode)
        given = [segments[k] for k in ids_of]
        sentences = list(ids_of.values())
        no_prefix = np.zeros(0, np.int32)
        prefixes = [no_prefix if s.prefix is None else s.prefix for s in given]
        options = self.search_options(decode, n_best=n_best, sampling=sampling)
        found: list[list[tuple[np.ndarray, Translation]]] = [[] for _ in given]
        with (
            MbrChooser(mbr or 'chrf') as chooser,
            progress_bar('Translating', total=len(given), unit=' lines', shown=progress) as bar,
        ):
            for result in self.decoder(
                sentences,
                options,
                prefixes=prefixes,
                lines=[(segment.line, segment.part) for segment in given],
            ):
                k = result.index
                # Their weights count all outputs of the same text, however far behind.
                most = len(result.scores) if mbr else n_best
                texts = distinct(result, self.vocabulary.target.decode, most)
                texts = dict(itertools.islice(texts.items(), n_best))
                longest = max(len(sentences[k]), 1 + len(prefixes[k]))
                limit = self.decoder.output_limit(longest, decode)
                found[k] = self._outputs(result, texts, limit)
                if mbr and texts:
                    weights = _posterior(result, texts, is_sample=sampling is not None)
                    chooser.submit(k, list(texts), weights, self.languages.language(given[k].tag))
                bar.update()
            for k, (best, utility) in chooser.results().items():
                ids, output = found[k][best]
                found[k] = [(ids, output._replace(score=utility))]
        self._align(given, sentences, found, decode, align)
        _warn_of_failures(
            [s.line for s, outputs in zip(given, found, strict=True) if not outputs], decode
        )
        nothing = Translation('', 0.0, (), alignment=() if align else None)
        failed = nothing if mbr else nothing._replace(score=-math.inf)
        results = [[nothing] for _ in segments]
        for k, outputs in zip(ids_of, found, strict=True):
            results[k] = [output for _, output in outputs] or [failed]
        return results

    def search_options(
        self, decode: DecodeConfig, *, n_best: int = 1, sampling: Sampling | None = None
    ) -> SearchOptions:
        """Return the options of a search, see `options.search_options`."""
        suppress = {*self.suppressed(decode)}
        if sampling is not None:
            # Label smoothing makes the unknown token too likely.
            suppress.add(self.vocabulary.target.unknown_id)
        return search_options(decode, n_best=n_best, sampling=sampling, suppress=sorted(suppress))

    def suppressed(self, decode: DecodeConfig) -> list[int]:
        """Return the ids of suppress_tokens.

        Raises:
          UserError: if one is no piece of the vocabulary, or is EOS.
        """
        pieces = decode.suppress_tokens.split()
        ids = self.vocabulary.target.ids_of_pieces(
            pieces, 'decode.suppress_tokens, pieces separated by spaces'
        ).tolist()
        if self.vocabulary.eos_id in ids:
            raise UserError(
                f'decode.suppress_tokens={decode.suppress_tokens!r} has EOS, without which no '
                'output ends: leave it out.'
            )
        return ids

    def lengths(self, texts: Sequence[str], decode: DecodeConfig, tag: str = '') -> list[int]:
        """Return the token counts of the texts that are not empty, cut to the limit.

        Args:
          texts: raw texts.
          decode: has the limit.
          tag: of the texts that begin with none.
        """
        encoded = self.vocabulary.source.encode(self.tag_texts(texts, tag))
        lengths = [len(ids) for ids in encoded if len(ids) > 1]
        limit = self.decoder.source_limit(decode)
        return [min(n, limit or n) for n in lengths]

    def tag_texts(self, texts: Sequence[str], tag: str) -> list[str]:
        """Return texts that begin with a tag: their own, otherwise `tag` if there is any."""
        return [tagged(*self.languages.divide(text, tag)) for text in texts]

    def features(
        self, texts: Sequence[str], decode: DecodeConfig, first_line: int
    ) -> features.Features:
        """Return the encoder's outputs for texts, which are cut to the limit with a warning."""
        limit = self.decoder.source_limit(decode)
        encoded = self.vocabulary.source.encode(texts)
        ids = [cut_source(ids, limit, line) for line, ids in enumerate(encoded, first_line)]
        return features.encode(self.network, ids)

    def attention(
        self,
        texts: Sequence[str],
        targets: Sequence[str] | None,
        decode: DecodeConfig,
        tag: str = '',
        progress: bool = False,
    ) -> list[Attention]:
        """Return the attention for each text and its target, or the best output without targets.

        Args:
          texts: raw texts.
          targets: their outputs; None for the best ones.
          decode: options of the search.
          tag: of the texts that begin with none.
          progress: whether to show a progress bar on stderr.

        Raises:
          UserError: if there are more texts or more targets, or as `AttentionReader`.
        """
        texts = self.tag_texts([_LINE_ENDS.sub(' ', text) for text in texts], tag)
        numbers = range(1, len(texts) + 1)
        target = self.vocabulary.target
        if targets is None:
            segments = []
            for text, line in zip(texts, numbers, strict=True):
                own, text = self.languages.divide(text)
                segments.append(Segment(text, line, tag=own))
            pieces = [outputs[0].tokens for outputs in self(segments, decode, progress=progress)]
            ids = [
                np.append(target.ids_of_pieces(of_output, 'output'), self.vocabulary.eos_id)
                for of_output in pieces
            ]
        elif len(targets) != len(texts):
            raise UserError(
                f'there are {len(texts):,} texts but {len(targets):,} targets: give a target for '
                'each text.'
            )
        else:
            ids = target.encode(targets)
        limit = self.decoder.source_limit(decode)
        sources = [
            cut_source(source, limit, line)
            for source, line in zip(self.vocabulary.source.encode(texts), numbers, strict=True)
        ]
        return self.attention_reader(texts, sources, ids, numbers)

    def _encode_and_cut(
        self, segments: Sequence[Segment], decode: DecodeConfig
    ) -> dict[int, np.ndarray]:
        """Return the ids of each segment that is not empty, by index, cut to the limit."""
        source, limit = self.vocabulary.source, self.decoder.source_limit(decode)
        encoded = source.encode([segment.tagged for segment in segments])
        tags = [*{segment.tag for segment in segments}]
        empty = {tag: len(ids) for tag, ids in zip(tags, source.encode(tags), strict=True)}
        return {
            k: cut_source(ids, limit, segment.line)
            for k, (ids, segment) in enumerate(zip(encoded, segments, strict=True))
            if len(ids) > empty[segment.tag]
        }

    def _outputs(
        self, result: DecodeResult, texts: dict[str, list[int]], limit: int
    ) -> list[tuple[np.ndarray, Translation]]:
        """Return ids and translation of each different text."""
        found = []
        for text, (first, *_) in texts.items():
            ids = result.tokens[first]
            pieces = tuple(self.vocabulary.target.pieces(ids.tolist()))
            cut = bool(np.count_nonzero(ids) >= limit)
            found.append((ids, Translation(text, float(result.scores[first]), pieces, cut)))
        return found

    def _align(
        self,
        segments: Sequence[Segment],
        sentences: Sequence[np.ndarray],
        found: list[list[tuple[np.ndarray, Translation]]],
        decode: DecodeConfig,
        align: bool,
    ) -> None:
        """Give outputs in `found` the alignment of their words with those of their segments."""
        places = [
            (k, n)
            for k, outputs in enumerate(found)
            for n, (_, output) in enumerate(outputs)
            if align or segments[k].needs_alignment(output.text)
        ]
        if not places:
            return
        alignments = self.aligner(
            [segments[k].tagged for k, _ in places],
            [sentences[k] for k, _ in places],
            [found[k][n][0] for k, n in places],
            decode,
            [segments[k].line for k, _ in places],
        )
        for (k, n), alignment in zip(places, alignments, strict=True):
            ids, output = found[k][n]
            found[k][n] = ids, output._replace(alignment=alignment)


def _posterior(
    result: DecodeResult, texts: dict[str, list[int]], *, is_sample: bool
) -> list[float]:
    """Return the weight of each text in minimum Bayes risk.

    Samples are drawn by their probability already, so they count equally.
    """
    if is_sample:
        return [float(len(places)) for places in texts.values()]
    likeliest = max(result.log_probs[places].max() for places in texts.values())
    probs = np.exp(result.log_probs - likeliest)
    return [float(np.sum(probs[places])) for places in texts.values()]


def _warn_of_failures(lines: Sequence[int], decode: DecodeConfig) -> None:
    """Log a warning about lines without an output, if there are any."""
    if not lines:
        return
    constraints = [f'{name}={getattr(decode, name)!r}' for name in _CONSTRAINTS]
    if any(getattr(decode, name) for name in _CONSTRAINTS):
        reason = f'their constraints allow none: loosen {", ".join(constraints)}.'
    else:
        reason = (
            'the scores of their outputs are not finite. The model diverged in training, or its '
            'weights are damaged.'
        )
    _logger.warning(
        '%d lines have no translation, the first of them is line %d: %s',
        len(lines),
        min(lines),
        reason,
    )
