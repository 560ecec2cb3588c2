"""CTranslate2 with weights of ours, for speed.py."""

import math
import os
import tempfile

import ctranslate2
import jax
import jax.numpy as jnp
import numpy as np
from ctranslate2.specs import TransformerSpec
from peers.speed import BEAM_SIZE

from transformer_jax.model import Transformer, sinusoidal_positions


def prepare(work, option=''):
    """As `speed_ours.prepare`; the option is how many sentences are translated at a time, if not as
    many as we translate, and after a comma the type it computes with: ',int8'."""
    size, _, dtype = option.partition(',')
    model = Transformer(work.model, work.vocab_size)
    one = jnp.zeros((1, 1), jnp.int32)
    params = jax.jit(model.init)(jax.random.key(0), one, one)['params']
    tokens = ['<pad>', '</s>', '<unk>', *map(str, range(3, work.vocab_size))]
    with tempfile.TemporaryDirectory() as folder:
        save(work.model, jax.tree.map(np.asarray, params), tokens, folder)
        translator = ctranslate2.Translator(
            folder,
            device='cpu',
            inter_threads=1,
            intra_threads=os.cpu_count(),
            compute_type=dtype or 'float32',
        )
    sentences = [[tokens[i] for i in ids] for ids in work.sentences()]

    def run():
        found = translator.translate_batch(
            sentences,
            beam_size=BEAM_SIZE,
            max_batch_size=int(size or work.together),
            min_decoding_length=work.length,
            max_decoding_length=work.length,
        )
        return sum(len(result.hypotheses[0]) for result in found)

    return f'ctranslate2 {ctranslate2.__version__} ({translator.compute_type})', run


def save(config, params, tokens, folder):
    """Writes a model of CTranslate2 with weights of ours."""
    spec = TransformerSpec.from_config(
        config.num_layers, config.num_heads, pre_norm=config.norm == 'pre'
    )
    width = config.d_model
    embedding = params['embedding']
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = math.sqrt(width)
    table = np.asarray(sinusoidal_positions(jnp.arange(1024), width))
    spec.encoder.position_encodings.encodings = table
    spec.decoder.position_encodings.encodings = table

    def dense(place, *kernels):
        """Kernels [in, out] side by side; CTranslate2 has them transposed."""
        place.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
        place.bias = np.zeros(len(place.weight), np.float32)

    def norm(place, values):
        place.gamma, place.beta = values['norm']['scale'], values['norm']['bias']

    for name, side in (('encoder', spec.encoder), ('decoder', spec.decoder)):
        for index, layer in enumerate(side.layer):
            ours = params[name][f'layer_{index}']

            def kernels(attention, *names, ours=ours):
                return [ours[attention][n].reshape(width, -1) for n in names]

            def output(attention, ours=ours):
                return ours[attention]['output'].reshape(-1, width)

            place = layer.self_attention
            dense(place.linear[0], *kernels('self_attention', 'query', 'key', 'value'))
            dense(place.linear[1], output('self_attention'))
            norm(place.layer_norm, ours['self_attention_residual'])
            if name == 'decoder':
                place = layer.attention
                dense(place.linear[0], *kernels('cross_attention', 'query'))
                dense(place.linear[1], *kernels('cross_attention', 'key', 'value'))
                dense(place.linear[2], output('cross_attention'))
                norm(place.layer_norm, ours['cross_attention_residual'])
            for place, part in ((layer.ffn.linear_0, 'inner'), (layer.ffn.linear_1, 'outer')):
                dense(place, ours['feed_forward'][part]['kernel'])
                place.bias = ours['feed_forward'][part]['bias']
            norm(layer.ffn.layer_norm, ours['feed_forward_residual'])
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.decoder_start_token = spec.config.bos_token = '<pad>'
    spec.config.eos_token, spec.config.unk_token = '</s>', '<unk>'
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(folder)
