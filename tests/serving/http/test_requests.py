import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from transformer_jax.serving.http.requests import Body, Room


def read(room, *parts, client='a', headers=()):
    coming = [{'type': 'http.request', 'body': part, 'more_body': True} for part in parts]
    coming.append({'type': 'http.request', 'body': b'', 'more_body': False})

    async def receive():
        return coming.pop(0)

    request = Request({'type': 'http', 'method': 'POST', 'headers': headers}, receive)
    with room.held(client) as take:
        return asyncio.run(Body(request, 100, 'or more', take).fields())


def test_all_bodies_together_have_a_limit_which_they_give_back():
    room = Room(10, 10)
    with room.held('b') as take:
        take(2)
        assert read(room, b'{"a"', b':1}') == {'a': 1}
        with pytest.raises(HTTPException) as refused:
            read(room, b'{"a"', b': 123}')
        assert refused.value.status_code == 503
        assert refused.value.headers == {'Retry-After': '10'}
        assert 'others send much' in refused.value.detail
    assert read(room, b'{"a"', b': 123}') == {'a': 123}


def test_the_bodies_of_one_client_leave_memory_for_others():
    room = Room(12, 6)
    with room.held('a') as take:
        take(6)
        with pytest.raises(HTTPException, match='you send much at this moment'):
            read(room, b'{}')
        assert read(room, b'{}', client='b') == {}


def test_a_body_that_says_that_it_is_too_long_is_refused_before_it_comes():
    with pytest.raises(HTTPException, match=r'more than 100 bytes: send less \(or more\)'):
        read(Room(500, 500), headers=[(b'content-length', b'101')])
