"""Language codes in training texts, such as '>>fra<<' and '<2fr>', which are no words."""

import re
from collections.abc import Callable

from transformer_jax.config.mixture import TAG

# Models of OPUS-MT know '>>fra<<' only at the beginning; elsewhere it may be a quotation.
_CODES = re.compile(rf'(\A\s*(?:(?:{TAG}|>>[^\s<>]+<<)\s*)+|{TAG}\s*)')


def without_codes(text: str) -> str:
    """Return a text without its language codes."""
    return _CODES.sub('', text)


def outside_codes(change: Callable[[str], str], text: str) -> str:
    """Return a text of which all but its language codes is changed."""
    parts = _CODES.split(text)
    return ''.join(part if k % 2 else change(part) for k, part in enumerate(parts))
