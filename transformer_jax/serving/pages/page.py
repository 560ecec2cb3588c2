"""The web page: people translate in a browser what programs translate by the same interface."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent
_FILES = {
    '/': ('page.html', 'text/html'),
    '/page.css': ('page.css', 'text/css'),
    '/page.js': ('page.js', 'text/javascript'),
    '/page.svg': ('page.svg', 'image/svg+xml'),
}
# The page runs and asks nothing but this server, and no other site may frame it.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
HEADERS = {'Content-Security-Policy': _POLICY, 'Cache-Control': 'no-cache'}
# For a page that has its script in itself, with texts of others.
ONE_PAGE_HEADERS = {
    'Content-Security-Policy': "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    'Cache-Control': 'no-store',
}


def page_routes() -> list[Route]:
    """Return the routes of the page and its files, which need no API key."""
    return [Route(path, _file(*file)) for path, file in _FILES.items()]


def _file(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = (_FOLDER / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, headers=HEADERS, media_type=media_type)

    return answer
