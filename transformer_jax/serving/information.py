"""The routes that say what a server is and how it does."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from transformer_jax.serving.metrics import CONTENT_TYPE
from transformer_jax.serving.pages.docs_page import docs_page
from transformer_jax.serving.pages.openapi import document
from transformer_jax.serving.pages.page import HEADERS
from transformer_jax.serving.settings import settings

if TYPE_CHECKING:
    from transformer_jax.serving.app import Server


def information_routes(server: 'Server') -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Return what answers GET requests for information, by path."""

    async def languages(request: Request) -> Response:
        return JSONResponse(server.languages.listed())

    async def of_page(request: Request) -> Response:
        return JSONResponse(settings(server.languages, server.limits, server.access))

    async def health(request: Request) -> Response:
        if not server.batcher.is_alive():
            return JSONResponse({'error': 'the translation thread has stopped: see the log.'}, 503)
        return JSONResponse({'status': 'ok'})

    async def metrics(request: Request) -> Response:
        return Response(server.metrics.text(server.batcher.waiting()), media_type=CONTENT_TYPE)

    async def docs(request: Request) -> Response:
        page = docs_page(document(server.languages.pairs, server.limits))
        return HTMLResponse(page, headers=HEADERS)

    async def spec(request: Request) -> Response:
        return JSONResponse(document(server.languages.pairs, server.limits))

    return {
        '/languages': languages,
        '/frontend/settings': of_page,
        '/health': health,
        '/metrics': metrics,
        '/docs': docs,
        '/spec': spec,
    }
