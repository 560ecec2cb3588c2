"""Tags within subtitles: those of HTML and WebVTT, formats of SubStation Alpha, entities."""

import html
import re
from typing import NamedTuple

# Tags nested deeper than this are kept where they are, but not aligned.
MOST_OPEN = 32
TAG = re.compile(
    r'(</?(?:[biuscvpq]|font|em|strong|span|strike|del|ins|small|big|sub|sup|mark|lang|ruby|rt)\b'
    r'[^<>]*>|\{\\[^{}]*\})',
    re.IGNORECASE,
)
_TAG_NAME = re.compile(r'</?(\w+)')
# A format of SubStation Alpha that has an end: {\i1}...{\i0}.
_OVERRIDE = re.compile(r'\{((?:\\[ibus]1)+)\}|\{((?:\\[ibus]0)+)\}')
# A format longer than that does not go on in the line of another person.
_MOST_CHARACTERS = 256
ENTITY = re.compile(r'&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});')
_HARD_BLANK = '\\h'


class Tag(NamedTuple):
    """A tag that marks words.

    Attributes:
      name: of the format.
      start: what begins it, '' if this is its end.
      end: what ends it.
    """

    name: str
    start: str
    end: str

    @property
    def is_start(self) -> bool:
        """Whether it begins a format."""
        return bool(self.start)


def tag_of(text: str) -> Tag | None:
    """Return a tag of the file, None if it is one that has no end, such as {\\an8}."""
    if found := _TAG_NAME.match(text):
        name = found[1].lower()
        return Tag(name, '' if text.startswith('</') else text, f'</{name}>')
    if found := _OVERRIDE.fullmatch(text):
        end = f'{{{(found[1] or found[2]).replace("1", "0")}}}'
        return Tag(end, text if found[1] else '', end)
    return None


def follow(tags: list[Tag], row: str) -> None:
    """Change the tags that are open before a row to those that are open after it."""
    for text in TAG.findall(row):
        tag = tag_of(text)
        if tag is None:
            continue
        if tag.is_start and len(tags) < MOST_OPEN and len(text) <= _MOST_CHARACTERS:
            tags.append(tag)
        elif not tag.is_start and any(x.name == tag.name for x in tags):
            while tags.pop().name != tag.name:
                pass


def unescaped(text: str) -> str:
    """Return what the screen shows of a text without tags."""
    return ENTITY.sub(lambda x: html.unescape(x[0]), text).replace(_HARD_BLANK, ' ')


def plain(text: str) -> str:
    """Return what the screen shows of a text."""
    return unescaped(TAG.sub('', text))


def has_letters(text: str) -> bool:
    """Return whether the screen shows a letter."""
    return any(map(str.isalpha, plain(text)))
