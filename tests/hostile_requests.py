"""Sends hostile requests to a server: python tests/hostile_requests.py HOST:PORT [COUNT] (no test).

They have odd sizes, encodings, headers and fields, and connections that break or stall. After every
hundredth one, a good request must be answered as before. Printed are the statuses, and the answers
that show a trace.
"""

import asyncio
import collections
import json
import random
import sys

FIELDS = {'q': 'The cat sleeps.', 'source': 'en', 'target': 'fr'}
ODD = [None, True, -1, 1e308, 10**400, '', ' ', '\0', '\ud83d', 'x' * 30_000, [], {}, [[]], '../..']
ODD_PATHS = ['/../x', '/%00', '/' + 'a' * 9000, '*', '/download_file/..%2fx']
HTML = ['<b>' * 3000, '<![x' * 500, '<a ' * 3000, '<p>a' * 200, '<b>a</i>' * 50, '&#0;&#xd800;']
FILES = [
    ('a.docx', b'PK\3\4' + bytes(200)),
    ('a.odt', b'PK\5\6' + bytes(18)),
    ('a.srt', b'1\n00:00:00,000 --> 00:00:01,000\na\n'),
    ('../a.html', b'<meta charset=idna>\xff'),
    ('a\r\nx: y.txt', b'\xff\xfe'),
]
JSON = 'content-type: application/json\r\n'


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
    headers = draw.choice(
        (
            JSON,
            JSON,
            'content-type: application/x-www-form-urlencoded\r\n',
            'content-type: multipart/form-data; boundary=x\r\n',
            'content-type: \r\n',
            'transfer-encoding: chunked\r\n',
            f'{JSON}expect: 100-continue\r\n',
            f'{JSON}x: {"y" * 70_000}\r\n',
            'nonsense\r\n',
        )
    )
    head = f'{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n'
    return head.encode(errors='replace') + content


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


async def good(host: str, port: int) -> str:
    """Return the answer to a good request."""
    reader, writer = await asyncio.open_connection(host, port)
    content = json.dumps(FIELDS).encode()
    head = f'POST /translate HTTP/1.1\r\nhost: x\r\n{JSON}connection: close\r\n'
    writer.write(f'{head}content-length: {len(content)}\r\n\r\n'.encode() + content)
    answer = await reader.read()
    writer.close()
    return json.loads(answer.partition(b'\r\n\r\n')[2])['translatedText']


async def main(address: str, count: str = '10000') -> None:
    """Send the requests, twenty at a time."""
    host, _, port = address.partition(':')
    draw, statuses = random.Random(1), collections.Counter()
    first = await good(host, int(port))
    for k in range(0, int(count), 20):
        await asyncio.gather(*(send(host, int(port), draw, statuses) for _ in range(20)))
        if k % 100 == 0:
            assert await good(host, int(port)) == first
    print(dict(statuses), f'{first!r} as before')


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
