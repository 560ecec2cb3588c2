"""The section `data`."""

import dataclasses

from transformer_jax.config.validation import (
    check_choice,
    check_range,
    check_rate,
    check_types,
    fail,
)


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The sentence pairs and how they become batches.

    Attributes:
      corpus: 'files', 'tfds', 'huggingface' or 'phrasebook' (the embedded English-French one).
      source_language: code of the language translated from, e.g. 'en'.
      target_language: code of the language translated into, e.g. 'de'; for those without spaces,
        'zh' for instance, BLEU counts characters. It may be the source language, for paraphrases,
        corrections or simpler words.
      train_source, train_target: for 'files', two text files aligned by line. A single TSV, CSV or
        JSON-lines file is given as train_source alone, with the two columns named below. Either may
        end in .gz or .xz.
      dev_source, dev_target, test_source, test_target: the same; left empty, pairs are held out of
        the training side.
      source_column, target_column: names of the columns, for tables, 'tfds' and 'huggingface'; left
        empty, the columns are named as the languages.
      dataset: for 'tfds' and 'huggingface', the name of the dataset.
      train_split, dev_split, test_split: its splits; a dev or test split left empty is held out of
        the training split.
      data_dir: where TFDS keeps datasets; empty means its own default.
      manual_dir: folder of archives that TFDS asks to be downloaded by hand.
      train_size: pairs to generate, for 'phrasebook'; at most 1,000,000.
      dev_size, test_size: pairs to hold out (or generate) where the corpus has no such part; at
        most 100,000 each.
      vocabulary: an existing SentencePiece model file; empty trains one on the training side.
      vocab_size: pieces of the shared vocabulary, the 256 bytes of the fall-back included; at most
        10,000,000.
      character_coverage: share of characters that get a piece of their own, from 0.98 to 1; the
        rest use bytes.
      normalization: SentencePiece's rule: 'nmt_nfkc', 'nmt_nfkc_cf', 'nfkc', 'nfkc_cf', 'identity'.
      subword_sampling: BPE-dropout (Provilkov et al., 2020): share of merges left out, at random,
        each time that a training sentence is seen; 0 is off, 0.1 that paper's. With a unigram
        model in `vocabulary`, the alpha of subword regularisation (Kudo, 2018). Below 1.
      subword_sampling_sides: which sentences it is for: 'both', 'source' or 'target'.
      max_length: most tokens, the end mark included, of either side of a training pair; at most
        1,000,000. Longer pairs are left out of training, counted and reported; evaluation leaves
        out nothing.
      tokens_per_batch: source and target positions, each, of one training batch; at most
        100,000,000.
      num_buckets: shapes that training batches come in: more means less padding, longer compiling;
        at most 256.
      seed: of the batch plan, of what is held out and of the phrasebook; at most 4,294,967,295.
      cache_dir: where tokenised corpora, vocabularies and compiled programs are kept; empty means
        $TRANSFORMER_JAX_CACHE, or ~/.cache/transformer_jax. It is for training: whoever scores a
        run has their own cache written.
    """

    corpus: str = 'tfds'
    source_language: str = 'en'
    target_language: str = 'de'
    train_source: str = ''
    train_target: str = ''
    dev_source: str = ''
    dev_target: str = ''
    test_source: str = ''
    test_target: str = ''
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
    vocabulary: str = ''
    vocab_size: int = 37_000
    character_coverage: float = 1.0
    normalization: str = 'nmt_nfkc'
    subword_sampling: float = 0.0
    subword_sampling_sides: str = 'both'
    max_length: int = 256
    tokens_per_batch: int = 25_000
    num_buckets: int = 16
    seed: int = 0
    cache_dir: str = ''

    def __post_init__(self):
        check_types('data', self)
        check_choice('data', self, 'corpus', ('files', 'tfds', 'huggingface', 'phrasebook'))
        check_choice(
            'data',
            self,
            'normalization',
            ('nmt_nfkc', 'nmt_nfkc_cf', 'nfkc', 'nfkc_cf', 'identity'),
        )
        check_choice('data', self, 'subword_sampling_sides', ('both', 'source', 'target'))
        check_range(
            'data',
            self,
            train_size=(1, 1_000_000),
            dev_size=(1, 100_000),
            test_size=(1, 100_000),
            vocab_size=(4, 10_000_000),  # from padding, the end mark, the unknown and a piece
            character_coverage=(0.98, 1),
            max_length=(2, 1_000_000),  # from a token and the end mark
            tokens_per_batch=(1, 100_000_000),
            num_buckets=(1, 256),
            seed=(0, 2**32 - 1),
        )
        check_rate('data', self, 'subword_sampling')
        if self.tokens_per_batch < 8 * self.max_length:
            fail(
                'data.tokens_per_batch',
                self.tokens_per_batch,
                f'holds fewer than 8 sentences of data.max_length={self.max_length}: '
                f'set it to {8 * self.max_length} or more, or lower data.max_length.',
            )
        if self.corpus == 'files':
            if not self.train_source:
                fail('data.train_source', '', "must name a file, since data.corpus is 'files'.")
            for split in ('dev', 'test'):
                source, target = (getattr(self, f'{split}_{side}') for side in ('source', 'target'))
                if target and not source:
                    fail(f'data.{split}_target', target, f'needs data.{split}_source beside it.')
        else:
            for split in ('train', 'dev', 'test'):
                for side in ('source', 'target'):
                    if name := getattr(self, f'{split}_{side}'):
                        fail(
                            f'data.{split}_{side}',
                            name,
                            f"is for data.corpus='files', not {self.corpus!r}: set data.corpus to "
                            'that, or leave the file out.',
                        )
        if self.corpus in ('tfds', 'huggingface') and not self.dataset:
            fail('data.dataset', '', f'must name a dataset, since data.corpus is {self.corpus!r}.')
        if self.source_column and self.source_column == self.target_column:
            fail('data.target_column', self.target_column, 'is the source column as well.')
