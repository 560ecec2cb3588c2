"""Lines and commands typed at a terminal, and how a session ends."""

import signal
import subprocess
import threading

import pytest
from pseudo_terminal import PseudoTerminal
from tiny_run import TEXTS

from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import Stopped
from transformer_jax.terminal import interactive as terminal
from transformer_jax.terminal.interactive import BackgroundCompiler, TerminalLines, TerminalSettings


class Typed:
    """Stands for a terminal without `readline` at which `lines` are typed."""

    def __init__(self, *lines):
        self._lines = [*lines]

    def take(self, most):
        return [self._lines.pop(0)] if self._lines else []


def session(*lines, settings=None, on_change=lambda settings: None):
    """Return all texts of a session at which `lines` are typed."""
    lines = TerminalLines(Typed(*lines), settings or TerminalSettings(), on_change)
    return [text for [text] in iter(lambda: lines.take(16), [])]


@pytest.mark.parametrize(
    'text', ['The cat.', '', ' ', ':-)', ':', ': n 5', ':5', ' :n 5', 'a :n 5']
)
def test_a_line_without_a_command_is_a_text(text):
    assert session(text) == [text]


@pytest.mark.parametrize(
    ('line', 'text'), [('::n 5', ':n 5'), ('::quit', ':quit'), ('::', ':'), (':::-)', '::-)')]
)
def test_two_colons_stand_for_one(line, text):
    assert session(line) == [text]


def test_commands_change_the_settings():
    settings = TerminalSettings(beam_size=4)
    assert session(':n 3', ':scores', 'text', ':beam 8 ', settings=settings) == ['text']
    assert settings == TerminalSettings(n_best=3, scores=True, beam_size=8)
    session(':scores', settings=settings)
    assert not settings.scores


def test_settings_count_from_the_next_text_on():
    settings = TerminalSettings()
    lines = TerminalLines(Typed('one', ':n 2', 'two'), settings, lambda changed: None)
    seen = [(lines.take(1), settings.n_best) for _ in range(2)]
    assert seen == [(['one'], 1), (['two'], 2)]


def test_settings_that_are_refused_stay_as_they_were(capsys):
    def refuse(changed):
        raise UserError(f'n_best={changed.n_best} must be from 1 to 4.')

    settings = TerminalSettings(n_best=2)
    assert session(':n 99', 'text', settings=settings, on_change=refuse) == ['text']
    assert settings == TerminalSettings(n_best=2)
    assert capsys.readouterr() == ('', 'error: n_best=99 must be from 1 to 4.\n')


@pytest.mark.parametrize(
    ('line', 'sentence'),
    [
        (':n', "':n' needs a whole number, not '': for example ':n 5'."),
        (':beam wide', "':beam' needs a whole number, not 'wide': for example ':beam 5'."),
        (':scores off', "':scores' takes no value: leave out 'off'."),
        (':quit now', "':quit' takes no value: leave out 'now'."),
        (':scroes', "':scroes' is no command: did you mean ':scores'?"),
        (':D', "':D' is no command."),
        (':état', "':état' is no command."),
    ],
)
def test_a_mistake_gives_one_sentence_and_the_session_goes_on(capsys, line, sentence):
    settings = TerminalSettings()
    assert session(line, 'text', settings=settings) == ['text']
    assert settings == TerminalSettings()
    out, err = capsys.readouterr()
    assert (out, err.count('\n')) == ('', 1)
    assert err.startswith(f'error: {sentence}')


def test_quit_ends_the_session():
    assert session('one', ':quit', 'two') == ['one']


def test_help_names_every_command(capsys):
    session(':help')
    out, err = capsys.readouterr()
    assert out == ''
    assert all(command in err for command in terminal._COMMANDS)


def test_short_lengths_are_prepared_in_the_background():
    prepared = []
    with BackgroundCompiler() as compiler:
        compiler.start(prepared.append)
        compiler._thread.join()
    assert prepared == [*terminal._SHORT]


def test_new_settings_are_prepared_for_after_the_program_that_is_being_compiled():
    compiling, changed = threading.Event(), threading.Event()
    prepared = []

    def first(tokens):
        compiling.set()
        changed.wait()
        prepared.append(('first', tokens))

    compiler = BackgroundCompiler()
    compiler.start(first)
    compiling.wait()
    compiler.start(lambda tokens: prepared.append(('second', tokens)))
    changed.set()
    compiler._thread.join()
    assert prepared == [
        ('first', terminal._SHORT[0]),
        *(('second', tokens) for tokens in terminal._SHORT),
    ]


@pytest.mark.parametrize('error', [RuntimeError, UserError, Stopped, SystemExit])
def test_an_error_in_the_background_is_not_reported(error, capsys):
    def fail(tokens):
        raise error('no memory')

    with BackgroundCompiler() as compiler:
        compiler.start(fail)
    assert capsys.readouterr() == ('', '')


def test_an_error_of_the_session_waits_for_the_compiler_and_a_stop_does_not():
    for error in (UserError, Stopped):
        leave, done = threading.Event(), []
        timer = threading.Timer(0.2, leave.set)
        with pytest.raises(error), BackgroundCompiler() as compiler:
            compiler.start(lambda tokens: done.append(leave.wait()))  # noqa: B023
            timer.start()
            raise error
        assert bool(done) == (error is UserError)
        leave.set()


