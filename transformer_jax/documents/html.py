"""HTML: texts are translated, and tags stay around the words that they mark.

Elements that mark words within a sentence (`a`, `b`, `span`, ...) follow their words. All others
stay as they are, and divide the text. What is code or says translate="no" is copied. So does
Bergamot, the translator of Firefox: https://github.com/browsermt/bergamot-translator.
"""

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from transformer_jax.documents.document import faults_of_files, go_on, language_tag
from transformer_jax.documents.html_tokens import (
    VOID,
    Token,
    Unescaped,
    attributes,
    tokens,
    unescaped,
)
from transformer_jax.documents.markup import Element, rendered, rendered_parts
from transformer_jax.documents.ranges import RangedText, divided
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import Marks, Piece
from transformer_jax.translating.placeholders.paired_marks import MARKS, side

_INLINE = frozenset(
    'a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q s small span '
    'strike strong sub sup time tt u'.split()
)
# Elements within a sentence that have a place, but no text to translate.
_POINTS = frozenset(['img', 'input', 'wbr'])
_COPIED_POINTS = frozenset('code kbd math samp script style svg template var'.split())
_COPIED = _COPIED_POINTS | {'iframe', 'noembed', 'noframes', 'pre', 'textarea', 'xmp'}
_SIGN = re.compile(r'[][(){}*\u2020\u2021\u00a7|\u2022\u00b7]')
# Names of persons and subjects in Mastodon. (Outlook marks the signs of lists by their style.)
_COPIED_CLASSES = frozenset(['notranslate', 'mention', 'hashtag'])
# Which elements end one whose end tag may be left out: https://html.spec.whatwg.org, 13.1.2.4.
_ENDED_BY = {
    'li': {'li'},
    'dt': {'dt', 'dd'},
    'dd': {'dt', 'dd'},
    'tr': {'tr', 'tbody', 'tfoot'},
    'td': {'td', 'th', 'tr', 'tbody', 'tfoot'},
    'th': {'td', 'th', 'tr', 'tbody', 'tfoot'},
    'option': {'option', 'optgroup'},
}
# What may have another element of such a kind in it.
_LISTS = ('ul', 'ol', 'menu', 'dl', 'table', 'select')
# A small file could otherwise hold up a server. Pages of several megabytes have fewer.
_MOST_TAGS = 200_000
# Elements nested deeper than this are kept where they are, but not aligned.
_MOST_OPEN = 32
_MOST_ATTRIBUTES = 1_000_000
# The attributes that are read.
_READ = frozenset('class href lang style translate xml:lang'.split())
# Characters that a page may have more because tags are repeated.
_MOST_REPEATED = 1_000_000
# No page has this character.
_LANGUAGE = '\0'
_MARKED_LANGUAGE = re.compile('\0([^\0]*)\0')


class HtmlDocument:
    """The texts of a page or of a part of one.

    Attributes:
      texts: each a paragraph, in which words have a blank between them.
      needs_alignment: True, see `Document`.
    """

    needs_alignment = True

    def __init__(self, source: str, language: str = ''):
        """Find the texts.

        Args:
          source: the HTML.
          language: the code of its language, '' if it is not known. What is marked as another one
            than this and than that of the page is copied.

        Raises:
          UserError: if it has too many tags or attributes.
        """
        if source.count('<') > _MOST_TAGS:
            raise UserError(
                f'the HTML has more than {_MOST_TAGS:,} tags: divide it into several parts.'
            )
        source = source.replace(_LANGUAGE, '\ufffd')  # as browsers do
        with faults_of_files():
            parser = _Parser(source, language)
            self._parts, self._elements = parser.parts(), parser.elements
        self._most = 8 * len(source) + _MOST_REPEATED
        self.texts = [
            x.text.text for x in self._parts if isinstance(x, _Run) and x.text.has_letters
        ]

    def translated(self, outputs: Sequence[Translation], language: str = '') -> str:
        """Return the HTML with a translation, with alignment, in the place of each text.

        Raises:
          UserError: if tags that are repeated would make it too long.
        """
        tag = language_tag(language)
        found, length = list[str](), -8 * sum(len(output.text) for output in outputs)
        with faults_of_files():
            for part in self._all_parts(outputs):
                found.append(part)
                length += len(part)
                if length > self._most:
                    raise UserError('its tags are too long to be repeated: divide the HTML.')
            text = ''.join(found)
            return _MARKED_LANGUAGE.sub(lambda match: tag or match[1], text)

    def _all_parts(self, outputs: Iterable[Translation]) -> Iterator[str]:
        outputs = iter(outputs)
        for part in self._parts:
            go_on()
            if isinstance(part, str):
                yield part
                continue
            pieces = part.text.pieces
            if part.text.has_letters:
                output = next(outputs)
                pieces = part.text.translated(output.text, output.alignment or ())
            yield from rendered_parts(pieces, self._elements, _escaped, part.begin, part.end)


