"""All sections of a run, and the fields that a resumed run may change."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from transformer_jax.config.data import DataConfig
from transformer_jax.config.decode import DecodeConfig
from transformer_jax.config.mesh import MeshConfig
from transformer_jax.config.model import ModelConfig
from transformer_jax.config.optimizer import OptimizerConfig
from transformer_jax.config.structures import FIELDS as STRUCTURES
from transformer_jax.config.structures import as_text
from transformer_jax.config.train import TrainConfig
from transformer_jax.config.validation import fail
from transformer_jax.errors import UserError

# Fields that may change when a run is resumed: its length, what it does between steps, and how its
# steps use the devices. Paths of data may change, because fingerprints of the content are compared.
_FREE = (
    'model.remat',
    'train.steps',
    'train.epochs',
    'train.log_every',
    'train.log_to',
    'train.eval_every',
    'train.checkpoint_every',
    'train.keep',
    'train.keep_best',
    'train.accumulate_steps',
    'train.deterministic',
    'train.tune',
    'train.on_nonfinite',
    'train.patience',
    'train.eval_beam_size',
    'data.cache_dir',
    'data.data_dir',
    'data.manual_dir',
    'data.vocabulary',
    'data.source_vocabulary',
    'data.target_vocabulary',
    'data.train_source',
    'data.train_target',
    'data.dev_source',
    'data.dev_target',
    'data.test_source',
    'data.test_target',
    'data.corpora',
)
_FREE_SECTIONS = ('mesh', 'decode')

# Fields of the model that do not change its weights, so a run with init_from may set them freely.
_FREE_OF_WEIGHTS = (
    'dropout_rate',
    'attention_dropout_rate',
    'activation_dropout_rate',
    'attention_gain',  # scales initial weights only
    'attention_implementation',
    'dtype',
    'activation_dtype',
    'remat',
)


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings of a run in six sections; the default is the paper's base model on WMT14.

    Attributes:
      model: the network.
      data: the sentence pairs and their batches.
      optimizer: Adam, the learning rate and regularisation.
      train: length of the training, checkpoints, logging and evaluation.
      mesh: use of the devices.
      decode: search for translations.
    """

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    decode: DecodeConfig = dataclasses.field(default_factory=DecodeConfig)

    def __post_init__(self):
        field = 'keep' if self.decode.average == 'latest' else 'keep_best'
        kept = getattr(self.train, field)
        if self.decode.average_checkpoints > kept:
            fail(
                'decode.average_checkpoints',
                self.decode.average_checkpoints,
                f'asks for more checkpoints than train.{field}={kept} keeps: '
                f'raise train.{field} or lower decode.average_checkpoints.',
            )
        data = self.data
        largest, size = data.tokens_per_batch, f'data.tokens_per_batch={data.tokens_per_batch}'
        if data.sentences_per_batch:
            largest = data.sentences_per_batch * data.max_length
            size = f'{data.sentences_per_batch} sentences of data.max_length={data.max_length}'
        if self.train.log_every * largest >= 2**31:
            fail(
                'train.log_every',
                self.train.log_every,
                f'times {size} must be less than 2^31: lower one of the two.',
            )
        if self.optimizer.ends and self.optimizer.warmup_steps > self.train.steps:
            fail(
                'optimizer.warmup_steps',
                self.optimizer.warmup_steps,
                f'must be at most train.steps={self.train.steps}, at which the schedule '
                f'{self.optimizer.schedule!r} ends.',
            )
        longest, limit = self.data.max_length, self.model.max_sequence_length
        if limit is not None and longest > limit:
            fail(
                'data.max_length',
                longest,
                f'is more than model.max_positions={limit}, the longest sentence with learned '
                'positions: raise model.max_positions or lower data.max_length.',
            )
        if limit is not None and limit - self.decode.max_extra_length < 2:
            fail(
                'decode.max_extra_length',
                self.decode.max_extra_length,
                f'leaves no learned position for the source, because model.max_positions={limit}: '
                'lower it or raise model.max_positions.',
            )
        if self.decode.alignment_layer > self.model.num_layers:
            fail(
                'decode.alignment_layer',
                self.decode.alignment_layer,
                f'must be at most model.num_layers={self.model.num_layers}.',
            )
        if any(head >= self.model.num_heads for head in self.decode.heads()):
            fail(
                'decode.alignment_heads',
                self.decode.alignment_heads,
                f'must be at most model.num_heads={self.model.num_heads}.',
            )
        if self.model.tied_embeddings == 'all' and not self.data.shared_vocabulary:
            fail(
                'model.tied_embeddings',
                self.model.tied_embeddings,
                'is one matrix for both languages, but data.shared_vocabulary is False: choose '
                "'decoder' or 'none', or set it to True.",
            )
        if self.data.mixes and self.train.epochs:
            fail(
                'train.epochs',
                self.train.epochs,
                'has no meaning for a mixture (data.mix, data.temperature), whose corpora do not '
                'end together: set train.steps.',
            )
        # If one of the two files is named, both are.
        for name in ('vocabulary', 'source_vocabulary'):
            if not getattr(self.data, name) or not self.train.init_from:
                continue
            fail(
                f'data.{name}',
                getattr(self.data, name),
                f'does not go with train.init_from={self.train.init_from!r}, which brings its own '
                'vocabulary: leave out one of the two.',
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> 'Config':
        """Build a `Config` from nested mappings such as a ConfigDict.

        Args:
          mapping: values by section and field; sections and fields left out have their defaults.

        Raises:
          UserError: for an unknown key, with the nearest known one; for a wrong type or bad value.
        """
        values = {}
        for section, section_class in _SECTIONS.items():
            given = mapping.get(section, {})
            if not isinstance(given, Mapping) and not hasattr(given, 'items'):
                fail(section, given, 'must be a section with fields of its own.')
            for name in given:
                check_key(f'{section}.{name}')
            fields = dict(given.items())
            if section == 'data':
                fields |= {x: as_text(x, fields[x]) for x in STRUCTURES if x in fields}
            values[section] = section_class(**fields)
        for section in mapping:
            check_key(str(section))
        return cls(**values)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return nested plain dicts: values by section and field."""
        return dataclasses.asdict(self)

    def to_config_dict(self):
        """Return an `ml_collections.ConfigDict` with every field, for config files to change."""
        from ml_collections import ConfigDict, FieldReference  # only config files need it

        values = self.to_dict()
        for name in STRUCTURES:  # of any type, as a file may write lists and dicts
            values['data'][name] = FieldReference(values['data'][name], field_type=object)
        config = ConfigDict(values)
        config.lock()  # a misspelt field then fails on its line of the config file
        return config

    def differences(self, other: 'Config') -> list[str]:
        """Return the differences for which `other` cannot resume a run of this config.

        Each is a text such as 'model.d_ff: 2048 against 1024', with the value of `other` last.
        """
        free = list(_FREE)
        if self.data.corpus == 'huggingface':
            free.append('data.dataset')  # it may be the path of a folder
        if self.optimizer.ends:
            # Of a run by epochs, train.steps is known only once the data are.
            free.remove('train.epochs' if self.train.epochs else 'train.steps')
        return [
            line
            for section, name, line in self._different_fields(other)
            if section not in _FREE_SECTIONS and f'{section}.{name}' not in free
        ]

    def model_differences(self, other: 'Config') -> list[str]:
        """Return the differences for which weights of `other` do not fit; see `differences`."""
        return [
            line
            for section, name, line in self._different_fields(other)
            if (section == 'model' and name not in _FREE_OF_WEIGHTS)
            or f'{section}.{name}' == 'data.shared_vocabulary'
        ]

    def _different_fields(self, other: 'Config') -> Iterator[tuple[str, str, str]]:
        """Yield section, field and difference of each field whose values differ."""
        mine, theirs = self.to_dict(), other.to_dict()
        for section in mine:
            for name, value in mine[section].items():
                if value != theirs[section][name]:
                    there = theirs[section][name]
                    yield section, name, f'{section}.{name}: {value!r} against {there!r}'


_SECTIONS = {field.name: field.type for field in dataclasses.fields(Config)}


def check_key(key: str) -> None:
    """Raise a UserError with the nearest name if `key` is no field ('model.d_ff') or section."""
    known = list(_SECTIONS)
    for section, section_class in _SECTIONS.items():
        known += [f'{section}.{field.name}' for field in dataclasses.fields(section_class)]
    if key in known:
        return
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    # Comparing whole keys would not find a correct name in a wrong section, or without a section.
    names = {name.rpartition('.')[2]: name for name in known}
    same_name = difflib.get_close_matches(key.rpartition('.')[2], names, n=1, cutoff=0.8)
    hint = names[same_name[0]] if same_name else (near or [None])[0]
    ending = f'did you mean {hint}?' if hint else f'the sections are {", ".join(_SECTIONS)}.'
    raise UserError(f'{key} is not a field of the config; {ending}')
