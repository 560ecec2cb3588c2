"""Times training by JoeyNMT and by us alternately: python tests/peers/speed_of_runs.py FOLDER.

Both train as their users do, each by its own command, the small model of speed.py in float32 on
Multi30k (FOLDER as in configs/multi30k_tok.py) with one vocabulary and 4,096 tokens a batch,
padding counted. What tokenising, batching and padding cost is part of it: what counts is the ratio
of the target tokens a second that the two log, which for both are tokens that are no padding.

JoeyNMT's requirements contradict TensorFlow's: it needs an environment of its own,
--peer_python=venv/bin/python, with joeynmt==2.3.0, importlib_metadata, 'setuptools<81' and
'sentencepiece<0.2.1', which it uses without saying so.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from transformer_jax.training.logs.metrics_writer import read_metrics  # noqa: E402

DATA = 'multi30k_tok'
TOKENS_PER_BATCH = 4096
OUR_STEPS = 200  # of which the last hundred count
JOEYNMT_STEPS = 80  # of which the last forty count
SPECIAL = ('<unk>', '<pad>', '<s>', '</s>')


def main():
    """Prints each round and the median ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('folder')
    parser.add_argument('--peer_python', required=True, help='the one that has JoeyNMT')
    parser.add_argument('--rounds', type=int, default=3)
    flags = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        ours(flags.folder, scratch / 'first')  # compiles, and trains the vocabulary for both
        for turn in range(flags.rounds):
            we = ours(flags.folder, scratch / f'ours{turn}')
            peer = joeynmt(flags.folder, scratch / 'first', scratch / f'{turn}', flags.peer_python)
            ratios.append(we / peer)
            print(
                f'ours {we:9,.0f} tokens/s  joeynmt {peer:9,.0f} tokens/s  ratio {ratios[-1]:.2f}',
                flush=True,
            )
    print(f'median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})')


def ours(folder, workdir):
    """Target tokens a second of our steps 101 to 200."""
    process = subprocess.Popen(
        [
            *(sys.executable, '-m', 'transformer_jax.main'),
            f'--config={ROOT}/configs/multi30k_tok.py:{Path(folder).absolute()}',
            f'--workdir={workdir}',
            f'--config.data.cache_dir={workdir.parent}/cache',
            f'--config.data.tokens_per_batch={TOKENS_PER_BATCH}',
            '--config.model.dropout_rate=0.1',
        ],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | {'JAX_PLATFORMS': 'cpu'},
    )
    while True:
        if process.poll() is not None:
            sys.exit(f'error: our training has ended with exit code {process.returncode}.')
        speeds = [
            record['target_tokens_per_second']
            for record in read_metrics(workdir / 'metrics.jsonl')
            if (record['kind'], record['step']) == ('train', OUR_STEPS)
        ]
        if speeds:
            process.send_signal(signal.SIGTERM)
            process.wait()
            return speeds[0]
        time.sleep(0.5)


def joeynmt(folder, trained, scratch, python):
    """Target tokens a second of JoeyNMT's last logged steps, with the vocabulary of `trained`."""
    scratch.mkdir()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(trained / 'vocabulary.model'))
    names = [pieces.id_to_piece(k) for k in range(pieces.vocab_size())]
    vocabulary = [*SPECIAL, *(name for name in names if name not in SPECIAL)]
    (scratch / 'vocabulary.txt').write_text('\n'.join(vocabulary) + '\n')
    side = {
        'max_length': 100,
        'level': 'bpe',
        'voc_file': str(scratch / 'vocabulary.txt'),
        'tokenizer_type': 'sentencepiece',
        'tokenizer_cfg': {'model_file': str(trained / 'vocabulary.model')},
    }
    stack = {
        'type': 'transformer',
        'num_layers': 4,
        'num_heads': 4,
        'hidden_size': 128,
        'ff_size': 256,
        'dropout': 0.1,
        'layer_norm': 'post',
        'embeddings': {'embedding_dim': 128, 'scale': True, 'dropout': 0.1},
    }
    data = Path(folder).absolute() / DATA
    config = {
        'name': 'small',
        'joeynmt_version': '2.3.0',
        'model_dir': str(scratch / 'model'),
        'use_cuda': False,
        'random_seed': 42,
        'data': {
            'train': str(data / 'train'),
            'dev': str(data / 'val'),
            'dataset_type': 'plain',
            'src': {'lang': 'en', **side},
            'trg': {'lang': 'de', **side},
        },
        'testing': {'batch_size': 1024, 'batch_type': 'token', 'eval_metrics': ['bleu']},
        'training': {
            'optimizer': 'adam',
            'adam_betas': [0.9, 0.98],
            'normalization': 'tokens',
            'scheduling': 'warmupinversesquareroot',
            'learning_rate': 0.0035,
            'learning_rate_warmup': 2000,
            'loss': 'crossentropy',
            'label_smoothing': 0.1,
            'batch_size': TOKENS_PER_BATCH,
            'batch_type': 'token',
            'epochs': 100,
            'updates': JOEYNMT_STEPS,
            'validation_freq': 10 * JOEYNMT_STEPS,
            'logging_freq': JOEYNMT_STEPS // 2,
        },
        'model': {
            'initializer': 'xavier_uniform',
            'embed_initializer': 'xavier_uniform',
            'tied_embeddings': True,
            'tied_softmax': True,
            'encoder': stack,
            'decoder': stack,
        },
    }
    (scratch / 'config.yaml').write_text(json.dumps(config))  # which is YAML, too
    command = [python, '-m', 'joeynmt', 'train', str(scratch / 'config.yaml'), '--skip-test']
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    speeds = re.findall(r'Tokens per Sec: *(\d+)', done.stdout)
    if len(speeds) < 2:
        sys.exit(f'error: JoeyNMT has not trained:\n{done.stdout[-2000:]}')
    return float(speeds[-1])


if __name__ == '__main__':
    main()
