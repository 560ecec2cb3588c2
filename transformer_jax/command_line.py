"""What all commands share: flags, config files, logging and exit codes.

Exit code 0 is success, 2 a user's mistake (one sentence on stderr, no trace), 1 a failure of ours.
75 is a stop by SIGTERM or Ctrl-C, after which the same command may be started again; 130 is a
second Ctrl-C, which does not wait until the first is answered.
stdout carries results, stderr carries everything else.
"""

import argparse
import contextlib
import inspect
import os
import re
import runpy
import select
import stat
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from transformer_jax.config import Config, check_key
from transformer_jax.errors import UserError, listing, shown
from transformer_jax.runtime import processes
from transformer_jax.runtime.progress import STDERR, show_messages
from transformer_jax.runtime.signals import (
    INTERRUPTED_EXIT_CODE,
    RESTART_EXIT_CODE,
    Stopped,
    end_at_once,
    ignore_signals,
)


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are `UserError`s and which takes no abbreviations."""

    def __init__(self, **kwargs: Any):
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def error(self, message: str) -> NoReturn:
        """Raises what argparse would print below its usage."""
        raise UserError(f'{message}; see {self.prog} --help.')


def run(command: Callable[[Sequence[str]], None]) -> None:
    """Runs `command` on the command line's arguments and exits with the right code."""
    show_messages()
    if sys.stdout is not None:
        sys.stdout.reconfigure(encoding='utf-8')  # texts and signs of all languages
    try:
        command(sys.argv[1:])
        _flush_stdout()
        ignore_signals()
        return
    except UserError as error:
        print(f'error: {error}', file=STDERR)
        code = 2
    except Stopped as stop:
        print(stop, file=STDERR)
        code = RESTART_EXIT_CODE
        if processes.count() == 1:  # many say good-bye to one another
            STDERR.flush()
            end_at_once(code)
    except KeyboardInterrupt:
        print('Stopped by Ctrl-C.', file=STDERR)
        code = INTERRUPTED_EXIT_CODE
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
            # Whoever read our output has enough (`| head`).
            _give_up_stdout()
            code = 0
        elif processes.count() == 1:
            raise
        else:
            traceback.print_exc(file=STDERR)
            print(
                'error: this process cannot go on, or has lost the others. Start the job again: it '
                'goes on from the last checkpoint.',
                file=STDERR,
            )
            code = 1
    if code != RESTART_EXIT_CODE and processes.count() > 1:
        # Not to wait at exit for others, who are to see that this one is gone.
        sys.stdout.flush()
        STDERR.flush()
        os._exit(code)
    sys.exit(code)


def print_result(text: str) -> None:
    """Prints a line to stdout.

    Raises:
      UserError: if it cannot be written, for example because a disk is full.
    """
    with _failures_of_stdout():
        print(text)


def _flush_stdout() -> None:
    """Writes what is left to write; Python, at exit, would have no words for what fails."""
    if sys.stdout is not None:
        with _failures_of_stdout():
            sys.stdout.flush()


@contextlib.contextmanager
def _failures_of_stdout() -> Iterator[None]:
    """A context in which a stdout that cannot be written becomes a UserError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up_stdout()
        raise UserError(
            f'stdout cannot be written ({error.strerror}): choose another place.'
        ) from error


def _give_up_stdout() -> None:
    """Sends what is left to write nowhere, or Python would complain again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nobody_reads_stdout() -> bool:
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def add_config_flag(parser: Parser) -> None:
    """Adds --config=FILE; overrides (--config.a.b=value) are left for `load_config`."""
    parser.add_argument(
        '--config',
        required=True,
        metavar='FILE[:ARGUMENT]',
        help='config file, e.g. configs/base.py; what follows a colon is handed to its get_config; '
        '--config.SECTION.FIELD=VALUE changes a field of it, e.g. --config.model.d_ff=1024',
    )


def add_model_flags(parser: Parser) -> None:
    """Adds the flags that say which weights to take: --workdir, --checkpoints and --average."""
    parser.add_argument('--workdir', required=True, help='folder of a trained run')
    parser.add_argument(
        '--checkpoints', type=int, help='how many to average (default: of the config)'
    )
    parser.add_argument(
        '--average',
        choices=('latest', 'best'),
        help='which checkpoints to average (default: of the config)',
    )


def add_search_flags(parser: Parser) -> None:
    """Adds the flags that say how to search, --beam_size for instance."""
    parser.add_argument('--beam_size', type=int, help='hypotheses (default: of the config)')
    parser.add_argument('--length_penalty', type=float, help='alpha (default: of the config)')
    parser.add_argument(
        '--max_extra_length',
        type=int,
        help='most tokens that an output has more than its input (default: of the config)',
    )


