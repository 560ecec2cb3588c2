"""Characters as readers see them, texts as they compare them, and numbers in any digits."""

import re
import unicodedata
from collections.abc import Iterator

# A blank joins the digits on its sides only between groups of thousands, and not for certain.
_THOUSANDS = re.compile(r'(?<!\d)\d{1,3}(?:\s\d{3})+(?!\d)')
_SEPARATORS = re.compile("(?<=\\d)[.,'’٫٬](?=\\d)")


def characters(text: str) -> list[str]:
    """Return the characters of a text, each with the signs that belong to it.

    Vowel signs, accents and other marks belong to the letter before them, as do joiners, and the
    vowels and last consonants of a decomposed syllable of Hangul.
    """
    if text.isascii():
        return list(text)
    found: list[str] = []
    for sign in text:
        if found and _belongs_to_the_last(sign):
            found[-1] += sign
        else:
            found.append(sign)
    return found


def _belongs_to_the_last(sign: str) -> bool:
    return sign >= '\u0300' and (
        unicodedata.category(sign).startswith('M')
        or sign in '\u200c\u200d\u0e33\u0eb3'  # joiners, and a vowel of Thai and of Lao
        or '\u1160' <= sign <= '\u11ff'
        or '\ud7b0' <= sign <= '\ud7fb'
    )


def is_word(found: list[str]) -> bool:
    """Return whether all of some characters are letters."""
    return all(one[0].isalpha() for one in found)


def composed(text: str) -> str:
    """Return a text in which the same characters have the same code points (NFC)."""
    return unicodedata.normalize('NFC', text)


def readings(text: str) -> Iterator[list[str]]:
    """Yield the numbers of a text in ASCII digits, sorted, in each way in which they can be read.

    '1 000' is one number, or two; '1,000', '1.000' and '25.12' likewise.
    """
    text = re.sub(r'\d', lambda digit: str(int(digit[0])), text)
    grouped = _THOUSANDS.sub(lambda number: ''.join(number[0].split()), text)
    for one in (_SEPARATORS.sub('', grouped), _SEPARATORS.sub('', text), text):
        yield sorted(re.findall('[0-9]+', one))
