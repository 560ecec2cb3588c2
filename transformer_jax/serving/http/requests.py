"""The bodies of requests: read within limits, and checked."""

import collections
import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from transformer_jax.data.language_codes import find
from transformer_jax.documents.document import Document
from transformer_jax.documents.files import read_document
from transformer_jax.errors import is_utf8, shown
from transformer_jax.serving.http.limits import Limits

_logger = logging.getLogger('transformer_jax')
FORMATS = ('text', 'html')


class Invalid(HTTPException):
    """A request that cannot be answered; `detail` says why in one sentence."""

    def __init__(self, detail: str, status: int = 400):
        super().__init__(status, detail)


class Room:
    """The memory that all requests may take together, and each client of it."""

    def __init__(self, most: int, share: int):
        """Nothing is taken.

        Args:
          most: bytes.
          share: bytes of one client.
        """
        self._left, self._share = most, share
        self._taken: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def held(self, client: str) -> Iterator[Callable[[int], None]]:
        """Give a function that takes bytes for a client, and give them all back at the end.

        The function raises HTTPException if they are not left.
        """
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left or self._taken[client] + size > self._share:
                who = 'others send' if size > self._left else 'you send'
                raise HTTPException(
                    503, f'{who} much at this moment: try again later.', {'Retry-After': '10'}
                )
            taken += size
            self._left -= size
            self._taken[client] += size

        try:
            yield take
        finally:
            self._left += taken
            self._taken[client] -= taken
            if not self._taken[client]:
                del self._taken[client]


@dataclasses.dataclass(frozen=True)
class TranslateRequest:
    """A request for translations.

    Attributes:
      texts: the texts.
      is_list: whether they came as a list, so that the answer has lists.
      source: code of their language, or 'auto'.
      target: code of the language to translate to.
      is_html: whether the texts are HTML.
      alternatives: number of further translations of each text.
    """

    texts: list[str]
    is_list: bool
    source: str
    target: str
    is_html: bool
    alternatives: int


def address_fields(request: Request) -> dict[str, Any]:
    """Return the fields that stand in the address of a request.

    Raises:
      Invalid: if they are not UTF-8.
    """
    return _as_fields(request.query_params.multi_items())


class Body:
    """The body of a request, which is JSON or a form, or empty."""

    def __init__(self, request: Request, most: int, remedy: str, take: Callable[[int], None]):
        """Read nothing yet.

        Args:
          request: the request.
          most: bytes that it may have.
          remedy: what allows more.
          take: takes memory, or raises HTTPException.
        """
        self._request, self._most, self._remedy, self._take = request, most, remedy, take
        kind = request.headers.get('content-type', '')
        self._kind = kind.partition(';')[0].strip().lower()

    async def fields(self, with_file: bool = False) -> dict[str, Any]:
        """Return the fields.

        Args:
          with_file: whether it has to be a form with a file; otherwise it may have none.

        Raises:
          Invalid: if it is too long, or neither JSON nor a form.
          HTTPException: if there is no room for it.
        """
        if with_file and self._kind != 'multipart/form-data':
            raise Invalid('file is missing: send a form (multipart/form-data) with a file.', 415)
        received = await self._received()
        if self._kind in ('application/x-www-form-urlencoded', 'multipart/form-data'):
            return await self._form(received, with_file)
        if self._kind not in ('application/json', ''):
            raise Invalid(
                f'the content type {self._kind!r:.100} is not known: send application/json or a '
                'form.',
                415,
            )
        if not received:
            return {}
        try:
            fields = json.loads(received)
        except (ValueError, RecursionError):
            raise Invalid('the body is not JSON: correct it.') from None
        if not isinstance(fields, dict):
            raise Invalid(
                'the body is no JSON object: send {"q": ..., "source": ..., "target": ...}.'
            )
        return fields

    async def _received(self) -> bytes:
        length = self._request.headers.get('content-length', '')
        received = bytearray()
        # Because the length is known before the body comes, the body need not come.
        self._check(int(length) if re.fullmatch('[0-9]{1,18}', length) else 0)
        async for part in self._request.stream():
            self._check(len(received) + len(part))
            self._take(len(part))
            received += part
        return bytes(received)

    def _check(self, length: int) -> None:
        if length > self._most:
            raise Invalid(
                f'the body has more than {self._most:,} bytes: send less ({self._remedy}).', 413
            )

    async def _form(self, received: bytes, with_file: bool) -> dict[str, Any]:
        async def receive() -> Message:
            return {'type': 'http.request', 'body': received}

        try:
            form = await Request(self._request.scope, receive).form(
                max_files=with_file, max_fields=1000, max_part_size=self._most
            )
        except HTTPException as error:
            if not with_file and 'files' in str(error.detail):
                raise Invalid('the form has a file: send it to /translate_file.') from None
            raise Invalid(f'the form cannot be read ({error.detail}): correct it.') from None
        except (ValueError, LookupError):  # of a charset that it names
            raise Invalid('the form cannot be read: send it in UTF-8.') from None
        return _as_fields(form.multi_items())


