"""Where things that can be made again are kept: vocabularies, token stores, compiled programs."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformer_jax.errors import CANNOT_WRITE, UserError, user_path


def cache_folder(configured: str = '') -> Path:
    """`configured`, or else $TRANSFORMER_JAX_CACHE, or else ~/.cache/transformer_jax."""
    if configured:
        return user_path(configured, 'data.cache_dir')
    named = os.environ.get('TRANSFORMER_JAX_CACHE') or '~/.cache/transformer_jax'
    return user_path(named, '$TRANSFORMER_JAX_CACHE')


@contextlib.contextmanager
def failures_to_cache(folder: Path) -> Iterator[None]:
    """A context that writes nowhere but into the cache; where it cannot, that is a UserError."""
    try:
        yield
    except OSError as error:
        name = error.filename
        of_cache = (
            error.errno in CANNOT_WRITE
            if name is None
            # Its own files, and the folders that it is to be made in.
            else str(name).startswith(str(folder)) or Path(name) in folder.parents
        )
        if not of_cache:
            raise
        raise UserError(
            f'the cache {str(folder)!r} cannot be written ({error.strerror}): make room, or name '
            'another folder with data.cache_dir or $TRANSFORMER_JAX_CACHE.'
        ) from error


def keep_compiled_programs(folder: Path) -> None:
    """Has JAX keep every compiled program in `folder`/compiled and find it there the next time."""
    import jax

    # JAX opens it with the first program, when the process may be in another folder than now.
    jax.config.update('jax_compilation_cache_dir', str(folder.absolute() / 'compiled'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.05)
    jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
    # Else a program with cuDNN's attention on several GPUs is never found again: it would be known
    # by where in memory the function was that divided it among them.
    jax.config.update('jax_remove_custom_partitioning_ptr_from_cache_key', True)


def content_digest(texts: Iterable[str]) -> str:
    """Hex digest of a sequence of texts; their lengths keep apart what only joins alike."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(b'%d:%s' % (len(encoded), encoded))
    return digest.hexdigest()
