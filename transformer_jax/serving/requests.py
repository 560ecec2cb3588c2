"""The bodies of requests: read within limits, and checked."""

import dataclasses
import json
import re
from collections.abc import Collection
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from transformer_jax.data.language_codes import find
from transformer_jax.documents.document import Document
from transformer_jax.documents.files import read_document
from transformer_jax.errors import is_utf8, shown
from transformer_jax.serving.limits import Limits

FORMATS = ('text', 'html')


class Invalid(HTTPException):
    """A request that cannot be answered; `detail` says why in one sentence."""

    def __init__(self, detail: str, status: int = 400):
        super().__init__(status, detail)


class Room:
    """The memory that all bodies that are being read may take together."""

    def __init__(self, most: int):
        """Nothing is taken.

        Args:
          most: bytes.
        """
        self._left = most

    def take(self, size: int) -> None:
        """Take some bytes.

        Raises:
          HTTPException: if they are not left.
        """
        if size > self._left:
            raise HTTPException(
                503, 'others send much at this moment: try again later.', {'Retry-After': '10'}
            )
        self._left -= size

    def give_back(self, size: int) -> None:
        """Give bytes back that were taken."""
        self._left += size


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


async def read_body(
    request: Request, most: int, room: Room, with_file: bool = False
) -> dict[str, Any]:
    """Return the fields of a body, which is JSON or a form.

    Args:
      request: the request.
      most: bytes of the body.
      room: what the bodies of all requests may take.
      with_file: whether it has to be a form with a file; otherwise it may have none.

    Raises:
      Invalid: if it is too long, or neither.
      HTTPException: if there is no room for it.
    """
    kind = request.headers.get('content-type', '').partition(';')[0].strip().lower()
    if with_file and kind != 'multipart/form-data':
        raise Invalid('file is missing: send a form (multipart/form-data) with a file.', 415)
    received = bytearray()
    try:
        async for part in request.stream():
            if len(received) + len(part) > most:
                flag = '--max_file_body' if with_file else '--max_body'
                raise Invalid(
                    f'the body has more than {most:,} bytes: send less ({flag} of the server).', 413
                )
            room.take(len(part))
            received += part
        return await _fields(request, kind, received, most, with_file)
    finally:
        room.give_back(len(received))


async def _fields(
    request: Request, kind: str, received: bytearray, most: int, with_file: bool
) -> dict[str, Any]:
    if kind in ('application/x-www-form-urlencoded', 'multipart/form-data'):
        # Starlette reads what has been received once more.
        request._body = bytes(received)
        try:
            form = await request.form(max_files=with_file, max_fields=1000, max_part_size=most)
        except HTTPException as error:
            if not with_file and 'files' in str(error.detail):
                raise Invalid('the form has a file: send it to /translate_file.') from None
            raise Invalid(f'the form cannot be read ({error.detail}): correct it.') from None
        except (UnicodeError, LookupError):  # of a charset that it names
            raise Invalid('the form cannot be read: send it in UTF-8.') from None
        fields: dict[str, Any] = {}
        for name, value in form.multi_items():
            if name in fields and name == 'q':
                fields[name] = [*_listed(fields[name]), value]
            else:
                fields[name] = value
        return fields
    if kind not in ('application/json', ''):
        raise Invalid(
            f'the content type {kind!r:.100} is not known: send application/json or a form.', 415
        )
    if not received:
        raise Invalid('the body is empty: send JSON or a form.')
    try:
        fields = json.loads(received)
    except (ValueError, RecursionError):
        raise Invalid('the body is not JSON: correct it.') from None
    if not isinstance(fields, dict):
        raise Invalid('the body is no JSON object: send {"q": ..., "source": ..., "target": ...}.')
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
    alternatives = fields.get('alternatives', 0)
    if isinstance(alternatives, str) and alternatives.isdecimal() and len(alternatives) < 9:
        alternatives = int(alternatives)  # of a form
    if type(alternatives) is not int or not 0 <= alternatives <= limits.alternatives:
        raise Invalid(
            f'alternatives={shown(alternatives)} must be a whole number from 0 to '
            f'{limits.alternatives}.'
        )
    return TranslateRequest(texts, is_list, source, target, kind == 'html', alternatives)


def languages_of(fields: dict[str, Any], pairs: Collection[tuple[str, str]]) -> tuple[str, str]:
    """Return 'source', which may be 'auto', and 'target'.

    Args:
      fields: of a body.
      pairs: the languages that are translated.

    Raises:
      Invalid: if there is no such pair.
    """
    sources, targets = ({pair[k] for pair in pairs} for k in (0, 1))
    source, target = (_code(fields, name) for name in ('source', 'target'))
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


def document_of(fields: dict[str, Any], limits: Limits) -> tuple[str, Document]:
    """Return the name of the file of a form, and what it contains.

    Args:
      fields: of the form.
      limits: what it may ask for.

    Raises:
      Invalid: if there is no file, or it is too long.
      UserError: if it is of another kind or damaged.
    """
    file = fields.get('file')
    if not isinstance(file, UploadFile):
        raise Invalid('file is missing: send a form (multipart/form-data) with a file.')
    name = (file.filename or '').replace('%22', '"')  # as browsers and curl send it in a form
    document = read_document(name, file.file.read())
    characters = sum(map(len, document.texts))
    if characters > limits.file_characters:
        raise Invalid(
            f'file has {characters:,} characters: send at most {limits.file_characters:,} at once '
            '(--max_file_characters of the server).'
        )
    return name, document


def api_key(fields: dict[str, Any], request: Request) -> str:
    """Return the key of a request, '' if it has none.

    Raises:
      Invalid: if it is something other than text.
    """
    key = fields.get('api_key') or request.headers.get('authorization', '')
    if not isinstance(fields.get('api_key'), str | None):
        raise Invalid('api_key is something other than text: send a text, or leave it out.')
    return re.sub('^bearer ', '', key, flags=re.IGNORECASE)


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
