"""The tags, comments and texts of HTML, which end where they end in browsers.

Python's own parser ends some of them elsewhere, and does so differently in each version.
https://html.spec.whatwg.org, 13.2.5. Code of templates, such as PHP and ERB, ends as it does there.
"""

import bisect
import html
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

VOID = frozenset(
    'area base basefont br col embed frame hr img input link meta param source track wbr'.split()
)
# Between the tags of these elements there is text only.
_RAW = frozenset('iframe noembed noframes script style textarea title xmp'.split())
_FOREIGN = frozenset(['math', 'svg'])

# Files come from people who may mean harm. The time of these expressions is linear in a text.
_BLANK = r'[\t\n\f\r ]'
_NAME = r'(?:=|[^\t\n\f\r />=])[^\t\n\f\r />=]*+'
_VALUE = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))"""
_IS = rf'{_BLANK}*+={_BLANK}*+'
_ATTRIBUTE = re.compile(rf'({_NAME})(?:{_IS}({_VALUE}))?')
# Groups that are repeated here would meet an error of Python 3.11.
_TAG = re.compile(
    rf'</?[a-zA-Z][^\t\n\f\r />]*+(?:{_NAME}(?:{_IS}{_VALUE}|(?!{_BLANK}*+=))|[\t\n\f\r /]++)*+>'
)
_BEGIN = re.compile('<[a-zA-Z/!?%0-9#@]')
_COMMENT = re.compile(r'<!--(?:-?>|.*?(?:--!?>|\Z))', re.DOTALL)
# Numbered tags of translators' programs, and those of FreeMarker.
_OTHER_TAG = re.compile('<(?:[0-9]{1,4} ?/?|[#@][a-zA-Z][^<>]*+)>')
_CODE = re.compile(r'<\?(?:php\b|=|\s)', re.IGNORECASE)
_SCRIPT = re.compile(r'<!--(?!-?>)|-->|<(/?)script(?=[\t\n\f\r />])', re.IGNORECASE)
_END_OF = {name: re.compile(rf'</{name}(?=[\t\n\f\r />])', re.IGNORECASE) for name in _RAW}
_XHTML = re.compile(r'\A\s*<\?xml\s|<!DOCTYPE[^>]*XHTML|<html[^>]*1999/xhtml', re.IGNORECASE)
_NAME_OF_TAG = re.compile(r'<(/?)([a-zA-Z][^\t\n\f\r />]*+)')
_LETTERS = frozenset(string.ascii_letters)
_OF_OTHERS = frozenset(string.digits + '#@')
_REFERENCE = re.compile(r'(&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[^\t\n\f <&#;]{1,32};?))')
_ZEROS = re.compile('&#0++(?=[0-9])')
_TOO_LARGE = re.compile('&#[0-9]{8,}+;?')


class Token(NamedTuple):
    """A part of the source.

    Attributes:
      kind: 'text', 'start', 'end', 'comment' or 'declaration'; what comments look like to browsers,
        such as code, is a comment, too.
      begin: where it begins.
      end: where it ends.
      name: that of a tag, in lower case.
      is_empty: whether it is a start tag of an element that has no content.
    """

    kind: str
    begin: int
    end: int
    name: str = ''
    is_empty: bool = False


def unescaped(text: str) -> str:
    """Return a text without character references, of any number of digits."""
    if '&' not in text:
        return text
    return html.unescape(_TOO_LARGE.sub('\ufffd', _ZEROS.sub('&#', text)))


class Unescaped:
    """A text without character references.

    Attributes:
      text: the text.
    """

    def __init__(self, source: str):
        """Take a text with references."""
        self._source = source
        # Where each part of the text begins, there and in the source: references are every second.
        self._places, self._in_source = list[int](), list[int]()
        found, place = list[str](), 0
        for k, part in enumerate(_REFERENCE.split(source)):
            self._places.append(sum(map(len, found[-1:])) + (self._places or [0])[-1])
            self._in_source.append(place)
            place += len(part)
            found.append(unescaped(part) if k % 2 else part)
        self.text = ''.join(found)

    def source(self, begin: int, end: int) -> str:
        """Return a part of the text as it is in the source."""
        return self._source[self._at(begin) : self._at(end)]

    def _at(self, place: int) -> int:
        k = bisect.bisect_right(self._places, place) - 1
        if k % 2 and place > self._places[k]:  # within what one reference stands for
            return self._in_source[k + 1]
        return self._in_source[k] + place - self._places[k]


def attributes(source: str, token: Token) -> Iterator[tuple[str, int, int]]:
    """Return the name of each attribute of a tag, and where its value begins and ends."""
    for match in _ATTRIBUTE.finditer(source, token.begin + 1 + len(token.name), token.end):
        begin, end = match.span(2) if match[2] else (match.end(),) * 2
        is_quoted = source[begin:end].startswith(('"', "'"))
        yield match[1].lower(), begin + is_quoted, end - is_quoted


def tokens(source: str) -> Iterator[Token]:
    """Return the parts of a source, which together are all of it."""
    return _Tokens(source).all()


class _Tokens:
    """Finds tokens from the beginning to the end."""

    def __init__(self, source: str):
        self._source = source
        self._next: dict[str, int] = {}
        self._foreign = 0  # open elements in which the rules of XML hold
        self._is_xhtml = _XHTML.search(source[:2000]) is not None

    def all(self) -> Iterator[Token]:
        """Return the tokens."""
        begin = at = 0  # of a text, and of what may end it
        while match := _BEGIN.search(self._source, at):
            at = match.start()
            end = self._end(at)
            if end < 0:  # no more markup
                break
            if end == at:
                at += 1
                continue
            if begin < at:
                yield Token('text', begin, at)
            token = self._token(at, end)
            yield token
            begin = at = end
            if token.kind == 'start' and token.name in _RAW and not token.is_empty:
                at = self._end_of_raw(token.name, end)
        if begin < len(self._source):
            yield Token('text', begin, len(self._source))

    def _end(self, at: int) -> int:
        """Return where markup ends, `at` if it is text, -1 if all that follows is text."""
        source = self._source
        if source.startswith('<!--', at):
            return _COMMENT.match(source, at).end()
        if source.startswith('<%', at):
            return max(at, self._behind('%>', at))
        if self._behind('>', at) < 0:
            return -1
        if source[at + 1] in _OF_OTHERS:
            tag = _OTHER_TAG.match(source, at)
            return tag.end() if tag else at
        if source.startswith('<![CDATA[', at) and (end := self._behind(']]>', at)) > 0:
            return end
        if _CODE.match(source, at):
            end = self._behind('?>', at)
            return end if end > 0 else len(source)
        if source[at + 1 : at + 3].lstrip('/')[:1] in _LETTERS:
            tag = _TAG.match(source, at)
            return tag.end() if tag else len(source)
        return self._behind('>', at)

    def _token(self, begin: int, end: int) -> Token:
        source = self._source
        tag = _NAME_OF_TAG.match(source, begin)
        if tag is None or source[end - 1] != '>':
            is_comment = tag is None and source[begin : begin + 9].lower() != '<!doctype'
            return Token('comment' if is_comment else 'declaration', begin, end)
        name = tag[2].lower()
        is_closed = source[end - 2] == '/'
        if tag[1]:
            self._foreign = max(0, self._foreign - (name in _FOREIGN))
            return Token('end', begin, end, name)
        by_xml = self._is_xhtml or self._foreign > 0 or name in _FOREIGN
        self._foreign += name in _FOREIGN and not is_closed
        return Token('start', begin, end, name, name in VOID or (is_closed and by_xml))

    def _behind(self, text: str, at: int) -> int:
        """Return where the next such text ends, -1 if there is none."""
        if 0 <= self._next.get(text, 0) <= at:
            self._next[text] = self._source.find(text, at)
        return self._next[text] + len(text) if self._next[text] >= 0 else -1

    def _end_of_raw(self, name: str, at: int) -> int:
        """Return where the text of an element ends in which there are no tags."""
        if name != 'script':
            match = _END_OF[name].search(self._source, at)
            return match.start() if match else len(self._source)
        depth = 0  # 1 in a comment, 2 in a script in a comment
        for match in _SCRIPT.finditer(self._source, at):
            if match[0] == '-->':
                depth = 0
            elif match[1] is None:
                depth = max(depth, 1)
            elif match[1]:
                if depth < 2:
                    return match.start()
                depth = 1
            elif depth:
                depth = 2
        return len(self._source)
