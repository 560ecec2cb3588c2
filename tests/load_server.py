"""How fast a server is: tests/load_server.py URL SENTENCES TRANSLATIONS [SECONDS [CLIENTS ...]].

Not a test. SENTENCES is a file with a sentence on each line, TRANSLATIONS what `translate
--paragraphs` makes of it. For 1, 8 and 64 clients or the given numbers of them, each asks for one
sentence again and again. Printed are sentences a second, the median and the 99th percentile of
seconds, and how many answers were no line of TRANSLATIONS or that of another sentence.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx

CLIENTS = (1, 8, 64)


async def client(
    http: httpx.AsyncClient, pairs: Iterator[tuple[str, str]], until: float, answers: list
) -> None:
    """Ask until a time; note the seconds of each answer, and the answer if it is another one."""
    while time.monotonic() < until:
        text, expected = next(pairs)
        began = time.monotonic()
        answer = await http.post('/translate', json={'q': text, 'source': 'en', 'target': 'fr'})
        assert answer.status_code == 200, answer.text
        found = answer.json()['translatedText']
        answers.append((time.monotonic() - began, None if found == expected else found))


async def measure(
    url: str, pairs: Iterator[tuple[str, str]], known: set[str], clients: int, duration: float
) -> None:
    """Print the figures for a number of clients."""
    answers: list[tuple[float, str | None]] = []
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        began = time.monotonic()
        until = began + duration
        await asyncio.gather(*(client(http, pairs, until, answers) for _ in range(clients)))
        took = time.monotonic() - began
    seconds = sorted(one for one, _ in answers)
    differing = [found for _, found in answers if found is not None]
    others = sum(found in known for found in differing)
    print(
        f'{clients:3} clients  {len(seconds) / took:7.1f} sentences/s  median '
        f'{seconds[len(seconds) // 2]:.3f} s  99 % {seconds[int(0.99 * len(seconds))]:.3f} s  '
        f'of {len(answers):,} answers {len(differing)} differ, {others} of them '
        "another sentence's",
        flush=True,
    )


def main(url: str, sentences: str, translations: str, duration: str = '30', *numbers: str) -> None:
    """Measure with each number of clients."""
    files = (
        Path(path).read_text(encoding='utf-8').splitlines() for path in (sentences, translations)
    )
    pairs = list(zip(*files, strict=True))
    again, known = itertools.cycle(pairs), {translation for _, translation in pairs}
    for clients in map(int, numbers or CLIENTS):
        asyncio.run(measure(url, again, known, clients, float(duration)))


if __name__ == '__main__':
    main(*sys.argv[1:])
