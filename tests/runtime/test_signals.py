"""A signal is answered in every phase of a process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from transformer_jax.runtime.signals import Stopped, StopSignals, stop_if_requested


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_work_that_asks_for_signals_stops(number):
    with StopSignals():
        stop_if_requested()
        send(number)
        with pytest.raises(Stopped, match=f'Stopped by {number.name}'):
            stop_if_requested()
    stop_if_requested()  # the wish ends with the work


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_deferred_stop_waits_for_should_stop(number, capfd):
    with StopSignals() as stop, stop.deferred():
        assert stop.should_stop(1) is None
        send(number)
        assert stop.should_stop(2) == number.name
    assert 'Stopping after this step' in capfd.readouterr().err


def test_a_second_ctrl_c_interrupts_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignals() as stop, stop.deferred():
        send(signal.SIGINT)
        send(signal.SIGINT)


def test_a_second_sigterm_still_waits():
    with StopSignals() as stop, stop.deferred():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert stop.should_stop(1) == 'SIGTERM'


def test_a_signal_after_the_last_should_stop_is_pending():
    with StopSignals() as stop:
        with stop.deferred():
            assert stop.pending() is None
            send(signal.SIGTERM)
        assert stop.pending() == 'SIGTERM'


def command(code, *signals, grace=0.3):
    """Return exit code and messages of a process that runs `code` and gets `signals`."""
    program = f"""
import time
from pathlib import Path
from transformer_jax import command_line
from transformer_jax.runtime import signals
from transformer_jax.storage.files import partial_path
signals._GRACE = {grace}
signals.answer_signals()
def main(arguments):
    print('ready', flush=True)
{code}
command_line.run(main)
"""
    process = subprocess.Popen(
        [sys.executable, '-c', program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == 'ready\n'
        for number in signals:
            process.send_signal(number)
        _, messages = process.communicate(timeout=20)
    finally:
        process.kill()
    return process.returncode, messages


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    'work',
    [
        'while True: pass',
        'time.sleep(60)',  # as a call of a library that Python cannot interrupt
        'while True: signals.stop_if_requested(); time.sleep(0.01)',
    ],
)
def test_a_command_ends_in_every_phase(work, number):
    assert command(f'    {work}', number) == (75, f'Stopped by {number.name}.\n')


def test_unfinished_files_of_a_stopped_command_are_removed(tmp_path):
    work = f'    partial_path(Path({str(tmp_path / "file")!r})).mkdir(); time.sleep(60)'
    assert command(work, signal.SIGTERM)[0] == 75
    assert not list(tmp_path.iterdir())


def test_unfinished_files_of_threads_are_removed_when_a_command_stops(tmp_path):
    work = (
        f'    partial_path(Path({str(tmp_path / "file")!r})).mkdir()\n'
        '    raise signals.Stopped("Stopped.")'
    )
    assert command(work) == (75, 'Stopped.\n')
    assert not list(tmp_path.iterdir())


def test_a_command_that_is_saving_is_not_cut_short():
    work = (
        '    with signals.StopSignals() as stop, stop.deferred():\n'
        '        time.sleep(1.5)\n'
        '        raise signals.Stopped(f"Saved after {stop.should_stop(1)}.")'
    )
    code, messages = command(work, signal.SIGTERM)
    assert (code, messages.splitlines()[-1]) == (75, 'Saved after SIGTERM.')


def test_a_second_ctrl_c_ends_a_command_at_once():
    # A signal that comes before the first one is heard is the same signal.
    work = (
        '    import os, threading\n'
        '    threading.Timer(0.5, os.kill, (os.getpid(), 2)).start()\n'
        '    with signals.StopSignals() as stop, stop.deferred(): time.sleep(60)'
    )
    assert command(work, signal.SIGINT)[0] == 130


def test_a_signal_after_the_end_of_the_work_changes_no_exit_code():
    work = '    import atexit, signal; atexit.register(signal.raise_signal, signal.SIGTERM)'
    assert command(work) == (0, '')


def test_a_stopped_command_does_not_wait_for_its_threads():
    work = (
        '    import threading\n'
        '    threading.Thread(target=time.sleep, args=(60,)).start()\n'
        '    raise signals.Stopped("Stopped.")'
    )
    assert command(work) == (75, 'Stopped.\n')


def test_sigterm_before_the_first_step_exits_with_the_restart_code(tmp_path):
    config = tmp_path / 'config.py'
    config.write_text('import signal, time\nsignal.raise_signal(signal.SIGTERM)\ntime.sleep(60)\n')
    arguments = [sys.executable, '-m', 'transformer_jax.main', f'--config={config}']
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (75, 'Stopped by SIGTERM.\n')


def test_the_old_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_outside_the_main_thread_no_signal_is_caught():
    found = []

    def enter():
        with StopSignals() as stop:
            found.append(stop.should_stop(1))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [None]
