"""Imports models of Marian itself (https://marian-nmt.github.io) from their folders.

decoder.yml                 names the files and the settings of the search; optional
model.npz                   the arrays, and the options of the model in YAML
vocab.yml, vocab.json       pieces and their ids, with source.spm and target.spm beside it
vocab.spm                   or instead: SentencePiece models
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.config import DecodeConfig, ModelConfig
from transformer_jax.conversion.imported import (
    MAX_EXTRA_LENGTH,
    NEVER,
    Embeddings,
    Imported,
    Options,
    Reader,
    check_import,
    config_of,
    importing,
    plan_layers,
    without_comparison,
)
from transformer_jax.conversion.marian.layers import Place
from transformer_jax.conversion.marian.npz_file import NpzFile
from transformer_jax.conversion.marian.peer_pymarian import PymarianPeer
from transformer_jax.conversion.parity.peer import faults_of_peers
from transformer_jax.conversion.piece_tables import Side, TableSide, joined, read_spm, read_table
from transformer_jax.data.vocabulary.table_vocabulary import UNKNOWN
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, first_line, listing, shown
from transformer_jax.storage.files import read_regular
from transformer_jax.storage.yaml_text import parse_yaml

_OPTIONS = 'special:model.yml'
_BIAS = 'decoder_ff_logit_out_b'
_LARGEST_SETTINGS = 1 << 20  # bytes
# Options with other values give the model other layers; the value if an option is missing.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    'type': ('transformer',),
    'transformer-postprocess-emb': ('d', ''),
    'transformer-decoder-autoreg': ('self-attention',),
    'transformer-ffn-depth': (2,),
    'transformer-decoder-ffn-depth': (0, 2),
    'transformer-attention-mask': ('default',),
    'transformer-tied-layers': ([],),
    'input-types': ([], ['sequence', 'sequence']),
    **dict.fromkeys(
        (
            'layer-normalization',
            'right-left',
            'transformer-disable-position-embeddings',
            'transformer-no-affine',
            'transformer-no-bias',
            'transformer-no-projection',
            'transformer-pool',
            'transformer-rnn-projection',
            'transformer-train-position-embeddings',
            'ulr',
        ),
        (False,),
    ),
}
# What happens before and after each sub-layer, and after the last one, without dropout: a adds the
# sub-layer's input, n normalises.
_NORMS = {('', 'an', ''): 'post', ('n', 'a', 'n'): 'pre'}
_ACTIVATIONS = {'swish': 'swish', 'relu': 'relu', 'ReLU': 'relu', 'gelu': 'gelu'}


def recognises(path: Path) -> bool:
    """Return whether a path is a model of Marian: its folder, or its model.npz or decoder.yml."""
    if path.is_dir():
        return any(path.glob('*.npz')) or any(path.glob('*decoder.yml'))
    return path.suffix in ('.npz', '.yml') and path.is_file()


def read_model(path: Path) -> Imported:
    """Return a model; the arrays of its layers are read later, one by one.

    Args:
      path: of the folder, or of its model.npz or decoder.yml.

    Raises:
      UserError: if the folder is not complete, or its model is of another kind.
    """
    folder = path if path.is_dir() else path.parent
    settings = _settings(path)
    arrays_path = _arrays_path(path, settings)
    file = NpzFile(arrays_path)
    options = _read_options(file, arrays_path)
    file.check_types({np.float32, np.float16}, ignored=_OPTIONS)
    model = _model_config(options)
    sizes = options.values.get('dim-vocabs')
    if not isinstance(sizes, list) or len(sizes) != 2 or {type(size) for size in sizes} != {int}:
        raise UserError(
            f'{options.file!r} has dim-vocabs={shown(sizes)}, and only models with a source and a '
            'target can be imported.'
        )
    sides, vocabulary = _vocabularies(folder, settings, sizes)
    reader = Reader(file, arrays_path)
    embeddings = _embeddings(reader, options, sides, model.d_model)
    model = embeddings.configured(model)
    suffix = '_pre' if model.norm == 'pre' else ''

    def name_of(place: Place) -> str:
        return place.marian + (suffix if '_residual/norm/' in place.ours else '')

    layers = plan_layers(reader, model, name_of, rows_are_outputs=False)
    reader.check_complete(lambda name: name.startswith('special:'))

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        yield from embeddings.parameters()
        yield from layers()

    return Imported(
        config_of(
            model,
            _decode_config(settings),
            (None, None),
            folder.name,
            vocabulary,
            shared=sides[0] is sides[1],
        ),
        vocabulary,
        arrays(),
        sides,
        f'Its weights are those of the Marian model {arrays_path.name}.',
        notes=(
            f'Marian cuts an output at {settings.real("max-length-factor", 3.0):g} times the '
            f'tokens of its source; here it has at most {MAX_EXTRA_LENGTH} tokens more than the '
            'source (decode.max_extra_length).',
        ),
    )


def import_model(
    path: Path, folder: Path, *, check: bool = False, license: str = '', data_note: str = ''
) -> str:
    """Write a model of Marian as a release folder.

    Args:
      path: as for `read_model`.
      folder: an empty folder.
      check: whether to compare it with pymarian.
      license: SPDX name of the licence, for the card.
      data_note: text about the training data, for the card.

    Returns:
      What was found, for people.
    """
    peer = peer_of(path) if check else None
    name = (path if path.is_dir() else path.parent).resolve().name
    found = read_model(path).write(folder, name, license, data_note)
    if peer is None:
        return f'{found}\n{without_comparison(folder)}'
    with faults_of_peers('pymarian'):
        return f'{found}\n{check_import(folder, peer)}'


def _read_options(file: NpzFile, path: Path) -> Options:
    """Return the options of a model that its file holds."""
    if _OPTIONS not in file.shapes:
        raise UserError(f'{str(path)!r} has no {_OPTIONS}: it is no model of Marian.')
    try:
        text = file.read_raw(_OPTIONS).tobytes().rstrip(b'\0')
        return Options(parse_yaml(text, {}), f'{path}: {_OPTIONS}')
    except ValueError as error:
        raise UserError(
            f'{str(path)!r} has options that cannot be read ({_OPTIONS}: {error}): get the model '
            'again.'
        ) from error


def _settings(path: Path) -> Options:
    """Return the content of decoder.yml; nothing if there is none."""
    if path.is_dir():
        named = sorted(path.glob('decoder.yml')) or sorted(path.glob('*.decoder.yml'))
        if len(named) > 1:
            raise UserError(
                f'--from={str(path)!r} has several decoder files ({listing(x.name for x in named)}'
                '): name one of them with --from.'
            )
        file = named[0] if named else path / 'decoder.yml'
    else:
        file = path if path.suffix == '.yml' else path.with_name(f'{path.name}.decoder.yml')
    try:
        values = parse_yaml(read_regular(file, _LARGEST_SETTINGS), {})
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError) as error:
        raise UserError(
            f'{str(file)!r} cannot be read ({first_line(error)}): get the file again.'
        ) from error
    return Options(values, file)


def _inside(folder: Path, name: Any) -> Path:
    """Return a file of the folder that a decoder.yml names, whose folders are another machine's."""
    last = Path(name).name if isinstance(name, str) else ''
    if not last or '\0' in last:
        raise UserError(
            f'the decoder.yml of {str(folder)!r} names the file {shown(name)}: give it names of '
            'files.'
        )
    return folder / last


