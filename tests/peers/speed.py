"""Times a peer and us alternately on the same work: python tests/peers/speed.py PEER WORK.

    python tests/peers/speed.py torch train_tiny
    python tests/peers/speed.py ctranslate2 decode_base_one

Each runs in a process of its own, which rests while it is the other's turn; what counts is the
ratio of their tokens/s, round by round. Needs the extra `peers`; JoeyNMT, whose requirements
contradict TensorFlow's, an environment of its own: --peer_python=venv/bin/python.
"""

import argparse
import dataclasses
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent.parent)]

from transformer_jax.config import ModelConfig  # noqa: E402

# PEER: the module that has it, and the works it can do.
PEERS = {
    'torch': ('speed_torch', 'train'),
    'joeynmt': ('speed_joeynmt', 'train'),
    'marian': ('speed_marian', 'train decode'),
    'ctranslate2': ('speed_ctranslate2', 'decode'),
}


@dataclasses.dataclass(frozen=True)
class Work:
    """Random sentences to train on, or to translate to outputs of `length` tokens with a beam of 4.

    Trained with dropout 0.1, label smoothing 0.1 and Adam(0.9, 0.98); translated `together` at a
    time. Matrix products are in `model.dtype`.
    """

    kind: str
    model: ModelConfig
    vocab_size: int
    rows: int
    length: int
    repeats: int = 1
    together: int = 64

    def batch(self):
        """'source' and 'target', [rows, length] int32."""
        random = np.random.RandomState(0)
        shape = (self.rows, self.length)
        return {
            name: random.randint(3, self.vocab_size, shape).astype(np.int32)
            for name in ('source', 'target')
        }

    def sentences(self):
        """Ids of as many tokens as sentences of WMT news have, with end marks (1)."""
        random = np.random.RandomState(0)
        lengths = np.clip(np.exp(random.normal(np.log(26), 0.55, self.rows)), 4, 100).astype(int)
        return [np.append(random.randint(3, self.vocab_size, n - 1), 1) for n in lengths]

    def batches(self, size):
        """The sentences by length, so many at a time, padded with 0."""
        order = sorted(self.sentences(), key=len, reverse=True)
        for start in range(0, len(order), size):
            some = order[start : start + size]
            longest = -(-len(some[0]) // 8) * 8
            yield np.stack([np.pad(ids, (0, longest - len(ids))) for ids in some]).astype(np.int32)


TINY = ModelConfig(num_layers=4, d_model=128, d_ff=256, num_heads=4)
BASE = ModelConfig()
WORKS = {
    'train_tiny': Work('train', TINY, 10_000, 128, 32, repeats=5),
    'train_base': Work('train', BASE, 32_000, 32, 32, repeats=2),
    'decode_base': Work('decode', BASE, 32_000, 256, 30),
    'decode_base_few': Work('decode', BASE, 32_000, 64, 30, together=8),
    'decode_base_one': Work('decode', BASE, 32_000, 24, 30, together=1),
}
BEAM_SIZE = 4


def main():
    """Prints each round and the median ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('peer', choices=PEERS)
    parser.add_argument('work', choices=WORKS)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument(
        '--option',
        default='',
        help="the peer's own: for decoding, how many sentences at a time (default: as many as we "
        "take), and after a comma its dtype: ',int8'",
    )
    parser.add_argument(
        '--dtype',
        choices=('float32', 'bfloat16'),
        default='float32',
        help='of matrix products when training, and of ours when decoding (default: float32)',
    )
    parser.add_argument(
        '--peer_python',
        default=sys.executable,
        help='what the peer is run with (default: the same)',
    )
    parser.add_argument(
        '--small_pages',
        action='store_true',
        help='the peer without the huge pages that `transformer_jax.main` gives itself: as it is '
        'usually run',
    )
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    flags = parser.parse_args()
    module, kinds = PEERS[flags.peer]
    work = WORKS[flags.work]
    work = dataclasses.replace(work, model=dataclasses.replace(work.model, dtype=flags.dtype))
    if work.kind not in kinds:
        parser.error(f'{flags.peer} has no script for {work.kind}, only for {kinds}.')
    if flags.worker:
        serve(importlib.import_module(f'peers.{flags.worker}').prepare(work, flags.option))
        return
    modules = {'ours': 'speed_ours', flags.peer: module}
    pythons = {'ours': sys.executable, flags.peer: flags.peer_python}
    huge = {'ours': True, flags.peer: not flags.small_pages}
    workers = {
        name: Worker(
            [pythons[name], __file__, *sys.argv[1:], f'--worker={modules[name]}'], huge[name]
        )
        for name in modules
    }
    print(
        f'{flags.work} in {flags.dtype} with {os.cpu_count()} cores, {platform.machine()}, '
        f'{time.strftime("%Y-%m-%d")}: ' + ', '.join(worker.versions for worker in workers.values())
    )
    ratios = []
    for _ in range(flags.rounds):
        speeds = {name: worker.tokens_per_second() for name, worker in workers.items()}
        ratios.append(speeds['ours'] / speeds[flags.peer])
        print(
            '  '.join(f'{name} {speed:9,.1f} tokens/s' for name, speed in speeds.items())
            + f'  ratio {ratios[-1]:.3f}'
        )
    print(f'median ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})')


class Worker:
    """A process that works when it is told to."""

    def __init__(self, command, huge_pages=True):
        environment = {'JAX_PLATFORMS': 'cpu'}
        if huge_pages:
            environment['GLIBC_TUNABLES'] = 'glibc.malloc.hugetlb=1'
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
        )
        self.versions = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f'error: the worker {self._process.args[-1]} has ended; run it to see why.')
        return json.loads(line)

    def tokens_per_second(self):
        """Return the speed of one round."""
        print(file=self._process.stdin, flush=True)
        return self._answer()


def serve(prepared):
    """Answers each line of stdin with the speed of a round."""
    versions, run = prepared
    run()
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # whatever peers print
    print(json.dumps(versions), file=answers, flush=True)
    for _ in sys.stdin:
        run()  # while it rested its memory may have been put away
        begin = time.perf_counter()
        tokens = run()
        print(json.dumps(tokens / (time.perf_counter() - begin)), file=answers, flush=True)


if __name__ == '__main__':
    main()
