"""The cache folder, and who else can write programs into it."""

import errno
import os
import stat
from pathlib import Path

import jax
import pytest

from transformer_jax.errors import UserError
from transformer_jax.runtime.program_cache import keep_compiled_programs
from transformer_jax.storage import cache
from transformer_jax.storage.cache import (
    cache_folder,
    content_digest,
    failures_to_cache,
    make_folder,
    read_own,
)


def test_texts_that_join_to_the_same_text_have_different_digests():
    assert content_digest(['ab', 'c']) != content_digest(['a', 'bc'])


def test_the_configured_folder_overrides_the_environment(monkeypatch):
    monkeypatch.setenv('TRANSFORMER_JAX_CACHE', 'of the environment')
    assert cache_folder('configured') == Path('configured')
    assert cache_folder() == Path('of the environment')


def test_without_a_home_folder_the_error_names_the_variable(monkeypatch):
    def no_home(path):
        raise RuntimeError('Could not determine home directory.')

    monkeypatch.delenv('TRANSFORMER_JAX_CACHE', raising=False)
    monkeypatch.setattr(Path, 'expanduser', no_home)
    with pytest.raises(
        UserError,
        match=r'^\$TRANSFORMER_JAX_CACHE=.* names a user without a home directory: give a full',
    ):
        cache_folder()


@pytest.mark.parametrize('named', [None, 'home/cache/x', 'home'])
def test_a_cache_that_cannot_be_written_is_a_user_error(named):
    with (
        pytest.raises(UserError, match=r"^the cache 'home/cache' cannot be written \(full\): free"),
        failures_to_cache(Path('home/cache')),
    ):
        raise OSError(errno.ENOSPC, 'full', named)


def test_a_folder_in_the_place_of_an_entry_is_named_with_its_path():
    expected = "'cache/entry' in the cache cannot be replaced .* remove it"
    with pytest.raises(UserError, match=expected), failures_to_cache(Path('cache')):
        raise OSError(errno.EISDIR, 'Is a directory', 'cache/entry.partial', None, 'cache/entry')


def test_errors_outside_the_cache_pass_through():
    with pytest.raises(OSError, match='full'), failures_to_cache(Path('cache')):
        raise OSError(errno.ENOSPC, 'full', 'elsewhere')


@pytest.fixture
def jax_cache():
    """A function that takes a cache folder and returns the folder that JAX then uses, or None."""
    before = jax.config.jax_compilation_cache_dir

    def chosen(folder):
        keep_compiled_programs(folder)
        return jax.config.jax_compilation_cache_dir

    yield chosen
    jax.config.update('jax_compilation_cache_dir', before)


