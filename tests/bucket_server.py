"""A server that speaks the protocol of Google Cloud Storage, on this machine and in memory.

It is gcp-storage-emulator with what that lacks: writing on the condition of a generation, faults,
moving, and an answer that is lost on its way.
"""

import contextlib
import functools
import http
import http.server
import io
import json
import math
import os
import random
import re
import sys
import threading
import urllib.parse
from collections.abc import Iterator

import pytest

pytest.importorskip('gcp_storage_emulator', reason="the bucket's emulator is not installed")
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import buckets
from gcp_storage_emulator.storage import Storage

BUCKET = 'test-bucket'
# Before gcsfs is imported: it would ask Google for the kind of each bucket.
os.environ['GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT'] = 'false'


class BucketServer:
    """A running server.

    Attributes:
      url: 'gs://BUCKET'.
      environment: variables with which a process speaks to this server in place of Google's.
      faults: share of requests that are refused, or whose answer is lost.
      most_faults: the most of them.
      requests: how many there were.
      faulty: how many of these were refused, or lost their answer.
    """

    def __init__(self, port: int):
        self.url = f'gs://{BUCKET}'
        self.address = address = f'http://127.0.0.1:{port}'
        self.environment = {
            **os.environ,
            'TENSORSTORE_GCS_HTTP_URL': address,
            'STORAGE_EMULATOR_HOST': address,
            'GOOGLE_AUTH_TOKEN_FOR_TESTING': 'none',
            'NO_GCE_CHECK': 'true',
            'GOOGLE_CLOUD_PROJECT': 'test',
            # Otherwise Google's servers are asked for credentials first.
            'FSSPEC_GS_TOKEN': 'anon',
            'FSSPEC_GCS_TOKEN': 'anon',
        }
        self.faults, self.most_faults, self.requests, self.faulty = 0.0, math.inf, 0, 0
        self.storage = Storage(use_memory_fs=True)
        self.mutex = threading.RLock()
        self.moved: set[str] = set()  # the tokens of requests to move an object
        self.draw = random.Random(1)
        buckets.create_bucket(BUCKET, self.storage)

    def names(self) -> list[str]:
        """Return the names of all objects."""
        with self.mutex:
            return sorted(self.storage.objects.get(BUCKET, {}))

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        with self.mutex:
            return self.storage.get_file(BUCKET, name)

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        resource = emulator.objects._make_object_resource(
            self.address, BUCKET, name, 'application/octet-stream', str(len(content))
        )
        resource = emulator.objects._checksums(content, resource)
        with self.mutex:
            self.storage.create_file(BUCKET, name, content, resource)

    def generation(self, name: str) -> str:
        """Return the generation of an object; '0' if there is none."""
        try:
            return self.storage.get_file_obj(BUCKET, name)['generation']
        except NotFound:
            return '0'


@contextlib.contextmanager
def bucket_server() -> Iterator[BucketServer]:
    """A context with a running server."""
    served = _Server(('127.0.0.1', 0), _Handler)
    running = BucketServer(served.server_address[1])
    served.RequestHandlerClass = functools.partial(_Handler, running)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a client that went away
            super().handle_error(request, client_address)


class _Handler(emulator.RequestHandler):
    """Answers requests as the emulator does, with faults and conditions."""

    generation: str | None = None  # of the object that is read

    def __init__(self, running: BucketServer, *args):
        self.running = running
        super().__init__(running.storage, *args)

    def _answer(self, method: str) -> None:
        running = self.running
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        self.rfile = io.BytesIO(body)
        with running.mutex:
            running.requests += 1
            unlucky = running.draw.random() < running.faults
            fault = unlucky and running.faulty < running.most_faults and running.draw.random()
            running.faulty += fault is not False
        if fault is not False and fault < 0.7:
            self._reply(http.HTTPStatus.SERVICE_UNAVAILABLE)
            return
        with running.mutex:
            generation = self.running.generation(name := self._object(body))
            wanted, unwanted = (
                self._query.get(f'ifGeneration{kind}', [None])[0] for kind in ('Match', 'NotMatch')
            )
            if wanted not in (None, generation):
                self._reply(http.HTTPStatus.PRECONDITION_FAILED)
            elif unwanted == generation:
                self._reply(http.HTTPStatus.NOT_MODIFIED)
            else:
                # Done, but the answer is lost. The emulator forgets uploads in parts once done.
                if fault is not False and 'upload_id' not in self._query:
                    self.wfile = _Nowhere()
                self.generation = generation if name and method == 'GET' else None
                if '/moveTo/o/' in self.path:
                    self._move(name)
                else:
                    emulator.Router(self).handle(method)

    def _move(self, name: str) -> None:
        """Rename an object, once however often the same request comes."""
        token = self.headers['X-Goog-GCS-Idempotency-Token']
        if token not in self.running.moved:
            path = urllib.parse.urlsplit(self.path).path.partition('/moveTo/o/')[0]
            source = self._name(path)
            if source not in self.running.names():
                self._reply(http.HTTPStatus.NOT_FOUND)
                return
            self.running.write(name, self.running.read(source))
            self.running.storage.delete_file(BUCKET, source)
            self.running.moved.add(token)
        self._reply(http.HTTPStatus.OK, b'{}')

    @property
    def _query(self) -> dict[str, list[str]]:
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)

    def _object(self, body: bytes) -> str:
        """Return the name of the object that a request is about; '' for a listing."""
        path = urllib.parse.urlsplit(self.path).path
        if '/o/' in path:
            return self._name(path)
        if 'name' in self._query:
            return self._query['name'][0]
        in_body = re.search(rb'"name": ?("[^"]*")', body)
        return json.loads(in_body[1]) if in_body else ''

    def _name(self, path: str) -> str:
        return urllib.parse.unquote(path.rpartition('/o/')[2])

    def end_headers(self) -> None:
        if self.generation:
            self.send_header('x-goog-generation', self.generation)
        super().end_headers()

    def _reply(self, status: http.HTTPStatus, body: bytes = b'') -> None:
        self.send_response(status.value, status.phrase)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = functools.partialmethod(_answer, 'GET')
    do_POST = functools.partialmethod(_answer, 'POST')
    do_PUT = functools.partialmethod(_answer, 'PUT')
    do_PATCH = functools.partialmethod(_answer, 'PATCH')
    do_DELETE = functools.partialmethod(_answer, 'DELETE')


class _Nowhere:
    """A connection on which an answer is lost."""

    closed = False

    def write(self, content: bytes) -> int:
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