# Answers each text with itself and the settings.
ECHO = """
import sys
from transformer_jax import command_line
from transformer_jax.terminal.line_input import StdinLines
from transformer_jax.terminal.interactive import TerminalLines, TerminalSettings
from transformer_jax.runtime import signals
signals._GRACE = 0.5
signals.answer_signals()
def main(arguments):
    settings = TerminalSettings()
    lines = TerminalLines(StdinLines(), settings, print)
    while chunk := lines.take(16):
        print(f'{chunk} n={settings.n_best}', flush=True)
    print('end')
"""
RUN = 'command_line.run(main)'


@pytest.fixture
def echo():
    """A process that answers what the test types."""
    with PseudoTerminal('-c', ECHO + RUN) as at_terminal:
        at_terminal.wait_for('> ')
        yield at_terminal


def test_a_line_can_be_edited(echo):
    echo.type('ab\x1b[Dx\n')
    assert "['axb'] n=1\n> " in echo.wait_for('> ')


def test_an_earlier_line_can_be_recalled(echo):
    for line in ('one', 'two'):
        echo.type(f'{line}\n')
        echo.wait_for(f"['{line}'] n=1\n> ")
    echo.type('\x1b[A\x1b[A!\n')
    echo.wait_for("['one!'] n=1\n> ")


def test_several_lines_pasted_are_answered_in_order(echo):
    echo.type('one\n:n 2\nÉté 😀\n\n\x04')
    code, shown = echo.end()
    assert code == 0
    assert [line for line in shown.splitlines() if line.startswith('[')] == [
        *("['one'] n=1", "['Été 😀'] n=2", "[''] n=2")
    ]


@pytest.mark.parametrize('keys', ['\x04', ':quit\n'])
def test_the_session_ends_with_a_terminal_as_it_was(echo, keys):
    echo.type(keys)
    code, shown = echo.end()
    assert (code, shown.splitlines()[-1]) == (0, 'end')
    assert echo.echoes_lines()


def test_ctrl_c_stops_the_command_and_restores_the_terminal(echo):
    assert not echo.echoes_lines()  # the editor does
    echo.type('half a line\x03')
    code, shown = echo.end()
    assert (code, shown.splitlines()[-1]) == (75, 'Stopped by SIGINT.')
    assert echo.echoes_lines()


def test_sigterm_stops_the_command_and_restores_the_terminal(echo):
    echo.process.send_signal(signal.SIGTERM)
    code, shown = echo.end()
    assert (code, shown.splitlines()[-1]) == (75, 'Stopped by SIGTERM.')
    assert echo.echoes_lines()


def test_a_signal_that_does_not_interrupt_the_editor_is_answered_too():
    # The signal goes to another thread than the one that reads.
    code = 'signals.signal.pthread_sigmask(signals.signal.SIG_BLOCK, [2, 15])\n'
    with PseudoTerminal('-c', ECHO + code + RUN) as at_terminal:
        at_terminal.wait_for('> ')
        at_terminal.process.send_signal(signal.SIGTERM)
        code, shown = at_terminal.end()
        assert (code, shown.splitlines()[-1]) == (75, 'Stopped by SIGTERM.')
        assert at_terminal.echoes_lines()


def test_a_line_in_another_encoding_is_reported_and_can_be_typed_again(echo):
    echo.type(b'\xff\n')
    assert 'error: the line is not utf-8' in echo.wait_for('> ')
    echo.type('text\n')
    echo.wait_for("['text'] n=1\n> ")


def test_without_readline_the_terminal_edits():
    with PseudoTerminal('-c', f'{ECHO}\nsys.modules["readline"] = None\n{RUN}') as at_terminal:
        at_terminal.wait_for('> ')
        assert at_terminal.echoes_lines()
        at_terminal.type(':n 2\nac\x7fb\n')
        at_terminal.wait_for("['ab'] n=2\n> ")
        at_terminal.type('\x03')
        assert at_terminal.end()[0] == 75


def test_redirected_outputs_hold_no_prompts():
    with PseudoTerminal('-c', ECHO + RUN, stdout=subprocess.PIPE) as at_terminal:
        at_terminal.wait_for('> ')
        at_terminal.type('one\n:scores\n\x04')
        assert at_terminal.end()[0] == 0
        out = at_terminal.process.stdout.read().decode().splitlines()
    assert [out[0], out[-1]] == ["['one'] n=1", 'end']
    assert not any('>' in line for line in out)


def test_a_session_of_the_command_answers_while_it_compiles(workdir, translator, tmp_path):
    arguments = ('-m', 'transformer_jax.translate', '--workdir', str(workdir))
    env = {'TRANSFORMER_JAX_CACHE': str(tmp_path)}  # no program is compiled yet
    with PseudoTerminal(*arguments, env=env) as at_terminal:
        at_terminal.wait_for('> ')
        at_terminal.type(f'{TEXTS[0]}\n')
        assert f'\n{translator(TEXTS[0])}\n' in at_terminal.wait_for('\n> ')
        at_terminal.type(':n 9\n')
        assert 'error: n_best=9 must be from 1 to the beam size' in at_terminal.wait_for('\n> ')
        at_terminal.type(':n 2\n')
        at_terminal.wait_for('\n> ')
        at_terminal.type(f'{TEXTS[2]}\n')
        best = translator(TEXTS[2], n_best=2)
        shown = at_terminal.wait_for('\n> ').splitlines()
        assert shown[-3:-1] == [f'2\t{one.text}' for one in best]
        at_terminal.type(':beam 3\n')  # begins to compile again
        at_terminal.wait_for('\n> ')
        at_terminal.type('\x04')
        assert at_terminal.end()[0] == 0
        assert at_terminal.echoes_lines()