def config_name(config_flag: str) -> str:
    """'multi30k' for 'configs/multi30k.py:../data'."""
    return Path(_split(config_flag)[0]).stem


def load_config(config_flag: str, overrides: Sequence[str] = ()) -> Config:
    """Runs a config file and applies overrides.

    Args:
      config_flag: path of the file, and after a colon the argument of its `get_config`.
      overrides: as on the command line, '--config.model.d_ff=1024'; or value apart from name.

    Raises:
      UserError: if the file is missing or fails, or for an unknown flag, key or value.
    """
    mapping = _run_config_file(*_split(config_flag))
    rest = list(overrides)
    while rest:
        flag = rest.pop(0)
        match = re.fullmatch(r'--config\.([^=]*)(?:=(.*))?', flag, flags=re.DOTALL)
        if not match:
            raise UserError(
                f'{flag} is not a flag of this command: use --help for those it has, '
                'and --config.SECTION.FIELD=VALUE for fields of the config.'
            )
        key, value = match.groups()
        if value is None:
            if not rest:
                raise UserError(f'--config.{key} has no value: write --config.{key}=VALUE.')
            value = rest.pop(0)
        check_key(key)
        section, _, name = key.partition('.')
        if not name:
            raise UserError(f'--config.{key} is a section: name a field, --config.{key}.FIELD.')
        if not isinstance(mapping.setdefault(section, {}), dict):
            return Config.from_mapping(mapping)  # which says what it should be
        mapping[section][name] = _parse(key, value, getattr(getattr(Config(), section), name))
    return Config.from_mapping(mapping)


def _split(config_flag: str) -> tuple[str, str | None]:
    path, colon, argument = config_flag.partition('.py:')
    return (f'{path}.py', argument) if colon else (config_flag, None)


def _run_config_file(path: str, argument: str | None) -> dict[str, dict[str, Any]]:
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its writer
            open(path).close()
    except PermissionError as error:
        raise UserError(f'--config={path!r} may not be read: change its permissions.') from error
    except (OSError, ValueError):
        pass  # it is not a file, as is said next
    if not os.path.isfile(path):
        folder = Path(path) if os.path.isdir(path) else Path(path).parent
        near = sorted(folder.glob('*.py')) if os.path.isdir(folder) else []
        there = f' (there are {listing(map(str, near))})' if near else ''
        raise UserError(f'--config={path!r} is not a file{there}: give the path of a config file.')
    try:
        get_config = runpy.run_path(path).get('get_config')
        if get_config is None:
            raise UserError(f'--config={path!r} defines no get_config(): add it to the file.')
        parameters = inspect.signature(get_config).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty]
        if argument is not None and not parameters:
            raise UserError(f'--config={path!r} takes no argument, but got {argument!r}.')
        if argument is None and needed:
            raise UserError(
                f'--config={path!r} needs an argument ({needed[0]}): '
                f'write --config={path}:{needed[0].upper()}.'
            )
        config = get_config() if argument is None else get_config(argument)
        mapping = config.to_dict() if hasattr(config, 'to_dict') else None
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        # A config file is the user's own code: its place and reason are what helps, not our trace.
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        lines += [error.lineno] if isinstance(error, SyntaxError) else []
        where = f'{path}, line {lines[-1]}' if lines else path
        # The first argument of an OSError is a bare number.
        whole = isinstance(error, OSError) or not error.args
        reason = ''
        with contextlib.suppress(Exception):  # its text is the user's own code as well
            reason = ' '.join(str(error if whole else error.args[0]).split())
        # Said by ConfigDict, at length, of a field and of a section.
        unknown = re.search(r'Key "(\w+)" does not exist|instead of "(\w+)"', reason)
        if unknown:
            try:
                check_key(unknown[1] or unknown[2])
            except UserError as better:
                raise UserError(f'{where}: {better}') from error
        said = f'{type(error).__name__}: {reason}' if reason else type(error).__name__
        raise UserError(f'{where}: {said.rstrip(".")}.') from error
    if not isinstance(mapping, dict):
        raise UserError(
            f'--config={path!r}: get_config() returned a {type(config).__name__}: '
            'return the ConfigDict that Config().to_config_dict() makes.'
        )
    return mapping


def _parse(key: str, value: str, default: Any) -> Any:
    kind = type(default)
    try:
        if kind is bool:
            return {'true': True, 'false': False}[value.lower()]
        return kind(value)
    except (KeyError, ValueError) as error:
        wanted = 'True or False' if kind is bool else f'of type {kind.__name__}'
        raise UserError(f'{key}={shown(value)} must be {wanted}.') from error
