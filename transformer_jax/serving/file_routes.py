"""The routes of files: a file comes, is translated, and its translation is fetched."""

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from transformer_jax.documents.files import kind_of
from transformer_jax.serving.downloads import Downloads
from transformer_jax.serving.http.requests import document_of, languages_of
from transformer_jax.serving.http.waiting import while_waited_for

if TYPE_CHECKING:
    from transformer_jax.serving.app import Server


class FileRoutes:
    """Answers requests with files."""

    def __init__(self, server: 'Server', public_url: str):
        """Keep no file yet.

        Args:
          server: what translates.
          public_url: the address at which clients reach it; '' takes that of each request.
        """
        self._server, self._public_url = server, public_url
        self._downloads = Downloads()
        # Files can take much memory while they are read and written.
        self._of_files = asyncio.Semaphore(2)

    async def translate(self, request: Request) -> Response:
        """Translate a file, and answer with the address of its translation."""
        server = self._server
        fields = await server.reception.fields(request, with_file=True)
        source, target = languages_of(fields, server.languages.pairs)

        async def run(function: Callable[..., Any], *args: Any) -> Any:
            """Call a function in a thread, when not too many files are worked on."""
            await while_waited_for(self._of_files.acquire(), request)
            try:
                return await run_in_threadpool(function, *args)
            finally:
                self._of_files.release()

        name, data, document = await run(document_of, fields, server.limits)
        server.metrics.characters.inc(sum(map(len, document.texts)))
        answer = {}
        if source == 'auto':
            text = ' '.join(document.texts)
            detected = await run(server.languages.source_for, text, target)
            answer['detectedLanguage'] = detected._asdict()
            source = detected.language
        if source != target:  # otherwise the file stays as it is
            found = await server.translations(request, run, [document], [source], target)
            ((data,),) = found
        kind = kind_of(name)
        stem = re.split(r'[/\\]', name[: -len(kind)])[-1]
        token = self._downloads.keep(f'{stem}.{target}{kind}', data)
        address = self._public_url or str(request.base_url)
        answer['translatedFileUrl'] = f'{address.rstrip("/")}/download_file/{token}'
        return JSONResponse(answer)

    async def download(self, request: Request) -> Response:
        """Answer with a translated file."""
        file = self._downloads.get(request.path_params['token'])
        if file is None:
            raise HTTPException(404, 'this file is not here (any more): translate it again.')
        # A client that reads slowly keeps it in memory.
        self._server.reception.hold(request, len(file.data))
        headers = {
            'Content-Disposition': f"attachment; filename*=utf-8''{quote(file.name, safe='')}",
            'Cache-Control': 'no-store',
        }
        return Response(file.data, media_type='application/octet-stream', headers=headers)
