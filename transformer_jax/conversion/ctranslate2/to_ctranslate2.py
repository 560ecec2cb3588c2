"""Writes a trained model as a CTranslate2 model, by CTranslate2's own specification of layers."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from transformer_jax.config import Config, ModelConfig
from transformer_jax.conversion.ctranslate2.peer_ctranslate2 import CTranslate2Peer
from transformer_jax.conversion.exported import Proof, check_heads, write_readme
from transformer_jax.conversion.matrices import (
    Linear,
    attention_linear,
    concatenated,
    dense_linear,
)
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.data.vocabulary.table_vocabulary import EOS, PAD, UNKNOWN
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.model import sinusoidal_positions

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

# CTranslate2 cannot continue beyond the positions that are written out.
_POSITIONS = 2048
# Never chosen, and finite in all types.
_NEVER = -30_000.0


def export(original: Original, folder: Path, *, quantization: str = 'float32') -> str:
    """Write a CTranslate2 model with its vocabulary, and compare it with ours.

    Args:
      original: the model.
      folder: an empty folder.
      quantization: the type in which weights are stored, see --quantization.

    Returns:
      What was found, for people.

    Raises:
      UserError: if CTranslate2 is not installed or cannot express the model.
      RuntimeError: if CTranslate2 computes something else.
    """
    check_ctranslate2(original.config, '--to=ctranslate2')
    proof = ctranslate2_proof('ctranslate2', original, ctranslate2_notes(original.config))
    write_ctranslate2(proof, folder, quantization)
    names = vocabulary_files(original.vocabulary)
    for name, side in names.items():
        (folder / name).write_bytes(side.model)
    write_readme(original, folder, _use(original, [*names]))
    proof.write(folder)
    return proof.text()


def ctranslate2_proof(kind: str, original: Original, notes: list[str]) -> Proof:
    """Return an export of the model without rules of search, which CTranslate2's models lack."""
    plain = dataclasses.replace(
        original.config.decode, min_length=0, no_repeat_ngram=0, suppress_tokens=''
    )
    config = dataclasses.replace(original.config, decode=plain)
    return Proof(kind, dataclasses.replace(original, config=config), notes)


def write_ctranslate2(
    proof: Proof,
    folder: Path,
    quantization: str,
    peer: type[CTranslate2Peer] = CTranslate2Peer,
) -> None:
    """Write what CTranslate2 itself loads, after float32 weights have been compared.

    Args:
      proof: gets what was compared; its model is one that `check_ctranslate2` accepts.
      folder: an empty folder.
      quantization: as for `export`.
      peer: loads the model to compare it.
    """
    original = proof.original
    if quantization == 'float32':
        save_ctranslate2(original, folder)
        proof.check(peer(folder, original.vocabulary))
        return
    with tempfile.TemporaryDirectory() as unquantized:
        save_ctranslate2(original, Path(unquantized))
        proof.check(peer(Path(unquantized), original.vocabulary))
    save_ctranslate2(original, folder, quantization)
    after = peer(folder, original.vocabulary)
    proof.check_quantized(after, quantization, after.compute_type)


def save_ctranslate2(original: Original, folder: Path, quantization: str = 'float32') -> None:
    """Write model.bin, config.json and the tables of pieces."""
    spec = ctranslate2_spec(original)
    spec.validate()
    if 'bfloat16' in quantization:
        _round_to_bfloat16(spec, all_arrays=quantization == 'bfloat16')
    spec.optimize(None if quantization == 'float32' else quantization)
    spec.save(str(folder))


def check_ctranslate2(config: Config, flag: str) -> None:
    """Raise UserError if CTranslate2 is not installed or cannot express a model."""
    try:
        _ctranslate2()
    except ImportError as error:
        raise UserError(
            f"{flag} needs CTranslate2: pip install 'transformer_jax[ctranslate2]'."
        ) from error
    check_heads(config.model, 'CTranslate2')


