"""Times one imported model in five programs, by turns: speed_of_imports.py SOURCE TARGET.

    python tests/peers/speed_of_imports.py newstest2013.en newstest2013.de

The model has OPUS-MT's sizes and random weights. SOURCE and TARGET are texts of which its
SentencePiece models are made; 256 sentences of SOURCE, cut at 31 pieces and EOS, become 32 tokens
each, because EOS is never likely. Texts go in, and texts come out. Marian has other sinusoids than
Hugging Face's folder, and so other outputs of the same length. Needs the extra `peers`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent.parent), str(FOLDER.parent / 'conversion')]

from peers.speed import Worker, serve  # noqa: E402

SENTENCES, LENGTH, BEAM_SIZE, TOGETHER = 256, 32, 4, 64
NEVER = -30.0  # added to the logit of EOS


def main():
    """Print each round's tokens/s and the medians of ours over each program's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('source', type=Path)
    parser.add_argument('target', type=Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--worker', choices=PROGRAMS, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:  # SOURCE is the folder of all forms
        serve(PROGRAMS[flags.worker](flags.source))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_forms(folder, flags.source, flags.target)
        workers = {
            program: Worker([sys.executable, __file__, name, name, f'--worker={program}'])
            for program in PROGRAMS
        }
        for worker in workers.values():
            print(worker.versions, flush=True)
        ratios = {program: [] for program in PROGRAMS if program != 'ours'}
        for _ in range(flags.rounds):
            speeds = {name: worker.tokens_per_second() for name, worker in workers.items()}
            line = '  '.join(f'{name} {speed:,.1f} tokens/s' for name, speed in speeds.items())
            print(line, flush=True)
            for program, found in ratios.items():
                found.append(speeds['ours'] / speeds[program])
    for program, found in ratios.items():
        median = statistics.median(found)
        print(f'ours / {program}: {median:.3f} ({min(found):.3f} to {max(found):.3f})')


def write_forms(folder, source, target):
    """Write the model as each program reads it, and the texts."""
    import safetensors.numpy
    from marian_files import marian_arrays, write_marian
    from peers.marian_folders import OPUS_SIZES, write_huggingface

    from transformer_jax import convert

    of_huggingface, of_marian = folder / 'huggingface', folder / 'marian'
    of_huggingface.mkdir()
    of_marian.mkdir()
    lines = [path.read_text(encoding='utf-8').splitlines() for path in (source, target)]
    write_huggingface(
        of_huggingface,
        sizes=OPUS_SIZES,
        pairs=list(zip(*lines, strict=True)),
        pieces=16_000,
        eos_bias=NEVER,
        forced_eos_token_id=None,
    )
    table = json.loads((of_huggingface / 'vocab.json').read_text(encoding='utf-8'))
    pad = len(table) - 1
    tensors = safetensors.numpy.load_file(of_huggingface / 'model.safetensors')
    write_marian(
        of_marian,
        marian_arrays(tensors, pad),
        options={
            'dim-emb': OPUS_SIZES['d_model'],
            'dim-vocabs': [pad, pad],
            'enc-depth': OPUS_SIZES['num_layers'],
            'dec-depth': OPUS_SIZES['num_layers'],
            'transformer-heads': OPUS_SIZES['num_heads'],
            'transformer-dim-ffn': OPUS_SIZES['d_ff'],
        },
        vocabulary=''.join(f'{json.dumps(x)}: {k}\n' for x, k in table.items() if k < pad),
    )
    ours, exported = str(folder / 'ours'), str(folder / 'ctranslate2')
    convert.main([f'--from={of_huggingface}', f'--workdir={ours}'])
    convert.main([f'--workdir={ours}', '--to=ctranslate2', f'--output={exported}'])
    texts = sentences(lines[0], processor(folder))
    Path(folder, 'texts.json').write_text(json.dumps(texts))


def processor(folder, side='source'):
    """The SentencePiece model of a side."""
    import sentencepiece

    model = folder / 'huggingface' / f'{side}.spm'
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


def sentences(lines, model):
    """The beginnings of lines that have LENGTH - 1 pieces."""
    found = []
    for line in lines:
        text = model.decode(model.encode(line)[: LENGTH - 1])
        if len(model.encode(text)) == LENGTH - 1:
            found.append(text)
    if len(found) < SENTENCES:
        sys.exit(f'error: only {len(found)} sentences have {LENGTH - 1} pieces.')
    return found[:SENTENCES]


def texts_of(folder):
    """The texts to translate."""
    return json.loads(Path(folder, 'texts.json').read_text())


def ours(folder):
    """The versions, and a function that translates all texts and returns the number of tokens."""
    import jax

    from transformer_jax.translator import Translator

    translator, texts = Translator.load(folder / 'ours'), texts_of(folder)

    def run():
        found = translator.translate(texts, beam_size=BEAM_SIZE, max_extra_length=0)
        return sum(len(outputs[0].tokens) for outputs in found)

    return f'transformer_jax on JAX {jax.__version__}', run


def ctranslate2_in(compute_type):
    """As `ours`."""

    def prepare(folder):
        import ctranslate2

        translator = ctranslate2.Translator(
            str(folder / 'ctranslate2'),
            device='cpu',
            inter_threads=1,
            intra_threads=os.cpu_count(),
            compute_type=compute_type,
        )
        source, target, texts = processor(folder), processor(folder, 'target'), texts_of(folder)

        def run():
            found = translator.translate_batch(
                [[*pieces, '</s>'] for pieces in source.encode(texts, out_type=str)],
                beam_size=BEAM_SIZE,
                max_batch_size=TOGETHER,
                max_decoding_length=LENGTH,
            )
            outputs = [result.hypotheses[0] for result in found]
            target.decode(outputs)
            return sum(map(len, outputs))

        return f'ctranslate2 {ctranslate2.__version__} ({translator.compute_type})', run

    return prepare


def transformers(folder):
    """As `ours`."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    path = str(folder / 'huggingface')
    tokenizer = transformers.MarianTokenizer.from_pretrained(path)
    model = transformers.MarianMTModel.from_pretrained(path).eval()
    texts = texts_of(folder)

    @torch.no_grad()
    def run():
        tokens = 0
        for k in range(0, len(texts), TOGETHER):
            batch = tokenizer(texts[k : k + TOGETHER], return_tensors='pt', padding=True)
            found = model.generate(
                **batch, num_beams=BEAM_SIZE, do_sample=False, max_length=1 + LENGTH
            )
            tokenizer.batch_decode(found, skip_special_tokens=True)
            tokens += found[:, 1:].numel()
        return tokens

    return f'transformers {transformers.__version__} on torch {torch.__version__}', run


def pymarian(folder):
    """As `ours`."""
    import importlib.metadata

    import pymarian

    path = folder / 'marian'
    translator = pymarian.Translator(
        models=str(path / 'model.npz'),
        vocabs=[str(path / 'vocab.yml')] * 2,
        beam_size=BEAM_SIZE,
        normalize=1,
        cpu_threads=os.cpu_count(),
        mini_batch=TOGETHER // os.cpu_count(),  # of each thread
        maxi_batch=100,
        max_length_factor=1,
        quiet=True,
    )
    source, target, texts = processor(folder), processor(folder, 'target'), texts_of(folder)

    def run():
        lines = [' '.join(pieces) for pieces in source.encode(texts, out_type=str)]
        outputs = [line.split() for line in translator.translate(lines)]
        target.decode(outputs)
        return sum(map(len, outputs))

    return f'pymarian {importlib.metadata.version("pymarian")}', run


PROGRAMS = {
    'ours': ours,
    'ctranslate2': ctranslate2_in('float32'),
    'ctranslate2_int8': ctranslate2_in('int8'),
    'transformers': transformers,
    'pymarian': pymarian,
}

if __name__ == '__main__':
    main()
