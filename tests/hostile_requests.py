"""Sends hostile requests to a server: python tests/hostile_requests.py HOST:PORT [COUNT] (no test).

They have odd sizes, encodings, headers, fields and files, come from pages of other sites, and over
connections that break or stall. After every hundredth one, a good request must be answered as
before. Then crowds come, each of one address: connections that send nothing, that hold a body, and
that do not read. Beside each, another address must get a good answer, and so must /health. Printed
are the statuses, the answers that show a trace, and the seconds of the answers beside each crowd.
"""

import asyncio
import collections
import contextlib
import io
import json
import random
import resource
import sys
import time
import zipfile

FIELDS = {'q': 'The cat sleeps.', 'source': 'en', 'target': 'fr'}
ODD = [None, True, -1, 1e308, 10**400, '', ' ', '\0', '\ud83d', 'x' * 30_000, [], {}, [[]], '../..']
ODD += ['EN', 'Fr', 'AUTO', 'en']
ODD_PATHS = ['/../x', '/%00', '/' + 'a' * 9000, '*', '/download_file/..%2fx', '/health', '//']
QUERIES = ['q=a&source=en&target=fr', 'q=%ff', 'q=%ED%A0%BD', 'api_key=x', '&' * 5000, 'q&q=&=']
HTML = ['<b>' * 3000, '<![x' * 500, '<a ' * 3000, '<p>a' * 200, '<b>a</i>' * 50, '&#0;&#xd800;']
HTML += [
    '&#' + '9' * 9000 + ';',
    '<!--a--!><b>c',
    '<a b=' + 'c ' * 3000,
    '<!DOCTYPE [<!ENTITY a "b">',
]
HOSTS = [
    'x',
    '',
    '[:::::]',
    '[::1',
    'a b',
    '127.0.0.1:99999',
    '127.0.0.1\r\nhost: x',
    'rebound.org',
]
SITES = ['origin: https://x.org', 'origin: null', 'origin: http://[', 'sec-fetch-site: cross-site']
KINDS = ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', '']
KINDS += [
    f'multipart/form-data; boundary=x; charset={x}' for x in ('utf-7', 'idna', 'zlib', 'utf-16')
]
JSON = 'content-type: application/json\r\n'
SECONDS = 20  # for an answer beside a crowd


def office(name: str, xml: str) -> tuple[str, bytes]:
    """Return an office document with one part."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('content.xml' if name.endswith('odt') else 'word/document.xml', xml)
    return name, data.getvalue()


FILES = [
    ('a.docx', b'PK\3\4' + bytes(200)),
    ('a.odt', b'PK\5\6' + bytes(18)),
    ('a.srt', b'1\n00:00:00,000 --> 00:00:01,000\na\n'),
    ('a.srt', b'1\n' + b'9' * 5000 + b':00:00,000 --> 00:00:01,000\na\n'),
    ('../a.html', b'<meta charset=idna>\xff'),
    ('a.html', b'<p>' + HTML[6].encode()),
    ('a\r\nx: y.txt', b'\xff\xfe'),
    ('+2D0-.txt', b'a'),  # half a character in UTF-7
    office('a.docx', '<w:t>' * 5000),
    office('a.odt', '<a>' * 5000 + '</a>' * 5000),
    office('a.odt', '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
]


def body(draw: random.Random) -> bytes:
    """Return a body: fields with one that is odd, JSON that is cut or nested, or bytes."""
    kind = draw.randrange(7)
    if kind == 0:
        return draw.randbytes(draw.choice((0, 1, 100, 70_000)))
    if kind == 1:
        return b'[' * draw.choice((1, 1000, 100_000))
    if kind == 5:
        return json.dumps(FIELDS | {'format': 'html', 'q': draw.choice(HTML)}).encode()
    if kind == 6:
        return form(*draw.choice(FILES))
    fields = dict(FIELDS)
    name = draw.choice((*FIELDS, 'format', 'alternatives', 'api_key', '__class__'))
    fields[name] = draw.choice(ODD)
    content = json.dumps(fields).encode()
    return content if kind > 2 else content[: draw.randrange(len(content))]


def form(name: str, content: bytes) -> bytes:
    """Return a form with a file and the languages."""
    parts = [f'name="file"; filename="{name}"\r\n\r\n'.encode() + content]
    parts += [f'name="{x}"\r\n\r\n{FIELDS[x]}'.encode() for x in ('source', 'target')]
    begin = b'--x\r\ncontent-disposition: form-data; '
    return b''.join(begin + part + b'\r\n' for part in parts) + b'--x--\r\n'


def request(draw: random.Random) -> bytes:
    """Return a request that is wrong in some way, or may be."""
    content = body(draw)
    length = draw.choice([len(content)] * 6 + [0, len(content) + 50, 10**12, -1])
    method = draw.choice(('POST', 'POST', 'POST', 'GET', 'PUT', 'BREW', 'POST ' * 50))
    path = draw.choice(
        ('/translate', '/translate', '/detect', '/attention', '/translate_file', *ODD_PATHS)
    )
    if draw.random() < 0.2:
        path += '?' + draw.choice(QUERIES)
    headers = draw.choice(
        (
            JSON,
            JSON,
            *(f'content-type: {kind}\r\n' for kind in KINDS),
            'transfer-encoding: chunked\r\n',
            f'{JSON}expect: 100-continue\r\n',
            f'{JSON}x: {"y" * 70_000}\r\n',
            f'{JSON}authorization: Bearer \xe9\r\nx-api-key: \xe9\r\n',
            'nonsense\r\n',
        )
    )
    if content.startswith(b'--x') and draw.random() < 0.7:  # what a form says it is
        path, headers = (
            '/translate_file',
            f'content-type: {draw.choice(KINDS[1:2] + KINDS[3:])}\r\n',
        )
    if draw.random() < 0.1:
        headers += f'{draw.choice(SITES)}\r\n'
    host = '127.0.0.1' if draw.random() < 0.9 else draw.choice(HOSTS)
    head = f'{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n'
    return head.encode(errors='replace') + content * draw.choice((1, 1, 1, 2))


async def send(host: str, port: int, draw: random.Random, statuses: collections.Counter) -> None:
    """Send one request, and read its answer, or go away before."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        content = request(draw)
        cut = draw.random()
        if cut < 0.2:
            content = content[: draw.randrange(len(content))]
        writer.write(content)
        if cut < 0.1:
            return
        if 0.1 < cut < 0.15:
            await asyncio.sleep(1)  # a stalled client
        answer = await asyncio.wait_for(reader.read(100_000), 2)
        statuses[answer[9:12].decode(errors='replace')] += 1
        if b'Traceback' in answer or b'File "' in answer:
            statuses['TRACE'] += 1
    except TimeoutError:
        statuses['no answer to what is not complete'] += 1
    except ConnectionError:
        statuses['closed'] += 1
    finally:
        writer.close()


