"""The process that serves, from models to an open port."""

import contextlib
import logging

import pytest
from h11 import LocalProtocolError

from transformer_jax import serve
from transformer_jax.errors import UserError
from transformer_jax.serving import process
from transformer_jax.serving.http.access import Access


def test_a_model_with_a_small_beam_has_fewer_alternatives(workdir, caplog):
    flags = serve._parser().parse_args([f'--workdir={workdir}', '--max_alternatives=4'])
    assert process._server(flags, Access(None, 0)).limits.alternatives == 3
    assert '--max_alternatives=4: texts have at most 3' in caplog.text


def test_the_second_of_two_servers_that_start_on_one_port_is_told():
    with contextlib.closing(process._bound('127.0.0.1', 0)) as first:
        port = first.getsockname()[1]
        with contextlib.closing(process._bound('127.0.0.1', port)) as second:
            process._listen(first, '127.0.0.1', port)
            with pytest.raises(UserError, match=f'--port={port} cannot be listened at'):
                process._listen(second, '127.0.0.1', port)


def test_a_host_that_is_not_there_is_named():
    with pytest.raises(
        UserError, match=r'--host=nowhere\.invalid --port=1 cannot be listened at \('
    ):
        process._bound('nowhere.invalid', 1)


def test_an_address_of_ipv6_has_brackets():
    assert process._url('::1', 5000) == 'http://[::1]:5000'
    assert process._url('127.0.0.1', 5000) == 'http://127.0.0.1:5000'


def test_a_client_that_breaks_the_protocol_writes_no_trace_into_the_log():
    def record(error, message='x'):
        return logging.LogRecord('uvicorn.error', logging.ERROR, '', 1, message, None, error)

    assert not process._is_of_use(record((LocalProtocolError, LocalProtocolError('x'), None)))
    assert process._is_of_use(record((ValueError, ValueError('x'), None)))
    assert process._is_of_use(record(None))
    assert not process._is_of_use(record(None, 'Invalid HTTP request received.'))