def _arrays_path(path: Path, settings: Options) -> Path:
    if path.suffix == '.npz' and not path.is_dir():
        return path
    folder = path if path.is_dir() else path.parent
    named = settings.values.get('models')
    found = [_inside(folder, name) for name in named] if isinstance(named, list) else []
    found = found or sorted(x for x in folder.glob('*.npz') if '.optimizer.' not in x.name)
    if len(found) != 1:
        raise UserError(
            f'--from={str(path)!r} has {len(found)} models ({listing(x.name for x in found)}): '
            'name one model.npz with --from; several can be used together as an ensemble.'
        )
    return found[0]


def _model_config(options: Options) -> ModelConfig:
    for name, allowed in _REQUIRED.items():
        options.require(name, allowed, allowed[0])
    layers, inner = options.number('enc-depth'), options.number('transformer-dim-ffn')
    options.require('dec-depth', [layers], layers)
    options.require('transformer-decoder-dim-ffn', [0, inner], 0)
    activation = options.require('transformer-ffn-activation', list(_ACTIVATIONS), 'swish')
    d_model, num_heads = options.number('dim-emb'), options.number('transformer-heads')
    norm = _norm(options)
    with importing(options):
        return ModelConfig(
            num_layers=layers,
            d_model=d_model,
            d_ff=inner,
            num_heads=num_heads,
            activation=_ACTIVATIONS[activation],
            attention_bias=True,
            output_bias=True,
            norm=norm,
            norm_epsilon=1e-9,
            positions='sinusoidal_marian',
        )


def _norm(options: Options) -> str:
    """Return the value of `ModelConfig.norm` that computes what three options say."""
    default = {'preprocess': '', 'postprocess': 'dan', 'postprocess-top': ''}
    given = {
        name: options.values.get(name, value)
        for name, value in ((f'transformer-{x}', value) for x, value in default.items())
    }
    letters = tuple(x.replace('d', '') if isinstance(x, str) else None for x in given.values())
    if letters not in _NORMS:
        raise UserError(
            f'{options.file!r} has {", ".join(f"{x}={shown(y)}" for x, y in given.items())}, and '
            "only models that normalise after each layer ('', 'dan', '') or before it ('n', 'da', "
            "'n') can be imported."
        )
    return _NORMS[letters]


