"""Runs small enough to be stopped, killed and compared many times."""

import os

import jax
import numpy as np

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.storage.bucket_workdir import open_workdir
from transformer_jax.training import device_batches
from transformer_jax.training.logs.metrics_writer import read_metrics

# The log interval does not divide the checkpoint interval: a window has to survive a restart.
TINY = {
    'model': {'num_layers': 1, 'd_model': 16, 'd_ff': 32, 'num_heads': 2},
    'data': {
        'corpus': 'phrasebook',
        'target_language': 'fr',
        'train_size': 400,
        'dev_size': 8,
        'test_size': 8,
        'vocab_size': 400,
        'max_length': 64,
        'tokens_per_batch': 512,
        'num_buckets': 2,
    },
    'optimizer': {'warmup_steps': 10},
    'train': {
        'steps': 12,
        'log_every': 5,
        'checkpoint_every': 3,
        'eval_every': 6,
        'keep': 2,
    },
    'decode': {'beam_size': 2, 'average_checkpoints': 2, 'max_extra_length': 2},
}
# Texts for the run of `trained` to translate.
TEXTS = [
    'The cat sleeps.',
    'A brown dog ate the apple near the old table because it was good.',
    'Where is the house?',
    'The teacher and the doctor are reading a book.',
    'The cat sleeps.',
]


def tiny(**changes):
    return Config.from_mapping(
        {section: TINY.get(section, {}) | changes.get(section, {}) for section in {*TINY, *changes}}
    )


def trained():
    """Return a config whose run learns enough for its outputs to differ from text to text."""
    return tiny(
        model={'d_model': 32, 'd_ff': 64},
        data={'train_size': 2000, 'vocab_size': 500, 'tokens_per_batch': 1024, 'num_buckets': 1},
        optimizer={'warmup_steps': 40, 'learning_rate_scale': 0.7},
        train={'steps': 120, 'eval_every': 120, 'checkpoint_every': 60},
        decode={'beam_size': 4, 'max_extra_length': 10},
    )


def remembered(workdir):
    """Return all that a run leaves except times: bytes of the last state, metrics and results."""
    folder = open_workdir(workdir)
    manager = Checkpoints(folder.checkpoints, read_only=True)
    step = manager.steps()[-1]
    restored = manager.restore_arrays(step)
    manager.close()
    state = {
        jax.tree_util.keystr(path): np.asarray(leaf).tobytes()
        for path, leaf in jax.tree_util.tree_leaves_with_path(restored)
    }
    records = [
        {k: v for k, v in record.items() if k not in ('seconds', 'target_tokens_per_second')}
        for record in read_metrics(folder.metrics)
    ]
    return step, state, records, folder.read_results()


def on_devices(count):
    """Return the environment of a process with `count` CPU devices and the tests' XLA flags."""
    flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_force_host_platform_device_count={count}'
    return os.environ | {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': flags}


def two_buckets():
    """Return a plan of 300 short and 100 long pairs."""
    return BatchPlan(
        np.array([5] * 300 + [30] * 100),
        np.array([6] * 300 + [30] * 100),
        max_length=64,
        tokens_per_batch=512,
        num_buckets=2,
        seed=0,
    )


def config_file(path, config):
    """Write a config file for the command line."""
    path.write_text(
        'from ml_collections import ConfigDict\n'
        f'def get_config():\n    return ConfigDict({config.to_dict()!r})\n'
    )
    return path


def stop_at(monkeypatch, batch):
    """Let the next run stop as by Ctrl-C when it asks for its `batch`-th batch."""
    asked = iter(range(1, 10_000))
    lay = device_batches.shard_batch

    def shard_batch(*args):
        if next(asked) == batch:
            raise KeyboardInterrupt
        return lay(*args)

    monkeypatch.setattr(device_batches, 'shard_batch', shard_batch)