def _ctranslate2() -> ModuleType:
    """Import CTranslate2, which is not installed with the package."""
    import ctranslate2
    import ctranslate2.specs.common_spec
    import ctranslate2.specs.model_spec

    return ctranslate2


def ctranslate2_notes(config: Config) -> list[str]:
    """Return what CTranslate2 does otherwise, a sentence each."""
    decode, notes = config.decode, []
    if decode.length_norm == 'gnmt' and decode.length_penalty and decode.beam_size > 1:
        notes.append(
            f'CTranslate2 ranks the outputs of beam search by log-probability / length^a and not '
            f'by / ((5 + length) / 6)^{decode.length_penalty:g}, so outputs of beam search can '
            'differ; those of greedy search do not.'
        )
    heads = decode.heads()
    if heads != tuple(range(len(heads))):
        notes.append(
            f'CTranslate2 takes alignments from the first heads of a layer, and not from those of '
            f'decode.alignment_heads={decode.alignment_heads!r}: all heads are used there.'
        )
    return notes


def vocabulary_files(vocabulary: VocabularyPair) -> dict[str, Vocabulary]:
    """Return the name of each SentencePiece file and the side of the vocabulary it is of."""
    if vocabulary.source.model == vocabulary.target.model:
        return {'vocabulary.model': vocabulary.source}
    return {'source.model': vocabulary.source, 'target.model': vocabulary.target}


def ctranslate2_spec(original: Original) -> 'TransformerSpec':
    """Return CTranslate2's specification of a model, with float32 arrays.

    Args:
      original: the model, which `check_ctranslate2` accepts.
    """
    specs = _ctranslate2().specs
    activation = specs.common_spec.Activation
    config, params = original.config.model, original.params
    source, target = original.vocabulary.source, original.vocabulary.target
    activations = {
        'relu': activation.RELU,
        'gelu': activation.GELU,
        'quick_gelu': activation.GELUSigmoid,
        'swish': activation.SWISH,
    }
    layer, heads = _alignment(original.config)
    spec = specs.TransformerSpec.from_config(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm == 'pre',
        activation=activations[config.activation],
        alignment_layer=layer,
        alignment_heads=heads,
    )
    for side in ('encoder', 'decoder'):
        stack, weights = getattr(spec, side), params[side]
        stack.position_encodings.encodings = _positions(config, weights)
        if config.norm == 'pre':
            _set_norm(stack.layer_norm, weights)
        for index, of_layer in enumerate(stack.layer):
            _set_layer(of_layer, weights[f'layer_{index}'])
    # Copies, because CTranslate2 quantizes in place.
    embedding_VD = np.array(params['embedding'])
    spec.decoder.embeddings.weight = embedding_VD
    spec.encoder.embeddings[0].weight = np.array(params.get('source_embedding', embedding_VD))
    output_VD = np.array(params.get('output_embedding', embedding_VD))
    bias_V = np.array(params.get('output_bias', np.zeros(target.size, np.float32)))
    bias_V[Vocabulary.pad_id] = _NEVER
    _set_linear(spec.decoder.projection, Linear(output_VD, bias_V))
    spec.decoder.start_from_zero_embedding = config.decoder_start == 'zero'

    spec.register_source_vocabulary(piece_table(source))
    spec.register_target_vocabulary(piece_table(target))
    spec.config.bos_token = spec.config.decoder_start_token = PAD
    spec.config.eos_token = EOS
    spec.config.unk_token = UNKNOWN
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _alignment(config: Config) -> tuple[int, int]:
    """Return CTranslate2's index of the layer and number of heads, 0 for all, of alignments."""
    layers = config.model.num_layers
    layer = config.decode.alignment_layer or max(1, layers - 1)
    heads = config.decode.heads()
    # It takes the mean of the first heads.
    return layer - 1, len(heads) if heads == tuple(range(len(heads))) else 0


