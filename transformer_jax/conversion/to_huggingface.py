"""Writes a trained model as a folder that Hugging Face's MarianMTModel and MarianTokenizer load."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from transformer_jax import __version__
from transformer_jax.config import Config
from transformer_jax.conversion.marian_layers import layer_places
from transformer_jax.conversion.matrices import matrix
from transformer_jax.conversion.pieces import EOS, PAD, UNKNOWN, piece_table
from transformer_jax.conversion.to_ctranslate2 import check_heads
from transformer_jax.conversion.width import halves_order, permute_width
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.inference.load import TrainedModel, named_parameters
from transformer_jax.storage.files import atomic_write

DTYPES = {'float32': np.float32, 'bfloat16': ml_dtypes.bfloat16, 'float16': np.float16}
NORM_EPSILON = 1e-5  # of MarianMTModel, which no option changes
_FORMAT = 1
_POSITIONS = 1024
_MAX_LENGTH = 512


def to_huggingface(model: TrainedModel, folder: Path, dtype: str = 'float32') -> None:
    """Write the files of a Hugging Face model into an existing folder.

    config.json has a key 'transformer_jax' with our config, from which the model can be imported
    again without a change.

    Args:
      model: the trained model.
      folder: where to write.
      dtype: one of `DTYPES`, the type in which weights are stored.

    Raises:
      UserError: if MarianMTModel cannot express the model, or the dtype is unknown.
    """
    from safetensors.numpy import save_file

    if dtype not in DTYPES:
        raise UserError(
            f'--dtype={dtype} must be one of {", ".join(DTYPES)}{did_you_mean(dtype, DTYPES)}'
        )
    check_huggingface(model.config)
    tensors = huggingface_tensors(model.config, model.params, model.vocabulary.size)
    save_file(
        {name: x.astype(DTYPES[dtype], copy=False) for name, x in tensors.items()},
        folder / 'model.safetensors',
        metadata={'format': 'pt'},
    )
    for name, content in _json_files(model, dtype).items():
        with atomic_write(folder / name) as file:
            json.dump(content, file, ensure_ascii=False, indent=2)
    for name in ('source.spm', 'target.spm'):
        model.vocabulary.save(folder / name)


def check_huggingface(config: Config) -> None:
    """Raise UserError if MarianMTModel cannot express a model."""
    model = config.model
    peer = "Hugging Face's MarianMTModel"
    other = 'export to release, ctranslate2 or stablehlo.'
    if model.norm != 'post':
        raise UserError(
            f'model.norm={model.norm!r} cannot be expressed in {peer}, which normalises after each '
            f'sub-layer: {other}'
        )
    if model.positions not in ('sinusoidal', 'sinusoidal_halves'):
        raise UserError(
            f'model.positions={model.positions!r} cannot be expressed in {peer}, which computes '
            f'the sinusoids of the paper: {other}'
        )
    check_heads(model, peer)


def huggingface_notes(config: Config) -> list[str]:
    """Return what differs in Hugging Face's search or arithmetic, a sentence each."""
    decode, notes = config.decode, []
    if config.model.norm_epsilon != NORM_EPSILON:
        notes.append(
            f'Layer norm adds {NORM_EPSILON:g} to the variance in MarianMTModel and '
            f'{config.model.norm_epsilon:g} here (model.norm_epsilon).'
        )
    if decode.length_norm == 'gnmt' and decode.length_penalty:
        notes.append(
            f'Hugging Face ranks the outputs of beam search by log-probability / '
            f'length^{decode.length_penalty:g} and not by / ((5 + length) / '
            f'6)^{decode.length_penalty:g}, so outputs of beam search can differ; those of greedy '
            'search do not.'
        )
    if decode.coverage_penalty:
        notes.append('Hugging Face has no coverage penalty.')
    return notes


