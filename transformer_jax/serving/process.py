"""The process that serves: it loads models, compiles, and answers until a signal comes."""

import asyncio
import contextlib
import functools
import logging
import socket
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor, wait
from ipaddress import ip_network

import uvicorn

from transformer_jax import command_line
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import StopSignals, end_at_once, stop_if_requested
from transformer_jax.serving.app import Server
from transformer_jax.serving.batcher import Batcher
from transformer_jax.serving.http.access import Access
from transformer_jax.serving.http.connections import (
    Connection,
    Connections,
    Listener,
    most_connections,
)
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.languages import translators_by_pair
from transformer_jax.serving.metrics import Metrics
from transformer_jax.translator import Translator

_GRACE = 7  # seconds in which requests that are being answered may end
_BACKLOG = 128  # connections that asyncio opens before it looks after others
_POLL = 0.05  # seconds
_logger = logging.getLogger('transformer_jax')
_STOPPING = 'Stopping: requests that are being answered end.'


def serve(flags: Namespace, access: Access) -> None:
    """Load models, compile, and answer requests until a signal comes.

    Args:
      flags: those of the command `serve`.
      access: who may ask, and how often.

    Raises:
      UserError: if a model cannot be loaded, or the port cannot be listened at.
    """
    server = _server(flags, access)
    config = _config(server, flags)
    # Compiling takes minutes, after which it would be late to say that the port is in use.
    with contextlib.closing(_bound(flags.host, flags.port)) as listening:
        server.batcher.prepare()
        _listen(listening, flags.host, flags.port)
        stop_if_requested()
        server.batcher.start()
        server.metrics.opened()
        with StopSignals() as stop, stop.deferred(_STOPPING):
            _serve(server, config, listening, stop)
            # All requests are answered, and nobody waits for what the device may still do.
            end_at_once(0)
        server.batcher.end()


def _server(flags: Namespace, access: Access) -> Server:
    workdirs = flags.workdir or ['tatoeba_en_fr']
    translators = translators_by_pair({one: Translator.load(one) for one in workdirs})
    most_alternatives = max(t.config.decode.beam_size for t in translators.values()) - 1
    if flags.max_alternatives > most_alternatives:
        _logger.warning(
            '--max_alternatives=%d: texts have at most %d, because the beam has %d hypotheses.',
            flags.max_alternatives,
            most_alternatives,
            most_alternatives + 1,
        )
    metrics = Metrics()
    batcher = Batcher(
        translators,
        most_waiting=flags.max_waiting,
        batch_timeout=flags.batch_timeout_ms / 1000,
        observe=metrics.observe_batch,
    )
    limits = Limits(
        flags.max_body,
        flags.max_characters,
        flags.max_texts,
        min(flags.max_alternatives, most_alternatives),
        flags.max_file_body,
        flags.max_file_characters,
    )
    return Server(batcher, limits, access, metrics)


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether uvicorn's message is not about a client that broke the protocol."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__name__ == 'LocalProtocolError':
        return False
    return record.getMessage() not in (
        'Invalid HTTP request received.',
        'Unsupported upgrade request.',
    )


def _config(server: Server, flags: Namespace) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    connections = Connections(most_connections(), proxies=[*map(ip_network, flags.proxy)])
    return uvicorn.Config(
        server.application(flags.origin, flags.public_url, flags.host),
        host=flags.host,
        port=flags.port,
        http=functools.partial(Connection, connections),
        ws='none',
        log_config=None,
        access_log=False,  # texts may be in addresses
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        proxy_headers=bool(flags.proxy),
        forwarded_allow_ips=flags.proxy,
        backlog=_BACKLOG,
    )


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that has this address, and does not listen yet."""
    bound = None
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = Listener(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:
        if bound is not None:
            bound.close()
        raise _in_use(host, port, error) from None
    return bound


def _listen(bound: socket.socket, host: str, port: int) -> None:
    """Open the port, which another server may have opened meanwhile."""
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        raise _in_use(host, port, error) from None


def _in_use(host: str, port: int, error: Exception) -> UserError:
    reason = getattr(error, 'strerror', None) or error
    return UserError(
        f'--host={host} --port={port} cannot be listened at ({reason}): choose another.'
    )


def _url(host: str, port: int) -> str:
    return f'http://[{host}]:{port}' if ':' in host else f'http://{host}:{port}'


def _serve(
    server: Server, config: uvicorn.Config, listening: socket.socket, stop: StopSignals
) -> None:
    """Answer requests until a signal comes."""
    logging.getLogger('uvicorn.error').addFilter(_is_of_use)
    # It warns of each damaged form, which the answer to its client names.
    logging.getLogger('python_multipart').setLevel(logging.ERROR)
    http = uvicorn.Server(config)
    # Only the main thread can have handlers of signals, so uvicorn cannot replace those of this
    # process.
    with ThreadPoolExecutor(1) as threads:
        serving = threads.submit(lambda: asyncio.run(http.serve([listening])))
        try:
            while not http.started and not serving.done():
                wait([serving], _POLL)
            if http.started:
                url = _url(config.host, listening.getsockname()[1])
                pairs = ', '.join(map(' to '.join, server.languages.pairs))
                command_line.print_result(f'{url} translates {pairs}')
                sys.stdout.flush()
            while not stop.pending() and not serving.done():
                wait([serving], _POLL)
        finally:
            http.should_exit = True
        serving.result()
