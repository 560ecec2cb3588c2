import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from transformer_jax.serving.requests import Room, read_body


def read(room, *parts):
    coming = [{'type': 'http.request', 'body': part, 'more_body': True} for part in parts]
    coming.append({'type': 'http.request', 'body': b'', 'more_body': False})

    async def receive():
        return coming.pop(0)

    request = Request({'type': 'http', 'method': 'POST', 'headers': []}, receive)
    return asyncio.run(read_body(request, 100, room))


def test_all_bodies_together_have_a_limit_which_they_give_back():
    room = Room(10)
    room.take(2)  # the body of another request
    assert read(room, b'{"a"', b':1}') == {'a': 1}
    with pytest.raises(HTTPException) as refused:
        read(room, b'{"a"', b': 123}')
    assert refused.value.status_code == 503
    assert refused.value.headers == {'Retry-After': '10'}
    with pytest.raises(HTTPException):
        read(room, b'{')
    assert read(room, b'{"b"', b':2}') == {'b': 2}
