"""The HTTP interface: that of LibreTranslate, which existing clients speak."""

import asyncio
import functools
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from transformer_jax.documents.document import Document, PlainText, TaggedDocument
from transformer_jax.documents.files import kind_of
from transformer_jax.documents.html import HtmlDocument
from transformer_jax.errors import UserError
from transformer_jax.inference.outputs import Translation, join
from transformer_jax.inference.segments import SegmentedText
from transformer_jax.inspection.attention_page import attention_page
from transformer_jax.serving.access import Access
from transformer_jax.serving.batcher import LENGTHS, Batcher, Job, QueueFull
from transformer_jax.serving.docs_page import docs_page
from transformer_jax.serving.downloads import Downloads
from transformer_jax.serving.languages import Detected, Languages, Pair
from transformer_jax.serving.limits import Limits
from transformer_jax.serving.metrics import CONTENT_TYPE, Metrics
from transformer_jax.serving.openapi import document
from transformer_jax.serving.page import HEADERS, page_routes
from transformer_jax.serving.requests import (
    Invalid,
    Room,
    TranslateRequest,
    api_key,
    document_of,
    languages_of,
    read_body,
    texts_of,
    translate_request,
)
from transformer_jax.serving.settings import settings
from transformer_jax.serving.texts import TextSplitter

_BODY_SECONDS = 30
_MOST_SHOWN = 8  # sentences on a page of attention
_SHORT = 1000  # characters for which a thread costs more than the work
_POLL = 0.25  # seconds between two looks whether a client is still there


