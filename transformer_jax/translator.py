"""Translates raw text with a trained model.

translator = Translator.load('runs/demo')
translator('The cat sleeps.')
"""

import dataclasses
import inspect
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

from jax.sharding import Mesh

from transformer_jax.config import Config, DecodeConfig
from transformer_jax.config.decode import SEARCH_FIELDS
from transformer_jax.config.sampling import Sampling
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.forced.attention_maps import Attention
from transformer_jax.forced.features import Features
from transformer_jax.forced.scores import Score, Scorer
from transformer_jax.inference.load import TrainedModel, load_ensemble, load_trained
from transformer_jax.inference.network import Network, check_ensemble
from transformer_jax.model import Transformer
from transformer_jax.sharding import data_mesh
from transformer_jax.translating.options import check_outputs
from transformer_jax.translating.outputs import Translation, join
from transformer_jax.translating.placeholders.masking import MaskingTranslator
from transformer_jax.translating.segment_translator import Segment, SegmentTranslator
from transformer_jax.translating.segments import SentenceSplitter, divide_templates, split_text
from transformer_jax.translating.texts import as_texts, encode_prefixes

__all__ = [
    'Attention',
    'Features',
    'Sampling',
    'Score',
    'TrainedModel',
    'Translation',
    'Translator',
    'load_trained',
]


