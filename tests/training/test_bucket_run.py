"""A run in a bucket, with a server of this machine in place of Google's."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bucket_server import bucket_server

# In processes of their own, because TensorStore reads its variables once.
_TRAIN = """
import sys
from tiny_run import remembered, tiny
from transformer_jax.storage import bucket_lock
from transformer_jax.training import train

bucket_lock.BEAT, bucket_lock.LEFT_OVER = 0.2, 2.0
train(tiny(), sys.argv[1])
if len(sys.argv) > 2:
    assert remembered(sys.argv[1]) == remembered(sys.argv[2])
"""


def started(server, cache, *arguments):
    """Start a process that trains in the bucket; with a second argument, it compares both runs."""
    return subprocess.Popen(
        [sys.executable, '-c', _TRAIN, *map(str, arguments)],
        env=server.environment
        | {'TRANSFORMER_JAX_CACHE': str(cache), 'PYTHONPATH': f'{Path(__file__).parents[1]}:.'},
        stderr=subprocess.PIPE,
        text=True,
    )


def on_another_machine(cache):
    """Leave only the programs in a cache, since they take long to compile."""
    programs = (cache / 'compiled').rename(cache.with_name('compiled'))
    shutil.rmtree(cache)
    cache.mkdir()
    programs.rename(cache / 'compiled')


@pytest.fixture(scope='module')
def on_disk(tmp_path_factory):
    """The folder of the same run on disk, in the same kind of process."""
    folder = tmp_path_factory.mktemp('disk')
    with bucket_server() as server:
        process = started(server, folder / 'cache', folder / 'run')
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return folder / 'run'


@pytest.mark.slow
def test_killed_damaged_and_resumed_on_another_machine_it_ends_as_on_disk(on_disk):
    cache = on_disk.parent / 'cache'
    with bucket_server() as server:
        workdir, third = f'{server.url}/runs/a', 'runs/a/checkpoints/9/'
        on_another_machine(cache)
        process = started(server, cache, workdir)
        deadline = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < deadline:
            if any(name.startswith(third) for name in server.names()):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)  # in the middle of a save
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
        assert f'{third}commit_success.txt' not in server.names()
        assert 'runs/a/lock' in server.names()
        server.write('runs/a/checkpoints/6/params/manifest.ocdbt', b'damaged')
        server.faults, server.most_faults = 0.05, 6
        on_another_machine(cache)
        resumed = started(server, cache, workdir, on_disk)
        _, errors = resumed.communicate(timeout=240)
        assert resumed.returncode == 0, errors
        assert server.faulty
        assert 'runs/a/lock' not in server.names()
        assert 'runs/a/checkpoints.damaged/6/commit_success.txt' in server.names()