class _Run(NamedTuple):
    """A text between two tags that divide it.

    Attributes:
      text: its marks are numbers of elements, its points HTML.
      begin: the elements that are open before it.
      end: those that are open after it.
    """

    text: RangedText
    begin: Marks
    end: Marks


class _Parser:
    """Divides HTML into runs, and HTML that stays as it is."""

    def __init__(self, source: str, language: str):
        self.elements: list[Element] = []
        self._languages = {_primary(language)} - {''}
        self._names: list[str] = []
        self._source = source
        self._parts: list[str | _Run] = []
        self._pieces: list[Piece] = []
        self._begin: Marks = ()
        self._open: Marks = ()
        self._opened: dict[int, int] = {}  # the number of pieces of its run before an element
        self._blocks = Counter[str]()  # open elements that divide the text
        # The element that is copied, where it begins, and the elements that are open in it.
        self._copied, self._from = '', 0
        self._inside: list[str] = []
        self._count_inside = Counter[str]()
        self._attributes = 0

    def parts(self) -> list[str | _Run]:
        """Return all parts."""
        takes = {
            'text': self._text,
            'start': self._start,
            'end': self._end,
            'comment': lambda token: self._point(self._source[token.begin : token.end]),
            'declaration': lambda token: self._markup(self._source[token.begin : token.end]),
        }
        for token in tokens(self._source):
            go_on()
            takes[token.kind](token)
        if self._copied:
            self._copied = ''
            self._markup(self._source[self._from :])
        self._end_run()
        return self._parts

    def _start(self, token: Token) -> None:
        tag = token.name
        if self._copied and not self._ends_copy(tag):
            if not token.is_empty:
                self._inside.append(tag)
                self._count_inside[tag] += 1
            return
        if self._copied:
            self._end_copy(token.begin)
        values, places = self._values(token)
        named = values.get('lang') or values.get('xml:lang')
        if tag == 'html' and named:
            self._languages.add(_primary(named))
        is_other = bool(named and self._languages) and _primary(named) not in self._languages
        text = self._source[token.begin : token.end]
        if named and not is_other:
            text = self._with_language(token, places)
        # Such anchors of XHTML stand in pages that say that they are HTML, too.
        is_empty = token.is_empty or (tag == 'a' and text.endswith('/>') and 'href' not in values)
        if not is_empty and (tag in _COPIED or is_other or _stays(values)):
            self._copied, self._from = tag, token.begin
            self._inside, self._count_inside = [tag], Counter([tag])
        elif tag in _POINTS or (is_empty and tag in _INLINE | _COPIED) or self._is_deep(tag):
            self._point(text)
        elif tag in _INLINE:
            self._open += (len(self.elements),)
            self._opened[len(self.elements)] = len(self._pieces)
            self.elements.append(Element(text, f'</{tag}>'))
            self._names.append(tag)
        else:
            self._markup(text)
            self._blocks[tag] += not is_empty

    def _values(self, token: Token) -> tuple[dict[str, str], list[tuple[int, int]]]:
        """Return the attributes of a tag that are read, and where those of languages are."""
        found, places = dict[str, str](), list[tuple[int, int]]()
        for name, begin, end in attributes(self._source, token):
            self._attributes += 1
            if name in _READ and name not in found:
                found[name] = unescaped(self._source[begin:end])
                if name in ('lang', 'xml:lang') and begin < end:
                    places.append((begin, end))
        if self._attributes > _MOST_ATTRIBUTES:
            raise UserError(
                f'the HTML has more than {_MOST_ATTRIBUTES:,} attributes: divide it into several '
                'parts.'
            )
        return found, places

    def _with_language(self, token: Token, places: Iterable[tuple[int, int]]) -> str:
        """Return a tag, in which the names of languages are found again."""
        found, end = '', token.begin
        for begin, stop in places:
            found += f'{self._source[end:begin]}{_LANGUAGE}{self._source[begin:stop]}{_LANGUAGE}'
            end = stop
        return found + self._source[end : token.end]

    def _end(self, token: Token) -> None:
        tag = token.name
        if tag in VOID and tag != 'br':
            return
        if self._copied and (self._count_inside[tag] or not self._blocks[tag]):
            self._close_inside(tag)
            if not self._inside:
                self._end_copy(token.end)
            return
        if self._copied:  # what is around it ends
            self._end_copy(token.begin)
        if tag not in _INLINE:
            self._blocks[tag] = max(0, self._blocks[tag] - 1)
            self._markup(self._source[token.begin : token.end])
        elif closed := [mark for mark in self._open if self._names[mark] == tag]:
            self._close(closed[-1])
        else:
            self._point(self._source[token.begin : token.end])

    def _text(self, token: Token) -> None:
        if self._copied:
            return
        found = Unescaped(self._source[token.begin : token.end])
        end = 0
        for n, part in enumerate(MARKS.split(found.text)):
            begin, end = end, end + len(part)
            if n % 2:
                self._point(found.source(begin, end))
            elif part:
                self._pieces.append(Piece(part, self._open))

    def _ends_copy(self, tag: str) -> bool:
        """Whether `tag` implicitly closes the copied element (HTML lets `</p>` be omitted)."""
        if any(self._count_inside[name] for name in _LISTS):
            return False
        if self._copied == 'p':
            return tag not in _INLINE | _POINTS | _COPIED | VOID
        return tag in _ENDED_BY.get(self._copied, ())

    def _close_inside(self, tag: str) -> None:
        while self._count_inside[tag]:
            closed = self._inside.pop()
            self._count_inside[closed] -= 1
            if closed == tag:
                return

    def _end_copy(self, end: int) -> None:
        text, name, self._copied = self._source[self._from : end], self._copied, ''
        if name in _INLINE | _COPIED_POINTS:
            self._point(text)
        else:
            self._markup(text)

    def _is_deep(self, tag: str) -> bool:
        return tag in _INLINE and len(self._open) >= _MOST_OPEN

    def _point(self, text: str) -> None:
        if not self._copied:
            self._pieces.append(Piece('', self._open, text))

    def _markup(self, text: str) -> None:
        if not self._copied:
            self._end_run()
            self._parts.append(text)

    def _end_run(self) -> None:
        if self._pieces or self._begin != self._open:
            begin, parts = self._begin, [*divided(self._pieces, side)]
            for part, following in itertools.zip_longest(parts, parts[1:]):
                if isinstance(part, Piece):
                    self._parts.append(part.point)
                    continue
                if following is None:
                    end = self._open
                else:
                    end = (
                        part.pieces[-1] if isinstance(following, RangedText) else following
                    ).marks
                self._parts.append(_Run(part, begin, end))
                begin = end
        self._pieces, self._begin, self._opened = [], self._open, {}

    def _close(self, mark: int) -> None:
        """Close an element; if it has a sign only, such as a reference to a note, it is a point."""
        self._open = tuple(x for x in self._open if x != mark)
        if mark not in self._opened:  # it begins before this run
            return
        inside = self._pieces[self._opened[mark] :]
        text = ''.join(piece.text for piece in inside)
        is_sign = self._names[mark] == 'sup' or _SIGN.search(text) or not text.strip()
        if any(map(str.isalpha, text)) or not is_sign:
            return
        del self._pieces[self._opened[mark] :]
        if not text.strip() and all(piece.point is None for piece in inside):
            self._point(''.join(self.elements[mark]))
            if text:
                self._pieces.append(Piece(' ', self._open))
        else:
            self._point(rendered(inside, self.elements, _escaped, self._open, self._open))


def _stays(values: Mapping[str, str]) -> bool:
    """Whether an element with these attributes asks not to be translated."""
    return (
        values.get('translate', '').lower() == 'no'
        or not _COPIED_CLASSES.isdisjoint(values.get('class', '').split())
        or 'mso-list:ignore' in values.get('style', '').lower().replace(' ', '')
    )


def _primary(language: str) -> str:
    """Return the code of a language without region and script."""
    return re.split('[-_]', language.strip().lower(), maxsplit=1)[0]


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