class Translator:
    """Translates raw text with one model, or with an ensemble of models of one vocabulary.

    Attributes:
      config: config of the run that trained the model; of an ensemble, the first model's.
      vocabulary: vocabularies of both sides.
      network: the models, on their devices.
      segments: translates lines and sentences.
      decoder: decodes sentences of token ids.
      scorer: scores pairs of texts; `score` calls it.
      steps: steps of the checkpoints that were averaged; empty if parameters were given. Of an
        ensemble, the first model's.
      all_steps: the same for each model.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: VocabularyPair,
        params: Any,
        steps: Sequence[int] = (),
        mesh: Mesh | None = None,
        *,
        others: Sequence[TrainedModel] = (),
        ensemble: str = 'probabilities',
    ):
        """Take parameters that are in memory already; `load` reads them from a work directory.

        Args:
          config: config of the run that trained the model.
          vocabulary: vocabularies of both sides.
          params: the model's parameters, as nested dicts of arrays.
          steps: steps of the checkpoints that the parameters are the mean of.
          mesh: devices to use; None takes all devices of this process.
          others: further models of the same vocabulary, which predict together with this one.
          ensemble: 'probabilities' averages the models' probabilities, 'log_probabilities' their
            logarithms.

        Raises:
          UserError: if `ensemble` is another word.
        """
        check_ensemble(ensemble)
        self.config = config
        self.vocabulary = vocabulary
        self._configs = [config, *(one.config for one in others)]
        models = [(config.model, params), *((one.config.model, one.params) for one in others)]
        self.network = Network(models, vocabulary.sizes, mesh, ensemble)
        self.segments = SegmentTranslator(self.network, vocabulary, config.data)
        self._is_parser = config.data.corpus == 'trees'  # it sees all words as they are
        self._masking = self.segments if self._is_parser else MaskingTranslator(self.segments)
        self.decoder = self.segments.decoder
        self.scorer = Scorer(self.network, vocabulary)
        self.steps = list(steps)
        self.all_steps = [self.steps, *(one.steps for one in others)]

    @classmethod
    def load(
        cls,
        workdir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        checkpoints: int | None = None,
        average: str | None = None,
        steps: Sequence[int] | None = None,
        ensemble: str = 'probabilities',
    ):
        """Load a trained model from its work directory, or an ensemble from several.

        Args:
          workdir: folder of the run, or a release folder, or the name of a model of the package; or
            a list of them. The settings of the first one's search are used.
          checkpoints: number of checkpoints to average; None takes the run's
            decode.average_checkpoints.
          average: 'latest' averages the latest checkpoints, 'best' those with the highest dev BLEU;
            None takes the run's decode.average.
          steps: steps of the checkpoints to average; excludes `checkpoints` and `average`.
          ensemble: how the predictions of several models are averaged, see `Translator`.

        Raises:
          UserError: if a folder holds no trained model, a model cannot be read, or the models have
            different vocabularies.
        """
        check_ensemble(ensemble)
        mesh = data_mesh()  # orbax would report missing devices with a trace
        workdirs = [workdir] if isinstance(workdir, str | os.PathLike) else list(workdir)
        if not workdirs:
            raise UserError('workdir=[] names no folder: give the folder of a run.')
        first, *others = load_ensemble(
            workdirs, checkpoints=checkpoints, average=average, steps=steps
        )
        return cls(*first, mesh=mesh, others=others, ensemble=ensemble)

    @overload
    def __call__(self, text: str, *, mbr: str, **options: Any) -> str: ...
    @overload
    def __call__(self, text: str, *, n_best: int, **options: Any) -> list[Translation]: ...
    @overload
    def __call__(self, text: str, *, align: Literal[True], **options: Any) -> Translation: ...
    @overload
    def __call__(self, text: str, **options: Any) -> str: ...
    @overload
    def __call__(self, text: Iterable[str], *, mbr: str, **options: Any) -> list[str]: ...
    @overload
    def __call__(
        self, text: Iterable[str], *, n_best: int, **options: Any
    ) -> list[list[Translation]]: ...
    @overload
    def __call__(
        self, text: Iterable[str], *, align: Literal[True], **options: Any
    ) -> list[Translation]: ...
    @overload
    def __call__(self, text: Iterable[str], **options: Any) -> list[str]: ...
    def __call__(self, text, **options):
        """Translate a text to a text, or a list of texts to a list of texts.

        Args:
          text: one raw text, or several.
          **options: options of `translate`. With n_best and without mbr, each text gives a list of
            `Translation`s; otherwise with align one `Translation`.
        """
        results = self.translate([text] if isinstance(text, str) else text, **options)
        if 'n_best' not in options or options.get('mbr'):
            results = [outputs[0] for outputs in results]
            if not options.get('align'):
                results = [output.text for output in results]
        return results[0] if isinstance(text, str) else results

    def translate(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        mbr: str | None = None,
        align: bool = False,
        prefixes: Sequence[str | Sequence[str]] | None = None,
        paragraphs: bool = False,
        placeholders: bool = True,
        target_language: str | None = None,
        first_line: int = 1,
        progress: bool = False,
        **options: Any,
    ) -> list[list[Translation]]:
        """Translate texts of any length, in batches of similar length.

        An empty text stays empty, and so does a text that normalisation empties. A text longer than
        max_source_length is cut, and a warning gives its line number. The lines of a text with line
        ends are translated one by one.

        Args:
          texts: raw texts, each one sentence unless `paragraphs`.
          n_best: different outputs for each text, best first; at most the beam size, or 10,000 when
            sampling.
          sampling: how to sample outputs; None searches for them.
          mbr: 'chrf' or 'bleu' returns one of the `n_best` outputs, the one with the best expected
            metric if another of them were the right one (minimum Bayes risk). Samples count
            equally, outputs of a search by their probability.
          align: whether to align the words of each output with those of its text.
          prefixes: the forced beginning of each text's output, as a text or as a list of pieces; ''
            for none.
          paragraphs: whether to split texts into sentences; needs the extra `paragraphs`.
          placeholders: whether to copy places for values (`%d`, `{name}`), addresses, paths, emoji,
            words in scripts that the model does not know, and texts without letters.
          target_language: code of the language to translate into, one of `target_languages`, for
            texts that do not begin with a tag. A tag in a text holds for the lines and sentences
            of the text from there on.
          first_line: line number of the first text, for warnings and for the seed of sampling.
          progress: whether to show a progress bar on stderr.
          **options: fields of `DecodeConfig` that replace the config's, for example beam_size.

        Returns:
          For each text, its outputs; fewer than n_best if the search found fewer different ones.

        Raises:
          UserError: if an option is out of range, an item of `texts` is no text, or a text needs
            more memory than a device has.
        """
        decode = self.check_options(n_best=n_best, sampling=sampling, mbr=mbr, **options)
        tag = self.segments.languages.tag(target_language)
        texts = as_texts(texts)
        splitter = SentenceSplitter(self.config.data.source_language) if paragraphs else None
        divide = self.segments.languages.divide
        parts = [split_text(text, splitter, tag, divide) for text in texts]
        if placeholders and not self._is_parser:
            parts = [*map(divide_templates, parts)]
        forced, most = {}, self.network.max_sequence_length
        if prefixes is not None:
            forced = encode_prefixes(
                prefixes,
                len(texts),
                self.vocabulary.target,
                limit=None if most is None else most - 1 - decode.max_extra_length,
                first_line=first_line,
            )
        segments = [
            Segment(segment, first_line + k, part, None if part else forced.get(k), own)
            for k, text in enumerate(parts)
            for part, (segment, own) in enumerate(zip(text.segments, text.tags, strict=True))
        ]
        translate = self._masking if placeholders else self.segments
        outputs = iter(
            translate(
                segments,
                decode,
                n_best=n_best,
                sampling=sampling,
                mbr=mbr,
                align=align,
                progress=progress,
            )
        )
        return [
            join(
                text,
                list(itertools.islice(outputs, len(text.segments))),
                align=align,
                mean=mbr is not None,
            )
            for text in parts
        ]

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        target_language: str | None = None,
        max_source_length: int | None = None,
        first_line: int = 1,
        progress: bool = False,
    ) -> list[Score]:
        """Return how likely each target is for its source, see `Scorer`.

        A search gives the same log-probability to an output whose pieces are those that the
        vocabulary makes of its text. A line end in a text is a space.

        Args:
          sources: raw texts.
          targets: their translations, raw texts.
          target_language: as for `translate`.
          max_source_length: limit on the tokens of a source, as for `translate`; None takes the
            config's. No target is cut.
          first_line: line number of the first pair, for messages.
          progress: whether to show a progress bar on stderr.

        Raises:
          UserError: if there are more sources or more targets, an item is no text, or a pair is too
            long for learned positions or for the memory of a device.
        """
        decode = self.check_options(max_source_length=max_source_length)
        tag = self.segments.languages.tag(target_language)
        return self.scorer(
            self.segments.tag_texts(as_texts(sources, 'sources'), tag),
            as_texts(targets, 'targets'),
            source_limit=self.decoder.source_limit(decode),
            first_line=first_line,
            progress=progress,
        )

    @property
    def target_languages(self) -> dict[str, str]:
        """Codes of the languages to translate into, and the tag of each: '<2fr>', '>>fra<<'.

        The tag is '' for a language that needs none.
        """
        return dict(self.segments.languages.tags)

    @property
    def model(self) -> Transformer:
        """The network: `model.apply({'params': params}, ids)`; of an ensemble, the first."""
        return Transformer.of(self.config.model, self.vocabulary.sizes)

    @property
    def params(self) -> Any:
        """The parameters of `model`, nested dicts; kernels are in the dtype of their products."""
        return self.network.params[0]

    def encode(
        self,
        texts: Iterable[str],
        *,
        target_language: str | None = None,
        max_source_length: int | None = None,
        first_line: int = 1,
    ) -> Features:
        """Return the encoder's outputs for texts, in batches of similar length.

        Padding and the other texts change nothing, except for rounding. A line end is a space.

        Args:
          texts: raw texts.
          target_language: as for `translate`.
          max_source_length: as for `score`.
          first_line: line number of the first text, for warnings.

        Raises:
          UserError: if an item is no text.
        """
        decode = self.check_options(max_source_length=max_source_length)
        tag = self.segments.languages.tag(target_language)
        texts = self.segments.tag_texts(as_texts(texts), tag)
        return self.segments.features(texts, decode, first_line)

    def attention(
        self, text: str | Iterable[str], target: str | Iterable[str] | None = None, **options: Any
    ) -> Any:
        """Return the attention of all layers and heads for a text and an output, see `Attention`.

        Args:
          text: one raw text, or several; a line end is a space.
          target: the output, or as many outputs as there are texts; None takes the one that
            `translate` finds.
          **options: options of `translate`, for example beam_size; progress shows its bar.

        Returns:
          An `Attention`, or a list of them for several texts.

        Raises:
          UserError: if there are more outputs or more texts, several models, or as `translate`.
        """
        one = isinstance(text, str)
        texts, targets = ([x] if one and x is not None else x for x in (text, target))
        found = self.segments.attention(
            as_texts(texts),
            None if targets is None else as_texts(targets, 'target'),
            tag=self.segments.languages.tag(options.get('target_language')),
            progress=options.pop('progress', False),
            decode=self.check_options(**options),
        )
        return found[0] if one else found

    def check_options(
        self,
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        mbr: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> DecodeConfig:
        """Check options of `translate`, which has the same names for them.

        Returns:
          The search settings: the config's, with the given options in their place.

        Raises:
          UserError: if an option is unknown or out of range.
        """
        for name in options:
            if name not in SEARCH_FIELDS:
                known = (*SEARCH_FIELDS, *inspect.signature(self.translate).parameters)
                raise UserError(f'{name} is no option of translate{did_you_mean(name, known)}')
        given = {name: value for name, value in options.items() if value is not None}
        decode = dataclasses.replace(self.config.decode, **given)
        # Each config as a whole checks that its layers, heads and learned positions are enough.
        search = {name: getattr(decode, name) for name in SEARCH_FIELDS}
        for config in self._configs:
            dataclasses.replace(config, decode=dataclasses.replace(config.decode, **search))
        self.segments.suppressed(decode)
        self.segments.languages.tag(target_language)
        check_outputs(n_best, sampling, mbr, decode.beam_size)
        return decode

    def check(self, texts: Iterable[str], **options: Any) -> None:
        """Raise a UserError if a device has too little memory to translate one of `texts`."""
        decode = self.check_options(**options)
        tag = self.segments.languages.tag(options.get('target_language'))
        lengths = self.segments.lengths(as_texts(texts), decode, tag)
        self.decoder.check(lengths, self.segments.search_options(decode))

    def prepare(
        self,
        texts: Iterable[str] = (),
        *,
        lengths: Sequence[int] = (),
        n_best: int = 1,
        sampling: Sampling | None = None,
        mbr: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> None:
        """Compile the programs that translating texts with these options needs; translate nothing.

        Args:
          texts: texts to translate.
          lengths: numbers of tokens of further texts, EOS included.
          n_best: as in `translate`, like `sampling`, `mbr` and the other options.
        """
        decode = self.check_options(n_best=n_best, sampling=sampling, mbr=mbr, **options)
        tag = self.segments.languages.tag(target_language)
        lengths = [*lengths, *self.segments.lengths(as_texts(texts), decode, tag)]
        search = self.segments.search_options(decode, n_best=n_best, sampling=sampling)
        self.decoder.prepare(lengths, search)
