"""What an import reads: config, vocabulary and arrays, and how they become a release folder."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from flax import traverse_util

from transformer_jax.config import Config, DataConfig, DecodeConfig, ModelConfig
from transformer_jax.conversion.marian.layers import Place, last_norm_places, layer_places
from transformer_jax.conversion.parity.check_sentences import CheckSentences
from transformer_jax.conversion.parity.compare import Comparison
from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.peer import Peer
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.conversion.piece_tables import Side
from transformer_jax.conversion.release import write_release
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, listing, shown
from transformer_jax.inference.load import load_trained, named_parameters
from transformer_jax.model import parameter_shapes
from transformer_jax.storage.release import Release

# Outputs that are longer than their source by more than this have usually lost their way.
MAX_EXTRA_LENGTH = 128
# The output bias of a padding that takes no part in the softmax.
NEVER = -100.0
_CHECKED = 20  # sentences
# Tokens at which outputs are cut: those of a model that was given pieces at random may never end.
_LONGEST = 48


class ArrayFile(Protocol):
    """A file of named arrays, which are read one by one.

    Attributes:
      shapes: shape of each array, by name.
    """

    shapes: Mapping[str, tuple[int, ...]]

    def read(self, name: str) -> np.ndarray:
        """Return an array in float32; raise ValueError if it cannot be read."""


@dataclasses.dataclass(frozen=True)
class Imported:
    """A model of another program.

    Attributes:
      config: the config that computes what the other program computes.
      vocabulary: vocabularies of both sides.
      arrays: yields the path and the values of each parameter; values are read as they are asked
        for, so that the model is in memory once.
      sides: order of the ids of source and target.
      origin: a sentence for the model card that says where the model comes from.
      license: SPDX name of the licence; '' if none is stated.
      notes: what people should know, a sentence each.
    """

    config: Config
    vocabulary: VocabularyPair
    arrays: Iterator[tuple[str, np.ndarray]]
    sides: Sequence[Side]
    origin: str
    license: str = ''
    notes: tuple[str, ...] = ()

    def parameters(self) -> Any:
        """Read the parameters: nested dicts of float32 arrays.

        Raises:
          UserError: if an array cannot be read or has values that are not finite.
        """
        wanted = named_parameters(parameter_shapes(self.config.model, self.vocabulary.sizes))
        params = {}
        for name, array in self.arrays:
            assert array.size == np.prod(wanted[name].shape), name
            params[name] = array.reshape(wanted[name].shape)
        assert params.keys() == wanted.keys(), params.keys() ^ wanted.keys()
        return traverse_util.unflatten_dict(params, sep='/')

    def write(self, folder: Path, name: str, license: str, data_note: str) -> str:
        """Write a release folder; return lines for people.

        Args:
          folder: an empty folder.
          name: of the model, for its card.
          license: SPDX name of the licence; '' for the one that the model states.
          data_note: text about the training data, for the card.
        """
        write_release(
            folder,
            config=self.config,
            vocabulary=self.vocabulary,
            params=self.parameters(),
            name=name,
            release=Release([], license or self.license, data_note),
            origin=self.origin,
        )
        model, sizes = self.config.model, self.vocabulary.sizes
        found = [
            f'{model.num_layers} layers of width {model.d_model}, {sizes.target:,} target pieces, '
            f'{model.activation}, {model.positions}, tied embeddings: {model.tied_embeddings}',
            *self.notes,
        ]
        codes = getattr(self.vocabulary.source, 'language_codes', ())
        if codes:
            found.append(f'texts must begin with a language: {", ".join(codes)}')
        return '\n'.join(found)


class Options:
    """The options of a file of another program, which are checked as they are asked for.

    Attributes:
      values: value of each option, by name.
      file: the file, for messages.
    """

    def __init__(self, values: Mapping[str, Any], file: Path | str):
        self.values = values
        self.file = str(file)

    def number(self, name: str, default: int | None = None) -> int:
        """Return a whole number; raise a UserError if it is none."""
        value = self.values.get(name, default)
        if type(value) is not int:
            raise UserError(
                f'{self.file!r} has {name}={shown(value)}, which must be a whole number: get the '
                'model again.'
            )
        return value

    def real(self, name: str, default: float) -> float:
        """Return a finite number; raise a UserError if it is none. None is the default."""
        value = self.values.get(name)
        if value is None:
            return default
        # A larger whole number is none that a float can hold.
        if type(value) not in (int, float) or not abs(value) <= 1e300:
            raise UserError(
                f'{self.file!r} has {name}={shown(value)}, which must be a number: get the model '
                'again.'
            )
        return float(value)

    def require(self, name: str, allowed: Sequence[Any], default: Any) -> Any:
        """Return an option; raise a UserError unless its value is allowed.

        Args:
          name: of the option.
          allowed: the values that can be imported.
          default: the value where the option is missing.
        """
        value = self.values.get(name, default)
        # 0 is equal to False.
        if not any(type(value) is type(one) and value == one for one in allowed):
            choices = ' or '.join(repr(one) for one in allowed)
            raise UserError(
                f'{self.file!r} has {name}={shown(value)}, and only models with {choices} can be '
                'imported.'
            )
        return value


@contextlib.contextmanager
def importing(options: Options) -> Iterator[None]:
    """A context in which a UserError about a field of our config names the file of the options."""
    try:
        yield
    except UserError as error:
        raise UserError(f'{options.file!r} cannot be imported: {error}') from error


class Reader:
    """Reads the arrays of a file and keeps account of them.

    Attributes:
      file: the arrays.
      path: of the file, for messages.
    """

    def __init__(self, file: ArrayFile, path: Path):
        """Read nothing yet.

        Args:
          file: the arrays.
          path: of the file, for messages.
        """
        self.file = file
        self.path = path
        self._planned: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the file has an array."""
        return name in self.file.shapes

    def plan(self, name: str, *shapes: tuple[int, ...]) -> None:
        """Check that an array of one of these shapes is there, before anything is read.

        Raises:
          UserError: if it is not.
        """
        found = self.file.shapes.get(name)
        if found not in shapes:
            is_there = 'no' if found is None else f'a {list(found)} array'
            raise UserError(
                f'{str(self.path)!r} has {is_there} {name}, which the options of the model make '
                f'{" or ".join(str(list(shape)) for shape in shapes)}: get the model again.'
            )
        self._planned.add(name)

    def check_complete(self, ignored: Callable[[str], bool]) -> None:
        """Raise a UserError if arrays are neither planned nor ignored."""
        more = sorted(x for x in self.file.shapes if x not in self._planned and not ignored(x))
        if more:
            raise UserError(
                f'{str(self.path)!r} has arrays that this importer does not know: {listing(more)}.'
            )

    def read(self, name: str) -> np.ndarray:
        """Return an array in float32.

        Raises:
          UserError: if the file is damaged, or values are not finite.
        """
        try:
            array = self.file.read(name)
        except (OSError, ValueError) as error:
            raise UserError(
                f'{str(self.path)!r} is damaged at {name} ({error}): get the model again.'
            ) from error
        if not np.isfinite(array).all():
            raise UserError(
                f'{str(self.path)!r} has values that are not finite in {name}: get the model again.'
            )
        return array


