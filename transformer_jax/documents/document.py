"""What all documents have in common, and the simplest of them."""

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from transformer_jax.errors import UserError, first_line
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.target_languages import tagged

_logger = logging.getLogger('transformer_jax')
_ended: ContextVar[threading.Event | None] = ContextVar('ended', default=None)


class Document(Protocol):
    """A document whose texts are translated.

    Attributes:
      texts: what to translate, in the order of the document.
      needs_alignment: whether `translated` needs translations with alignment.
    """

    texts: list[str]
    needs_alignment: bool

    def translated(self, outputs: Sequence[Translation], language: str = '') -> Any:
        """Return the document with a translation in the place of each text.

        Args:
          outputs: of each text.
          language: the language of the translations, which the document's own marks of languages
            say from then on; '' leaves these as they are.
        """


class PlainText:
    """A text that is translated as a whole."""

    needs_alignment = False

    def __init__(self, text: str):
        """Take the text."""
        self.texts = [text]

    def translated(self, outputs: Sequence[Translation], language: str = '') -> str:
        """Return the translation."""
        return outputs[0].text


class CutOff(Exception):
    """Work on a document has ended because nobody waits for it any more."""


@contextlib.contextmanager
def cut_off_by(ended: threading.Event) -> Iterator[None]:
    """Let work on documents in this context raise `CutOff` soon after an event is set."""
    token = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(token)


def go_on() -> None:
    """Raise `CutOff` if nobody waits for the work of this context any more."""
    ended = _ended.get()
    if ended is not None and ended.is_set():
        raise CutOff


@contextlib.contextmanager
def faults_of_files() -> Iterator[None]:
    """Turn what a reader of files raises into a UserError: the file is the fault's cause."""
    try:
        yield
    except (UserError, CutOff):
        raise
    except Exception as error:
        _logger.warning('A document cannot be read (%s).', type(error).__name__)
        _logger.debug('What its reader raised:', exc_info=error)
        raise UserError(
            f'it cannot be read ({type(error).__name__}: {first_line(error)}): open it in another '
            'program and save it again.'
        ) from error


def language_tag(code: str) -> str:
    """Return the code of a language as documents write it, '' if it is none: 'en_XX' is 'en-XX'."""
    tag = code.replace('_', '-')
    return tag if re.fullmatch('[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*', tag) else ''


class TaggedDocument:
    """A document in which a tag before a text holds for all texts from there on.

    A tag names the language to translate into, and has no place in the translated document.
    """

    def __init__(self, document: Document, divide: Callable[[str, str], tuple[str, str]]):
        """Take a document, and `TargetLanguages.divide`."""
        self.texts: list[str] = []
        self.needs_alignment = document.needs_alignment
        self._document = document
        # The words of each text that alignments do not count, because they are its tag.
        self._before: list[int] = []
        tag = ''
        for text in document.texts:
            tag, rest = divide(text, tag)
            self.texts.append(tagged(tag, rest))
            self._before.append(len(text.split()) - len(rest.split()))

    def translated(self, outputs: Sequence[Translation], language: str = '') -> Any:
        """Return the document with a translation in the place of each text, see `Document`."""
        return self._document.translated(
            [
                output._replace(alignment=tuple((s + before, t) for s, t in output.alignment))
                if before and output.alignment
                else output
                for output, before in zip(outputs, self._before, strict=True)
            ],
            language,
        )
