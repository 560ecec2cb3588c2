"""Imports folders that this package has written for Hugging Face, without a change of any value.

config.json has a key 'transformer_jax' with what Marian's config cannot say.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.config import Config, ModelConfig
from transformer_jax.conversion.huggingface.to_huggingface import FORMAT, architecture, ids_of
from transformer_jax.conversion.huggingface.width import interleaved_order, permute_width
from transformer_jax.conversion.imported import (
    Imported,
    Options,
    Reader,
    importing,
    plan_layers,
)
from transformer_jax.conversion.piece_tables import (
    Side,
    TableSide,
    piece_table,
    read_spm,
    read_table,
)
from transformer_jax.data.vocabulary.table_vocabulary import PAD
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, shown
from transformer_jax.storage.files import check_shape

KEY = 'transformer_jax'
_SHAPE = {
    'format': int,
    'config': {str: {str: (str, float, bool)}},
    'steps': [int],
    'vocabulary_digest': str,
}
_OUTPUT_BIAS = 'final_logits_bias'
_REMEDY = 'export the model again.'


def read_model(folder: Path, options: Options, reader: Reader) -> Imported:
    """Return the model of a folder.

    Args:
      folder: the folder.
      options: the content of config.json.
      reader: the arrays.

    Raises:
      UserError: if the folder is not complete, or has been changed.
    """
    ours = options.values[KEY]
    try:
        check_shape(ours, {'format': int}, KEY)
        if ours['format'] > FORMAT:
            raise ValueError(f'{KEY} has format {ours["format"]}, of a later version')
        check_shape(ours, _SHAPE, KEY)
    except ValueError as error:
        raise UserError(f'{options.file!r} cannot be read ({error}): {_REMEDY}') from error
    with importing(options):
        config = Config.from_mapping(ours['config'])
    config = dataclasses.replace(config, model=_with_biases(config.model, reader))
    vocabulary = _vocabulary(folder, options, ours['vocabulary_digest'])
    _check_unchanged(folder, options, config.model, vocabulary)
    sizes = vocabulary.sizes
    width, finish = config.model.d_model, _unchanged
    if config.model.positions == 'sinusoidal':

        def finish(params: Any) -> Any:
            return permute_width(params, interleaved_order(width))

    arrays = _embeddings(config.model)
    for path, name in arrays.items():
        rows = sizes.source if path == 'source_embedding' else sizes.target
        reader.plan(name, (1, rows) if path == 'output_bias' else (rows, width))
    layers = plan_layers(reader, config.model, lambda x: x.huggingface, rows_are_outputs=True)
    reader.check_complete(_is_bias)

    def parameters() -> Iterator[tuple[str, np.ndarray]]:
        for path, name in arrays.items():
            yield path, reader.read(name)
        yield from layers()

    return Imported(
        config,
        vocabulary,
        parameters(),
        [Side(size, pad=0) for size in (sizes.source, sizes.target)],
        origin='',
        steps=ours['steps'],
        finish=finish,
    )


def _check_unchanged(
    folder: Path, options: Options, model: ModelConfig, vocabulary: VocabularyPair
) -> None:
    """Raise UserError if what Hugging Face's classes read is not the model of the key."""
    undo = f'undo the change, or remove the key {KEY!r} to import what the other files say.'
    for name, value in architecture(model, vocabulary).items():
        if name in options.values and options.values[name] != value:
            raise UserError(
                f'{options.file!r} has {name}={shown(options.values[name])}, but the model of its '
                f'key {KEY!r} has {value!r}: {undo}'
            )
    sides = {'vocab.json': vocabulary.source, 'target_vocab.json': vocabulary.target}
    for name, side in sides.items():
        path = folder / name
        is_there = name == 'vocab.json' or path.exists()
        if is_there and read_table(path) != ids_of(piece_table(side)):
            raise UserError(
                f'{str(path)!r} has other pieces than the vocabulary of the key {KEY!r} of '
                f'config.json: {undo}'
            )


def _is_bias(name: str) -> bool:
    return name == _OUTPUT_BIAS or name.endswith('_proj.bias')


def _with_biases(model: ModelConfig, reader: Reader) -> ModelConfig:
    """Return the model with the biases that training elsewhere has made other than zero."""
    found = [name for name in reader.file.shapes if _is_bias(name) and reader.read(name).any()]
    return dataclasses.replace(
        model,
        output_bias=model.output_bias or _OUTPUT_BIAS in found,
        attention_bias=model.attention_bias or any(name != _OUTPUT_BIAS for name in found),
    )


def _unchanged(params: Any) -> Any:
    return params


def _embeddings(model: ModelConfig) -> dict[str, str]:
    """Return the name of the array of each parameter besides those of layers."""
    target = 'model.shared.weight'
    names = {}
    if model.tied_embeddings != 'all':
        target = 'model.decoder.embed_tokens.weight'
        names['source_embedding'] = 'model.encoder.embed_tokens.weight'
    if model.tied_embeddings == 'none':
        names['output_embedding'] = 'lm_head.weight'
    if model.output_bias:
        names['output_bias'] = _OUTPUT_BIAS
    return {'embedding': target, **names}


def _vocabulary(folder: Path, options: Options, digest: str) -> VocabularyPair:
    """Return the vocabularies of a folder, which are of the kind that has the digest."""
    models = [read_spm(folder / name) for name in ('source.spm', 'target.spm')]

    def tables() -> VocabularyPair:
        sides, path = [], folder / 'vocab.json'
        for is_source, name in ((True, 'vocab_size'), (False, 'decoder_vocab_size')):
            if not is_source and (folder / 'target_vocab.json').exists():
                path = folder / 'target_vocab.json'
            sides.append(TableSide(read_table(path), options.number(name), path, pad=PAD))
        return VocabularyPair(
            sides[0].vocabulary(folder / 'source.spm', is_source=True),
            sides[1].vocabulary(folder / 'target.spm', is_source=False),
        )

    def native() -> VocabularyPair:
        source = Vocabulary(models[0])
        return VocabularyPair(source, source if models[0] == models[1] else Vocabulary(models[1]))

    for read in (native, tables):
        try:
            found = read()
        except ValueError:  # a SentencePiece model without EOS has ids in a table only
            continue
        if found.digest == digest:
            return found
    raise UserError(
        f'{str(folder)!r} has another vocabulary than the one with digest {shown(digest)} that its '
        f'config.json names: {_REMEDY}'
    )