def plan_layers(
    reader: Reader, model: ModelConfig, name_of: Callable[[Place], str], *, rows_are_outputs: bool
) -> Callable[[], Iterator[tuple[str, np.ndarray]]]:
    """Check the arrays of all layers; return a function that yields them.

    Args:
      reader: the file.
      model: the sizes.
      name_of: an array's name in the file.
      rows_are_outputs: whether matrices are [out, in]; otherwise they are [in, out], and vectors
        are [1, n].
    """
    # Making the shapes of a thousand layers takes a minute.
    if model.num_layers > len(reader.file.shapes):
        raise UserError(
            f'{str(reader.path)!r} has {len(reader.file.shapes)} arrays, and the options of the '
            f'model make {model.num_layers} layers: get the model again.'
        )
    # The layers do not depend on the size of the vocabulary.
    shapes = named_parameters(parameter_shapes(model, 4))
    # Attention may have no biases, and only models of norm='pre' have last norms.
    places = [*layer_places(model.num_layers), *last_norm_places()]
    places = [place for place in places if place.ours in shapes]
    for place in places:
        inputs, outputs = _as_matrix(place, shapes[place.ours].shape)
        if place.is_matrix:
            shape = (outputs, inputs) if rows_are_outputs else (inputs, outputs)
            reader.plan(name_of(place), shape)
        else:
            reader.plan(name_of(place), (outputs,) if rows_are_outputs else (1, outputs))

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for place in places:
            array = reader.read(name_of(place))
            if place.is_matrix and rows_are_outputs:
                array = np.ascontiguousarray(array.T)
            yield place.ours, array

    return arrays