def _vocabulary_paths(folder: Path, settings: Options) -> list[Path]:
    named = settings.values.get('vocabs')
    if isinstance(named, list) and len(named) == 2:
        paths = [_inside(folder, name) for name in named]
    else:
        found = sorted(folder.glob('*vocab*.yml')) + sorted(folder.glob('*vocab*.spm'))
        if len(found) != 1:
            raise UserError(
                f'{str(folder)!r} has no decoder.yml that names the two vocabularies, and '
                f'{len(found)} files like *vocab*.yml: get the decoder.yml of the model.'
            )
        paths = found * 2
    return paths


def _vocabularies(
    folder: Path, settings: Options, sizes: list[int]
) -> tuple[list[Side], VocabularyPair]:
    paths = _vocabulary_paths(folder, settings)
    same = paths[0] == paths[1]
    if all(path.suffix == '.spm' for path in paths):
        return _sentencepiece(paths, sizes)
    for path in paths:
        if path.suffix not in ('.yml', '.yaml', '.json'):
            raise UserError(
                f'{str(path)!r} is a vocabulary of another kind: only .yml, .json and .spm can be '
                'imported.'
            )
    source = TableSide(read_table(paths[0]), sizes[0], paths[0])
    target = source if same else TableSide(read_table(paths[1]), sizes[1], paths[1])
    sides = [source, target]
    return sides, joined(sides, folder)


def _sentencepiece(paths: list[Path], sizes: list[int]) -> tuple[list[Side], VocabularyPair]:
    """Return the vocabularies where ids are those of SentencePiece."""
    vocabularies, sides = [], []
    for path, size in zip(paths, sizes, strict=True):
        content = read_spm(path)
        try:
            vocabulary = Vocabulary(content)
            if vocabulary.size != size + 1:  # padding comes in addition
                raise ValueError(
                    f'of {vocabulary.size - 1:,} pieces, but the model has {size:,} embeddings'
                )
        except ValueError as error:
            raise UserError(f'{str(path)!r} is {error}: get the file again.') from error
        vocabularies.append(vocabulary)
        sides.append(Side(size))
    if paths[0] == paths[1]:
        vocabularies, sides = vocabularies[:1] * 2, sides[:1] * 2
    try:
        return sides, VocabularyPair(*vocabularies)
    except ValueError as error:
        raise UserError(f'{str(paths[1])!r} cannot be used: {error}') from error


def _embeddings(reader: Reader, options: Options, sides: list[Side], d_model: int) -> Embeddings:
    tied_all = options.values.get('tied-embeddings-all') is True
    both = tied_all or options.values.get('tied-embeddings-src') is True
    names = dict.fromkeys(('source', 'target', 'output'), 'Wemb')
    if not both:
        names = {'source': 'encoder_Wemb', 'target': 'decoder_Wemb', 'output': 'decoder_Wemb'}
    if not (tied_all or options.values.get('tied-embeddings') is True):
        output = 'decoder_ff_logit_out_W'
        names['output'] = f'{output}t' if reader.has(f'{output}t') else output
    rows = {use: side.size for use, side in zip(names, (*sides, sides[1]), strict=True)}
    for use, name in names.items():
        shape = (rows[use], d_model)
        reader.plan(name, shape[::-1] if name.endswith('_W') else shape)

    def read(name: str) -> np.ndarray:
        array = reader.read(name)
        return array.T if name.endswith('_W') else array

    bias = np.zeros(sides[1].size, np.float32)
    if options.values.get('output-omit-bias') is not True:
        reader.plan(_BIAS, (1, len(bias)))
        bias = reader.read(_BIAS)[0]
    embeddings = Embeddings.read(read, names, sides, bias)
    embeddings.bias[0] = NEVER  # Marian has no padding
    return embeddings


def _decode_config(settings: Options) -> DecodeConfig:
    normalize = settings.values.get('normalize')
    length_penalty = 1.0 if normalize is True else settings.real('normalize', 0.0)
    settings.require('word-penalty', [0, 0.0], 0)
    beam_size = settings.number('beam-size', 6)
    with importing(settings):
        return DecodeConfig(
            beam_size=beam_size,
            length_norm='power',
            length_penalty=length_penalty,
            suppress_tokens='' if settings.values.get('allow-unk') is True else UNKNOWN,
            max_extra_length=MAX_EXTRA_LENGTH,
            average_checkpoints=1,
        )


def peer_of(path: Path) -> PymarianPeer:
    """Return Marian with a model, to compare an import with.

    Args:
      path: as for `read_model`.
    """
    folder = path if path.is_dir() else path.parent
    settings = _settings(path)
    vocabularies = _vocabulary_paths(folder, settings)
    decode = _decode_config(settings)
    models = [
        read_spm(path if path.suffix == '.spm' else folder / name)
        for path, name in zip(vocabularies, ('source.spm', 'target.spm'), strict=True)
    ]
    return PymarianPeer(
        _arrays_path(path, settings),
        vocabularies,
        models,
        length_penalty=decode.length_penalty,
        allow_unknown=not decode.suppress_tokens,
    )
