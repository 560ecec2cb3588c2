"""What all commands share: flags, config files, logging and exit codes.

Exit code 0 is success; 2 is a mistake of the user, with one sentence on stderr; 1 is a failure of
ours, with a trace. 75 is a stop by SIGTERM or Ctrl-C, after which the same command can be run
again; 130 is a second Ctrl-C, which ends the command at once.
Results go to stdout, everything else to stderr.
"""

import argparse
import contextlib
import dataclasses
import inspect
import os
import re
import select
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from transformer_jax.config.decode import SEARCH_FIELDS, DecodeConfig
from transformer_jax.config.sampling import Sampling
from transformer_jax.errors import UserError
from transformer_jax.runtime import processes
from transformer_jax.runtime.progress import STDERR, show_messages
from transformer_jax.runtime.signals import (
    INTERRUPTED_EXIT_CODE,
    RESTART_EXIT_CODE,
    Stopped,
    end_at_once,
    ignore_signals,
)
from transformer_jax.storage.cache import cache_folder
from transformer_jax.storage.files import remove_unfinished

__all__ = [
    'Parser',
    'add_checkpoint_flags',
    'add_config_flag',
    'add_model_flags',
    'add_output_flags',
    'add_search_flags',
    'add_steps_flag',
    'add_target_flag',
    'checkpoint_steps',
    'compiled_programs',
    'model_options',
    'module_of',
    'print_result',
    'run',
    'sampling',
    'search_options',
    'stream_or_path',
]


def module_of(command: str) -> str:
    """Return the module of a command; they differ in name for 'train' only, which is 'main'."""
    return 'main' if command == 'train' else command


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises `UserError`s and takes no abbreviations."""

    def __init__(self, command: str, description: str):
        """Make a parser with no flags but --help.

        Args:
          command: name of the command, as in `transformer-jax COMMAND`.
          description: text of --help above the flags; its line breaks are kept.
        """
        is_program = os.path.basename(sys.argv[0]) == 'transformer-jax'
        super().__init__(
            prog=f'transformer-jax {command}'
            if is_program
            else f'python -m transformer_jax.{module_of(command)}',
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise a UserError with argparse's message and without its usage."""
        raise UserError(f'{message}; see {self.prog} --help.')


def run(command: Callable[[Sequence[str]], None]) -> None:
    """Run `command` on the arguments in sys.argv and exit with the code of its outcome."""
    show_messages()
    if sys.stdout is not None:
        sys.stdout.reconfigure(encoding='utf-8')  # for texts of all languages
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
        if processes.count() == 1:  # several processes have to end together
            STDERR.flush()
            end_at_once(code)
    except KeyboardInterrupt:
        print('Stopped by Ctrl-C.', file=STDERR)
        code = INTERRUPTED_EXIT_CODE
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
            # The reader of our output is done (`| head`).
            _give_up_stdout()
            code = 0
        elif processes.count() == 1:
            raise
        else:
            traceback.print_exc(file=STDERR)
            print(
                'error: this process failed, or lost the other processes: start the job again to '
                'resume from the last checkpoint.',
                file=STDERR,
            )
            code = 1
    if code != RESTART_EXIT_CODE and processes.count() > 1:
        # At exit JAX would wait for the other processes, which would not see that this one failed.
        sys.stdout.flush()
        STDERR.flush()
        remove_unfinished()
        os._exit(code)
    sys.exit(code)


@contextlib.contextmanager
def compiled_programs(cache_dir: str = '', single: bool = True) -> Iterator[None]:
    """A context in which compiled programs are kept in the cache for the next process.

    A command enters it when flags and config are checked, because it imports JAX, and before
    anything else does.

    Args:
      cache_dir: the cache folder, see `cache_folder`.
      single: whether there is one process; several share their programs through JAX's own cache.
    """
    # A config file that has imported JAX may have patched the model, too.
    is_own = single and 'jax' not in sys.modules
    from transformer_jax.runtime import program_cache

    folder = cache_folder(cache_dir)
    programs = program_cache.ProgramCache.open(folder) if is_own else None
    if programs is None:
        program_cache.keep_compiled_programs(folder)
    with program_cache.use(programs):
        yield


def print_result(text: str) -> None:
    """Print a line to stdout.

    Raises:
      UserError: if stdout cannot be written, for example because a disk is full.
    """
    with _failures_of_stdout():
        print(text)


def _flush_stdout() -> None:
    """Flush stdout here, because Python would report a failure at exit with a trace."""
    if sys.stdout is not None:
        with _failures_of_stdout():
            sys.stdout.flush()