class Server:
    """Answers requests.

    Attributes:
      batcher: translates sentences.
      languages: the pairs.
      limits: what a request may ask for.
      access: who may ask, and how often.
      metrics: what is counted.
    """

    def __init__(self, batcher: Batcher, limits: Limits, access: Access, metrics: Metrics):
        """Answer nothing yet."""
        self.batcher, self.limits, self.access, self.metrics = batcher, limits, access, metrics
        self.languages = Languages(batcher.translators)
        self._downloads = Downloads()
        self._room = Room(16 * max(limits.body, limits.file_body))
        # Files can take much memory while they are read and written.
        self._of_files = asyncio.Semaphore(2)
        self._splitters = {
            pair: TextSplitter(pair, translator, LENGTHS[-1])
            for pair, translator in batcher.translators.items()
        }

    def application(self, origins: Sequence[str] = (), public_url: str = '') -> Starlette:
        """Return the ASGI application.

        Args:
          origins: pages of these origins may ask from a browser.
          public_url: the address at which clients reach it; '' takes that of each request.
        """
        self._public_url = public_url
        routes = {
            '/translate': ('POST', self._translate),
            '/attention': ('POST', self._attention),
            '/translate_file': ('POST', self._translate_file),
            '/download_file/{token}': ('GET', self._download_file),
            '/detect': ('POST', self._detect),
            '/languages': ('GET', self._languages),
            '/frontend/settings': ('GET', self._settings),
            '/health': ('GET', self._health),
            '/metrics': ('GET', self._metrics),
            '/docs': ('GET', self._docs),
            '/spec': ('GET', self._spec),
        }
        cors = Middleware(
            CORSMiddleware, allow_origins=[*origins], allow_methods=['*'], allow_headers=['*']
        )
        return Starlette(
            routes=[
                Route(path, self._counted(path, answer), methods=[method])
                for path, (method, answer) in routes.items()
            ]
            + page_routes(),
            exception_handlers={HTTPException: _error, Exception: _failure},
            middleware=[cors] if origins else [],
        )

    def _counted(
        self, path: str, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def counted(request: Request) -> Response:
            began, status = time.monotonic(), 500
            with self.metrics.in_flight.track_inprogress():
                try:
                    response = await _answered(answer, request)
                    status = response.status_code
                    return response
                except HTTPException as error:
                    status = error.status_code
                    raise
                except asyncio.CancelledError:  # the server ends, and has waited long enough
                    status = 503
                    return JSONResponse(
                        {'error': 'this server ends: ask again in a minute.'},
                        status,
                        {'Retry-After': '60'},
                    )
                finally:
                    self.metrics.requests.labels(path, str(status)).inc()
                    self.metrics.seconds.labels(path).observe(time.monotonic() - began)

        return counted

    async def _fields(self, request: Request, with_file: bool = False) -> dict[str, Any]:
        """Return the fields of a request that may be answered."""
        # Other schemes are a proxy's; then the key is in the body.
        if request.headers.get('authorization', '').lower().startswith('bearer '):
            self._check_key(api_key({}, request))
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                most = self.limits.file_body if with_file else self.limits.body
                fields = await read_body(request, most, self._room, with_file)
        except TimeoutError:
            raise Invalid(
                f'the body took more than {_BODY_SECONDS} seconds: send it faster.', 408
            ) from None
        except ClientDisconnect:
            raise HTTPException(499, 'the client has gone away.') from None
        key = api_key(fields, request)
        self._check_key(key)
        address = request.client.host if request.client else ''
        wait = self.access.seconds_to_wait(key, address)
        if wait:
            raise HTTPException(
                429,
                f'too many requests: try again in {wait:.0f} seconds.',
                {'Retry-After': str(int(wait) + 1)},
            )
        return fields

    def _check_key(self, key: str) -> None:
        if not self.access.is_known(key):
            raise Invalid('api_key is missing or not known: ask who runs this server for one.', 403)

    async def _translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        asked = translate_request(fields, self.limits, self.languages.pairs)
        characters = sum(map(len, asked.texts))
        self.metrics.characters.inc(characters)
        run = functools.partial(_off_loop, characters)
        documents, detected = await run(self._read, asked)
        sources = [one.language if one else asked.source for one in detected]
        n_best = 1 + asked.alternatives
        found = await self._translations(request, run, documents, sources, asked.target, n_best)
        # A text in the target language stays as it is.
        found = [outputs or [text] for outputs, text in zip(found, asked.texts, strict=True)]
        answer = {'translatedText': [outputs[0] for outputs in found]}
        if asked.source == 'auto':
            answer['detectedLanguage'] = [one._asdict() for one in detected]
        if asked.alternatives:
            answer['alternatives'] = [outputs[1:] for outputs in found]
        if not asked.is_list:
            answer = {name: values[0] for name, values in answer.items()}
        return JSONResponse(answer)

    def _read(self, asked: TranslateRequest) -> tuple[list[Document], list[Detected | None]]:
        """Return the texts of a request as documents, and the language of each if it is asked."""
        try:
            documents = [HtmlDocument(x) if asked.is_html else PlainText(x) for x in asked.texts]
        except UserError as error:
            raise Invalid(f'q: {error}') from None
        if asked.source != 'auto':
            return documents, [None] * len(documents)
        return documents, [
            self.languages.source_for(' '.join(x.texts), asked.target) for x in documents
        ]

    async def _translations(
        self,
        request: Request,
        run: Callable[..., Awaitable[Any]],
        documents: Sequence[Document],
        sources: Sequence[str],
        target: str,
        n_best: int = 1,
    ) -> list[list[Any]]:
        """Return the translations of each document, the best first; none for the same language.

        Args:
          request: the request.
          run: calls a function where nobody else waits for it.
          documents: what to translate.
          sources: the language of each.
          target: the language to translate to.
          n_best: number of translations of each.
        """
        places: dict[Pair, list[int]] = {}
        for k, source in enumerate(sources):
            if source != target:
                places.setdefault((source, target), []).append(k)
        found: list[list[Any]] = [[] for _ in documents]
        tagged: dict[int, Document] = {}
        parts: dict[int, list[SegmentedText]] = {}
        jobs: list[Job] = []

        def submit() -> None:
            for pair, of_pair in places.items():
                split = self._splitters[pair]
                tagged.update((k, TaggedDocument(documents[k], split.divide)) for k in of_pair)
                parts.update((k, [split(text) for text in tagged[k].texts]) for k in of_pair)
                sentences = [s for k in of_pair for text in parts[k] for s in text.tagged()]
                align = any(documents[k].needs_alignment for k in of_pair)
                jobs.append(self.batcher.submit(pair, sentences, n_best, align))

        try:
            await run(submit)
            for of_pair, job in zip(places.values(), jobs, strict=True):
                outputs = iter(await _answer(job.results, request))
                for k in of_pair:
                    found[k] = await run(_joined, tagged[k], parts[k], outputs)
        finally:
            for job in jobs:
                job.cancel()
        return found

    async def _translate_file(self, request: Request) -> Response:
        fields = await self._fields(request, with_file=True)
        source, target = languages_of(fields, self.languages.pairs)
        name, document = await self._of_file(document_of, fields, self.limits)
        self.metrics.characters.inc(sum(map(len, document.texts)))
        answer = {}
        if source == 'auto':
            text = ' '.join(document.texts)
            detected = await self._of_file(self.languages.source_for, text, target)
            answer['detectedLanguage'] = detected._asdict()
            source = detected.language
            if source == target:
                raise Invalid(f'file is in {target} already: choose another target.')
        ((data,),) = await self._translations(request, self._of_file, [document], [source], target)
        kind = kind_of(name)
        stem = re.split(r'[/\\]', name[: -len(kind)])[-1]
        token = self._downloads.keep(f'{stem}.{target}{kind}', data)
        address = self._public_url or str(request.base_url)
        answer['translatedFileUrl'] = f'{address.rstrip("/")}/download_file/{token}'
        return JSONResponse(answer)

    async def _of_file(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread, when not too many files are worked on."""
        async with self._of_files:
            return await run_in_threadpool(function, *args)

    async def _download_file(self, request: Request) -> Response:
        file = self._downloads.get(request.path_params['token'])
        if file is None:
            raise HTTPException(404, 'this file is not here (any more): translate it again.')
        headers = {
            'Content-Disposition': f"attachment; filename*=utf-8''{quote(file.name, safe='')}",
            'X-Content-Type-Options': 'nosniff',
        }
        return Response(file.data, media_type='application/octet-stream', headers=headers)

    async def _attention(self, request: Request) -> Response:
        """Answer with a page that shows the attention for the first sentences of a text."""
        fields = await self._fields(request)
        texts, is_list = texts_of(fields, self.limits)
        if is_list:
            raise Invalid('q is a list: attention is that of one text.')
        (text,) = texts
        source, target = languages_of(fields, self.languages.pairs)
        if source == 'auto':
            source = (await run_in_threadpool(self.languages.source_for, text, target)).language
        if source == target:
            raise Invalid(f'q is in {target} already: choose another target.')
        sentences = (await run_in_threadpool(self._splitters[source, target], text)).tagged()
        if not sentences:
            raise Invalid('q has no sentence: send a text.')
        future = self.batcher.attention((source, target), sentences[:_MOST_SHOWN])
        try:
            found = await _answer(future, request)
        finally:
            future.cancel()  # nobody waits for it any more
        page = await run_in_threadpool(
            attention_page, found, f'Attention from {source} to {target}'
        )
        return HTMLResponse(page, headers={'Content-Security-Policy': "frame-ancestors 'self'"})

    async def _detect(self, request: Request) -> Response:
        fields = await self._fields(request)
        texts, is_list = texts_of(fields, self.limits)
        found = [[one._asdict() for one in self.languages.detect(text)] for text in texts]
        return JSONResponse(found if is_list else found[0])

    async def _languages(self, request: Request) -> Response:
        return JSONResponse(self.languages.listed())

    async def _settings(self, request: Request) -> Response:
        return JSONResponse(settings(self.languages, self.limits, self.access))

    async def _health(self, request: Request) -> Response:
        if not self.batcher.is_alive():
            return JSONResponse({'error': 'nothing translates any more: the log says why.'}, 503)
        return JSONResponse({'status': 'ok'})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(self.batcher.waiting()), media_type=CONTENT_TYPE)

    async def _docs(self, request: Request) -> Response:
        page = docs_page(document(self.languages.pairs, self.limits))
        return HTMLResponse(page, headers=HEADERS)

    async def _spec(self, request: Request) -> Response:
        return JSONResponse(document(self.languages.pairs, self.limits))


async def _answered(answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    """Answer a request; errors that are not the server's become answers."""
    try:
        return await answer(request)
    except QueueFull:
        raise HTTPException(
            503, 'too many texts wait already: try again later.', {'Retry-After': '1'}
        ) from None
    except UserError as error:
        raise Invalid(str(error)) from error


async def _off_loop(characters: int, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function, in a thread if there are many characters: others must not wait for it."""
    if characters < _SHORT:
        return function(*args)
    return await run_in_threadpool(function, *args)


def _joined(
    document: Document, parts: Sequence[SegmentedText], outputs: Iterator[list[Translation]]
) -> list[Any]:
    """Return the translations of a document, the best first.

    Args:
      document: the document.
      parts: the sentences of each of its texts.
      outputs: those of each sentence.
    """
    align = document.needs_alignment
    texts = [join(text, [next(outputs) for _ in text.segments], align=align) for text in parts]
    return [
        document.translated([of_text[min(n, len(of_text) - 1)] for of_text in texts])
        for n in range(max(map(len, texts), default=1))
    ]


async def _answer(future: Future[Any], request: Request) -> Any:
    """Wait for a result as long as the client does."""
    results = asyncio.wrap_future(future)
    while not (await asyncio.wait([results], timeout=_POLL))[0]:
        if await request.is_disconnected():
            raise HTTPException(499, 'the client has gone away.')
    return results.result()


async def _error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({'error': error.detail}, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    return JSONResponse({'error': 'the server failed: its log says why.'}, 500)
