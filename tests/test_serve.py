"""The command serve, in a process of its own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from transformer_jax import serve
from transformer_jax.serving.batcher import Batcher


def test_a_missing_package_is_named(run_command, monkeypatch):
    monkeypatch.setattr(serve.importlib.util, 'find_spec', lambda name: None)
    code, _, err = run_command(serve)
    assert code == 2
    assert "pip install 'transformer_jax[serve]'" in err


@pytest.mark.parametrize(
    ('flag', 'problem'),
    [
        ('--port=70000', '--port=70000 must be from 0 to 65,535.'),
        ('--max_characters=0', '--max_characters=0 must be from 1 to 1,000,000,000.'),
        ('--batch_timeout_ms=-1', '--batch_timeout_ms=-1.0 must be from 0 to 10,000.'),
        ('--batch_timeout_ms=nan', '--batch_timeout_ms=nan must be from 0 to 10,000.'),
        ('--api_keys=absent', "--api_keys='absent' cannot be read"),
        ('--host=', '--host is empty: name an address'),
        ('--origin=foo', "--origin='foo' is no origin: write https://HOST, without a path"),
        ('--origin=https://example.org/', "--origin='https://example.org/' is no origin"),
        ('--proxy=foo', "--proxy='foo' is no address: write that of a host or a network"),
        ('--public_url=foo', "--public_url='foo' is no address: write https://HOST"),
        ('--workdir=absent', "workdir='absent' holds no trained model"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_compiled(run_command, flag, problem):
    code, _, err = run_command(serve, flag)
    assert code == 2
    assert problem in err


def test_a_port_in_use_is_named_before_anything_is_compiled(run_command, workdir, monkeypatch):
    monkeypatch.setattr(Batcher, 'prepare', None)
    with socket.create_server(('127.0.0.1', 0)) as other:
        port = other.getsockname()[1]
        code, _, err = run_command(serve, f'--workdir={workdir}', f'--port={port}')
    assert code == 2
    assert f'--host=127.0.0.1 --port={port} cannot be listened at' in err


@pytest.mark.slow
def test_a_server_answers_and_ends_as_asked(workdir, translator):
    process = subprocess.Popen(
        [sys.executable, '-m', 'transformer_jax.serve', f'--workdir={workdir}', '--port=0'],
        stdout=subprocess.PIPE,
        env=os.environ | {'PYTHONUNBUFFERED': '1'},
        text=True,
    )
    first = process.stdout.readline()
    (url,) = re.findall(r'^(http://127\.0\.0\.1:\d+) translates en to fr\n$', first)

    def ask(path, fields=None):
        data = None if fields is None else json.dumps(fields).encode()
        request = urllib.request.Request(f'{url}{path}', data, {'content-type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    texts = ['The cat sleeps.', 'Where is the house?', 'The teacher reads a book.']
    fields = {'q': texts, 'source': 'en', 'target': 'fr'}
    assert json.loads(ask('/translate', fields))['translatedText'] == translator(texts)
    assert json.loads(ask('/translate', {**fields, 'target': 'de'})).keys() == {'error'}
    # Texts of all lengths, alone and together, compile nothing.
    for count in (1, 3, 9, 40):
        for length in (1, 9, 40, 120):
            many = [' '.join(['cat'] * length)] * count
            ask('/translate', {**fields, 'q': many})
        ask('/translate', {**fields, 'q': f'<b>{many[0]}</b>', 'format': 'html', 'alternatives': 3})
        assert '<!DOCTYPE html>' in ask('/attention', {**fields, 'q': '. '.join(many)})
    metrics = ask('/metrics')
    assert 'translate_compilations_total 0.0' in metrics.splitlines()
    with ThreadPoolExecutor(1) as pool:
        many = texts * 40
        answer = pool.submit(ask, '/translate', {**fields, 'q': many})
        while 'translate_in_flight 2.0' not in ask('/metrics'):  # this one, and the question
            assert not answer.done()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert json.loads(answer.result())['translatedText'] == translator(texts) * 40
    assert process.wait(30) == 0
    assert time.monotonic() - began < 10