@contextlib.contextmanager
def _failures_of_stdout() -> Iterator[None]:
    """A context in which a failure to write stdout becomes a UserError."""
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
    """Send the rest of the output to /dev/null, because Python would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nobody_reads_stdout() -> bool:
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def stream_or_path(value: str) -> str | None:
    """Return the value of a flag that names a file; None for '-', which is stdin or stdout."""
    return None if value == '-' else value


def add_config_flag(parser: Parser) -> None:
    """Add --config=FILE; `config.loading.load_config` takes the overrides beside it."""
    parser.add_argument(
        '--config',
        required=True,
        metavar='FILE[:ARGUMENT]',
        help='config file, or the name of a config that comes with transformer_jax, for example '
        'demo; ARGUMENT is passed to its get_config; --config.SECTION.FIELD=VALUE changes a field, '
        'for example --config.model.d_ff=1024',
    )


def add_model_flags(parser: Parser) -> None:
    """Add the flags that choose the weights; `model_options` reads them."""
    parser.add_argument(
        '--workdir',
        required=True,
        action='append',
        help='folder of a trained run or of a release, or name of a model of the package; give it '
        'several times for an ensemble of models with one '
        'vocabulary, which searches with the settings of the first',
    )
    parser.add_argument(
        '--ensemble',
        choices=('probabilities', 'log_probabilities'),
        default='probabilities',
        help='how the predictions of several models are averaged (default: probabilities)',
    )
    add_checkpoint_flags(parser)


def add_checkpoint_flags(parser: argparse._ActionsContainer) -> None:
    """Add the flags that choose the checkpoints of a run: --checkpoints and --average."""
    parser.add_argument(
        '--checkpoints', type=int, help='how many to average (default: from the config)'
    )
    parser.add_argument(
        '--average',
        choices=('latest', 'best'),
        help='which checkpoints to average (default: from the config)',
    )


def add_steps_flag(parser: argparse._ActionsContainer) -> None:
    """Add --steps, in place of the flags of `add_checkpoint_flags`; `checkpoint_steps` reads it."""
    parser.add_argument('--steps', help='steps of the checkpoints, for example 800,900,1000')


def checkpoint_steps(flags: argparse.Namespace) -> list[int] | None:
    """Return the steps of --steps, or None without it.

    Raises:
      UserError: if they cannot be read, or other flags choose checkpoints too.
    """
    text = flags.steps
    if text is None:
        return None
    if flags.checkpoints is not None or flags.average is not None:
        raise UserError(
            f'--steps={text!r} already chooses the checkpoints: leave out --checkpoints and '
            '--average.'
        )
    if not re.fullmatch(r'\d{1,18}(,\d{1,18})*', text):
        raise UserError(
            f'--steps={text[:80]!r} must be steps with commas between them, for example '
            '800,900,1000.'
        )
    steps = [int(step) for step in text.split(',')]
    if len(set(steps)) < len(steps):
        raise UserError(f'--steps={text!r} has a step twice: name each once.')
    return steps


def model_options(flags: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Translator.load` that `add_model_flags` asks for."""
    names = ('workdir', 'checkpoints', 'average', 'ensemble')
    return {name: getattr(flags, name) for name in names}


def add_search_flags(parser: Parser) -> None:
    """Add a flag for each field of the section `decode` that belongs to the search."""
    fields = {field.name: field for field in dataclasses.fields(DecodeConfig)}
    for name, text in _field_texts(DecodeConfig).items():
        if name not in SEARCH_FIELDS:
            continue
        text = f'{text.removesuffix(".")} (default: from the config)'.replace('%', '%%')
        if fields[name].type is bool:
            parser.add_argument(
                f'--{name}', action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            parser.add_argument(f'--{name}', type=fields[name].type, help=text)


def add_target_flag(parser: Parser) -> None:
    """Add --target_language, for models of several."""
    parser.add_argument(
        '--target_language',
        help='language to translate into, for example fr, of texts that do not begin with a tag '
        'such as "<2fr>" or ">>fra<<"; for models of several languages',
    )


def add_output_flags(parser: Parser) -> None:
    """Add the flags of several outputs a line: --n_best, --mbr, --sample and what belongs to it."""
    parser.add_argument(
        '--n_best', type=int, default=1, help='different outputs for each line (default: 1)'
    )
    parser.add_argument(
        '--mbr',
        choices=('chrf', 'bleu'),
        help='of the --n_best outputs, take the one with the best expected chrF or BLEU (minimum '
        'Bayes risk)',
    )
    parser.add_argument('--sample', action='store_true', help='sample outputs; no beam search')
    parser.add_argument('--temperature', type=float, help='with --sample (default: 1)')
    parser.add_argument(
        '--top_k', type=int, help='with --sample: the tokens to draw from; 0 is all (default: 0)'
    )
    parser.add_argument(
        '--top_p',
        type=float,
        help='with --sample: the probability mass to draw from; 1 is all (default: 1)',
    )
    parser.add_argument('--seed', type=int, help='with --sample (default: 0)')


def sampling(flags: argparse.Namespace) -> Sampling | None:
    """Return what --sample and the flags that belong to it ask for, or None without --sample.

    Raises:
      UserError: if flags of sampling and of beam search are mixed, or one is out of range.
    """
    given = {name: getattr(flags, name) for name in ('temperature', 'top_k', 'top_p', 'seed')}
    given = {name: value for name, value in given.items() if value is not None}
    if flags.sample:
        for name in ('beam_size', 'length_norm', 'length_penalty', 'coverage_penalty'):
            if getattr(flags, name) is not None:
                raise UserError(
                    f'--{name}={getattr(flags, name)} is for beam search, which --sample replaces: '
                    'leave out one of the two.'
                )
        return Sampling(**given)
    for name, value in given.items():
        raise UserError(f'--{name}={value} requires --sample: add it.')
    return None


def search_options(flags: argparse.Namespace) -> dict[str, Any]:
    """Return the flags of `add_search_flags` that were given."""
    given = {name: getattr(flags, name) for name in SEARCH_FIELDS}
    return {name: value for name, value in given.items() if value is not None}


def _field_texts(section: type) -> dict[str, str]:
    """Return the text of each field in the docstring of a config section."""
    attributes = inspect.cleandoc(section.__doc__ or '').partition('Attributes:')[2]
    entries = re.findall(r'^  (\w+): (.*(?:\n    .*)*)', attributes, re.MULTILINE)
    return {name: ' '.join(text.split()) for name, text in entries}