def _as_matrix(place: Place, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return inputs and outputs of a parameter; a vector has one input."""
    if not place.is_matrix:
        return 1, int(np.prod(shape))
    if place.ours.endswith('/output'):  # [N, H, D]
        return int(np.prod(shape[:-1])), shape[-1]
    return shape[0], int(np.prod(shape[1:]))


@dataclasses.dataclass
class Embeddings:
    """The embeddings and the output bias of a model, in the order of this package's ids.

    Attributes:
      source: [Vs, D]; the same object as `target` if they are tied.
      target: [V, D].
      output: [V, D]; the same object as `target` if they are tied.
      bias: [V].
    """

    source: np.ndarray
    target: np.ndarray
    output: np.ndarray
    bias: np.ndarray

    @classmethod
    def read(
        cls,
        read: Callable[[str], np.ndarray],
        names: Mapping[str, str],
        sides: Sequence[Side],
        bias: np.ndarray,
    ) -> 'Embeddings':
        """Read the embeddings; those with equal values become one.

        Args:
          read: returns an array [V, D] of a name.
          names: of the arrays for 'source', 'target' and 'output'.
          sides: the vocabularies of source and target; the same object twice if they are one.
          bias: [V] in the other program's order.
        """
        source_side, target_side = sides
        of_target = read(names['target'])
        target = target_side.permuted(of_target)

        def other(use: str, side: Side) -> np.ndarray:
            if side is target_side:
                same = names[use] == names['target']
                values = of_target if same else read(names[use])
                if same or np.array_equal(values, of_target):
                    return target
            return side.permuted(read(names[use]))

        return cls(
            other('source', source_side),
            target,
            other('output', target_side),
            target_side.permuted(bias[:, None])[:, 0],
        )

    def configured(self, model: ModelConfig) -> ModelConfig:
        """Return the model with these embeddings."""
        tied = 'none'
        if self.output is self.target:
            tied = 'all' if self.source is self.target else 'decoder'
        # Marian begins with a vector of zeros, for which Hugging Face has a row of zeros.
        start = 'padding' if self.target[0].any() else 'zero'
        return dataclasses.replace(model, tied_embeddings=tied, decoder_start=start)

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield path and values of each parameter."""
        yield 'embedding', self.target
        if not (self.source is self.target is self.output):
            yield 'source_embedding', self.source
        if self.output is not self.target:
            yield 'output_embedding', self.output
        yield 'output_bias', self.bias


def config_of(
    model: ModelConfig,
    decode: DecodeConfig,
    languages: Sequence[Any],
    name: str,
    vocabulary: VocabularyPair,
    *,
    shared: bool,
) -> Config:
    """Return the config of an imported model.

    Args:
      model: the network.
      decode: the search.
      languages: codes of source and target, if they are known.
      name: of the folder, whose end may name the languages, as in 'opus-mt-en-fr'.
      vocabulary: the vocabularies.
      shared: whether both languages share one table of ids.
    """
    by_name = re.search(r'-([A-Za-z]+(?:[_+][A-Za-z]+)*)-([A-Za-z]+(?:[_+][A-Za-z]+)*)$', name)
    of_name = by_name.groups() if by_name else ('und', 'und')  # ISO 639 for undetermined
    source, target = (
        code if isinstance(code, str) and code else other
        for code, other in zip(languages, of_name, strict=True)
    )
    data = DataConfig(
        corpus='none',
        source_language=source,
        target_language=target,
        vocab_size=vocabulary.target.size,
        shared_vocabulary=shared,
    )
    return Config(model=model, data=data, decode=decode)


def without_comparison(folder: Path) -> str:
    """Write to conversion.json that an import was not compared; return that for people."""
    write_report(folder, 'import', checks={})
    return 'not compared with the program that it comes from: --check does that'


def check_import(folder: Path, peer: Peer) -> str:
    """Compare an imported model with its original, and write what was found to conversion.json.

    Args:
      folder: of the imported model.
      peer: the program that has its original.

    Returns:
      What was found, for people.

    Raises:
      UserError: if the two do not compute the same.
    """
    trained = load_trained(folder)
    ours = Ours(trained.config, trained.vocabulary, trained.params)
    sentences = CheckSentences.drawn(trained.vocabulary.source, _CHECKED)
    comparison = Comparison(ours, peer, sentences.origin)
    sources = comparison.pieces(sentences.sources)
    comparison.values(sentences.pairs(ours))
    comparison.greedy(sources, _LONGEST)
    comparison.search(sources, _LONGEST)
    findings = comparison.findings
    write_report(folder, 'import', checks=findings.report())
    if not findings.passed:
        raise UserError(
            f'the imported model does not compute what its original does ({findings}): report it '
            'with the name of the model; without --check it is imported all the same.'
        )
    return str(findings)
