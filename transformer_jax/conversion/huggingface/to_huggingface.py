"""Writes a trained model as a folder that Hugging Face's MarianMTModel and MarianTokenizer load."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.config import Config
from transformer_jax.conversion.exported import Proof, check_heads, write_readme
from transformer_jax.conversion.huggingface.peer_transformers import TransformersPeer
from transformer_jax.conversion.huggingface.width import halves_order, permute_width
from transformer_jax.conversion.marian.layers import layer_places
from transformer_jax.conversion.matrices import matrix
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.data.vocabulary.table_vocabulary import EOS, PAD, UNKNOWN
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.inference.load import named_parameters
from transformer_jax.storage.files import atomic_write
from transformer_jax.storage.weights import write_weights

NORM_EPSILON = 1e-5  # of MarianMTModel, which no option changes
_POSITIONS = 1024
_MAX_LENGTH = 512


def export(original: Original, folder: Path, *, dtype: str = 'float32') -> str:
    """Write a folder that MarianMTModel and MarianTokenizer load, and compare them with ours.

    Args:
      original: the model.
      folder: an empty folder.
      dtype: of the weights: 'float32' or 'bfloat16'.

    Returns:
      What was found, for people.

    Raises:
      UserError: if MarianMTModel cannot express the model.
      RuntimeError: if it computes something else.
    """
    check_huggingface(original.config)
    proof = Proof('huggingface', original, huggingface_notes(original.config))
    save_huggingface(original, folder)

    def peer() -> TransformersPeer:
        # The encoder's columns have another order there. MarianMTModel's other epsilon changes
        # logits by little of their size, and log-probabilities, in nats, by more.
        columns = np.arange(original.vocabulary.target.size)
        return TransformersPeer(folder, columns, only_logits=True)

    if peers_are_installed():
        proof.check(peer())
    else:
        proof.notes.append(
            'Nothing was compared, because transformers and torch are not installed: '
            "pip install 'transformer_jax[peers]'."
        )
    if dtype != 'float32':
        save_huggingface(original, folder, dtype)
        if proof.checks:
            proof.check_quantized(peer(), dtype, computed_in='float32')
    write_readme(original, folder, _USE)
    proof.write(folder)
    return proof.text()


def save_huggingface(original: Original, folder: Path, dtype: str = 'float32') -> None:
    """Write the files that Hugging Face's classes load."""
    tensors = huggingface_tensors(original)
    # Earlier versions of transformers ask for the format.
    write_weights(folder / 'model.safetensors', tensors, dtype, {'format': 'pt'})
    for name, content in _json_files(original, dtype).items():
        with atomic_write(folder / name) as file:
            json.dump(content, file, ensure_ascii=False, indent=2)
    (folder / 'source.spm').write_bytes(original.vocabulary.source.model)
    (folder / 'target.spm').write_bytes(original.vocabulary.target.model)


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


def huggingface_tensors(original: Original) -> dict[str, np.ndarray]:
    """Return the tensors of MarianMTModel by their names.

    Args:
      original: the model, which `check_huggingface` accepts.
    """
    config, params = original.config, original.params
    if config.model.positions == 'sinusoidal':
        params = permute_width(params, halves_order(config.model.d_model))
    ours = named_parameters(params)
    if config.model.tied_embeddings == 'all':
        tensors = {'model.shared.weight': ours['embedding']}
    else:
        tensors = {
            'model.encoder.embed_tokens.weight': ours['source_embedding'],
            'model.decoder.embed_tokens.weight': ours['embedding'],
        }
    if config.model.tied_embeddings == 'none':
        tensors['lm_head.weight'] = ours['output_embedding']
    bias_V = ours.get('output_bias', np.zeros(original.vocabulary.target.size, np.float32))
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


def _json_files(original: Original, dtype: str) -> dict[str, Any]:
    """Return the content of each JSON file of the folder."""
    source, target = original.vocabulary.source, original.vocabulary.target
    tables = [piece_table(source), piece_table(target)]
    files = {
        'config.json': _config(original, dtype),
        'generation_config.json': _special_ids(original.vocabulary) | _search(original),
        'tokenizer_config.json': {
            'tokenizer_class': 'MarianTokenizer',
            'source_lang': original.config.data.source_language,
            'target_lang': original.config.data.target_language,
            'pad_token': PAD,
            'eos_token': EOS,
            'unk_token': UNKNOWN,
            'model_max_length': _POSITIONS,
            'separate_vocabs': tables[0] != tables[1],
            # SentencePiece has restored the spaces of the text.
            'clean_up_tokenization_spaces': False,
        },
        'vocab.json': ids_of(tables[0]),
    }
    if tables[0] != tables[1]:
        files['target_vocab.json'] = ids_of(tables[1])
    return files


def ids_of(table: Sequence[str]) -> dict[str, int]:
    return {piece: k for k, piece in enumerate(table)}


def _special_ids(vocabulary: VocabularyPair) -> dict[str, int]:
    pad, eos = vocabulary.target.pad_id, vocabulary.eos_id
    return {
        'pad_token_id': pad,
        'eos_token_id': eos,
        'decoder_start_token_id': pad,
        'forced_eos_token_id': eos,
    }


def _config(original: Original, dtype: str) -> dict[str, Any]:
    model, vocabulary = original.config.model, original.vocabulary
    sizes = {
        'd_model': model.d_model,
        'vocab_size': vocabulary.source.size,
        'decoder_vocab_size': vocabulary.target.size,
    }
    for side in ('encoder', 'decoder'):
        sizes |= {
            f'{side}_layers': model.num_layers,
            f'{side}_attention_heads': model.num_heads,
            f'{side}_ffn_dim': model.d_ff,
        }
    return {
        'architectures': ['MarianMTModel'],
        'model_type': 'marian',
        'is_encoder_decoder': True,
        **sizes,
        **_special_ids(vocabulary),
        'activation_function': model.activation,
        'scale_embedding': True,
        'static_position_embeddings': True,
        'normalize_before': False,
        'normalize_embedding': False,
        'add_final_layer_norm': False,
        'share_encoder_decoder_embeddings': model.tied_embeddings == 'all',
        'tie_word_embeddings': model.tied_embeddings != 'none',
        'dropout': model.dropout_rate,
        'attention_dropout': model.attention_dropout_rate,
        'activation_dropout': model.activation_dropout_rate,
        'max_position_embeddings': _POSITIONS,
        'dtype': dtype,
        'torch_dtype': dtype,  # its name before version 5
    }


def _search(original: Original) -> dict[str, Any]:
    """Return the settings of the search, as far as Hugging Face has them."""
    decode, vocabulary = original.config.decode, original.vocabulary.target
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


def peers_are_installed() -> bool:
    """Whether transformers and torch can be imported."""
    return all(importlib.util.find_spec(name) for name in ('transformers', 'torch'))


_USE = """\
```python
from transformers import MarianMTModel, MarianTokenizer

model = MarianMTModel.from_pretrained('.')
tokenizer = MarianTokenizer.from_pretrained('.')
inputs = tokenizer(['One sentence.', 'Another one.'], return_tensors='pt', padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```"""
