"""Config files: where they are found, how they are run, and overrides from the command line."""

import contextlib
import inspect
import os
import re
import runpy
import stat
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformer_jax.config.config import Config, check_key
from transformer_jax.errors import UserError, did_you_mean, listing, shown

_PACKAGE = Path(__file__).parents[1]


def load_config(config_flag: str, overrides: Sequence[str] = ()) -> Config:
    """Run a config file and apply overrides.

    Args:
      config_flag: path of the file, or name of a config that comes with the package ('demo'); after
        a colon, the argument of its `get_config`.
      overrides: words of the command line: '--config.model.d_ff=1024', or flag and value apart.

    Raises:
      UserError: if the file is missing or fails, or for an unknown flag, key or value.
    """
    mapping = _run_config_file(*_split(config_flag))
    words = list(overrides)
    while words:
        flag = words.pop(0)
        match = re.fullmatch(r'--config\.([^=]*)(?:=(.*))?', flag, flags=re.DOTALL)
        if not match:
            raise UserError(
                f'{flag} is not a flag of this command: see --help for its flags, and write '
                '--config.SECTION.FIELD=VALUE for fields of the config.'
            )
        key, value = match.groups()
        if value is None:
            if not words:
                raise UserError(f'--config.{key} has no value: write --config.{key}=VALUE.')
            value = words.pop(0)
        check_key(key)
        section, _, name = key.partition('.')
        if not name:
            raise UserError(f'--config.{key} is a section: name a field, --config.{key}.FIELD.')
        if not isinstance(mapping.setdefault(section, {}), dict):
            return Config.from_mapping(mapping)  # raises an error about the section
        mapping[section][name] = _parse(key, value, getattr(getattr(Config(), section), name))
    return Config.from_mapping(mapping)


def config_name(config_flag: str) -> str:
    """Return 'multi30k' for 'configs/multi30k.py:../data' and for 'multi30k:../data'."""
    return Path(_split(config_flag)[0]).stem


def packaged_configs() -> dict[str, Path]:
    """Return the config files that come with the package, by name."""
    folder = _PACKAGE / 'configs'
    if not folder.is_dir():  # a checkout, where they lie beside the package
        folder = _PACKAGE.parent / 'configs'
    return {path.stem: path for path in sorted(folder.glob('*.py'))}


def _split(config_flag: str) -> tuple[str, str | None]:
    """Return the path of the config file, and the argument after the colon if there is one."""
    path, colon, argument = config_flag.partition('.py:')
    if colon:
        return f'{path}.py', argument
    name, colon, argument = config_flag.partition(':')
    packaged = None if _is_file(config_flag) else packaged_configs().get(name)
    if packaged is None:
        return config_flag, None
    return str(packaged), argument if colon else None


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:  # a NUL character
        return False


def _run_config_file(path: str, argument: str | None) -> dict[str, dict[str, Any]]:
    """Return the fields that a config file sets, as nested dicts."""
    _check_file(path)
    try:
        get_config = runpy.run_path(path).get('get_config')
        config = _call(get_config, path, argument)
        mapping = config.to_dict() if hasattr(config, 'to_dict') else None
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise _failure_in_file(error, path) from error
    if not isinstance(mapping, dict):
        raise UserError(
            f'--config={path!r}: get_config() returned a {type(config).__name__}: '
            'return the ConfigDict that Config().to_config_dict() makes.'
        )
    return mapping


def _check_file(path: str) -> None:
    """Raise a UserError if there is no config file at `path`, or it may not be read."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its writer
            open(path).close()
    except PermissionError as error:
        raise UserError(f'--config={path!r} may not be read: change its permissions.') from error
    except (OSError, ValueError):
        pass  # not a file, which the next check reports
    if _is_file(path):
        return
    if re.fullmatch(r'\w+(:.*)?', path):
        names = packaged_configs()
        raise UserError(
            f'--config={shown(path)} is neither a file nor one of the configs '
            f'{", ".join(names)}{did_you_mean(path.partition(":")[0], names)}'
        )
    folder = Path(path) if os.path.isdir(path) else Path(path).parent
    near = sorted(folder.glob('*.py')) if os.path.isdir(folder) else []
    there = f' (there are {listing(map(str, near))})' if near else ''
    raise UserError(f'--config={path!r} is not a file{there}: give the path of a config file.')


def _call(get_config: Callable[..., Any] | None, path: str, argument: str | None) -> Any:
    """Call `get_config` of the file at `path`, with its argument if there is one."""
    if get_config is None:
        raise UserError(f'--config={path!r} defines no get_config(): add it to the file.')
    parameters = inspect.signature(get_config).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    if argument is not None and not parameters:
        raise UserError(
            f'--config={path!r} takes no argument, but got {argument!r}: leave out the colon and '
            'what follows.'
        )
    if argument is None and needed:
        raise UserError(
            f'--config={path!r} needs an argument ({needed[0]}): '
            f'write --config={path}:{needed[0].upper()}.'
        )
    return get_config() if argument is None else get_config(argument)


def _failure_in_file(error: BaseException, path: str) -> UserError:
    """Return a UserError with line and reason, because a config file is the user's own code."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    where = f'{path}, line {lines[-1]}' if lines else path
    # The first argument of an OSError is a bare number.
    whole = isinstance(error, OSError) or not error.args
    reason = ''
    with contextlib.suppress(Exception):  # its __str__ may be the user's own code as well
        reason = ' '.join(str(error if whole else error.args[0]).split())
    # A locked ConfigDict reports a misspelt field or section, but only in the text of its error.
    unknown = re.search(r'Key "(\w+)" does not exist|instead of "(\w+)"', reason)
    if unknown:
        try:
            check_key(unknown[1] or unknown[2])
        except UserError as better:
            return UserError(f'{where}: {better}')
    said = f'{type(error).__name__}: {reason}' if reason else type(error).__name__
    return UserError(f'{where}: {said.rstrip(".")}.')


def _parse(key: str, value: str, default: Any) -> Any:
    """Return `value` as an object of the same type as the field's default."""
    kind = type(default)
    try:
        if kind is bool:
            return {'true': True, 'false': False}[value.lower()]
        return kind(value)
    except (KeyError, ValueError) as error:
        wanted = 'True or False' if kind is bool else f'of type {kind.__name__}'
        raise UserError(f'{key}={shown(value)} must be {wanted}.') from error
