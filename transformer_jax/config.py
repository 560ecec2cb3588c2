"""Every setting of a run, its default (the base model of the paper) and what it may be.

A config file builds an `ml_collections.ConfigDict` from `Config().to_config_dict()` and changes
what it wants; `Config.from_mapping` turns that into the frozen `Config` that all code below reads.
"""

import dataclasses
import difflib
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from transformer_jax.errors import UserError


def _fail(field: str, value: Any, remedy: str) -> None:
    raise UserError(f'{field}={value!r} {remedy}')


def _check_types(section: str, config: Any) -> None:
    """Checks each field against its annotation; an int is welcome where a float is wanted."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type is float and type(value) is int:
            object.__setattr__(config, field.name, float(value))
        elif type(value) is not field.type:
            _fail(
                f'{section}.{field.name}',
                value,
                f'is of type {type(value).__name__} but must be {field.type.__name__}.',
            )
        if field.type is float and not math.isfinite(value):
            _fail(f'{section}.{field.name}', value, 'must be a finite number.')


def _check_positive(section: str, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) <= 0:
            _fail(f'{section}.{name}', getattr(config, name), 'must be greater than 0.')


def _check_not_negative(section: str, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 0:
            _fail(f'{section}.{name}', getattr(config, name), 'must be 0 or greater.')


def _check_below(section: str, config: Any, limit: int, *names: str) -> None:
    for name in names:
        if getattr(config, name) >= limit:
            _fail(f'{section}.{name}', getattr(config, name), f'must be below {limit}.')


def _check_rate(section: str, config: Any, *names: str) -> None:
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            _fail(f'{section}.{name}', getattr(config, name), 'must be at least 0 and below 1.')


def _check_choice(section: str, config: Any, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        near = difflib.get_close_matches(value, choices, n=1)
        hint = f' (did you mean {near[0]!r}?)' if near else ''
        _fail(f'{section}.{name}', value, f'must be one of {", ".join(choices)}{hint}.')


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The shape of the network: every column of the paper's Table 3 that the model itself has.

    Attributes:
      num_layers: layers in the encoder and in the decoder, N in the paper.
      d_model: width of embeddings and of every sub-layer's output.
      d_ff: inner width of the feed-forward sub-layer.
      num_heads: attention heads, h in the paper.
      d_k: width of a head's queries and keys; 0 means d_model / num_heads.
      d_v: width of a head's values; 0 means d_model / num_heads.
      dropout_rate: residual dropout, on each sub-layer's output and on the embedding sum.
      attention_dropout_rate: dropout on attention weights, which the paper does not have.
      activation_dropout_rate: dropout on what the ReLU puts out, which the paper does not have.
      activation: of the feed-forward: 'relu' (equation 2), 'gelu' or 'swish'.
      attention_bias: adds a bias to each projection of attention; section 3.2.2 has none.
      attention_gain: factor on the initial matrices of queries, keys and values; 1 is Glorot's
        initialisation of each, 0.707 that of the three as one matrix, as in fairseq and PyTorch,
        which learns to align sooner where the learning rate is high.
      attention_implementation: 'xla', or 'cudnn', which on NVIDIA GPUs computes attention in one
        kernel that keeps no weights, in bfloat16; elsewhere it is 'xla', too.
      output_bias: adds a bias to the logits; section 3.4 has none.
      norm_epsilon: added to the variance in layer norm.
      positions: 'sinusoidal' (section 3.5), 'sinusoidal_halves' (all sines, then all cosines, as
        Marian has them) or 'learned' (Table 3, row E).
      max_positions: rows of the learned table; sinusoidal positions have no limit.
      norm: 'post', LayerNorm(x + Sublayer(x)), or 'pre', x + Sublayer(LayerNorm(x)).
      dtype: of the matrix products: 'float32', 'bfloat16', or 'auto', which is bfloat16 on
        accelerators and float32 on the CPU. Parameters, norms, softmax and loss are float32. CPUs
        that multiply bfloat16 (AMX: Intel's servers since 2023) are faster with it; the products
        of queries, keys and values are float32 on any CPU.
      remat: computes each layer's activations again for the gradient instead of keeping them: about
        a third more work for a fraction of the memory.
    """

    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.0
    activation_dropout_rate: float = 0.0
    activation: str = 'relu'
    attention_bias: bool = False
    attention_gain: float = 1.0
    attention_implementation: str = 'xla'
    output_bias: bool = False
    norm_epsilon: float = 1e-6
    positions: str = 'sinusoidal'
    max_positions: int = 1024
    norm: str = 'post'
    dtype: str = 'auto'
    remat: bool = False

    def __post_init__(self):
        _check_types('model', self)
        _check_positive('model', self, 'num_layers', 'd_model', 'd_ff', 'num_heads')
        _check_positive('model', self, 'max_positions')
        _check_not_negative('model', self, 'd_k', 'd_v')
        _check_positive('model', self, 'norm_epsilon', 'attention_gain')
        _check_rate('model', self, 'dropout_rate')
        _check_rate('model', self, 'attention_dropout_rate', 'activation_dropout_rate')
        _check_choice('model', self, 'activation', ('relu', 'gelu', 'swish'))
        _check_choice('model', self, 'positions', ('sinusoidal', 'sinusoidal_halves', 'learned'))
        _check_choice('model', self, 'norm', ('post', 'pre'))
        _check_choice('model', self, 'dtype', ('auto', 'float32', 'bfloat16'))
        _check_choice('model', self, 'attention_implementation', ('xla', 'cudnn'))
        if self.d_model % self.num_heads and not (self.d_k and self.d_v):
            _fail(
                'model.d_model',
                self.d_model,
                f'is not divisible by model.num_heads={self.num_heads}: '
                'choose a multiple of it, or set model.d_k and model.d_v.',
            )
        if self.positions != 'learned' and self.d_model % 2:
            _fail('model.d_model', self.d_model, 'must be even for sinusoidal positions.')
        if self.attention_implementation == 'cudnn':
            self._check_cudnn()

    def _check_cudnn(self) -> None:
        sizes = f'model.d_k={self.key_size} and model.d_v={self.value_size}'
        for wrong, what, remedy in (
            (self.dtype == 'float32', "model.dtype='float32'", "'auto' or 'bfloat16'"),
            (
                self.attention_dropout_rate > 0,
                f'model.attention_dropout_rate={self.attention_dropout_rate}',
                '0 there',
            ),
            (
                self.key_size != self.value_size or self.key_size % 8 or self.key_size > 128,
                sizes,
                'the same for both, a multiple of 8 and at most 128',
            ),
        ):
            if wrong:
                _fail(
                    'model.attention_implementation',
                    self.attention_implementation,
                    f"does not go with {what}: choose {remedy}, or 'xla' here.",
                )

    @property
    def key_size(self) -> int:
        """Width of a head's queries and keys."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_size(self) -> int:
        """Width of a head's values."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def reach(self) -> int | None:
        """Most positions of a sentence, where they are learned; None where any number will do."""
        return self.max_positions if self.positions == 'learned' else None


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The sentence pairs and how they become batches.

    Attributes:
      corpus: 'files', 'tfds', 'huggingface' or 'phrasebook' (the embedded English-French one).
      source_language: code of the language translated from, e.g. 'en'.
      target_language: code of the language translated into, e.g. 'de'.
      train_source, train_target: for 'files', two text files aligned by line. A single TSV, CSV or
        JSON-lines file is given as train_source alone, with the two columns named below. Either may
        end in .gz or .xz.
      dev_source, dev_target, test_source, test_target: the same; left empty, pairs are held out of
        the training side.
      source_column, target_column: names of the columns, for tables and for 'huggingface'.
      dataset: for 'tfds' and 'huggingface', the name of the dataset.
      train_split, dev_split, test_split: its splits; a dev or test split left empty is held out of
        the training split.
      data_dir: where TFDS keeps datasets; empty means its own default.
      manual_dir: folder of archives that TFDS asks to be downloaded by hand.
      train_size: pairs to generate, for 'phrasebook'.
      dev_size, test_size: pairs to hold out (or generate) where the corpus has no such part.
      vocabulary: an existing SentencePiece model file; empty trains one on the training side.
      vocab_size: pieces of the shared vocabulary, the 256 bytes of the fall-back included.
      character_coverage: share of characters that get a piece of their own; the rest use bytes.
      normalization: SentencePiece's rule: 'nmt_nfkc', 'nmt_nfkc_cf', 'nfkc', 'nfkc_cf', 'identity'.
      subword_sampling: BPE-dropout (Provilkov et al., 2020): share of merges left out, at random,
        each time that a training sentence is seen; 0 is off, 0.1 that paper's. With a unigram
        model in `vocabulary`, the alpha of subword regularisation (Kudo, 2018).
      subword_sampling_sides: which sentences it is for: 'both', 'source' or 'target'.
      max_length: most tokens, the end mark included, of either side of a training pair. Longer
        pairs are left out of training, counted and reported; evaluation leaves out nothing.
      tokens_per_batch: source and target positions, each, of one training batch.
      num_buckets: shapes that training batches come in: more means less padding, longer compiling.
      seed: of the batch plan, of what is held out and of the phrasebook.
      cache_dir: where tokenised corpora, vocabularies and compiled programs are kept; empty means
        $TRANSFORMER_JAX_CACHE, or ~/.cache/transformer_jax.
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
        _check_types('data', self)
        _check_choice('data', self, 'corpus', ('files', 'tfds', 'huggingface', 'phrasebook'))
        _check_choice(
            'data',
            self,
            'normalization',
            ('nmt_nfkc', 'nmt_nfkc_cf', 'nfkc', 'nfkc_cf', 'identity'),
        )
        _check_choice('data', self, 'subword_sampling_sides', ('both', 'source', 'target'))
        _check_positive('data', self, 'vocab_size', 'tokens_per_batch', 'num_buckets')
        _check_positive('data', self, 'train_size', 'dev_size', 'test_size')
        _check_rate('data', self, 'subword_sampling')
        _check_not_negative('data', self, 'seed')
        _check_below('data', self, 2**63, 'seed')
        _check_below('data', self, 2**31, 'vocab_size')
        if self.max_length < 2:
            _fail('data.max_length', self.max_length, 'must be at least 2: a token and the end.')
        if not 0.98 <= self.character_coverage <= 1.0:
            _fail('data.character_coverage', self.character_coverage, 'must be from 0.98 to 1.')
        if self.tokens_per_batch < 8 * self.max_length:
            _fail(
                'data.tokens_per_batch',
                self.tokens_per_batch,
                f'holds fewer than 8 sentences of data.max_length={self.max_length}: '
                f'set it to {8 * self.max_length} or more, or lower data.max_length.',
            )
        if self.corpus == 'files':
            if not self.train_source:
                _fail('data.train_source', '', "must name a file, since data.corpus is 'files'.")
            for split in ('dev', 'test'):
                source, target = (getattr(self, f'{split}_{side}') for side in ('source', 'target'))
                if target and not source:
                    _fail(f'data.{split}_target', target, f'needs data.{split}_source beside it.')
        if self.corpus in ('tfds', 'huggingface') and not self.dataset:
            _fail('data.dataset', '', f'must name a dataset, since data.corpus is {self.corpus!r}.')
        if self.source_language == self.target_language:
            _fail('data.target_language', self.target_language, 'is the source language as well.')


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam, the paper's schedule (section 5.3) and label smoothing (section 5.4).

    Attributes:
      warmup_steps: steps over which the learning rate rises.
      learning_rate_scale: factor on the paper's schedule; its peak is
        learning_rate_scale / sqrt(d_model * warmup_steps).
      beta1, beta2, epsilon: Adam's.
      weight_decay: times the learning rate, the share of each matrix that a step takes away (AdamW,
        Loshchilov and Hutter, 2019); not of biases and norms.
      label_smoothing: probability mass spread evenly over the vocabulary.
      r_drop: R-Drop (Liang et al., 2021): alpha, the weight of the divergence between two passes
        with different dropout, which doubles the work; 0 is off, 5 that paper's for translation.
      ema_decay: evaluates and translates with an exponential moving average of the parameters, in
        which a step's share falls by this factor with each later one; 0 is off.
    """

    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    ema_decay: float = 0.0

    def __post_init__(self):
        _check_types('optimizer', self)
        _check_positive('optimizer', self, 'warmup_steps', 'learning_rate_scale', 'epsilon')
        _check_rate('optimizer', self, 'beta1', 'beta2', 'label_smoothing', 'ema_decay')
        _check_not_negative('optimizer', self, 'r_drop', 'weight_decay')


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long to train, and what to do along the way.

    Attributes:
      steps: optimizer steps.
      seed: of the initial parameters and of dropout.
      init_from: folder of a trained run, or of averaged weights, to begin from: the weights it
        translates with take the place of random ones, and its vocabulary is used; '' begins anew.
      log_every: steps between lines in metrics.jsonl.
      eval_every: steps between evaluations on dev; a multiple of checkpoint_every.
      checkpoint_every: steps between checkpoints.
      keep: latest checkpoints kept, besides the best.
      keep_best: checkpoints of the highest dev BLEU kept.
      accumulate_steps: parts that a batch is divided into, one after the other, where the devices
        cannot hold all of it at once; the step is that of the whole batch.
      on_nonfinite: what to do where a loss or a gradient is NaN or infinite: 'stop' the run, or
        'skip' the step. Neither lets it into the parameters.
      patience: evaluations without a better dev BLEU before training stops early; 0 never stops.
      eval_beam_size: beam for dev BLEU during training; 1, the default, is greedy and fast.
    """

    steps: int = 100_000
    seed: int = 0
    init_from: str = ''
    log_every: int = 100
    eval_every: int = 5000
    checkpoint_every: int = 1000
    keep: int = 5
    keep_best: int = 1
    accumulate_steps: int = 1
    on_nonfinite: str = 'stop'
    patience: int = 0
    eval_beam_size: int = 1

    def __post_init__(self):
        _check_types('train', self)
        _check_positive('train', self, 'steps', 'log_every', 'eval_every', 'checkpoint_every')
        _check_positive('train', self, 'keep', 'keep_best', 'eval_beam_size', 'accumulate_steps')
        _check_choice('train', self, 'on_nonfinite', ('stop', 'skip'))
        _check_not_negative('train', self, 'seed', 'patience')
        _check_below('train', self, 2**32, 'seed')  # JAX would drop the higher bits
        if self.init_from:
            # One folder is to have one name.
            object.__setattr__(self, 'init_from', os.path.normpath(self.init_from))
        if self.eval_every % self.checkpoint_every:
            _fail(
                'train.eval_every',
                self.eval_every,
                f'must be a multiple of train.checkpoint_every={self.checkpoint_every}, '
                'so that the best model is one that was saved.',
            )


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """How the devices are laid out; their number is data · fsdp · tensor, -1 is what is left.

    Attributes:
      data: parts of a batch; every device of this axis holds the same parameters.
      fsdp: parts of a batch, and of the parameters and both of Adam's moments as well.
      tensor: parts of the heads, of d_ff and of the vocabulary.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1

    def __post_init__(self):
        _check_types('mesh', self)
        sizes = dataclasses.asdict(self)
        for name, size in sizes.items():
            if size < 1 and size != -1:
                _fail(f'mesh.{name}', size, 'must be 1 or more, or -1 for the devices left.')
        if list(sizes.values()).count(-1) > 1:
            _fail('mesh', sizes, 'has more than one -1: only one axis can take what is left.')


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How translations are searched for (section 6.1).

    Attributes:
      beam_size: hypotheses kept at each step; 1 is greedy.
      length_penalty: alpha in ((5 + length) / 6)^alpha of Wu et al. (2016), equation 14.
      max_extra_length: an output has at most this many tokens more than its input.
      max_source_length: most tokens of an input, the end mark included; what is longer is cut and
        reported. 0 is no limit.
      average_checkpoints: checkpoints whose parameters are averaged for translating.
      average: which: the 'latest' (the paper), or the 'best' by dev BLEU.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    max_extra_length: int = 50
    max_source_length: int = 0
    average_checkpoints: int = 5
    average: str = 'latest'

    def __post_init__(self):
        _check_types('decode', self)
        _check_positive('decode', self, 'beam_size', 'average_checkpoints')
        _check_choice('decode', self, 'average', ('latest', 'best'))
        _check_not_negative(
            'decode', self, 'length_penalty', 'max_extra_length', 'max_source_length'
        )
        if self.max_source_length == 1:
            _fail('decode.max_source_length', 1, 'leaves room for the end mark only.')


_SECTIONS = {
    'model': ModelConfig,
    'data': DataConfig,
    'optimizer': OptimizerConfig,
    'train': TrainConfig,
    'mesh': MeshConfig,
    'decode': DecodeConfig,
}

# What may change between two starts of one run: how long it is and what is done along the way, and
# how its steps are laid on whatever devices there are. Where the data lie is free, since a
# fingerprint of their content is compared.
_FREE = (
    'model.remat',
    'train.steps',
    'train.log_every',
    'train.eval_every',
    'train.checkpoint_every',
    'train.keep',
    'train.keep_best',
    'train.accumulate_steps',
    'train.on_nonfinite',
    'train.patience',
    'train.eval_beam_size',
    'data.cache_dir',
    'data.data_dir',
    'data.manual_dir',
    'data.vocabulary',
    'data.train_source',
    'data.train_target',
    'data.dev_source',
    'data.dev_target',
    'data.test_source',
    'data.test_target',
)
_FREE_SECTIONS = ('mesh', 'decode')

# What may change of a model from one run to another that begins from its weights.
_FREE_OF_WEIGHTS = (
    'dropout_rate',
    'attention_dropout_rate',
    'activation_dropout_rate',
    'attention_gain',  # of random weights
    'attention_implementation',
    'dtype',
    'remat',
)


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings of a run, a section each; the default is the paper's base model on WMT14."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()
    mesh: MeshConfig = MeshConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self):
        field = 'keep' if self.decode.average == 'latest' else 'keep_best'
        kept = getattr(self.train, field)
        if self.decode.average_checkpoints > kept:
            _fail(
                'decode.average_checkpoints',
                self.decode.average_checkpoints,
                f'asks for more checkpoints than train.{field}={kept} keeps: '
                f'raise train.{field} or lower decode.average_checkpoints.',
            )
        if self.train.log_every * self.data.tokens_per_batch >= 2**31:
            _fail(
                'train.log_every',
                self.train.log_every,
                f'times data.tokens_per_batch={self.data.tokens_per_batch} is more than can be '
                'counted, 2^31: lower it.',
            )
        longest, reach = self.data.max_length, self.model.reach
        if reach is not None and longest > reach:
            _fail(
                'data.max_length',
                longest,
                f'is more than model.max_positions={reach}, '
                'the longest sentence that learned positions reach: raise it or lower this.',
            )
        if reach is not None and reach - self.decode.max_extra_length < 2:
            _fail(
                'decode.max_extra_length',
                self.decode.max_extra_length,
                f'leaves no place for a source among model.max_positions={reach} learned '
                'positions: lower it.',
            )
        if self.data.vocabulary and self.train.init_from:
            _fail(
                'data.vocabulary',
                self.data.vocabulary,
                f'cannot go with train.init_from={self.train.init_from!r}, whose weights belong to '
                'a vocabulary of their own: leave out one of the two.',
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> 'Config':
        """Builds a `Config` from nested mappings such as a ConfigDict.

        Raises:
          UserError: for an unknown key (it names the nearest), a wrong type or a bad value.
        """
        values = {}
        for section, section_class in _SECTIONS.items():
            given = mapping.get(section, {})
            if not isinstance(given, Mapping) and not hasattr(given, 'items'):
                _fail(section, given, 'must be a section with fields of its own.')
            for name in given:
                check_key(f'{section}.{name}')
            values[section] = section_class(**dict(given.items()))
        for section in mapping:
            check_key(section)
        return cls(**values)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Nested plain dicts: section, field, value."""
        return dataclasses.asdict(self)

    def to_config_dict(self):
        """An `ml_collections.ConfigDict` for config files to start from; it knows every field."""
        from ml_collections import ConfigDict  # only config files need the package

        config = ConfigDict(self.to_dict())
        config.lock()  # so that a misspelt field fails on its own line of the config file
        return config

    def differences(self, other: 'Config') -> list[str]:
        """The fields that make `other` another run than this one, as 'field: mine, theirs'."""
        return [
            line
            for section, name, line in self._different_fields(other)
            if section not in _FREE_SECTIONS and f'{section}.{name}' not in _FREE
        ]

    def model_differences(self, other: 'Config') -> list[str]:
        """The fields for which weights of `other` do not fit, as 'field: mine, theirs'."""
        return [
            line
            for section, name, line in self._different_fields(other)
            if section == 'model' and name not in _FREE_OF_WEIGHTS
        ]

    def _different_fields(self, other: 'Config') -> Iterator[tuple[str, str, str]]:
        """Section, name and 'field: mine, theirs' of each field that is not the same."""
        mine, theirs = self.to_dict(), other.to_dict()
        for section in mine:
            for name, value in mine[section].items():
                if value != theirs[section][name]:
                    there = theirs[section][name]
                    yield section, name, f'{section}.{name}: {value!r} against {there!r}'


def check_key(key: str) -> None:
    """Raises a UserError that names the nearest field unless `key` ('model.d_ff') is one."""
    known = list(_SECTIONS)
    for section, section_class in _SECTIONS.items():
        known += [f'{section}.{field.name}' for field in dataclasses.fields(section_class)]
    if key in known:
        return
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    # A right name in the wrong section, or in none, is a slip that spelling alone does not find.
    names = {name.rpartition('.')[2]: name for name in known}
    same_name = difflib.get_close_matches(key.rpartition('.')[2], names, n=1, cutoff=0.8)
    hint = names[same_name[0]] if same_name else (near or [None])[0]
    ending = f'did you mean {hint}?' if hint else f'the sections are {", ".join(_SECTIONS)}.'
    raise UserError(f'{key} is not a field of the config; {ending}')