def _as_fields(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a form or an address; several of 'q' are a list."""
    fields: dict[str, Any] = {}
    for name, value in items:
        text = (value.filename or '') if isinstance(value, UploadFile) else value
        # Charsets that a form may name have halves of characters.
        if not is_utf8(name) or not is_utf8(text):
            raise Invalid('the form has half a character (a lone surrogate): send it in UTF-8.')
        if name in fields and name == 'q':
            fields[name] = [*_listed(fields[name]), value]
        else:
            fields[name] = value
    return fields


def texts_of(fields: dict[str, Any], limits: Limits) -> tuple[list[str], bool]:
    """Return the texts of 'q', and whether they are a list.

    Raises:
      Invalid: if there are none, or too many, or they are something else.
    """
    q = fields.get('q')
    if q is None:
        raise Invalid('q is missing: send the text, or a list of texts.')
    texts = _listed(q)
    if not all(isinstance(text, str) for text in texts):
        raise Invalid('q has something other than text: send a text, or a list of texts.')
    if len(texts) > limits.texts:
        raise Invalid(f'q has {len(texts):,} texts: send at most {limits.texts:,} at once.')
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise Invalid(
            f'q has {characters:,} characters: send at most {limits.characters:,} at once '
            '(--max_characters of the server).'
        )
    if not all(map(is_utf8, texts)):
        raise Invalid('q has half a character (a lone surrogate): leave it out.')
    return texts, isinstance(q, list)


def translate_request(
    fields: dict[str, Any], limits: Limits, pairs: Collection[tuple[str, str]]
) -> TranslateRequest:
    """Return what a request asks for.

    Args:
      fields: of its body.
      limits: what it may ask for.
      pairs: the languages that are translated.

    Raises:
      Invalid: if a field is missing or not possible.
    """
    texts, is_list = texts_of(fields, limits)
    source, target = languages_of(fields, pairs)
    kind = 'text' if fields.get('format') in (None, '') else fields['format']
    if kind not in FORMATS:
        raise Invalid(f'format={shown(kind)} is not supported: {_choice(FORMATS)}.')
    alternatives = 0 if fields.get('alternatives') in (None, '') else fields['alternatives']
    if isinstance(alternatives, str) and alternatives.isdecimal() and len(alternatives) < 9:
        alternatives = int(alternatives)  # of a form
    if type(alternatives) is not int or not 0 <= alternatives <= limits.alternatives:
        raise Invalid(
            f'alternatives={shown(alternatives)} must be a whole number from 0 to '
            f'{limits.alternatives}.'
        )
    return TranslateRequest(texts, is_list, source, target, kind == 'html', alternatives)


def languages_of(fields: dict[str, Any], pairs: Collection[tuple[str, str]]) -> tuple[str, str]:
    """Return 'source', which may be 'auto', and 'target', as the server writes them.

    Args:
      fields: of a request; case does not matter.
      pairs: the languages that are translated.

    Raises:
      Invalid: if there is no such pair, and they are not one language.
    """
    sources, targets = ({pair[k] for pair in pairs} for k in (0, 1))
    source, target = (_code(fields, name) for name in ('source', 'target'))
    same = find(source, sources | targets)
    if same is not None and same == find(target, sources | targets):
        return same, same
    source, target = find(source, [*sources, 'auto']) or source, find(target, targets) or target
    if target not in targets:
        raise Invalid(f'target={shown(target)} is not supported: {_choice(targets)}.')
    if source != 'auto' and source not in sources:
        raise Invalid(f'source={shown(source)} is not supported: {_choice(sources | {"auto"})}.')
    if source != 'auto' and (source, target) not in pairs:
        possible = {to for one, to in pairs if one == source}
        raise Invalid(
            f'source={shown(source)} is not translated to target={shown(target)}: '
            f'{_choice(possible)}.'
        )
    return source, target


def document_of(fields: dict[str, Any], limits: Limits) -> tuple[str, bytes, Document]:
    """Return the name of the file of a form, its bytes, and what it contains.

    Args:
      fields: of the form.
      limits: what it may ask for.

    Raises:
      Invalid: if there is no file, or it is too long, or cannot be read.
      UserError: if it is of another kind or damaged.
    """
    file = fields.get('file')
    if not isinstance(file, UploadFile):
        raise Invalid('file is missing: send a form (multipart/form-data) with a file.')
    name = (file.filename or '').replace('%22', '"')  # as browsers and curl send it in a form
    data = file.file.read()
    document = read_document(name, data)
    characters = sum(map(len, document.texts))
    if characters > limits.file_characters:
        raise Invalid(
            f'file has {characters:,} characters: send at most {limits.file_characters:,} at once '
            '(--max_file_characters of the server).'
        )
    return name, data, document


def early_key(fields: dict[str, Any], request: Request) -> str:
    """Return the key of a request that is known before its body, '' if there is none.

    Args:
      fields: of the address.
      request: the request.
    """
    scheme, _, key = request.headers.get('authorization', '').partition(' ')
    # Other schemes are a proxy's.
    if scheme.lower() == 'bearer':
        return key
    return request.headers.get('x-api-key') or fields.get('api_key', '')


def api_key(fields: dict[str, Any], request: Request) -> str:
    """Return the key of a request, '' if it has none.

    Args:
      fields: of its address and its body.
      request: the request.

    Raises:
      Invalid: if it is something other than text.
    """
    if not isinstance(fields.get('api_key'), str | None):
        raise Invalid('api_key is something other than text: send a text, or leave it out.')
    return (
        fields.get('api_key')
        or early_key(fields, request)
        or request.headers.get('authorization', '')
    )


def _code(fields: dict[str, Any], name: str) -> str:
    code = fields.get(name)
    if not isinstance(code, str) or not code:
        problem = f'{name}={shown(code)} is no code' if code else f'{name} is missing'
        raise Invalid(f'{problem}: send the code of a language.')
    return code


def _choice(names: Collection[str]) -> str:
    return f'choose {" or ".join(sorted(names))}'


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
