"""Lines typed at a terminal: editing, history, commands, and compiling while a person types."""

import contextlib
import dataclasses
import re
import sys
import threading
from collections.abc import Callable

from transformer_jax.errors import UserError, did_you_mean, is_utf8, shown
from transformer_jax.runtime.progress import STDERR
from transformer_jax.runtime.signals import Stopped, interrupting_input
from transformer_jax.terminal.line_input import StdinLines

# Tokens to which a shorter text is padded, and the lengths that are compiled for before a text is
# typed.
MIN_LENGTH = 24
_SHORT = (MIN_LENGTH, 32)
_COMMANDS = (':n', ':scores', ':beam', ':help', ':quit')
# A smiley such as ':-)' is a text.
_COMMAND = re.compile(r':([^\W\d_]\w*)\s*(.*?)\s*', re.DOTALL)
_HELP = """\
:n 5       write 5 outputs for each line (now {n_best})
:scores    write the score before each output, or stop that (now {scores})
:beam 8    search with 8 hypotheses (now {beam_size})
:help      show this text
:quit      end, as Ctrl-D does
A line that begins with ':' and a letter is a command. To translate such a line, type '::' for its
first ':'. All other lines are translated as they are."""


@dataclasses.dataclass
class TerminalSettings:
    """Options of the command `translate` that can be changed at the prompt, named as its flags.

    Attributes:
      n_best: outputs for each line.
      scores: whether to write the scores.
      beam_size: number of hypotheses; None takes the config's.
    """

    n_best: int = 1
    scores: bool = False
    beam_size: int | None = None


class TerminalLines:
    """Lines that a person types at a terminal, and commands, which change the settings.

    With Python's module `readline`, and if stdout is the terminal too, lines can be edited and
    earlier lines of the session recalled. Otherwise the terminal's own editing has to do.
    """

    def __init__(
        self,
        stdin: StdinLines,
        settings: TerminalSettings,
        on_change: Callable[[TerminalSettings], object],
    ):
        """Read nothing yet.

        Args:
          stdin: lines of the terminal without `readline`.
          settings: what commands change.
          on_change: is called with changed settings before they replace the old ones; if it raises
            a UserError, the old ones stay.
        """
        self._stdin, self._settings, self._on_change = stdin, settings, on_change
        self._edits = _can_edit()

    def take(self, most: int) -> list[str]:
        """Prompt until a text is typed, and return it; return none at the end of the input.

        Args:
          most: as in `StdinLines.take`; a person waits for the answer to each text.

        Raises:
          Stopped: if SIGTERM or Ctrl-C asks for a stop.
        """
        del most
        while True:
            try:
                line = _edited_line() if self._edits else next(iter(self._stdin.take(1)), None)
                command = _COMMAND.fullmatch(line or '')
                if line is None or (command and command.groups() == ('quit', '')):
                    return []
                if not command:
                    return [line.removeprefix(':') if line.startswith('::') else line]
                self._obey(*command.groups())
            except UserError as error:
                print(f'error: {error}', file=STDERR)

    def _obey(self, name: str, value: str) -> None:
        """Do what a command asks for; raise UserError if that is impossible."""
        changed = dataclasses.replace(self._settings)
        if value and name in ('scores', 'help', 'quit'):
            raise UserError(f"':{name}' takes no value: leave out {shown(value)}.")
        if name == 'n':
            changed.n_best = _whole_number(name, value)
        elif name == 'beam':
            changed.beam_size = _whole_number(name, value)
        elif name == 'scores':
            changed.scores = not changed.scores
        elif name == 'help':
            print(_HELP.format(**_as_texts(self._settings)), file=STDERR)
            return
        else:
            raise UserError(
                f"':{name}' is no command{did_you_mean(f':{name}', _COMMANDS)} Type ':help' for "
                f"the commands, or '::{name}' to translate the line."
            )
        self._on_change(changed)
        vars(self._settings).update(vars(changed))
        texts = (f'{field}: {text}' for field, text in _as_texts(changed).items())
        print(', '.join(texts), file=STDERR)


class BackgroundCompiler:
    """Compiles programs for short texts in a thread, while a person types the first one.

    As a context it waits at its end for the program that is being compiled, because Python must not
    end while XLA compiles in a thread. A command ends its process at once instead.
    """

    def __init__(self):
        self._latest: Callable[[int], object] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> 'BackgroundCompiler':
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._latest = None
        # A stopped command must end within seconds.
        if self._thread and not (kind and issubclass(kind, Stopped)):
            self._thread.join()

    def start(self, prepare: Callable[[int], object]) -> None:
        """Compile for texts of a few short lengths, instead of what was not begun yet.

        Args:
          prepare: compiles what a text of the given number of tokens needs.
        """
        self._latest = prepare
        arguments = prepare, self._thread
        self._thread = threading.Thread(target=self._compile, args=arguments, daemon=True)
        self._thread.start()

    def _compile(self, prepare: Callable[[int], object], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        # The text that needs the same program raises the same error, where it can be answered.
        with contextlib.suppress(BaseException):
            for tokens in _SHORT:
                if self._latest is prepare:
                    prepare(tokens)


def _can_edit() -> bool:
    """Return whether `input` edits lines, and import `readline`, which makes it do so."""
    # `input` writes its prompt among the outputs if they are redirected.
    if sys.stdin is not sys.__stdin__ or sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        import readline  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def _edited_line() -> str | None:
    """Return a line of the terminal, or None at the end of the input."""
    try:
        with interrupting_input():
            line = input('> ')
    except (EOFError, Stopped) as end:
        print(file=STDERR)  # so that the next message begins a line
        if isinstance(end, Stopped):
            raise
        return None
    except UnicodeDecodeError:
        line = None
    if line is None or not is_utf8(line):
        raise UserError(
            f'the line is not {sys.stdin.encoding}, which the locale names: type it again, or set '
            'LC_ALL to the encoding of the terminal.'
        )
    return line


def _whole_number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UserError(
            f"':{name}' needs a whole number, not {shown(value)}: for example ':{name} 5'."
        ) from None


def _as_texts(settings: TerminalSettings) -> dict[str, object]:
    """Return the settings as texts for a message."""
    return {
        'n_best': settings.n_best,
        'scores': 'on' if settings.scores else 'off',
        'beam_size': settings.beam_size or 'from the config',
    }
