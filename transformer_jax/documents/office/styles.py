"""What the styles of office documents say: which texts are code, and which language texts have."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import NamedTuple

# As Word, LibreOffice and pandoc call them in all languages, and as people call their own.
_CODE = frozenset(
    [
        'code',
        'code block',
        'example',
        'html code',
        'html keyboard',
        'html preformatted',
        'html sample',
        'html typewriter',
        'html variable',
        'inline code',
        'preformatted text',
        'source code',
        'source text',
        'teletype',
        'user entry',
        'variable',
        'verbatim',
        'verbatim char',
    ]
)
# Languages for which office programs keep a language of their own beside the usual one.
_ASIAN = frozenset('ja ko yue zh'.split())
_COMPLEX = frozenset(
    'ar as bn ckb dv fa gu he hi kn km lo ml mr my ne or pa ps sa sd si ta te th ur yi'.split()
)
# No language.
NONE = frozenset(['none', 'x-none', 'zxx'])


class Style(NamedTuple):
    """A style of paragraphs or words.

    Attributes:
      name: what people call it.
      parent: the key of the style from which it differs; None if there is none.
    """

    name: str
    parent: Hashable = None


def code_styles(styles: Mapping[Hashable, Style]) -> set[Hashable]:
    """Return the keys of the styles that mark code."""
    children = defaultdict[Hashable, list[Hashable]](list)
    for key, style in styles.items():
        children[style.parent].append(key)
    open_ = [key for key, style in styles.items() if _is_code(style.name)]
    found = set(open_)
    while open_:
        added = {*children[open_.pop()]} - found
        found |= added
        open_ += added
    return found


def script_of(language: str) -> str:
    """Return which language of a text is that of its words: '', 'asian' or 'complex'."""
    code = language.partition('-')[0].lower()
    return 'asian' if code in _ASIAN else 'complex' if code in _COMPLEX else ''


def _is_code(name: str) -> bool:
    name = ' '.join(name.lower().split())
    return name in _CODE or name.removesuffix(' char') in _CODE


def decoded(name: str) -> str:
    """Return the name of a style, in which OpenDocument writes '_20_' for a blank."""
    return re.sub('_([0-9a-f]{2,4})_', lambda match: chr(int(match[1], 16)), name)
