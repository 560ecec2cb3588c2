"""The HTTP interface: that of LibreTranslate, which existing clients speak."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from transformer_jax.documents.document import Document, PlainText, TaggedDocument
from transformer_jax.documents.html import HtmlDocument
from transformer_jax.errors import UserError
from transformer_jax.inspection.attention_page import attention_page
from transformer_jax.serving.batcher import LENGTHS, Batcher, Job, QueueFull
from transformer_jax.serving.file_routes import FileRoutes
from transformer_jax.serving.http.access import Access
from transformer_jax.serving.http.clients import client_of
from transformer_jax.serving.http.edge import Edge
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.http.reception import Reception
from transformer_jax.serving.http.requests import (
    Invalid,
    TranslateRequest,
    languages_of,
    texts_of,
    translate_request,
)
from transformer_jax.serving.http.sites import Sites
from transformer_jax.serving.http.waiting import while_waited_for
from transformer_jax.serving.information import information_routes
from transformer_jax.serving.languages import Detected, Languages, Pair
from transformer_jax.serving.metrics import Metrics
from transformer_jax.serving.pages.page import ONE_PAGE_HEADERS, page_routes
from transformer_jax.serving.texts import TextSplitter
from transformer_jax.translating.outputs import Translation, join
from transformer_jax.translating.segments import SegmentedText

_MOST_SHOWN = 8  # sentences on a page of attention
_SHORT = 1000  # characters for which a thread costs more than the work


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
        self.reception = Reception(limits, access)
        self._splitters = {
            pair: TextSplitter(pair, translator, LENGTHS[-1])
            for pair, translator in batcher.translators.items()
        }

    def application(
        self, origins: Sequence[str] = (), public_url: str = '', host: str = ''
    ) -> Edge:
        """Return the ASGI application.

        Args:
          origins: pages of these origins may ask from a browser.
          public_url: the address at which clients reach it; '' takes that of each request.
          host: the address that it listens at, see `Sites`.
        """
        files = FileRoutes(self, public_url)
        asked = {
            '/translate': self._translate,
            '/attention': self._attention,
            '/translate_file': files.translate,
            '/detect': self._detect,
        }
        told = {'/download_file/{token}': files.download, **information_routes(self)}
        cors = Middleware(
            CORSMiddleware, allow_origins=[*origins], allow_methods=['*'], allow_headers=['*']
        )
        application = Starlette(
            routes=[
                Route(path, self._counted(path, answer), methods=[method])
                for method, answers in (('POST', asked), ('GET', told))
                for path, answer in answers.items()
            ]
            + page_routes(),
            exception_handlers={HTTPException: _error, Exception: _failure},
            middleware=[cors] if origins else [],
        )
        return Edge(application, Sites(origins, public_url, host))

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

    async def _translate(self, request: Request) -> Response:
        fields = await self.reception.fields(request)
        asked = translate_request(fields, self.limits, self.languages.pairs)
        characters = sum(map(len, asked.texts))
        self.metrics.characters.inc(characters)
        run = functools.partial(_off_loop, characters)
        documents, detected = await run(self._read, asked)
        sources = [one.language if one else asked.source for one in detected]
        n_best = 1 + asked.alternatives
        found = await self.translations(request, run, documents, sources, asked.target, n_best)
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
            source = '' if asked.source == 'auto' else asked.source
            documents = [
                HtmlDocument(x, source) if asked.is_html else PlainText(x) for x in asked.texts
            ]
        except UserError as error:
            raise Invalid(f'q: {error}') from None
        if asked.source != 'auto':
            return documents, [None] * len(documents)
        return documents, [
            self.languages.source_for(' '.join(x.texts), asked.target) for x in documents
        ]

    async def translations(
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
          n_best: number of translations of each; fewer where the beam is smaller.
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
                possible = self.batcher.translators[pair].config.decode.beam_size
                split = self._splitters[pair]
                tagged.update((k, TaggedDocument(documents[k], split.divide)) for k in of_pair)
                parts.update((k, [split(text) for text in tagged[k].texts]) for k in of_pair)
                sentences = [s for k in of_pair for text in parts[k] for s in text.tagged()]
                align = any(documents[k].needs_alignment for k in of_pair)
                client, count = client_of(request.scope), min(n_best, possible)
                jobs.append(self.batcher.submit(pair, sentences, count, align, client))

        try:
            await run(submit)
            for of_pair, job in zip(places.values(), jobs, strict=True):
                outputs = iter(await while_waited_for(asyncio.wrap_future(job.results), request))
                for k in of_pair:
                    found[k] = await run(_joined, tagged[k], parts[k], outputs, target)
        finally:
            for job in jobs:
                job.cancel()
        return found

    async def _attention(self, request: Request) -> Response:
        """Answer with a page that shows the attention for the first sentences of a text."""
        fields = await self.reception.fields(request)
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
        client = client_of(request.scope)
        future = self.batcher.attention((source, target), sentences[:_MOST_SHOWN], client)
        found = await while_waited_for(asyncio.wrap_future(future), request)
        page = await run_in_threadpool(
            attention_page, found, f'Attention from {source} to {target}'
        )
        return HTMLResponse(page, headers=ONE_PAGE_HEADERS)

    async def _detect(self, request: Request) -> Response:
        fields = await self.reception.fields(request)
        texts, is_list = texts_of(fields, self.limits)
        found = [[one._asdict() for one in self.languages.detect(text)] for text in texts]
        return JSONResponse(found if is_list else found[0])


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
    document: Document,
    parts: Sequence[SegmentedText],
    outputs: Iterator[list[Translation]],
    target: str,
) -> list[Any]:
    """Return the translations of a document, the best first.

    Args:
      document: the document.
      parts: the sentences of each of its texts.
      outputs: those of each sentence.
      target: the code of their language.
    """
    align = document.needs_alignment
    texts = [join(text, [next(outputs) for _ in text.segments], align=align) for text in parts]
    return [
        document.translated([of_text[min(n, len(of_text) - 1)] for of_text in texts], target)
        for n in range(max(map(len, texts), default=1))
    ]


async def _error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({'error': error.detail}, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    return JSONResponse({'error': 'the server failed: its log says why.'}, 500)