@pytest.fixture
def no_umask():
    """No umask, as in some containers: others can write new files unless their mode forbids it."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_of_compiled_programs_does_not_follow_the_working_directory(
    monkeypatch, tmp_path, jax_cache
):
    monkeypatch.chdir(tmp_path)
    assert jax_cache(Path('cache')) == str(tmp_path / 'cache' / 'compiled')


def test_the_folder_of_compiled_programs_is_private_whatever_the_umask(
    tmp_path, jax_cache, no_umask
):
    assert jax_cache(tmp_path / 'a' / 'cache')
    modes = [mode(tmp_path / x) for x in ('a', 'a/cache', 'a/cache/compiled')]
    assert modes == [0o755, 0o755, 0o700]


def test_an_existing_folder_keeps_its_mode(tmp_path):
    (tmp_path / 'cache').mkdir(0o750)
    make_folder(tmp_path / 'cache')
    assert mode(tmp_path / 'cache') == 0o750


@pytest.mark.parametrize(
    ('open_to_all', 'remedy'),
    [
        ('cache/compiled', 'remove it'),
        ('cache/programs', 'remove it'),
        ('cache', 'remove that permission (chmod go-w)'),
        ('', 'remove that permission (chmod go-w)'),
    ],
)
def test_programs_in_a_folder_that_others_can_write_are_not_used(
    tmp_path, jax_cache, caplog, open_to_all, remedy
):
    for name in ('compiled', 'programs'):
        make_folder(tmp_path / 'cache' / name, 0o700)
    (tmp_path / open_to_all).chmod(0o777)
    assert [jax_cache(tmp_path / 'cache') for _ in range(2)] == [None, None]
    assert caplog.messages == [
        f"Compiled programs are neither read from the cache '{tmp_path}/cache' nor kept there, "
        f"because '{tmp_path / open_to_all}' can be written by others: {remedy}, or name a cache "
        'of your own with data.cache_dir or $TRANSFORMER_JAX_CACHE.'
    ]


def test_a_folder_with_the_sticky_bit_can_hold_a_private_cache(tmp_path, jax_cache):
    (tmp_path / 'cache').mkdir()
    (tmp_path / 'cache').chmod(0o1777)
    assert jax_cache(tmp_path / 'cache')


def test_a_folder_of_programs_with_the_sticky_bit_is_not_private(tmp_path, jax_cache):
    (tmp_path / 'cache' / 'programs').mkdir(parents=True)
    (tmp_path / 'cache' / 'programs').chmod(0o1777)
    assert jax_cache(tmp_path / 'cache') is None


def test_the_cache_of_another_user_gets_no_programs(tmp_path, jax_cache, caplog, monkeypatch):
    (tmp_path / 'cache').mkdir()
    owner = os.geteuid() or 1234  # root can give it away, others cannot
    os.chown(tmp_path / 'cache', owner, -1)
    monkeypatch.setattr(os, 'geteuid', lambda: owner + 1)
    assert jax_cache(tmp_path / 'cache') is None
    assert 'belongs to ' in caplog.text and 'change its owner, or name a cache' in caplog.text
    assert not list((tmp_path / 'cache').iterdir())


def test_a_cache_that_is_a_link_is_judged_by_its_target(tmp_path, jax_cache):
    (tmp_path / 'elsewhere').mkdir()
    (tmp_path / 'cache').symlink_to('elsewhere')
    assert jax_cache(tmp_path / 'cache') == str(tmp_path / 'cache' / 'compiled')
    (tmp_path / 'elsewhere').chmod(0o777)
    assert jax_cache(tmp_path / 'cache') is None


def test_a_link_that_others_could_replace_is_not_followed(tmp_path, jax_cache):
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'open').mkdir()
    (tmp_path / 'open' / 'link').symlink_to(tmp_path / 'mine')
    (tmp_path / 'cache').symlink_to(tmp_path / 'open' / 'link')
    (tmp_path / 'open').chmod(0o777)
    assert jax_cache(tmp_path / 'cache') is None


def test_a_cache_that_cannot_be_created_is_not_used_and_a_warning_says_so(
    tmp_path, jax_cache, caplog
):
    (tmp_path / 'cache').write_text('a file in the way')
    assert jax_cache(tmp_path / 'cache') is None
    assert 'cannot be used (Not a directory): restore access, or name a cache' in caplog.text


def plant(folder, kind):
    if kind == 'writable':
        (folder / 'x-cache').touch()
        (folder / 'x-cache').chmod(0o666)
    elif kind == 'link':
        (folder / 'x-cache').symlink_to(folder)
    else:
        os.mkfifo(folder / 'x-cache')


@pytest.mark.parametrize('kind', ['writable', 'link', 'pipe'])
def test_one_program_that_others_may_have_written_disables_the_cache_of_jax(
    tmp_path, jax_cache, caplog, kind
):
    make_folder(tmp_path / 'compiled', 0o755)
    plant(tmp_path / 'compiled', kind)
    assert jax_cache(tmp_path) is None
    assert f"x-cache' {'can be' if kind == 'writable' else 'is not'}" in caplog.text
    assert f": remove '{tmp_path}/compiled', or name" in caplog.text


def test_files_in_a_closed_folder_can_have_any_mode(tmp_path, jax_cache):
    """JAX writes them by the umask, which is wide on many clusters."""
    make_folder(tmp_path / 'compiled', 0o700)
    plant(tmp_path / 'compiled', 'writable')
    assert jax_cache(tmp_path)


def test_a_file_of_this_user_is_read(tmp_path):
    (tmp_path / 'file').write_bytes(b'content')
    assert read_own(tmp_path / 'file') == b'content'


@pytest.mark.parametrize('kind', ['writable', 'link', 'pipe'])
def test_a_file_that_others_may_have_written_is_not_read(tmp_path, kind):
    plant(tmp_path, kind)
    with pytest.raises(OSError, match=r'written by others|symbolic links|not a regular'):
        read_own(tmp_path / 'x-cache')


def group_of(name, members=()):
    """An entry of the group database for the user's group with this name."""
    return type('Group', (), {'gr_name': name, 'gr_gid': 77, 'gr_mem': list(members)})


@pytest.mark.parametrize(
    ('group', 'is_private'),
    [
        (group_of('me'), True),
        (group_of('me', ['me']), True),
        (group_of('me', ['me', 'you']), False),
        (group_of('staff'), False),
    ],
)
def test_a_group_with_this_user_alone_can_write(
    tmp_path, jax_cache, monkeypatch, group, is_private
):
    (tmp_path / 'cache').mkdir()
    (tmp_path / 'cache').chmod(0o775)
    user = type('User', (), {'pw_name': 'me', 'pw_gid': 77})
    monkeypatch.setattr(cache.pwd, 'getpwuid', lambda _: user)
    monkeypatch.setattr(cache.grp, 'getgrgid', lambda _: group)
    assert bool(jax_cache(tmp_path / 'cache')) == is_private