def huggingface_tensors(
    config: Config, params: Any, vocab_size: int
) -> dict[str, np.ndarray]:
    """Return the tensors of MarianMTModel by their names.

    Args:
      config: the model's config, which `check_huggingface` accepts.
      params: the model's parameters, nested dicts of float32 NumPy arrays.
      vocab_size: V.
    """
    if config.model.positions == 'sinusoidal':
        params = permute_width(params, halves_order(config.model.d_model))
    ours = named_parameters(params)
    tensors = {'model.shared.weight': ours['embedding']}
    bias_V = ours.get('output_bias', np.zeros(vocab_size, np.float32))
    tensors['final_logits_bias'] = bias_V[None]
    for place in layer_places(config.model.num_layers):
        if place.is_matrix:
            kernel = ours[place.ours]
            tensors[place.huggingface] = matrix(place.ours.split('/')[-1], kernel)
        elif place.ours in ours:
            tensors[place.huggingface] = ours[place.ours].reshape(-1)
        else:  # attention without biases
            width = config.model.d_model
            tensors[place.huggingface] = np.zeros(width, np.float32)
    return tensors


def _json_files(model: TrainedModel, dtype: str) -> dict[str, Any]:
    """Return the content of each JSON file of the folder."""
    config, vocabulary = model.config, model.vocabulary
    pad, eos = vocabulary.pad_id, vocabulary.eos_id
    special = {
        'pad_token_id': pad,
        'eos_token_id': eos,
        'decoder_start_token_id': pad,
        'forced_eos_token_id': eos,
    }
    sizes = {
        'd_model': config.model.d_model,
        'vocab_size': vocabulary.size,
        'decoder_vocab_size': vocabulary.size,
    }
    for side in ('encoder', 'decoder'):
        sizes |= {
            f'{side}_layers': config.model.num_layers,
            f'{side}_attention_heads': config.model.num_heads,
            f'{side}_ffn_dim': config.model.d_ff,
        }
    marian = {
        'architectures': ['MarianMTModel'],
        'model_type': 'marian',
        'is_encoder_decoder': True,
        **sizes,
        **special,
        'activation_function': config.model.activation,
        'dropout': config.model.dropout_rate,
        'attention_dropout': config.model.attention_dropout_rate,
        'activation_dropout': config.model.activation_dropout_rate,
        'max_position_embeddings': _POSITIONS,
        'scale_embedding': True,
        'static_position_embeddings': True,
        'normalize_before': False,
        'normalize_embedding': False,
        'add_final_layer_norm': False,
        'share_encoder_decoder_embeddings': True,
        'tie_word_embeddings': True,
        'dtype': dtype,
        'torch_dtype': dtype,  # its name before version 5
        'transformer_jax': {
            'format': _FORMAT,
            'version': __version__,
            'config': config.to_dict(),
            'steps': list(model.steps),
            'vocabulary_digest': vocabulary.digest,
        },
    }
    tokenizer = {
        'tokenizer_class': 'MarianTokenizer',
        'source_lang': config.data.source_language,
        'target_lang': config.data.target_language,
        'pad_token': PAD,
        'eos_token': EOS,
        'unk_token': UNKNOWN,
        'model_max_length': _POSITIONS,
        'separate_vocabs': False,
        # SentencePiece has restored the spaces of the text.
        'clean_up_tokenization_spaces': False,
    }
    return {
        'config.json': marian,
        'generation_config.json': special | _search(config, vocabulary),
        'tokenizer_config.json': tokenizer,
        'vocab.json': {piece: k for k, piece in enumerate(piece_table(vocabulary))},
    }


def _search(config: Config, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the settings of the search, as far as Hugging Face has them."""
    decode = config.decode
    search = {
        'num_beams': decode.beam_size,
        'length_penalty': 0.0 if decode.length_norm == 'none' else decode.length_penalty,
        'early_stopping': 'never' if decode.beam_size > 1 else False,
        'max_length': _MAX_LENGTH,
        'bad_words_ids': [[vocabulary.pad_id]],
    }
    if decode.min_length:
        search['min_new_tokens'] = decode.min_length
    if decode.no_repeat_ngram:
        search['no_repeat_ngram_size'] = decode.no_repeat_ngram
    if decode.suppress_tokens:
        pieces = decode.suppress_tokens.split()
        ids = vocabulary.ids_of_pieces(pieces, 'decode.suppress_tokens')
        search['suppress_tokens'] = ids.tolist()
    return search