def _positions(config: ModelConfig, weights: Any) -> np.ndarray:
    """Return the table [P, D] of the positions."""
    if config.positions == 'learned':
        return np.array(weights['positions']['table'])
    if config.positions == 'none':
        return np.zeros((_POSITIONS, config.d_model), np.float32)
    table_PD = sinusoidal_positions(
        jnp.arange(_POSITIONS),
        config.d_model,
        halves=config.positions != 'sinusoidal',
        inclusive=config.positions == 'sinusoidal_marian',
    )
    return np.array(table_PD)


def _set_layer(spec: Any, layer: Any) -> None:
    """Fill an encoder or decoder layer."""
    _set_attention(spec.self_attention, layer, 'self_attention')
    if 'cross_attention' in layer:
        _set_attention(spec.attention, layer, 'cross_attention')
    _set_norm(spec.ffn.layer_norm, layer['feed_forward_residual'])
    _set_linear(spec.ffn.linear_0, dense_linear(layer['feed_forward']['inner']))
    _set_linear(spec.ffn.linear_1, dense_linear(layer['feed_forward']['outer']))


def _set_attention(spec: Any, layer: Any, name: str) -> None:
    query, key, value, output = (
        attention_linear(layer[name], part) for part in ('query', 'key', 'value', 'output')
    )
    # What has the same input is one matrix.
    if name == 'self_attention':
        layers = [concatenated(query, key, value), output]
    else:
        layers = [query, concatenated(key, value), output]
    for linear, of_linear in zip(spec.linear, layers, strict=True):
        _set_linear(linear, of_linear)
    _set_norm(spec.layer_norm, layer[f'{name}_residual'])


def _set_linear(spec: Any, linear: Linear) -> None:
    spec.weight = linear.weight
    if linear.bias is not None:
        spec.bias = linear.bias


def _set_norm(spec: Any, residual: Any) -> None:
    norm = residual['norm']
    spec.gamma, spec.beta = np.array(norm['scale']), np.array(norm['bias'])


def _round_to_bfloat16(spec: 'TransformerSpec', *, all_arrays: bool) -> None:
    """Round arrays to bfloat16 here, because CTranslate2 needs PyTorch to do so.

    Args:
      spec: a specification that is validated.
      all_arrays: whether to include the matrices, which CTranslate2 can quantize instead.
    """
    model_spec = _ctranslate2().specs.model_spec
    array_of = model_spec.NumpyVariable

    def round_array(part: Any, name: str, value: Any) -> None:
        name = name.split('/')[-1]
        if not isinstance(value, array_of) or value.dtype != 'float32' or value.is_scalar():
            return
        if all_arrays or not hasattr(part, f'{name}_scale'):
            setattr(part, name, array_of(value.numpy().astype(ml_dtypes.bfloat16)))

    model_spec.visit_spec(spec, round_array)


def _use(original: Original, files: Sequence[str]) -> str:
    """Return the section of the README on how to use the folder."""
    decode, code = original.config.decode, ''
    penalty = 0 if decode.length_norm == 'none' else decode.length_penalty
    if getattr(original.vocabulary.source, 'language_codes', ()):
        code = 'The first piece of each input names the target language, and is put before the '
        code += f"others by hand: '{original.vocabulary.source.language_codes[0]}'.\n\n"
    most = original.config.model.max_sequence_length or _POSITIONS
    return (
        _USE.format(
            source=files[0],
            target=files[-1],
            beam_size=decode.beam_size,
            length_penalty=penalty,
        )
        + code
        + f'CTranslate2 cuts inputs at 1,024 tokens and outputs at 256 unless `max_input_length` '
        f'and `max_decoding_length` say otherwise; more than {most:,} tokens have no positions.'
    )


_USE = """\
```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file='{source}')
target = sentencepiece.SentencePieceProcessor(model_file='{target}')
translator = ctranslate2.Translator('.')
inputs = source.encode(['One sentence.', 'Another one.'], out_type=str)
for output in translator.translate_batch(
    inputs, beam_size={beam_size}, length_penalty={length_penalty:g}, min_decoding_length=0
):
    print(target.decode(output.hypotheses[0]))
```

"""
