"""Serves translations over HTTP: python -m transformer_jax.serve --workdir=DIR."""

import asyncio
import contextlib
import functools
import importlib.util
import logging
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from transformer_jax import command_line
from transformer_jax.errors import UserError
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.program_cache import ProgramCache
from transformer_jax.runtime.signals import (
    StopSignals,
    answer_signals,
    end_at_once,
    stop_if_requested,
)
from transformer_jax.storage.cache import cache_folder, keep_compiled_programs

# Importing it takes seconds, in which no mistake would be answered.
if TYPE_CHECKING:
    from transformer_jax.serving.app import Server

_PACKAGES = ('starlette', 'uvicorn', 'prometheus_client', 'python_multipart', 'babel', 'sentencex')
_GRACE = 7  # seconds in which requests that are being answered may end
_BACKLOG = 128  # connections that asyncio opens before it looks after others
_POLL = 0.05  # seconds
_logger = logging.getLogger('transformer_jax')
_STOPPING = 'Stopping: requests that are being answered end.'


def main(arguments: Sequence[str]) -> None:
    """Load models, compile, and answer requests until a signal comes."""
    flags = _parser().parse_args(arguments)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"serve needs the packages {', '.join(missing)}: pip install 'transformer_jax[serve]'."
        )
    with program_cache.use(ProgramCache.open(cache_folder())):
        keep_compiled_programs(cache_folder())
        server = _server(flags)
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


def _parser() -> command_line.Parser:
    from transformer_jax.serving.http.limits import Limits

    limits = Limits()
    parser = command_line.Parser(
        command='serve',
        description='Translates for programs and browsers, over HTTP: the interface of\n'
        'LibreTranslate. / is a page to translate in a browser, /languages lists the pairs, /spec\n'
        'describes the interface, /health says that it is ready, /metrics counts for Prometheus.',
    )
    parser.add_argument(
        '--workdir',
        action='append',
        help='folder of a trained run or of a release, or name of a model of the package; give it '
        'several times for several pairs of languages (default: tatoeba_en_fr)',
    )
    parser.add_argument('--host', default='127.0.0.1', help='address to listen at; 0.0.0.0 for all')
    parser.add_argument('--port', type=int, default=5000, help='port to listen at (default: 5000)')
    parser.add_argument('--api_keys', help='file of lines KEY or KEY REQUESTS_PER_MINUTE')
    for name, default, what in (
        ('requests_per_minute', 0, 'of each key or address; 0 is no limit'),
        ('max_characters', limits.characters, 'characters of a request'),
        ('max_texts', limits.texts, 'texts of a request'),
        ('max_alternatives', limits.alternatives, 'alternatives of a text; a small beam has fewer'),
        ('max_body', limits.body, 'bytes of the body of a request'),
        ('max_file_characters', limits.file_characters, 'characters of a file'),
        ('max_file_body', limits.file_body, 'bytes of the body of a request with a file'),
        ('max_waiting', 4096, 'sentences that may wait; further requests get status 503'),
    ):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'{what} ({default:,})')
    parser.add_argument(
        '--batch_timeout_ms',
        type=float,
        default=5.0,
        help='milliseconds that a sentence waits for others if the device is idle (5)',
    )
    parser.add_argument(
        '--origin',
        action='append',
        default=[],
        help='origin whose pages may ask from a browser, for example https://example.org, or *',
    )
    parser.add_argument(
        '--public_url',
        default='',
        help='address at which clients reach the server, for links to translated files, if a proxy '
        'is before it: https://example.org/translate',
    )
    parser.add_argument(
        '--proxy',
        action='append',
        default=[],
        help='address or network of a proxy before the server: X-Forwarded-For says who asks, and '
        'limits of clients do not hold for the proxy, for example 10.0.0.0/8',
    )
    return parser


def _server(flags: Any) -> 'Server':
    from transformer_jax.serving.http.access import Access, read_keys
    from transformer_jax.serving.http.limits import Limits, check_flags

    check_flags(flags)
    keys = None if flags.api_keys is None else read_keys(flags.api_keys)
    from transformer_jax.serving.app import Server
    from transformer_jax.serving.batcher import Batcher
    from transformer_jax.serving.languages import translators_by_pair
    from transformer_jax.serving.metrics import Metrics
    from transformer_jax.translator import Translator

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
    return Server(batcher, limits, Access(keys, flags.requests_per_minute), metrics)


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether uvicorn's message is not about a client that broke the protocol."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__name__ == 'LocalProtocolError':
        return False
    return record.getMessage() not in (
        'Invalid HTTP request received.',
        'Unsupported upgrade request.',
    )


def _config(server: 'Server', flags: Any) -> Any:
    """Return the settings of uvicorn."""
    import uvicorn

    from transformer_jax.serving.http.connections import Connection, Connections, most_connections

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
    from transformer_jax.serving.http.connections import Listener

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


def _serve(server: 'Server', config: Any, listening: socket.socket, stop: StopSignals) -> None:
    """Answer requests until a signal comes."""
    import uvicorn

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


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
