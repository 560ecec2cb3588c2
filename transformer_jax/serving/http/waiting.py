"""Waits for results, as long as the client of a request does."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

_POLL = 0.25  # seconds between two looks whether a client is still there
Result = TypeVar('Result')


async def while_waited_for(result: Awaitable[Result], request: Request) -> Result:
    """Return a result.

    Raises:
      HTTPException: if the client goes away before; then the result is cancelled.
    """
    future = asyncio.ensure_future(result)
    try:
        while not (await asyncio.wait([future], timeout=_POLL))[0]:
            if await request.is_disconnected() and not future.done():
                raise HTTPException(499, 'the client has gone away.')
        return future.result()
    finally:
        future.cancel()
