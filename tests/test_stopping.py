import os
import signal
import subprocess
import sys
import threading

import pytest

from transformer_jax.stopping import Stopped, StopSignals


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_with_nothing_to_save_a_signal_stops_at_once(number):
    with pytest.raises(Stopped, match=f'Stopped by {number.name}'), StopSignals():
        send(number)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_while_deferred_it_waits_to_be_asked(number, capfd):
    with StopSignals() as stop, stop.deferred():
        assert stop.requested(1) is None
        send(number)
        assert stop.requested(2) == number.name
    assert 'Stopping after this step' in capfd.readouterr().err


def test_a_second_ctrl_c_does_not_wait():
    with pytest.raises(KeyboardInterrupt), StopSignals() as stop, stop.deferred():
        send(signal.SIGINT)
        send(signal.SIGINT)


def test_a_second_sigterm_still_waits():
    with StopSignals() as stop, stop.deferred():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert stop.requested(1) == 'SIGTERM'


def test_a_signal_that_came_too_late_to_be_asked_for_is_known():
    with StopSignals() as stop:
        with stop.deferred():
            assert stop.came() is None
            send(signal.SIGTERM)
        assert stop.came() == 'SIGTERM'


def test_before_a_run_has_begun_sigterm_means_start_again(tmp_path):
    config = tmp_path / 'config.py'
    config.write_text('import signal\nsignal.raise_signal(signal.SIGTERM)\n')
    command = [sys.executable, '-m', 'transformer_jax.main', f'--config={config}']
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (75, 'Stopped by SIGTERM.\n')


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_in_another_thread_nothing_is_caught():
    found = []

    def enter():
        with StopSignals() as stop:
            found.append(stop.requested(1))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [None]
