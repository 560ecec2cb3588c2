"""Imports Marian models of Hugging Face, such as OPUS-MT, from their folders.

config.json, generation_config.json           the options
model.safetensors, or pytorch_model.bin       the arrays
vocab.json, target_vocab.json                 pieces and their ids
source.spm, target.spm                        SentencePiece models
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.config import DecodeConfig, ModelConfig
from transformer_jax.conversion.huggingface.peer_transformers import TransformersPeer
from transformer_jax.conversion.huggingface.torch_file import TorchFile
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
from transformer_jax.conversion.parity.peer import faults_of_peers
from transformer_jax.conversion.piece_tables import TableSide, joined, read_table
from transformer_jax.data.vocabulary.table_vocabulary import EOS, PAD, UNKNOWN
from transformer_jax.errors import UserError, first_line, listing
from transformer_jax.storage.files import check_shape, open_regular, read_json
from transformer_jax.storage.weights import WeightsFile

_ACTIVATIONS = {
    'relu': 'relu',
    'gelu': 'gelu',
    'quick_gelu': 'quick_gelu',
    'swish': 'swish',
    'silu': 'swish',
}
_SHARED = 'model.shared.weight'
_SOURCE = 'model.encoder.embed_tokens.weight'
_TARGET = 'model.decoder.embed_tokens.weight'
_OUTPUT = 'lm_head.weight'
_BIAS = 'final_logits_bias'
# Settings of its search that ours does not have, and the values with which they do nothing.
_OTHER_SETTINGS = {
    'do_sample': False,
    'num_beam_groups': 1,
    'penalty_alpha': None,
    'repetition_penalty': 1.0,
    'encoder_repetition_penalty': 1.0,
    'encoder_no_repeat_ngram_size': 0,
    'diversity_penalty': 0.0,
    'min_length': 0,
}


def recognises(path: Path) -> bool:
    """Return whether a path is a folder with a model of Hugging Face, of any type."""
    try:
        return 'model_type' in read_json(path / 'config.json', {})
    except (OSError, ValueError):
        return False


def read_model(folder: Path) -> Imported:
    """Return the model of a folder; the arrays of its layers are read later, one by one.

    Raises:
      UserError: if the folder is not complete, or its model is of another kind.
    """
    options = _options(folder, 'config.json')
    options.require('model_type', ['marian'], None)
    model = _model_config(options)
    tokenizer = _options(folder, 'tokenizer_config.json', {})
    sides = _sides(folder, options, tokenizer)
    vocabulary = joined(sides, folder)
    pad = sides[1].order[0]
    start = options.number('decoder_start_token_id', int(pad))
    if start != pad:
        raise UserError(
            f'{options.file!r} has decoder_start_token_id={start}, and only models that start with '
            f'padding, which is {pad}, can be imported.'
        )
    generation = _options(folder, 'generation_config.json', options.values)
    decode, notes = _decode_config(generation, sides[1])
    path, file = _open_arrays(folder)
    reader = Reader(file, path)
    embeddings = _embeddings(reader, options, sides, model.d_model)
    model = embeddings.configured(model)
    layers = plan_layers(reader, model, lambda place: place.huggingface, rows_are_outputs=True)
    reader.check_complete(
        lambda name: name in (_SHARED, _SOURCE, _TARGET, _OUTPUT, _BIAS) or 'embed_pos' in name
    )
    if generation.values.get('renormalize_logits') is True:
        embeddings.bias[0] = NEVER  # as if padding were no token

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        yield from embeddings.parameters()
        yield from layers()

    languages = [tokenizer.values.get(f'{side}_lang') for side in ('source', 'target')]
    return Imported(
        config_of(model, decode, languages, folder.name, vocabulary, shared=sides[0] is sides[1]),
        vocabulary,
        arrays(),
        sides,
        f'Its weights are those of the Hugging Face model {folder.name}.',
        license=_license(folder),
        notes=tuple(notes),
    )


def import_model(
    path: Path, folder: Path, *, check: bool = False, license: str = '', data_note: str = ''
) -> str:
    """Write a model of Hugging Face as a release folder.

    Args:
      path: of its folder.
      folder: an empty folder.
      check: whether to compare it with transformers.
      license: SPDX name of the licence, for the card.
      data_note: text about the training data, for the card.

    Returns:
      What was found, for people.
    """
    model = read_model(path)
    found = model.write(folder, path.resolve().name, license, data_note)
    if not check:
        return f'{found}\n{without_comparison(folder)}'
    with faults_of_peers('transformers'):
        # Without padding, whose logit is another one here if Hugging Face renormalises.
        peer = TransformersPeer(path, columns=model.sides[1].order[1:])
        return f'{found}\n{check_import(folder, peer)}'


def _options(folder: Path, name: str, default: dict[str, Any] | None = None) -> Options:
    """Return the options of a JSON file, in addition to `default` ones, which make it optional."""
    path = folder / name
    try:
        return Options({**(default or {}), **read_json(path, {})}, path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and default is not None:
            return Options(default, path)
        raise UserError(
            f'{str(path)!r} cannot be read ({first_line(error)}): get the model again.'
        ) from error


def _model_config(options: Options) -> ModelConfig:
    for name, value in {
        'scale_embedding': True,
        'static_position_embeddings': True,
        'normalize_embedding': False,
        'normalize_before': False,
        'add_final_layer_norm': False,
    }.items():
        # transformers takes no notice of the others, which its converter writes.
        options.require(name, [value], False if name == 'scale_embedding' else value)
    sizes = {}
    for ours, theirs in (
        ('num_layers', 'layers'),
        ('num_heads', 'attention_heads'),
        ('d_ff', 'ffn_dim'),
    ):
        name = f'encoder_{theirs}'
        sizes[ours] = options.number(name)
        options.require(f'decoder_{theirs}', [sizes[ours]], None)
        if sizes[ours] < 1:
            raise UserError(
                f'{options.file!r} has {name}={sizes[ours]}, which must be 1 or more: get the '
                'model again.'
            )
    activation = options.require('activation_function', list(_ACTIVATIONS), None)
    rates = {
        f'{ours}_rate': options.real(theirs, 0.0)
        for ours, theirs in (
            ('dropout', 'dropout'),
            ('attention_dropout', 'attention_dropout'),
            ('activation_dropout', 'activation_dropout'),
        )
    }
    d_model = options.number('d_model')
    with importing(options):
        return ModelConfig(
            d_model=d_model,
            **sizes,
            **rates,
            activation=_ACTIVATIONS[activation],
            attention_bias=True,
            output_bias=True,
            norm_epsilon=1e-5,
            positions='sinusoidal_halves',
        )


def _sides(folder: Path, options: Options, tokenizer: Options) -> list[TableSide]:
    size = options.number('vocab_size')
    for name, piece in (('eos_token', EOS), ('unk_token', UNKNOWN), ('pad_token', PAD)):
        token = tokenizer.values.get(name, piece)
        token = token.get('content') if isinstance(token, dict) else token
        Options({name: token}, tokenizer.file).require(name, [piece], piece)
    path = folder / 'vocab.json'
    source = TableSide(read_table(path), size, path, pad=PAD)
    _check_added(folder, tokenizer, source)
    if options.values.get('share_encoder_decoder_embeddings', True):
        return [source, source]
    path = folder / 'target_vocab.json'
    if not path.exists():
        if tokenizer.values.get('separate_vocabs') is False:
            return [source, source]
        raise UserError(
            f'{str(path)!r} is missing, and {options.file!r} has '
            'share_encoder_decoder_embeddings=False: get the vocabulary of the target side.'
        )
    target_size = options.number('decoder_vocab_size', size)
    return [source, TableSide(read_table(path), target_size, path, pad=PAD)]


def _check_added(folder: Path, tokenizer: Options, side: TableSide) -> None:
    """Raise a UserError if the tokenizer has tokens that its vocabulary does not have.

    It takes them out of a text before SentencePiece sees that, which no vocabulary here does.
    """
    files = [
        (_options(folder, name, {}), key)
        for name, key in (
            ('added_tokens.json', None),
            ('tokenizer.json', 'added_tokens'),
            ('special_tokens_map.json', 'additional_special_tokens'),
        )
    ]
    files += [(tokenizer, 'added_tokens_decoder'), (tokenizer, 'additional_special_tokens')]
    known = {*side.pieces}
    for options, key in files:
        added = options.values if key is None else options.values.get(key) or []
        if key is not None and isinstance(added, dict):
            added = added.values()
        elif not isinstance(added, list | dict):
            added = [added]
        tokens = [x.get('content') if isinstance(x, dict) else x for x in added]
        lacking = [str(x) for x in tokens if not isinstance(x, str) or x not in known]
        if lacking:
            raise UserError(
                f'{options.file!r} adds {listing(lacking)} to the pieces of vocab.json, and added '
                'tokens cannot be imported: get the model as it was before they were added.'
            )


def _decode_config(options: Options, side: TableSide) -> tuple[DecodeConfig, list[str]]:
    values = {name: value for name, value in options.values.items() if value is not None}
    notes = [
        f'{name}={values[name]!r} of its search has no equal here and is left out.'
        for name, default in _OTHER_SETTINGS.items()
        if values.get(name, default) != default
    ]
    suppressed, settings = [], Options(values, options.file)
    lists = {name: values.get(name, []) for name in ('bad_words_ids', 'suppress_tokens')}
    try:
        check_shape(lists, {'bad_words_ids': [[int]], 'suppress_tokens': [int]})
    except ValueError as error:
        raise UserError(f'{options.file!r}: {error}; get the model again.') from error
    never = [('suppress_tokens', [token]) for token in lists['suppress_tokens']]
    for name, words in [*(('bad_words_ids', x) for x in lists['bad_words_ids']), *never]:
        if len(words) != 1:
            notes.append(f'{name}={words!r} of several tokens are left out.')
        elif not 0 <= words[0] < len(side.pieces):
            raise UserError(
                f'{options.file!r} has {name} with {words[0]}, but ids are 0 to '
                f'{len(side.pieces) - 1:,}: get the model again.'
            )
        elif words[0] != side.order[0]:  # padding is never part of an output
            suppressed.append(side.pieces[words[0]])
    fields = {
        'beam_size': settings.number('num_beams', 1),
        'length_penalty': settings.real('length_penalty', 1.0),
        'min_length': settings.number('min_new_tokens', 0),
        'no_repeat_ngram': settings.number('no_repeat_ngram_size', 0),
    }
    with importing(settings):
        config = DecodeConfig(
            **fields,
            length_norm='power',
            suppress_tokens=' '.join(suppressed),
            max_extra_length=MAX_EXTRA_LENGTH,
            average_checkpoints=1,
        )
    return config, notes


def _open_arrays(folder: Path):
    path = folder / 'model.safetensors'
    if not path.exists() and (folder / 'pytorch_model.bin').exists():
        path = folder / 'pytorch_model.bin'
        return path, TorchFile(path)
    try:
        return path, WeightsFile(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f'{str(path)!r} cannot be read ({first_line(error)}): get the model again; the folder '
            'must have a model.safetensors or a pytorch_model.bin.'
        ) from error


def _embeddings(
    reader: Reader, options: Options, sides: list[TableSide], d_model: int
) -> Embeddings:
    """Read the embeddings. The arrays that are there decide which of them are tied."""
    share = options.values.get('share_encoder_decoder_embeddings', True)
    tied = options.values.get('tie_word_embeddings', True)
    shared = [_SHARED, _TARGET, _SOURCE] if share else []
    names = {
        'source': [_SOURCE, *shared, *([_OUTPUT] if share and tied else [])],
        'target': [_TARGET, *shared, *([_OUTPUT] if tied else [])],
        'output': [_OUTPUT, *([_TARGET, *shared] if tied else [])],
    }
    chosen = {use: next(filter(reader.has, of_use), of_use[0]) for use, of_use in names.items()}
    source, target = sides
    for use, name in chosen.items():
        side = source if use == 'source' else target
        reader.plan(name, (len(side.order), d_model))
    bias = np.zeros(len(target.order), np.float32)
    if reader.has(_BIAS):
        reader.plan(_BIAS, (1, len(bias)))
        bias = reader.read(_BIAS)[0]
    return Embeddings.read(reader.read, chosen, sides, bias)


def _license(folder: Path) -> str:
    """Return the licence in the header of a model card."""
    try:
        with open_regular(folder / 'README.md') as file:
            header = file.read(10_000).decode(errors='replace')
    except OSError:
        return ''
    found = re.search(
        r'\A---\n(?:.*\n)*?license: *["\']?([\w.-]+)["\']? *\n(?:.*\n)*?---\n', header
    )
    return found[1] if found else ''
