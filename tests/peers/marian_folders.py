"""Folders of Marian models to import: Hugging Face's with random weights, and trained ones.

python tests/peers/marian_folders.py FOLDER [--opus]   writes a Hugging Face folder; with --opus in
                                                       OPUS-MT's own sizes
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import sentencepiece

OPUS_SIZES = {'d_model': 512, 'd_ff': 2048, 'num_heads': 8, 'num_layers': 6, 'vocab_size': 58_101}
SMALL_SIZES = {'d_model': 64, 'd_ff': 128, 'num_heads': 4, 'num_layers': 2, 'vocab_size': None}
SENTENCES = (
    ('The cat sleeps on the red chair.', 'Le chat dort sur la chaise rouge.'),
    ('A dog runs after two birds in the garden.', 'Un chien court après deux oiseaux au jardin.'),
    ('Where is the station?', 'Où est la gare ?'),
    ("I don't know what you mean.", 'Je ne sais pas ce que tu veux dire.'),
    ('He bought seven apples yesterday.', 'Il a acheté sept pommes hier.'),
    ('She reads a long book every month.', 'Elle lit un long livre chaque mois.'),
    ('We will be there at 8:30, I hope!', 'Nous serons là à 8h30, j’espère !'),
    ('No, thank you.', 'Non, merci.'),
    ('The old man and the young woman sing.', 'Le vieil homme et la jeune femme chantent.'),
    ('It has been raining since Monday.', 'Il pleut depuis lundi.'),
)


def train_sentencepiece(
    folder, pairs=SENTENCES, size=150, sides=((0,), (1,)), names=('source', 'target'), **options
):
    """Write source.spm and target.spm, and return their pieces, without the special ones."""
    pieces = []
    for name, of_name in zip(names, sides, strict=True):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([pair[side] for pair in pairs for side in of_name]),
            model_prefix=str(Path(folder, name)),
            vocab_size=size,
            hard_vocab_limit=False,
            minloglevel=2,
            **options,
        )
        os.replace(Path(folder, f'{name}.model'), Path(folder, f'{name}.spm'))
        processor = sentencepiece.SentencePieceProcessor(
            model_file=str(Path(folder, f'{name}.spm'))
        )
        pieces.append([processor.id_to_piece(i) for i in range(3, processor.get_piece_size())])
    return pieces


def write_huggingface(
    folder,
    *,
    sizes=SMALL_SIZES,
    activation='swish',
    share=True,
    tie=True,
    codes=(),
    seed=0,
    half=False,
    safe=True,
    pairs=SENTENCES,
    pieces=150,
    eos_bias=6.0,
    pad_row=False,
    **generation,
):
    """Write a folder of a MarianMTModel with random weights, with OPUS-MT's tensors and files.

    Args:
      folder: an empty folder.
      sizes: of the model.
      activation: of the feed-forward.
      share: whether both sides share vocabulary and embeddings.
      tie: whether the output is the target embedding.
      codes: language codes that the vocabulary has.
      seed: of the weights.
      half: whether they are saved in float16, as OPUS-MT's are.
      safe: whether they are saved as safetensors; otherwise as pytorch_model.bin.
      pairs: sentences for the SentencePiece models.
      pieces: of each SentencePiece model, at most.
      eos_bias: added to the bias of EOS, so that outputs end.
      pad_row: whether the row of padding is not zero.
      **generation: settings of the search.
    """
    import torch
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    folder = Path(folder)
    source, target = train_sentencepiece(folder, pairs, pieces)
    special = ['</s>', '<unk>']
    size = sizes['vocab_size']
    tables = [list(dict.fromkeys([*special, *codes, *source, *target]))]
    if not share:
        tables = [[*special, *codes, *source], [*special, *target, '▁oui']]
        tables[0] += [f'▁extra{k}' for k in range(len(tables[1]) - len(tables[0]))]
        tables[1] += [f'▁extra{k}' for k in range(len(tables[0]) - len(tables[1]))]
    for name, table in zip(('vocab', 'target_vocab'), tables, strict=False):
        table += [f'▁more{k}' for k in range((size or 0) - len(table) - 1)]
        table.append('<pad>')
        content = {piece: k for k, piece in enumerate(table)}
        Path(folder, f'{name}.json').write_text(json.dumps(content), encoding='utf-8')
    Path(folder, 'tokenizer_config.json').write_text(
        json.dumps(
            {
                'source_lang': 'en',
                'target_lang': 'fr',
                'separate_vocabs': not share,
                'tokenizer_class': 'MarianTokenizer',
            }
        )
    )
    count = len(tables[0])
    config = MarianConfig(
        vocab_size=count,
        decoder_vocab_size=len(tables[-1]),
        d_model=sizes['d_model'],
        encoder_layers=sizes['num_layers'],
        decoder_layers=sizes['num_layers'],
        encoder_attention_heads=sizes['num_heads'],
        decoder_attention_heads=sizes['num_heads'],
        encoder_ffn_dim=sizes['d_ff'],
        decoder_ffn_dim=sizes['d_ff'],
        activation_function=activation,
        max_position_embeddings=max(512, sizes['d_model']),
        scale_embedding=True,
        static_position_embeddings=True,
        normalize_embedding=False,
        share_encoder_decoder_embeddings=share,
        tie_word_embeddings=tie,
        pad_token_id=count - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=count - 1,
    )
    torch.manual_seed(seed)
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, x in model.named_parameters():
            if 'embed_positions' in name:
                continue
            if 'layer_norm' in name:  # nothing may hide behind ones and zeros
                x.copy_(torch.randn_like(x) * 0.2 + (1.0 if name.endswith('weight') else 0.0))
            elif x.dim() == 1:
                x.copy_(torch.randn_like(x) * 0.3)
            elif 'embed' in name or 'shared' in name or 'lm_head' in name:
                x.copy_(torch.randn_like(x) * sizes['d_model'] ** -0.5)
                if not pad_row:
                    x[-1] = 0.0
            else:
                x.copy_(torch.randn_like(x) * (1.2 / x.shape[1]) ** 0.5)
        bias = torch.randn_like(model.final_logits_bias)
        bias[0, 0] += eos_bias
        bias[0, -1] = 0.0
        model.final_logits_bias.copy_(bias)
    model.generation_config = GenerationConfig(
        **{
            'num_beams': 4,
            'max_length': 512,
            'bad_words_ids': [[count - 1]],
            'pad_token_id': count - 1,
            'eos_token_id': 0,
            'forced_eos_token_id': 0,
            'decoder_start_token_id': count - 1,
            **generation,
        }
    )
    model = model.half() if half else model
    model.save_pretrained(folder)
    if not safe:
        os.remove(folder / 'model.safetensors')
        torch.save(model.state_dict(), folder / 'pytorch_model.bin')


def train_marian(
    folder,
    *,
    vocabularies='yml',
    tied='all',
    activation='swish',
    pairs=SENTENCES,
    updates=200,
    dim=32,
    options=(),
):
    """Train a small model with Marian's own program.

    Args:
      folder: an empty folder.
      vocabularies: 'yml' for SentencePiece models and a table, as OPUS-MT; 'spm' for one
        SentencePiece model, whose ids are those of the model; 'separate' for a table on each side;
        'separate-spm' for two SentencePiece models.
      tied: 'all', 'decoder', 'source' (both embeddings) or 'none'.
      activation: of the feed-forward.
      pairs: sentences.
      updates: of the training.
      dim: width of the model.
      options: further options of `marian train`.
    """
    folder = Path(folder)
    of_marian = {'bos_id': -1, 'eos_id': 0, 'unk_id': 1}
    if vocabularies in ('yml', 'separate'):
        train_sentencepiece(folder, pairs)
    elif vocabularies == 'spm':
        train_sentencepiece(folder, pairs, sides=[(0, 1)], names=['vocab'], **of_marian)
    else:
        names = ['source.vocab', 'target.vocab']
        train_sentencepiece(folder, pairs, names=names, **of_marian)
    for side, name in enumerate(('source', 'target')):
        lines = [pair[side] for pair in pairs]
        if vocabularies in ('yml', 'separate'):
            model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f'{name}.spm'))
            lines = [' '.join(pieces) for pieces in model.encode(lines, out_type=str)]
        Path(folder, f'train.{name}').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    files = {
        'yml': ('opus.vocab.yml', 'opus.vocab.yml'),
        'separate': ('opus.src.vocab.yml', 'opus.trg.vocab.yml'),
        'spm': ('vocab.spm', 'vocab.spm'),
        'separate-spm': ('source.vocab.spm', 'target.vocab.spm'),
    }[vocabularies]
    ties = {
        'all': ['--tied-embeddings-all'],
        'decoder': ['--tied-embeddings'],
        'source': ['--tied-embeddings-src'],
        'none': [],
    }[tied]
    command = f"""
        {sys.executable} -m pymarian train --type transformer --model model.npz
        --train-sets train.source train.target --vocabs {files[0]} {files[1]}
        --dim-emb {dim}
        --transformer-dim-ffn {2 * dim} --transformer-heads 4 --enc-depth 2 --dec-depth 2
        --transformer-ffn-activation {activation} --transformer-postprocess dan
        --transformer-postprocess-emb d --transformer-dropout 0.1 --label-smoothing 0.1
        --learn-rate 0.005 --lr-warmup 10 --mini-batch 8 --maxi-batch 2 --max-length 60
        --after-batches {updates} --cpu-threads 1 --workspace 256 --seed 1 --beam-size 6
        --normalize 1 --overwrite --quiet
    """
    subprocess.run(
        [*command.split(), '--transformer-preprocess', '', *ties, *options],
        cwd=folder,
        check=True,
        capture_output=True,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=Path)
    parser.add_argument('--opus', action='store_true')
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True)
    sizes = OPUS_SIZES if flags.opus else SMALL_SIZES
    write_huggingface(flags.folder, sizes=sizes, half=True)
