"""Receives requests: the fields of those who may ask, within limits of memory and time."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from transformer_jax.serving.http.access import Access
from transformer_jax.serving.http.clients import client_of
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.http.requests import (
    Body,
    Invalid,
    Room,
    address_fields,
    api_key,
    early_key,
)

_BODY_SECONDS = 30
_HELD = 'transformer_jax.held'


def holding(scope: dict[str, Any]) -> contextlib.ExitStack:
    """Return a context for the time of a request: what it takes is given back at its end."""
    scope[_HELD] = contextlib.ExitStack()
    return scope[_HELD]


class Reception:
    """Receives the requests of a server."""

    def __init__(self, limits: Limits, access: Access):
        """Nobody has asked yet.

        Args:
          limits: what a request may ask for.
          access: who may ask, and how often.
        """
        self._limits, self._access = limits, access
        most = 16 * max(limits.body, limits.file_body)
        self._room = Room(most, most // 4)
        # Those who show no key before their body cannot fill the room of those who do.
        self._strangers_room = Room(most // 4, most // 16)

    async def fields(self, request: Request, with_file: bool = False) -> dict[str, Any]:
        """Return the fields of the address and the body of a request that may be answered.

        Args:
          request: the request.
          with_file: whether the body has to be a form with a file.

        Raises:
          Invalid: if the key is not known, or the body cannot be read, or does not come.
          HTTPException: if there is no room for the body, or the client asks too often.
        """
        fields = address_fields(request)
        key = early_key(fields, request)
        is_stranger = not key and self._access.keys is not None
        if key:
            self._check_key(key)
        most, remedy = self._limits.body, '--max_body of the server'
        if with_file:
            most, remedy = self._limits.file_body, '--max_file_body of the server'
        if most > self._limits.body and is_stranger:
            most, remedy = self._limits.body, 'or the header X-API-Key: KEY'
        room = self._strangers_room if is_stranger else self._room
        body = Body(request, most, remedy, self._taking(room, request))
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                fields |= await body.fields(with_file)
        except TimeoutError:
            raise Invalid(
                f'the body took more than {_BODY_SECONDS} seconds: send it faster.', 408
            ) from None
        except ClientDisconnect:
            raise HTTPException(499, 'the client has gone away.') from None
        if not fields:
            raise Invalid('the body is empty: send JSON or a form.')
        key = api_key(fields, request)
        self._check_key(key)
        wait = self._access.seconds_to_wait(key, client_of(request.scope))
        if wait:
            raise HTTPException(
                429,
                f'too many requests: try again in {wait:.0f} seconds.',
                {'Retry-After': str(int(wait) + 1)},
            )
        return fields

    def hold(self, request: Request, size: int) -> None:
        """Take memory for the answer to a request, until it is sent.

        Raises:
          HTTPException: if there is no room.
        """
        self._taking(self._room, request)(size)

    def _taking(self, room: Room, request: Request) -> Callable[[int], None]:
        return request.scope[_HELD].enter_context(room.held(client_of(request.scope)))

    def _check_key(self, key: str) -> None:
        if not self._access.is_known(key):
            raise Invalid('api_key is missing or not known: ask who runs this server for one.', 403)
