"""Files in buckets, with a server of this machine in place of Google's."""

import errno
import gzip
import os
import shutil

import jax
import numpy as np
import pytest
from bucket_server import bucket_server
from tiny_run import tiny

from transformer_jax.checkpointing.dev_scores import DevScores
from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.storage import bucket_lock, buckets
from transformer_jax.storage.bucket_lock import BucketLock
from transformer_jax.storage.bucket_workdir import open_workdir
from transformer_jax.storage.buckets import exists, local_path, shared_entry
from transformer_jax.storage.new_folder import NewFolder
from transformer_jax.training import train


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A bucket that this process reads and writes, with an own cache."""
    import fsspec

    with bucket_server() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv('TRANSFORMER_JAX_CACHE', str(tmp_path / 'cache'))
        fsspec.config.set_conf_env(fsspec.config.conf)
        fsspec.get_filesystem_class('gs').clear_instance_cache()  # of another server
        yield running
    fsspec.get_filesystem_class('gs').clear_instance_cache()


@pytest.fixture
def fast_lock(monkeypatch):
    """Locks whose holders write, and are given up, within a second."""
    monkeypatch.setattr(bucket_lock, 'BEAT', 0.1)
    monkeypatch.setattr(bucket_lock, 'LEFT_OVER', 0.6)


def texts(server, **files):
    for name, text in files.items():
        server.write(f'data/{name.replace("_", ".")}', text.encode())
    return f'{server.url}/data'


def test_a_file_is_copied_once_and_again_when_it_has_changed(server):
    url = f'{texts(server, a_en="one")}/a.en'
    first = local_path(url, 'data.train_source')
    assert (first.read_text(), first.name) == ('one', 'a.en')
    before = server.requests
    assert local_path(url, 'data.train_source') == first
    assert server.requests <= before + 2  # the question whether it has changed
    texts(server, a_en='two')
    assert local_path(url, 'data.train_source').read_text() == 'two'
    assert first.read_text() == 'one'


def test_a_corpus_is_read_from_a_bucket(server):
    url = texts(server, a_en='A\nB\n', a_fr='a\nb\n', b_en='C\n', b_fr='c\n')
    server.write('data/dev.tsv.gz', gzip.compress(b'en\tfr\nD\td\n'))
    config = DataConfig(
        corpus='files',
        source_language='en',
        target_language='fr',
        train_source=f'{url}/[ab].en',
        train_target=f'{url}/[ab].fr',
        dev_source=f'{url}/dev.tsv.gz',
        test_source=f'{url}/dev.tsv.gz',
    )
    corpus = open_corpus(config)
    assert [*corpus.pairs('train')] == [('A', 'a'), ('B', 'b'), ('C', 'c')]
    assert [*corpus.pairs('dev')] == [('D', 'd')]


@pytest.mark.parametrize('name', ['absent.en', 'absent*.en'])
def test_a_file_that_is_not_in_the_bucket_is_named(server, name):
    with pytest.raises(UserError, match=r"data.train_source='gs://test-bucket/data/absent.*: ch"):
        local_path(f'{server.url}/data/{name}', 'data.train_source')
    assert not exists(f'{server.url}/data/{name}', 'data.vocabulary')


def test_a_name_that_leads_out_of_the_cache_is_refused(tmp_path):
    with pytest.raises(UserError, match='cannot be the name of a file here: rename it'):
        buckets._below(tmp_path, 'bucket/../../x.en')


@pytest.mark.parametrize(
    ('url', 'problem'),
    [
        ('gs://', 'names no bucket: give gs://BUCKET/FOLDER.'),
        ('gs:///run', 'names no bucket'),
        ('s3://bucket//run', 'has an empty part'),
        ('gs://bucket/./run', 'a dot for a part'),
        ('gs://bucket/a/../run', 'a dot for a part'),
        ('GS://bucket/run', 'a scheme in upper case'),
        ('ftp://bucket/run', 'is a URL'),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url, problem):
    with pytest.raises(UserError, match=f"workdir='{url}' .*{problem}"):
        open_workdir(url)


@pytest.mark.parametrize('character', '[]*?')
def test_checkpoints_are_not_kept_under_names_that_are_patterns(character):
    with pytest.raises(UserError, match='cannot be kept'):
        open_workdir(f'gs://bucket/a{character}b').check_writable()


def test_a_name_that_looks_like_a_pattern_is_taken_if_it_exists(server):
    url = texts(server, **{'w[1]_en': 'one', 'w1_en': 'another'})
    assert local_path(f'{url}/w[1].en', 'data.train_source').read_text() == 'one'
    with pytest.raises(UserError, match=r'has \*\*, which is no pattern here'):
        local_path(f'{url}/**/w1.en', 'data.train_source')


def test_a_full_disk_is_not_called_a_bucket_out_of_reach(server, monkeypatch):
    from gcsfs import GCSFileSystem

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(GCSFileSystem, 'get_file', full)
    with pytest.raises(OSError, match='No space left on device'):
        local_path(f'{texts(server, a_en="one")}/a.en', 'data.train_source')


def test_a_checkpoint_counts_once_it_is_complete(server):
    server.write('run/checkpoints/3/params/manifest.ocdbt', b'x')
    folder = open_workdir(f'{server.url}/run')
    assert not folder.has_checkpoints()
    server.write('run/checkpoints/3/commit_success.txt', b'')
    assert folder.has_checkpoints()


def test_scores_out_of_reach_do_not_count_as_absent(server, monkeypatch):
    class Gone:
        def __init__(self, *_):
            pass

        def __truediv__(self, _):
            return self

        def __fspath__(self):
            return server.url

        def read_bytes(self):
            raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        DevScores(Gone()).quality(3)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    with pytest.raises(UserError, match=r"needs a package: pip install 'transformer_jax\[gcs\]'"):
        open_workdir('gs://bucket/run')


def test_a_bucket_that_cannot_be_reached_is_named(server, monkeypatch):
    async def at_once(seconds):
        pass

    monkeypatch.setattr('gcsfs.retry.asyncio.sleep', at_once)  # between tries
    server.faults = 1.0
    with pytest.raises(UserError, match=r"workdir='gs://test-bucket/run' cannot be reached"):
        open_workdir(f'{server.url}/run').read_run()


def test_a_lock_in_use_is_refused_and_a_released_one_is_not(server, fast_lock):
    first = BucketLock(f'{server.url}/run/lock', 'the run')
    first.acquire()
    with pytest.raises(UserError, match=r'the run is in use by another run \(process \d+ on '):
        BucketLock(f'{server.url}/run/lock', 'the run').acquire()
    first.check()
    first.release()
    assert 'run/lock' not in server.names()
    second = BucketLock(f'{server.url}/run/lock', 'the run')
    second.acquire()
    second.release()


def test_a_lock_that_was_left_over_is_taken(server, fast_lock, caplog):
    caplog.set_level('INFO')
    server.write('run/lock', b'process 7 on another, 123\n')
    lock = BucketLock(f'{server.url}/run/lock', 'the run')
    lock.acquire()
    assert 'the run is locked by another run (process 7 on another): waiting' in caplog.text
    lock.release()


def test_a_holder_that_was_away_too_long_learns_that_it_has_lost_the_lock(server, fast_lock):
    lock = BucketLock(f'{server.url}/run/lock', 'the run')
    lock.acquire()
    server.write('run/lock', b'process 8 on another, 456\n')
    lock._beating.join(5)  # as its next write is refused
    with pytest.raises(UserError, match=r'in use by another run \(process 8 on another\)'):
        lock.check()
    lock.release()
    assert server.read('run/lock').startswith(b'process 8')


def test_a_lock_survives_lost_answers(server, fast_lock):
    lock = BucketLock(f'{server.url}/run/lock', 'the run')
    server.faults = 0.3
    lock.acquire()
    for _ in range(3):
        lock._write_again()
    lock.check()
    server.faults = 0
    lock.release()
    assert 'run/lock' not in server.names()


def test_a_run_whose_lock_was_taken_publishes_nothing(server, fast_lock):
    folder = open_workdir(f'{server.url}/run')
    with folder.locked():
        folder.write_average({'workdir': 'x', 'steps': [1]})
        folder.publish()
        assert b'"steps"' in server.read('run/average.json')
        server.write('run/lock', b'process 8 on another, 456\n')
        folder._lock._beating.join(5)
        folder.write_average({'workdir': 'x', 'steps': [2]})
        with pytest.raises(UserError, match='in use by another run'):
            folder.publish()
    assert open_workdir(f'{server.url}/run').read_average()['steps'] == [1]


def test_a_second_run_in_a_folder_is_refused(server, fast_lock):
    with (
        open_workdir(f'{server.url}/run').locked(),
        pytest.raises(UserError, match=r"workdir='gs://test-bucket/run' is in use by another run"),
    ):
        train(tiny(), f'{server.url}/run')


def test_a_cache_in_a_bucket_gives_what_another_machine_has_made(server, tmp_path):
    shared = f'{server.url}/cache/'
    made = tmp_path / 'one' / 'tokens-1'
    with shared_entry(shared, made, 'meta.json'):
        made.mkdir(parents=True)
        (made / 'a').write_text('A')
        (made / 'meta.json').write_text('{}')
    assert server.names() == ['cache/tokens-1/a', 'cache/tokens-1/meta.json']
    got = tmp_path / 'two' / 'tokens-1'
    got.parent.mkdir()
    with shared_entry(shared, got, 'meta.json'):
        assert (got / 'a').read_text() == 'A'


def test_what_replaces_a_damaged_entry_of_a_shared_cache_is_shared(server, tmp_path):
    server.write('cache/vocabulary', b'damaged')
    path = tmp_path / 'vocabulary'
    with shared_entry(f'{server.url}/cache', path):
        assert path.read_text() == 'damaged'
        path.unlink()
        path.write_text('whole')
    assert server.read('cache/vocabulary') == b'whole'


def test_a_new_folder_in_a_bucket_is_complete_with_its_config(server):
    with NewFolder(f'{server.url}/release').writing() as folder:
        (folder / 'config.json').write_text('{}')
        (folder / 'z').write_text('Z')
        assert server.names() == []
    written = {name: server.generation(name) for name in server.names()}
    assert max(written, key=lambda name: int(written[name])) == 'release/config.json'
    with pytest.raises(UserError, match=r"--output='gs://test-bucket/release' exists already"):
        NewFolder(f'{server.url}/release')


def test_a_release_in_a_bucket_is_a_model(server, release):
    with NewFolder(f'{server.url}/release').writing() as folder:
        shutil.copytree(release, folder, dirs_exist_ok=True)
    here, there = load_trained(release), load_trained(f'{server.url}/release')
    assert here.vocabulary.digest == there.vocabulary.digest
    assert jax.tree.all(jax.tree.map(np.array_equal, here.params, there.params))


def test_s3_gives_data_and_takes_and_gives_releases(release, monkeypatch, tmp_path):
    moto = pytest.importorskip(
        'moto.server', reason='moto[s3], flask and flask-cors are not installed'
    )
    server = moto.ThreadedMotoServer('127.0.0.1', 0)
    server.start()
    monkeypatch.setenv('AWS_ENDPOINT_URL', 'http://{}:{}'.format(*server.get_host_and_port()))
    for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'):
        monkeypatch.setenv(name, 'test')
    monkeypatch.setenv('TRANSFORMER_JAX_CACHE', str(tmp_path))
    try:
        files = buckets.file_system('s3://test-bucket', 'workdir')
        files.mkdir('test-bucket')
        files.pipe_file('s3://test-bucket/a.en', b'one')
        assert local_path('s3://test-bucket/a.en', 'data.train_source').read_bytes() == b'one'
        with NewFolder('s3://test-bucket/release').writing() as folder:
            shutil.copytree(release, folder, dirs_exist_ok=True)
        there = load_trained('s3://test-bucket/release')
        assert load_trained(release).vocabulary.digest == there.vocabulary.digest
        files.pipe_file('s3://test-bucket/run/checkpoints/9/commit_success.txt', b'')
        files.pipe_file('s3://test-bucket/run/config.json', b'{}')
        with pytest.raises(UserError, match='Orbax reads and writes none in s3://'):
            open_workdir('s3://test-bucket/run').has_checkpoints()
    finally:
        server.stop()
        type(files).clear_instance_cache()


def test_an_upload_that_fails_leaves_nothing_in_the_way(server, monkeypatch):
    from gcsfs import GCSFileSystem

    put_file = GCSFileSystem.put_file

    def put(self, path, url, **options):
        if url.endswith('z'):
            raise ConnectionError('cut')
        return put_file(self, path, url, **options)

    monkeypatch.setattr(GCSFileSystem, 'put_file', put)
    with (
        pytest.raises(UserError, match='ConnectionError: cut'),
        NewFolder(f'{server.url}/release').writing() as folder,
    ):
        (folder / 'a').write_text('A')
        (folder / 'z').write_text('Z')
    assert server.names() == []


def test_a_folder_that_failed_leaves_nothing_in_the_bucket(server):
    with pytest.raises(ZeroDivisionError), NewFolder(f'{server.url}/release').writing() as folder:
        (folder / 'z').write_text('Z')
        _ = 1 / 0
    assert server.names() == []


@pytest.mark.parametrize('writing', [True, False])
def test_checkpoints_in_s3_are_refused_with_the_remedy(writing):
    with pytest.raises(UserError, match=r"'s3://bucket/run' cannot hold checkpoints.*aws s3 cp"):
        if writing:
            open_workdir('s3://bucket/run').check_writable()
        else:
            NewFolder('s3://bucket/run', checkpoints=True)
