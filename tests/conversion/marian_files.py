"""Tiny Marian models in the files of Hugging Face and of Marian itself, and what they compute.

The arrays have the names and the layout of Hugging Face. `forward` is the model in plain NumPy.
"""

import io
import json
from pathlib import Path

import numpy as np
import safetensors.numpy
import sentencepiece
import yaml

LAYERS, WIDTH, INNER, HEADS = 2, 8, 12, 2
PIECES = ['</s>', '<unk>', '▁a', '▁b', 'c', "'", '▁no', '<pad>']
PAD = len(PIECES) - 1
CONFIG = {
    'model_type': 'marian',
    'vocab_size': len(PIECES),
    'decoder_vocab_size': len(PIECES),
    'd_model': WIDTH,
    'encoder_layers': LAYERS,
    'decoder_layers': LAYERS,
    'encoder_attention_heads': HEADS,
    'decoder_attention_heads': HEADS,
    'encoder_ffn_dim': INNER,
    'decoder_ffn_dim': INNER,
    'activation_function': 'swish',
    'scale_embedding': True,
    'pad_token_id': PAD,
    'eos_token_id': 0,
    'decoder_start_token_id': PAD,
    'dropout': 0.1,
}
OPTIONS = {
    'type': 'transformer',
    'dim-emb': WIDTH,
    'dim-vocabs': [PAD, PAD],
    'enc-depth': LAYERS,
    'dec-depth': LAYERS,
    'transformer-heads': HEADS,
    'transformer-dim-ffn': INNER,
    'transformer-ffn-activation': 'swish',
    'transformer-preprocess': '',
    'transformer-postprocess': 'dan',
    'transformer-postprocess-emb': 'd',
    'tied-embeddings-all': True,
}


def sentencepiece_model():
    """The bytes of a SentencePiece model with the pieces of the table."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(['a b ac', 'bc no', "a'b", 'no a b']),
        model_writer=model,
        vocab_size=12,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def arrays(tied='all', seed=0):
    """Random arrays by Hugging Face's names; the row of padding is zero, as in OPUS-MT."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    embeddings = {
        'all': ['model.shared.weight'],
        'decoder': ['model.encoder.embed_tokens.weight', 'model.decoder.embed_tokens.weight'],
    }
    embeddings['none'] = [*embeddings['decoder'], 'lm_head.weight']
    found = {'final_logits_bias': normal(1, len(PIECES))}
    for name in embeddings[tied]:
        found[name] = normal(len(PIECES), WIDTH) * WIDTH**-0.5
        found[name][PAD] = 0
    found['final_logits_bias'][0, PAD] = 0
    for side in ('encoder', 'decoder'):
        for layer in range(LAYERS):
            prefix = f'model.{side}.layers.{layer}'
            for block in ('self_attn', 'encoder_attn') if side == 'decoder' else ('self_attn',):
                for name in ('q_proj', 'k_proj', 'v_proj', 'out_proj'):
                    found[f'{prefix}.{block}.{name}.weight'] = normal(WIDTH, WIDTH) * 0.4
                    found[f'{prefix}.{block}.{name}.bias'] = normal(WIDTH)
                found |= _norm(f'{prefix}.{block}_layer_norm', normal)
            for name, shape in (('fc1', (INNER, WIDTH)), ('fc2', (WIDTH, INNER))):
                found[f'{prefix}.{name}.weight'] = normal(*shape) * 0.4
                found[f'{prefix}.{name}.bias'] = normal(shape[0])
            found |= _norm(f'{prefix}.final_layer_norm', normal)
    return found


def _norm(name, normal):
    return {f'{name}.weight': 1 + 0.2 * normal(WIDTH), f'{name}.bias': normal(WIDTH)}


def write_huggingface(folder, tensors, *, config=(), generation=None, table=PIECES, files=()):
    """Write a Hugging Face folder; `files` gives the content of further JSON files."""
    folder = Path(folder)
    content = {
        'config.json': {**CONFIG, **dict(config)},
        'generation_config.json': generation,
        'vocab.json': {piece: k for k, piece in enumerate(table)},
        'tokenizer_config.json': {'source_lang': 'en', 'target_lang': 'fr'},
        **dict(files),
    }
    for name, value in content.items():
        if value is not None:
            Path(folder, name).write_text(json.dumps(value))
    for name in ('source.spm', 'target.spm'):
        Path(folder, name).write_bytes(sentencepiece_model())
    safetensors.numpy.save_file(tensors, folder / 'model.safetensors')


def marian_arrays(tensors, pad=PAD):
    """The arrays as Marian names and holds them, without padding, the piece of the last id."""
    found = {}
    for name, array in tensors.items():
        parts = name.split('.')
        if name == 'final_logits_bias':
            found['decoder_ff_logit_out_b'] = array[:, :pad]
        elif parts[2:3] != ['layers']:
            of_marian = {'shared': 'Wemb', 'encoder': 'encoder_Wemb', 'decoder': 'decoder_Wemb'}
            found[of_marian.get(parts[1], 'decoder_ff_logit_out_Wt')] = array[:pad]
        else:
            prefix = f'{parts[1]}_l{int(parts[3]) + 1}'
            found[f'{prefix}_{_marian_name(parts[4:])}'] = (
                # Marian refuses other orders in memory.
                np.ascontiguousarray(array.T) if array.ndim == 2 else array[None]
            )
    return found


