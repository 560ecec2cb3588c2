"""Writes a trained model as a CTranslate2 model, by CTranslate2's own specification of layers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from transformer_jax.config import Config, ModelConfig
from transformer_jax.conversion.matrices import (
    Linear,
    attention_linear,
    concatenated,
    dense_linear,
)
from transformer_jax.conversion.pieces import EOS, PAD, UNKNOWN, piece_table
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.inference.load import TrainedModel
from transformer_jax.model import sinusoidal_positions

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

QUANTIZATIONS = (
    'float32',
    'float16',
    'bfloat16',
    'int16',
    'int8',
    'int8_float32',
    'int8_float16',
    'int8_bfloat16',
)
# CTranslate2 cannot continue beyond the positions that are written out.
_POSITIONS = 2048
# Never chosen, and finite in all types.
_NEVER = -30_000.0


def to_ctranslate2(
    model: TrainedModel, folder: Path, quantization: str = 'float32', positions: int = _POSITIONS
) -> None:
    """Write the files that CTranslate2 loads into an existing folder.

    Args:
      model: the trained model.
      folder: where to write.
      quantization: one of `QUANTIZATIONS`, the type in which weights are stored.
      positions: most tokens of a sentence, if positions are not learned.

    Raises:
      UserError: if CTranslate2 is not installed or cannot express the model, or the quantization is
        unknown.
    """
    if quantization not in QUANTIZATIONS:
        raise UserError(
            f'--quantization={quantization} must be one of {", ".join(QUANTIZATIONS)}'
            f'{did_you_mean(quantization, QUANTIZATIONS)}'
        )
    check_ctranslate2(model.config)
    spec = ctranslate2_spec(model, positions)
    spec.validate()
    if 'bfloat16' in quantization:
        _round_to_bfloat16(spec, all_arrays=quantization == 'bfloat16')
    spec.optimize(None if quantization == 'float32' else quantization)
    spec.save(str(folder))


def check_ctranslate2(config: Config) -> None:
    """Raise UserError if CTranslate2 is not installed or cannot express a model."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise UserError(
            '--to=ctranslate2 needs the package ctranslate2: '
            "pip install 'transformer_jax[ctranslate2]'."
        ) from error
    check_heads(config.model, 'CTranslate2')


def check_heads(config: ModelConfig, peer: str) -> None:
    """Raise UserError unless the heads share d_model, as other toolkits have it."""
    size = config.d_model / config.num_heads
    if (config.key_size, config.value_size) != (size, size):
        raise UserError(
            f'model.d_k={config.key_size} and model.d_v={config.value_size} cannot be expressed in '
            f'{peer}, whose heads have d_model / num_heads = {size:g} each: export to release or '
            'stablehlo.'
        )


def ctranslate2_spec(model: TrainedModel, positions: int = _POSITIONS) -> 'TransformerSpec':
    """Return CTranslate2's specification of a model, with float32 arrays.

    Args:
      model: the trained model, which `check_ctranslate2` accepts.
      positions: most tokens of a sentence, if positions are not learned.
    """
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config, params = model.config.model, model.params
    activations = {'relu': Activation.RELU, 'gelu': Activation.GELU, 'swish': Activation.SWISH}
    layer, heads = _alignment(model.config)
    spec = TransformerSpec.from_config(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm == 'pre',
        activation=activations[config.activation],
        alignment_layer=layer,
        alignment_heads=heads,
    )
    for side in ('encoder', 'decoder'):
        stack, weights = getattr(spec, side), params[side]
        stack.position_encodings.encodings = _positions(config, weights, positions)
        if config.norm == 'pre':
            _set_norm(stack.layer_norm, weights)
        for index, of_layer in enumerate(stack.layer):
            _set_layer(of_layer, weights[f'layer_{index}'])
    # A copy, because CTranslate2 quantizes in place.
    embedding_VD = np.array(params['embedding'])
    spec.encoder.embeddings[0].weight = embedding_VD
    spec.decoder.embeddings.weight = embedding_VD
    bias_V = np.array(params.get('output_bias', np.zeros(model.vocabulary.size, np.float32)))
    bias_V[Vocabulary.pad_id] = _NEVER
    _set_linear(spec.decoder.projection, Linear(embedding_VD, bias_V))

    spec.register_source_vocabulary(piece_table(model.vocabulary))
    spec.register_target_vocabulary(piece_table(model.vocabulary))
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


def _positions(config: ModelConfig, weights: Any, count: int) -> np.ndarray:
    """Return the table [P, D] of the positions."""
    if config.positions == 'learned':
        return weights['positions']['table']
    halves = config.positions == 'sinusoidal_halves'
    return np.asarray(sinusoidal_positions(jnp.arange(count), config.d_model, halves=halves))


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
    spec.gamma, spec.beta = residual['norm']['scale'], residual['norm']['bias']


def _round_to_bfloat16(spec: 'TransformerSpec', *, all_arrays: bool) -> None:
    """Round arrays to bfloat16 here, because CTranslate2 needs PyTorch to do so.

    Args:
      spec: a specification that is validated.
      all_arrays: whether to include the matrices, which CTranslate2 can quantize instead.
    """
    from ctranslate2.specs.model_spec import NumpyVariable, visit_spec

    def round_array(part: Any, name: str, value: Any) -> None:
        name = name.split('/')[-1]
        if not isinstance(value, NumpyVariable) or value.dtype != 'float32' or value.is_scalar():
            return
        if all_arrays or not hasattr(part, f'{name}_scale'):
            setattr(part, name, NumpyVariable(value.numpy().astype(ml_dtypes.bfloat16)))

    visit_spec(spec, round_array)