async def good(host: str, port: int, local: str | None = None) -> str:
    """Return the answer to a good request, from an address of one's own."""
    content = json.dumps(FIELDS).encode()
    head = f'POST /translate HTTP/1.1\r\nhost: 127.0.0.1\r\n{JSON}connection: close\r\n'
    answer = await asked(
        host, port, f'{head}content-length: {len(content)}\r\n\r\n'.encode() + content, local
    )
    return json.loads(answer.partition(b'\r\n\r\n')[2])['translatedText']


async def asked(host: str, port: int, content: bytes, local: str | None) -> bytes:
    """Return all that comes back."""
    reader, writer = await asyncio.open_connection(host, port, local_addr=local and (local, 0))
    writer.write(content)
    answer = await reader.read()
    writer.close()
    return answer


async def crowd(host: str, port: int, count: int, content: bytes, first: str) -> str:
    """Open connections that send a content and do not read; return how others were answered."""
    writers, seconds = [], []
    get = b'GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n'
    for k in range(count):
        with contextlib.suppress(ConnectionError):
            writer = (await asyncio.open_connection(host, port, limit=1))[1]
            writer.transport.pause_reading()
            writer.write(content)
            writers.append(writer)
        if (k + 1) % (count // 4) == 0:
            await asyncio.sleep(0.2)
            began = time.monotonic()
            async with asyncio.timeout(SECONDS):
                assert b' 200 ' in (await asked(host, port, get, '127.0.0.3'))[:20]
                assert await good(host, port, '127.0.0.2') == first
            seconds.append(time.monotonic() - began)
    for writer in writers:
        writer.transport.abort()
    return f'answers beside it in {max(seconds):.2f} s or less'


async def crowds(host: str, port: int, first: str) -> None:
    """Send the crowds, one after another."""
    file = b'<script>' + bytes(13 << 20) + b'</script>'
    content = form('a.html', file).replace(b'\r\n\r\nfr\r\n', b'\r\n\r\nen\r\n')
    head = 'POST /translate_file HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n'
    head += f'content-type: {KINDS[1]}\r\ncontent-length: {len(content)}\r\n\r\n'
    post = head.encode() + content
    answer = await asked(host, port, post, None)
    path = json.loads(answer.partition(b'\r\n\r\n')[2])['translatedFileUrl'].split('/', 3)[3]
    for name, count, content in (
        ('silent connections', 1000, b''),
        ('heads that do not end', 1000, b'GET / HTTP/1.1\r\nx: '),
        ('held bodies of files', 16, post[:-1]),
        (
            'files that are not read',
            100,
            f'GET /{path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'.encode(),
        ),
    ):
        print(f'{count} {name}: {await crowd(host, port, count, content, first)}', flush=True)


async def main(address: str, count: str = '10000') -> None:
    """Send the requests, twenty at a time, and then the crowds."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, _, port = address.partition(':')
    draw, statuses = random.Random(1), collections.Counter()
    first = await good(host, int(port))
    for k in range(0, int(count), 20):
        await asyncio.gather(*(send(host, int(port), draw, statuses) for _ in range(20)))
        if k % 100 == 0:
            assert await good(host, int(port)) == first
    print(dict(statuses), f'{first!r} as before', flush=True)
    await crowds(host, int(port), first)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