def _marian_name(parts):
    *blocks, name, kind = parts
    of_kind = {'weight': 'W', 'bias': 'b'}[kind]
    of_norm = {'weight': 'scale', 'bias': 'bias'}[kind]
    if name == 'final_layer_norm':
        return f'ffn_ffn_ln_{of_norm}'
    if name in ('fc1', 'fc2'):
        return f'ffn_{of_kind}{name[-1]}'
    if name.endswith('_layer_norm'):
        block = {'self_attn': 'self', 'encoder_attn': 'context'}[name.removesuffix('_layer_norm')]
        return f'{block}_Wo_ln_{of_norm}'
    block = {'self_attn': 'self', 'encoder_attn': 'context'}[blocks[0]]
    return f'{block}_{of_kind}{name[0]}'


def write_marian(folder, arrays_, *, options=(), settings=(), vocabulary=None):
    """Write a folder of Marian with the arrays of `marian_arrays`."""
    folder = Path(folder)
    text = yaml.safe_dump({**OPTIONS, **dict(options)}).encode() + b'\0'
    special = {'special:model.yml': np.frombuffer(text, np.int8)}
    np.savez(folder / 'model.npz', **arrays_, **special)
    content = {
        'models': ['/elsewhere/model.npz'],
        'vocabs': ['/elsewhere/vocab.yml', '/elsewhere/vocab.yml'],
        'beam-size': 6,
        'normalize': 1,
        'word-penalty': 0,
        **dict(settings),
    }
    Path(folder, 'decoder.yml').write_text(yaml.safe_dump(content))
    if vocabulary is None:
        quoted = {"'": '"\'"'}
        vocabulary = ''.join(f'{quoted.get(x, x)}: {k}\n' for k, x in enumerate(PIECES[:PAD]))
    Path(folder, 'vocab.yml').write_text(vocabulary)
    for name in ('source.spm', 'target.spm'):
        Path(folder, name).write_bytes(sentencepiece_model())


def forward(tensors, source, target_inputs, *, positions, epsilon, activation=None):
    """The logits [T, V] of a source and the decoder's inputs, ids of Hugging Face."""
    activation = activation or (lambda x: x / (1 + np.exp(-x)))
    t = {name: array.astype(np.float64) for name, array in tensors.items()}
    target_table = t.get('model.decoder.embed_tokens.weight', t.get('model.shared.weight'))
    source_table = t.get('model.encoder.embed_tokens.weight', t.get('model.shared.weight'))
    output_table = t.get('lm_head.weight', target_table)

    def linear(x, name):
        return x @ t[f'{name}.weight'].T + t[f'{name}.bias']

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        return scaled * t[f'{name}.weight'] + t[f'{name}.bias']

    def attention(x, memory, name, causal):
        q, k, v = (
            linear(y, f'{name}.{p}_proj') for y, p in ((x, 'q'), (memory, 'k'), (memory, 'v'))
        )
        heads, size = [], WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / np.sqrt(size)
            if causal:
                scores = np.where(np.tril(np.ones(scores.shape)) > 0, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        return linear(np.concatenate(heads, -1), f'{name}.out_proj')

    def stack(x, side, memory=None):
        for layer in range(LAYERS):
            prefix = f'model.{side}.layers.{layer}'
            y = attention(x, x, f'{prefix}.self_attn', causal=side == 'decoder')
            x = norm(x + y, f'{prefix}.self_attn_layer_norm')
            if memory is not None:
                y = attention(x, memory, f'{prefix}.encoder_attn', causal=False)
                x = norm(x + y, f'{prefix}.encoder_attn_layer_norm')
            y = linear(activation(linear(x, f'{prefix}.fc1')), f'{prefix}.fc2')
            x = norm(x + y, f'{prefix}.final_layer_norm')
        return x

    def embed(table, ids):
        return table[ids] * np.sqrt(WIDTH) + positions(len(ids))

    memory = stack(embed(source_table, source), 'encoder')
    states = stack(embed(target_table, target_inputs), 'decoder', memory)
    return states @ output_table.T + t['final_logits_bias'][0]


def huggingface_positions(length):
    """Sines of pos / 10000^(2i/d), then cosines."""
    return _positions(length, [10000 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)])


def marian_positions(length):
    """Sines of pos / 10000^(i/(d/2-1)), then cosines."""
    return _positions(length, [10000 ** (-i / (WIDTH // 2 - 1)) for i in range(WIDTH // 2)])


def _positions(length, frequencies):
    angles = np.arange(length)[:, None] * np.array(frequencies)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
