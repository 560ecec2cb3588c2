"""HTML: texts are translated, and tags stay around the words that they mark.

Elements that mark words within a sentence (`a`, `b`, `span`, ...) follow their words. All others
stay as they are, and divide the text. What is code or says translate="no" is copied. So does
Bergamot, the translator of Firefox: https://github.com/browsermt/bergamot-translator.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from transformer_jax.documents.markup import Element, rendered
from transformer_jax.errors import UserError
from transformer_jax.inference.marked_text import MarkedText, Marks, Piece
from transformer_jax.inference.outputs import Translation

_INLINE = frozenset(
    'a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q s small span '
    'strike strong sub sup time tt u'.split()
)
# Elements within a sentence that have a place, but no text to translate.
_POINTS = frozenset(['img', 'input', 'wbr'])
_COPIED_POINTS = frozenset('code kbd math samp script style svg template var'.split())
_COPIED = _COPIED_POINTS | {'iframe', 'noembed', 'noframes', 'textarea', 'xmp'}
_VOID = frozenset(
    'area base basefont br col embed frame hr img input link meta param source track wbr'.split()
)
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
# Further elements within one another mark nothing, but keep their place.
_MOST_OPEN = 32
_LINE_END = re.compile('(\r\n|\r|\n)')


class HtmlDocument:
    """The texts of a page or of a part of one.

    Attributes:
      texts: each a paragraph, in which words have a blank between them.
      needs_alignment: True, see `Document`.
    """

    needs_alignment = True

    def __init__(self, source: str):
        """Find the texts.

        Raises:
          UserError: if it has too many tags, or the parser of Python gives up.
        """
        if source.count('<') > _MOST_TAGS:
            raise UserError(
                f'the HTML has more than {_MOST_TAGS:,} tags: divide it into several parts.'
            )
        parser = _Parser(source)
        try:
            # After the last '>' there are no tags; the parser takes long to see that.
            end = source.rfind('>') + 1
            parser.feed(source[:end])
            parser.close()
            parser.handle_data(html.unescape(source[end:]))
        except AssertionError as error:  # at some declarations: '<![x'
            raise UserError(f'the HTML cannot be read ({error}): correct it.') from None
        self._parts, self._elements = parser.finished(), parser.elements
        self.texts = [
            x.text.text for x in self._parts if isinstance(x, _Run) and x.text.has_letters
        ]

    def translated(self, outputs: Sequence[Translation]) -> str:
        """Return the HTML with a translation, with alignment, in the place of each text."""
        remaining = iter(outputs)
        return ''.join(
            part if isinstance(part, str) else self._rendered(part, remaining)
            for part in self._parts
        )

    def _rendered(self, run: '_Run', outputs: Iterator[Translation]) -> str:
        pieces = run.text.pieces
        if run.text.has_letters:
            output = next(outputs)
            pieces = run.text.translated(output.text, output.alignment or ())
        return rendered(pieces, self._elements, _escaped, run.begin, run.end)


class _Run(NamedTuple):
    """A text between two tags that divide it.

    Attributes:
      text: its marks are numbers of elements, its points HTML.
      begin: the elements that are open before it.
      end: those that are open after it.
    """

    text: MarkedText
    begin: Marks
    end: Marks


class _Parser(HTMLParser):
    """Divides HTML into runs, and HTML that stays as it is."""

    def __init__(self, source: str):
        super().__init__()
        self.elements: list[Element] = []
        self._names: list[str] = []
        self._source = source
        self._lines = [0, *(match.end() for match in re.finditer('\n', source))]
        self._parts: list[str | _Run] = []
        self._pieces: list[Piece] = []
        self._begin: Marks = ()
        self._open: Marks = ()
        self._opened: dict[int, int] = {}  # the number of pieces of its run before an element
        self._pre = 0
        self._blocks = Counter[str]()  # open elements that divide the text
        # The element that is copied, where it begins, and the elements that are open in it.
        self._copied, self._from = '', 0
        self._inside: list[str] = []
        self._count_inside = Counter[str]()
        # Where HTML begins that is copied up to what follows it, and what takes it.
        self._pending: tuple[int, Callable[[str], None]] | None = None

    def finished(self) -> list[str | _Run]:
        """Return all parts."""
        self._take_pending()
        if self._copied:
            self._copied = ''
            self._markup(self._source[self._from :])
        self._end_run()
        return self._parts

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take_pending()
        if self._copied and not self._ends_copy(tag):
            if tag not in _VOID:
                self._inside.append(tag)
                self._count_inside[tag] += 1
            return
        if self._copied:
            self._end_copy(self._at())
        text = self.get_starttag_text() or ''
        is_empty = tag in _VOID or (tag in ('svg', 'math') and text.endswith('/>'))
        if not is_empty and (tag in _COPIED or _stays(attrs)):
            self._copied, self._from = tag, self._at()
            self._inside, self._count_inside = [tag], Counter([tag])
        elif tag in _POINTS or (is_empty and tag in _COPIED) or self._is_deep(tag):
            self._point(text)
        elif tag in _INLINE:
            self._open += (len(self.elements),)
            self._opened[len(self.elements)] = len(self._pieces)
            self.elements.append(Element(text, f'</{tag}>'))
            self._names.append(tag)
        else:
            self._markup(text)
            self._pre += tag == 'pre'
            self._blocks[tag] += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # in HTML, the slash of '<b/>' has no meaning

    def handle_endtag(self, tag: str) -> None:
        self._take_pending()
        if tag in _VOID and tag != 'br':
            return
        at = self._at()
        end = self._source.find('>', at) + 1 or len(self._source)
        if self._copied and (self._count_inside[tag] or not self._blocks[tag]):
            self._close_inside(tag)
            if not self._inside:
                self._end_copy(end)
            return
        if self._copied:  # what is around it ends
            self._end_copy(at)
        if tag not in _INLINE:
            self._pre = max(0, self._pre - (tag == 'pre'))
            self._blocks[tag] = max(0, self._blocks[tag] - 1)
            self._markup(self._source[at:end])
        elif closed := [mark for mark in self._open if self._names[mark] == tag]:
            self._close(closed[-1])
        else:
            self._point(self._source[at:end])

    def handle_data(self, data: str) -> None:
        self._take_pending()
        if self._copied:
            return
        for k, text in enumerate(_LINE_END.split(data) if self._pre else [data]):
            if k % 2:
                self._markup(text)
            elif text:
                self._pieces.append(Piece(text, self._open))

    def handle_comment(self, data: str) -> None:
        self._copy_to_next(self._point)

    def handle_decl(self, decl: str) -> None:
        self._copy_to_next(self._markup)

    def handle_pi(self, data: str) -> None:
        self._copy_to_next(self._point)

    def unknown_decl(self, data: str) -> None:
        self._copy_to_next(self._point)

    def _copy_to_next(self, take: Callable[[str], None]) -> None:
        """Copy HTML from here on. Only what follows says where it ends: '<![CDATA[a>b]]>'."""
        self._take_pending()
        self._pending = self._at(), take

    def _take_pending(self) -> None:
        if self._pending is not None:
            (begin, take), self._pending = self._pending, None
            take(self._source[begin : self._at()])

    def _ends_copy(self, tag: str) -> bool:
        """Whether a start tag ends the element that is copied, which has no end tag."""
        if any(self._count_inside[name] for name in _LISTS):
            return False
        if self._copied == 'p':
            return tag not in _INLINE | _POINTS | _COPIED | _VOID
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

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _point(self, text: str) -> None:
        if not self._copied:
            self._pieces.append(Piece('', self._open, text))

    def _markup(self, text: str) -> None:
        if not self._copied:
            self._end_run()
            self._parts.append(text)

    def _end_run(self) -> None:
        if self._pieces or self._begin != self._open:
            self._parts.append(_Run(MarkedText(self._pieces), self._begin, self._open))
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


def _stays(attrs: list[tuple[str, str | None]]) -> bool:
    """Whether an element asks not to be translated."""
    values = {name: value or '' for name, value in attrs}
    return (
        values.get('translate', '').lower() == 'no'
        or not _COPIED_CLASSES.isdisjoint(values.get('class', '').split())
        or 'mso-list:ignore' in values.get('style', '').lower().replace(' ', '')
    )


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
