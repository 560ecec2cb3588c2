"""The section `data`: corpus, vocabulary and batches."""

import dataclasses

from transformer_jax.config.mixture import MixStage, is_tag, read_corpora, read_mix
from transformer_jax.config.validation import (
    check_choice,
    check_range,
    check_rate,
    check_types,
    fail,
)
from transformer_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The sentence pairs, their vocabulary and their batches.

    Attributes:
      corpus: kind of corpus: 'files' (text files or a table), 'tfds' (TensorFlow Datasets),
        'huggingface' (Hugging Face datasets), 'phrasebook' (the embedded English-French one),
        'trees' (files of constituency trees: the model learns to write the tree of a sentence) or
        'none' (that of an imported model, which cannot be trained without another one).
      source_language: code of the source language, for example 'en'.
      target_language: code of the target language, for example 'de'. It selects the tokenizer of
        BLEU: languages without spaces, for example 'zh', are scored by characters. It may equal
        source_language, for paraphrases or corrections.
      train_source: with corpus 'files', the text file of training sources, one sentence a line; or
        one TSV, CSV or JSON-lines table of both sides. A name may end in .gz or .xz, and may be a
        pattern of many files, 'web/*.tsv.gz'. Files may lie in a bucket (gs:// or s3://). With
        corpus 'trees', the file of training trees.
      tree_tags: with corpus 'trees', whether the model also writes the part of speech of each word.
      train_target: with corpus 'files', the text file of training targets; its line n translates
        line n of train_source. Empty if train_source is a table.
      filters: what training pairs are dropped, names with spaces between them, for example 'ratio=3
        identical duplicates'; see configs/README.md. Dev and test are not filtered.
      dev_source: as train_source, for the dev set; if empty, pairs are held out of the training
        set.
      dev_target: as train_target, for the dev set.
      test_source: as train_source, for the test set; if empty, pairs are held out of the training
        set.
      test_target: as train_target, for the test set.
      augment: shares of the training pairs that are seen in other spellings, for example
        'upper=0.05 title=0.05 typos=0.1', drawn anew in each epoch: both sides in upper case, or
        with each word capitalised; or with typos in the source.
      tag: put before every source sentence, for one model of many languages: '<2fr>' is a piece of
        its own, and means 'to French'.
      corpora: several corpora in place of one, a line for each: its name, then fields of this
        section as FIELD=VALUE, for example 'web train_source=web.tsv filters=duplicates'. A part
        takes the other fields from here. Dev and test are those of all parts that have them.
      mix: with corpora, the share of each in the pairs of training, for example 'web=0.8 news=0.2',
        also in stages: 'web=0.8 news=0.2 until 20000; news=1'. If empty, their sizes decide.
      temperature: with corpora and no mix, the share of a part is its size to the power of
        1 / temperature. 1 shows every pair equally often, a large number every part; at most
        1,000,000.
      source_column: column of the sources, in tables, 'tfds' and 'huggingface'; if empty, it is
        source_language.
      target_column: column of the targets, in tables, 'tfds' and 'huggingface'; if empty, it is
        target_language.
      dataset: with corpus 'tfds' or 'huggingface', the name of the dataset.
      train_split: with corpus 'tfds' or 'huggingface', the dataset's split for training.
      dev_split: the dataset's split for dev; if empty, pairs are held out of train_split.
      test_split: the dataset's split for test; if empty, pairs are held out of train_split.
      data_dir: folder where TFDS keeps its datasets; if empty, TFDS's own default.
      manual_dir: folder of the archives that TFDS cannot download itself.
      train_size: with corpus 'phrasebook', the number of training pairs; at most 1,000,000.
      dev_size: number of pairs to hold out for dev if the corpus has no dev set (for 'phrasebook',
        to generate); at most 100,000.
      test_size: number of pairs to hold out for test if the corpus has no test set (for
        'phrasebook', to generate); at most 100,000.
      shared_vocabulary: whether both languages share one vocabulary, as in the paper. If not, each
        has its own, and model.tied_embeddings must not be 'all'.
      vocabulary: path of a SentencePiece model; if empty, one is trained on the training set.
      source_vocabulary: path of the source language's SentencePiece model, if shared_vocabulary is
        False; if empty, both are trained, each on its side of the training set.
      target_vocabulary: as source_vocabulary, for the target language.
      vocabulary_type: kind of pieces that are trained: 'bpe' (as in the paper), 'unigram' (Kudo,
        2018), 'word' (what stands between spaces) or 'char' (characters). Characters that are not
        in the vocabulary are spelled as UTF-8 bytes.
      target_vocabulary_type: the same for the target, if shared_vocabulary is False; empty for the
        type of the source.
      vocab_size: number of pieces of a vocabulary, including the 256 bytes that spell unknown
        characters; at most 10,000,000. Both have this size if there are two. With 'word' and 'char'
        it is the most there may be.
      character_coverage: share of the training text's characters that become pieces, from 0.98 to
        1; bytes spell the others.
      normalization: SentencePiece's rule for both sides: 'nmt_nfkc', 'nmt_nfkc_cf', 'nfkc',
        'nfkc_cf' or 'identity'. The '_cf' rules lowercase.
      subword_sampling: BPE-dropout (Provilkov et al., 2020): the share of merges that is skipped at
        random each time a training sentence is seen. 0 is off; the paper recommends 0.1. If
        `vocabulary` is a unigram model, the alpha of subword regularisation (Kudo, 2018). Below 1.
      subword_sampling_sides: sides that subword_sampling applies to: 'both', 'source' or 'target'.
      max_length: most tokens of either side of a training pair, EOS included; at most 1,000,000.
        Training leaves out longer pairs and logs how many; evaluation leaves out nothing.
      tokens_per_batch: source positions of a training batch, padding included, and also its target
        positions; at least 8 * max_length, at most 100,000,000.
      sentences_per_batch: pairs of a training batch, whatever their length: a multiple of 8, at
        most 1,000,000. tokens_per_batch then has no effect. 0 is off.
      num_buckets: number of batch shapes; more shapes mean less padding and a longer compilation;
        at most 256.
      packing: whether a training batch has several short pairs in each row, which do not see each
        other. One shape then serves all pairs, with little padding, and num_buckets has no effect.
        Rows are at least as long as the longest pair, so attention costs more, and is XLA's.
      seed: seed of the batch order, the held-out pairs and the phrasebook; at most 4,294,967,295.
      cache_dir: folder of tokenised corpora, vocabularies and compiled programs while training; if
        empty, $TRANSFORMER_JAX_CACHE, or else ~/.cache/transformer_jax. A folder in a bucket (gs://
        or s3://) keeps corpora and vocabularies for all machines. Commands that read a finished run
        ignore this field, so that they write to the cache of their own user.
    """

    corpus: str = 'tfds'
    source_language: str = 'en'
    target_language: str = 'de'
    train_source: str = ''
    train_target: str = ''
    filters: str = ''
    dev_source: str = ''
    dev_target: str = ''
    test_source: str = ''
    test_target: str = ''
    tree_tags: bool = False
    augment: str = ''
    tag: str = ''
    corpora: str = ''
    mix: str = ''
    temperature: float = 1.0
    source_column: str = ''
    target_column: str = ''
    dataset: str = 'wmt14_translate/de-en'
    train_split: str = 'train'
    dev_split: str = 'validation'
    test_split: str = 'test'
    data_dir: str = ''
    manual_dir: str = ''
    train_size: int = 60_000
    dev_size: int = 1000
    test_size: int = 1000
    shared_vocabulary: bool = True
    vocabulary: str = ''
    source_vocabulary: str = ''
    target_vocabulary: str = ''
    vocabulary_type: str = 'bpe'
    target_vocabulary_type: str = ''
    vocab_size: int = 37_000
    character_coverage: float = 1.0
    normalization: str = 'nmt_nfkc'
    subword_sampling: float = 0.0
    subword_sampling_sides: str = 'both'
    max_length: int = 256
    tokens_per_batch: int = 25_000
    sentences_per_batch: int = 0
    num_buckets: int = 16
    packing: bool = False
    seed: int = 0
    cache_dir: str = ''

    def __post_init__(self):
        check_types('data', self)
        kinds = 'files', 'tfds', 'huggingface', 'phrasebook', 'trees', 'none'
        check_choice('data', self, 'corpus', kinds)
        check_choice(
            'data',
            self,
            'normalization',
            ('nmt_nfkc', 'nmt_nfkc_cf', 'nfkc', 'nfkc_cf', 'identity'),
        )
        types = 'bpe', 'unigram', 'word', 'char'
        check_choice('data', self, 'vocabulary_type', types)
        check_choice('data', self, 'target_vocabulary_type', (*types, ''))
        check_choice('data', self, 'subword_sampling_sides', ('both', 'source', 'target'))
        check_range(
            'data',
            self,
            train_size=(1, 1_000_000),
            dev_size=(1, 100_000),
            test_size=(1, 100_000),
            vocab_size=(4, 10_000_000),  # padding, EOS, the unknown token and one piece
            character_coverage=(0.98, 1),
            max_length=(2, 1_000_000),  # one token and EOS
            tokens_per_batch=(1, 100_000_000),
            sentences_per_batch=(0, 1_000_000),
            num_buckets=(1, 256),
            seed=(0, 2**32 - 1),
            temperature=(1, 1_000_000),
        )
        check_rate('data', self, 'subword_sampling')
        self._check_vocabularies()
        if self.sentences_per_batch % 8:
            below = self.sentences_per_batch // 8 * 8
            fail(
                'data.sentences_per_batch',
                self.sentences_per_batch,
                'must be a multiple of 8, so that 1, 2, 4 and 8 devices see the same batches: set '
                f'it to {below or 8} or {below + 8}.',
            )
        for name in ('sentences_per_batch', 'subword_sampling'):
            if self.packing and (value := getattr(self, name)):
                fail(
                    f'data.{name}',
                    value,
                    'does not go with data.packing=True, whose rows are filled to the token: set '
                    'it to 0, or data.packing to False.',
                )
        if self.tokens_per_batch < 8 * self.max_length:
            fail(
                'data.tokens_per_batch',
                self.tokens_per_batch,
                f'holds fewer than 8 sentences of data.max_length={self.max_length}: '
                f'set it to {8 * self.max_length} or more, or lower data.max_length.',
            )
        if self.tag and not is_tag(self.tag):
            fail('data.tag', self.tag, "must have the form of '<2fr>', of letters and digits.")
        for name, kinds in (('tag', ('phrasebook', 'trees')), ('augment', ('trees',))):
            if (value := getattr(self, name)) and self.corpus in kinds and not self.corpora:
                fail(
                    f'data.{name}', value, f'is not for data.corpus={self.corpus!r}: leave it out.'
                )
        if self.corpora:
            self._check_corpora()
            return
        for name in ('mix', 'temperature'):
            if (value := getattr(self, name)) != getattr(DataConfig, name):
                fail(f'data.{name}', value, 'is for data.corpora, which is empty: leave it out.')
        if self.corpus in ('files', 'trees') and not self.train_source:
            fail(
                'data.train_source',
                '',
                f'must name a file, because data.corpus is {self.corpus!r}.',
            )
        if self.corpus == 'files':
            for split in ('dev', 'test'):
                source, target = (getattr(self, f'{split}_{side}') for side in ('source', 'target'))
                if target and not source:
                    fail(
                        f'data.{split}_target', target, f'requires data.{split}_source: set it too.'
                    )
        else:
            # Trees are both sides.
            sides = ('target',) if self.corpus == 'trees' else ('source', 'target')
            for split in ('train', 'dev', 'test'):
                for side in sides:
                    if name := getattr(self, f'{split}_{side}'):
                        fail(
                            f'data.{split}_{side}',
                            name,
                            f"is for data.corpus='files', but data.corpus is {self.corpus!r}: "
                            'change data.corpus, or leave the file out.',
                        )
        if self.corpus in ('tfds', 'huggingface') and not self.dataset:
            fail(
                'data.dataset', '', f'must name a dataset, because data.corpus is {self.corpus!r}.'
            )
        if self.source_column and self.source_column == self.target_column:
            fail(
                'data.target_column',
                self.target_column,
                'is also data.source_column: name two columns.',
            )

    @property
    def mixes(self) -> bool:
        """Whether training mixes corpora in shares, so that it has no epochs."""
        return bool(self.mix) or self.temperature != 1

    def parts(self) -> dict[str, 'DataConfig']:
        """Return the settings of each part of `corpora`, by its name."""
        parts = {}
        for name, fields in read_corpora(self.corpora).items():
            try:
                parts[name] = dataclasses.replace(
                    self, corpora='', mix='', temperature=1.0, **fields
                )
            except UserError as error:
                raise UserError(f'data.corpora, in the part {name!r}: {error}') from None
        return parts

    def tags(self) -> list[str]:
        """Return the tags of all parts, each once."""
        parts = self.parts().values() if self.corpora else [self]
        return list(dict.fromkeys(part.tag for part in parts if part.tag))

    def stages(self) -> list[MixStage]:
        """Return the stages of `mix`; none if it is empty."""
        return read_mix(self.mix, list(read_corpora(self.corpora)))

    def _check_corpora(self) -> None:
        for split in ('train', 'dev', 'test'):
            for side in ('source', 'target'):
                if name := getattr(self, f'{split}_{side}'):
                    fail(
                        f'data.{split}_{side}',
                        name,
                        'is of one corpus, but data.corpora names several: move it there.',
                    )
        if len(read_corpora(self.corpora)) < 2:
            fail('data.corpora', self.corpora, 'must have two parts or more, a line for each.')
        parts = self.parts()
        for name, part in parts.items():
            if part.corpus in ('phrasebook', 'trees', 'none'):
                fail(
                    'data.corpora',
                    self.corpora,
                    f"has a part {name!r} with corpus={part.corpus!r}, which must be 'files', "
                    "'tfds' or 'huggingface'.",
                )
        self.stages()
        if self.mix and self.temperature != 1:
            fail(
                'data.temperature',
                self.temperature,
                'has no effect, because data.mix gives the shares: leave out one of the two.',
            )

    def _check_vocabularies(self) -> None:
        if self.target_vocabulary_type and self.shared_vocabulary:
            fail(
                'data.target_vocabulary_type',
                self.target_vocabulary_type,
                'is for one side, but data.shared_vocabulary is True: set it to False.',
            )
        if self.vocabulary and not self.shared_vocabulary:
            fail(
                'data.vocabulary',
                self.vocabulary,
                'is one vocabulary for both languages, but data.shared_vocabulary is False: name '
                'data.source_vocabulary and data.target_vocabulary, or set it to True.',
            )
        for side, other in (('source', 'target'), ('target', 'source')):
            name = getattr(self, f'{side}_vocabulary')
            if name and self.shared_vocabulary:
                fail(
                    f'data.{side}_vocabulary',
                    name,
                    'is for one language, but data.shared_vocabulary is True: set it to False, or '
                    'name a vocabulary for both languages in data.vocabulary.',
                )
            if name and not getattr(self, f'{other}_vocabulary'):
                fail(
                    f'data.{side}_vocabulary',
                    name,
                    f'requires data.{other}_vocabulary: set it too, or leave out both to train '
                    'them.',
                )
