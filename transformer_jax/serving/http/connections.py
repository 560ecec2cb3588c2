"""The connections of a server: how many there may be, and how long a client may be slow."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import resource
import socket
from collections.abc import Sequence
from typing import Any

import h11
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer_jax.serving.http.clients import client_of_address

_MOST = 1000
_RESERVE = 32  # connections beyond those, for the paths that tell how the server does
_OPEN_PATHS = ('/health', '/metrics')
_DESCRIPTORS = 4096
_EARLY = 1 << 16  # bytes that a client may send before it has the answer to its request
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def most_connections() -> int:
    """Return how many connections there may be; raise the limit of file descriptors before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    # Files need some, and so do connections that are being refused.
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, soft // 2)


class Connections:
    """Decides which connections stay open.

    A client may have a share of them. If it has more, or there are too many in all, the oldest that
    waits for a request is closed. If all are being answered, the new one gets status 503, but not
    for the paths that tell how the server does.

    Attributes:
      seconds: how long the head of a request may take, and a part of an answer.
    """

    def __init__(
        self,
        most: int = _MOST,
        share: int | None = None,
        reserve: int = _RESERVE,
        proxies: Sequence[Network] = (),
        seconds: float = 10.0,
    ):
        """There are none yet.

        Args:
          most: how many may be open.
          share: how many of one client; by default a quarter.
          reserve: how many there may be beyond those, for a moment.
          proxies: addresses whose connections are those of many clients, without a share.
          seconds: how long the head of a request may take, and a part of an answer.
        """
        self._most, self._share, self._reserve = most, share or -(-most // 4), reserve
        self._proxies, self.seconds = proxies, seconds
        # Dicts keep the order in which connections began to wait.
        self._open: dict[Connection, None] = {}
        self._beyond: dict[Connection, None] = {}
        self._of: dict[str, dict[Connection, None]] = {}

    def enter(self, new: 'Connection') -> bool:
        """Take a new connection; return whether all of its requests may be answered."""
        own = self._of.get(new.client_name, {})
        if len(own) >= self._share and not self._is_proxy(new):
            is_left = _close_oldest(own)
        else:
            is_left = len(self._open) < self._most or _close_oldest(self._open)
        if is_left:
            self._open[new] = self._of.setdefault(new.client_name, {})[new] = None
        elif len(self._beyond) < self._reserve or _close_oldest(self._beyond):
            self._beyond[new] = None
        else:
            new.abort()
        return is_left

    def leave(self, old: 'Connection') -> None:
        """Forget a connection, which may be forgotten already."""
        self._open.pop(old, None)
        self._beyond.pop(old, None)
        own = self._of.get(old.client_name, {})
        own.pop(old, None)
        if not own:
            self._of.pop(old.client_name, None)

    def waits_again(self, connection: 'Connection') -> None:
        """Note that a connection has got an answer: others have waited longer."""
        for connections in (self._open, self._of.get(connection.client_name, {})):
            if connection in connections:
                del connections[connection]
                connections[connection] = None

    def _is_proxy(self, connection: 'Connection') -> bool:
        if not self._proxies or not connection.client:
            return False
        address = ipaddress.ip_address(connection.client[0].partition('%')[0])
        return any(address in network for network in self._proxies)


def _close_oldest(connections: dict['Connection', None]) -> bool:
    """Close the connection that has waited longest for a request; return whether one does."""
    for connection in connections:
        if connection.is_idle:
            connection.abort()
            return True
    return False


class Connection(H11Protocol):
    """A connection whose client has limited time for heads, and for reading answers.

    Attributes:
      client_name: of `client_of_address`.
    """

    def __init__(self, connections: Connections, **of_uvicorn: Any):
        """Take the connections of the server, and what uvicorn gives."""
        super().__init__(**of_uvicorn)
        self._all = connections
        self._timer: asyncio.TimerHandle | None = None
        self._is_blocked = False  # because the client does not read
        self._early = 0
        self.client_name = ''

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered, and the last answer has left."""
        return self.is_waiting and not self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.client_name = client_of_address(self.client[0]) if self.client else ''
        if not self._all.enter(self):
            self.app = _Busy(self.app)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._all.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; a client that sends the next ones too early is cut off."""
        was_waiting = self.is_waiting
        if not was_waiting and not self.cycle.more_body:
            self._early += len(data)
            if self._early > _EARLY:
                self.abort()
                return
        super().data_received(data)
        if was_waiting and not self.is_waiting:
            self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to read the end of the answer."""
        self._early = 0
        self._all.waits_again(self)
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._is_blocked = True
        self._watch()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._is_blocked = False
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, if there has been no answer yet."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.abort()
        if self.cycle is not None:
            self.cycle.disconnected = True

    def abort(self) -> None:
        """Close at once, without what the client has not read."""
        self._all.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Give the client its time, if something is expected of it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_waiting or self._is_blocked:
            self._timer = self.loop.call_later(self._all.seconds, self.abort)


class _Busy:
    """Answers a request on a connection too many."""

    def __init__(self, application: ASGIApp):
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Any) -> None:
            if message['type'] == 'http.response.start':
                headers = [*message.get('headers', []), (b'connection', b'close')]
                message = {**message, 'headers': headers}
            await send(message)

        answer: Any = self._application
        if scope['path'] not in _OPEN_PATHS:
            answer = JSONResponse(
                {'error': 'too many requests are being answered: try again later.'},
                503,
                {'Retry-After': '1'},
            )
        await answer(scope, receive, send_last)


class Listener(socket.socket):
    """A socket that listens, and does not fail when file descriptors have run out."""

    def __init__(self, family: int):
        """Keep a file descriptor in reserve."""
        super().__init__(family, socket.SOCK_STREAM)
        self._reserve = _descriptor()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection; without a file descriptor for it, close it."""
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        # Otherwise asyncio would try it again thousands of times, with a trace each.
        _close(self._reserve)
        with contextlib.suppress(OSError):
            super().accept()[0].close()
        self._reserve = _descriptor()
        raise BlockingIOError

    def close(self) -> None:
        """Close it."""
        if self.fileno() >= 0:
            _close(self._reserve)
        super().close()


def _descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:  # another thread was faster
        return None


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
