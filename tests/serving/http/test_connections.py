"""Clients that are slow, silent or greedy, on real sockets."""

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import resource
import socket

import pytest
import uvicorn

from transformer_jax.serving.http import connections as connections_module
from transformer_jax.serving.http.connections import (
    Connection,
    Connections,
    Listener,
    most_connections,
)
from transformer_jax.serving.http.edge import Edge
from transformer_jax.serving.http.sites import Sites

LONG = 1 << 25  # bytes that neither sockets nor buffers take
GET = b'GET %s HTTP/1.1\r\nhost: x\r\n\r\n'


class Application:
    """Answers at /long with much, at /held once it may, elsewhere at once."""

    def __init__(self):
        self.may_answer, self.held = asyncio.Event(), 0

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'http':
            return
        if scope['path'] == '/held':
            self.held += 1
            await self.may_answer.wait()
        body = bytes(LONG if scope['path'] == '/long' else 2)
        await send({'type': 'http.response.start', 'status': 200, 'headers': []})
        await send({'type': 'http.response.body', 'body': body})


@contextlib.asynccontextmanager
async def served(**limits):
    """Give the port and the application of a server."""
    app = Application()
    with contextlib.closing(Listener(socket.AF_INET)) as listening:
        listening.bind(('127.0.0.1', 0))
        config = uvicorn.Config(
            Edge(app, Sites()),
            http=functools.partial(Connection, Connections(**limits)),
            log_config=None,
            lifespan='off',
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext
        task = asyncio.create_task(server.serve([listening]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield listening.getsockname()[1], app
        finally:
            app.may_answer.set()
            server.should_exit = True
            await asyncio.wait_for(task, 20)


async def opened(port, content=b''):
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    writer.write(content)
    await writer.drain()
    return reader, writer


async def status(port, path=b'/'):
    reader, writer = await opened(port, GET % path)
    head = await asyncio.wait_for(reader.read(100), 20)
    writer.close()
    return int(head[9:12])


async def is_closed(reader):
    """Wait until the server has closed a connection."""
    with contextlib.suppress(ConnectionError):
        while await asyncio.wait_for(reader.read(1 << 20), 20):
            pass
    return True


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    'content',
    [b'', b'GET / HT', GET % b'/' + b'GET / HT', b'POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n'],
)
def test_a_client_that_sends_no_whole_request_is_closed(content):
    async def scenario():
        async with served(seconds=0.1) as (port, _):
            reader, _writer = await opened(port, content)
            assert await is_closed(reader)

    asyncio.run(scenario())


def test_a_client_that_does_not_read_its_answer_is_closed():
    async def scenario():
        async with served(seconds=0.1, most=1, reserve=0) as (port, _):
            _kept = await opened(port, GET % b'/long')
            async with asyncio.timeout(20):
                while True:  # the only place becomes free
                    with contextlib.suppress(ConnectionError, ValueError):
                        if await status(port) == 200:
                            return

    asyncio.run(scenario())


def test_an_answer_waits_in_small_pieces_for_its_client_to_read(monkeypatch):
    sizes, pause_writing = [], Connection.pause_writing

    def paused(connection):
        sizes.append(connection.transport.get_write_buffer_size())
        pause_writing(connection)

    async def scenario():
        async with served() as (port, _):
            reader, _writer = await opened(port, GET % b'/long')
            await until(lambda: sizes)
            await asyncio.wait_for(reader.readexactly(LONG), 20)

    monkeypatch.setattr(Connection, 'pause_writing', paused)
    asyncio.run(scenario())
    assert 0 < max(sizes) < 1 << 18


def test_silent_connections_make_place_for_a_request():
    async def scenario():
        async with served(most=8) as (port, _):
            silent = [await opened(port) for _ in range(40)]
            assert await status(port) == 200
            assert await is_closed(silent[0][0])

    asyncio.run(scenario())


def test_a_client_with_its_share_of_requests_is_told_to_wait_but_how_the_server_does():
    async def scenario():
        async with served(most=8) as (port, app):
            kept = [await opened(port, GET % b'/held') for _ in range(2)]
            await until(lambda: app.held == 2)
            found = [await status(port, path) for path in (b'/', b'/health', b'/metrics')]
            assert found == [503, 200, 200]
            del kept

    asyncio.run(scenario())


def test_proxies_have_the_connections_of_all_their_clients():
    async def scenario():
        proxies = [ipaddress.ip_network('127.0.0.0/8')]
        async with served(most=8, proxies=proxies) as (port, app):
            kept = [await opened(port, GET % b'/held') for _ in range(7)]
            await until(lambda: app.held == 7)
            assert await status(port) == 200
            del kept

    asyncio.run(scenario())


def test_requests_that_come_before_the_answer_are_not_kept_without_end():
    async def scenario():
        async with served() as (port, app):
            reader, writer = await opened(port, GET % b'/held')
            await until(lambda: app.held == 1)
            with contextlib.suppress(ConnectionError):
                for _ in range(40):
                    writer.write(bytes(1 << 20))
                    await writer.drain()
            assert await is_closed(reader)

    asyncio.run(scenario())


def test_what_is_no_http_behind_an_answer_writes_no_trace(caplog):
    async def scenario():
        async with served() as (port, _):
            content = b'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n'
            reader, writer = await opened(port, content)
            await reader.readuntil(b'\0\0')
            writer.write(b'nonsense\r\n\r\n')
            assert await is_closed(reader)

    asyncio.run(scenario())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_listener_without_file_descriptors_closes_connections_and_lives_on():
    with contextlib.closing(Listener(socket.AF_INET)) as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen()
        clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            for _ in range(2):
                with pytest.raises(BlockingIOError):
                    listening.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients[:2]:
            client.settimeout(20)
            assert client.recv(1) == b''
        listening.accept()[0].close()
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ('limits', 'most', 'raised'),
    [
        ((1024, 1024), 512, None),
        ((256, 100_000), 1000, (4096, 100_000)),
        ((100_000, 100_000), 1000, None),
        ((1024, resource.RLIM_INFINITY), 1000, (4096, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1000, None),
    ],
)
def test_connections_take_half_of_the_file_descriptors_at_most(monkeypatch, limits, most, raised):
    calls = []
    monkeypatch.setattr(connections_module.resource, 'getrlimit', lambda _: limits)
    monkeypatch.setattr(connections_module.resource, 'setrlimit', lambda _, new: calls.append(new))
    assert most_connections() == most
    assert calls == [raised] * (raised is not None)
