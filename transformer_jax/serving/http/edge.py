"""What every request passes on its way in, and every answer on its way out."""

import asyncio
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_jax.serving.http.reception import holding
from transformer_jax.serving.http.sites import Sites

_PIECE = 1 << 16  # bytes
# For whatever a browser shows, unless the answer says otherwise.
_HEADERS = {
    'Content-Security-Policy': "default-src 'none'; frame-ancestors 'self'",
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'SAMEORIGIN',
}


class Edge:
    """An ASGI application around another one.

    It refuses what pages of other sites ask, gives all answers the headers that browsers heed, and
    sends them in pieces, so that a client that does not read has one piece in memory only.
    """

    def __init__(self, application: ASGIApp, sites: Sites):
        """Take the application that answers, and the sites that may ask."""
        self._application, self._sites = application, sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope['type'] != 'http':
            await self._application(scope, receive, send)
            return

        async def send_in_pieces(message: Message) -> None:
            if message['type'] == 'http.response.start':
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            for part in _pieces(message):
                await send(part)
                if part.get('more_body'):
                    # Otherwise the server learns only at the end that the client has gone.
                    await asyncio.sleep(0)

        refusal = self._sites.refusal(scope['method'], Headers(scope=scope))
        with holding(scope):
            if refusal:
                answer: Any = JSONResponse({'error': refusal}, 403)
            else:
                answer = self._application
            await answer(scope, receive, send_in_pieces)


def _pieces(message: Message) -> list[Message]:
    body = message.get('body', b'')
    if len(body) <= _PIECE:
        return [message]
    parts = [body[k : k + _PIECE] for k in range(0, len(body), _PIECE)]
    more = [True] * (len(parts) - 1) + [message.get('more_body', False)]
    return [
        {'type': message['type'], 'body': part, 'more_body': is_not_last}
        for part, is_not_last in zip(parts, more, strict=True)
    ]
