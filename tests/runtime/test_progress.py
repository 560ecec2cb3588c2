import logging
import os

from transformer_jax.runtime.progress import progress_bar, show_messages


def test_a_closed_pipe_stops_neither_messages_nor_prints(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    logger = logging.getLogger('transformer_jax')
    with os.fdopen(writer, 'w', buffering=1) as stderr, progress_bar('Working', total=2) as bar:
        monkeypatch.setattr('sys.stderr', stderr)
        monkeypatch.setattr(logger, 'handlers', [])
        show_messages()
        logger.info('to nobody')
        bar.update(2)
        print('to nobody', file=stderr)  # later writes of libraries must not fail either


def test_a_full_disk_stops_no_message(monkeypatch):
    logger = logging.getLogger('transformer_jax')
    stderr = open('/dev/full', 'w', buffering=1)  # noqa: SIM115, as closing it fails
    monkeypatch.setattr('sys.stderr', stderr)
    monkeypatch.setattr(logger, 'handlers', [])
    show_messages()
    logger.info('lost')
    os.dup2(os.open(os.devnull, os.O_WRONLY), stderr.fileno())
    stderr.close()


def test_without_stderr_messages_are_dropped(monkeypatch):
    logger = logging.getLogger('transformer_jax')
    monkeypatch.setattr('sys.stderr', None)
    monkeypatch.setattr(logger, 'handlers', [])
    show_messages()
    logger.info('to nobody')
    with progress_bar('Working', total=2) as bar:
        bar.update(2)
