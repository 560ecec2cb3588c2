"""What is the same in all languages: places for values, addresses, names of accounts, and paths."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a placeholder is in a sentence."""

    NUMBER = 'number'
    NAME = 'name'  # of a thing or a person
    SIGN = 'sign'  # no word: a command of a template, an emoji


class Placeholder(NamedTuple):
    """A part of a text that is copied.

    Attributes:
      begin: where it begins in the text.
      end: where it ends.
      kind: what it is in the sentence.
    """

    begin: int
    end: int
    kind: Kind


# What an address goes on with. Punctuation at its end belongs to the sentence.
_END = r""".,;:!?\]'"\u2018-\u201f\u2026«»\u3000-\u3002\uff00-\uff20"""
_TAIL = rf"""(?:[.,;:!?\]'"]*+(?:[^\s<>(){_END}]|\([^\s<>()]*+\)))++"""
_FORMAT = r'[-+0\#]{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,3}|\*))?'
_NAME = r'[$-]?[\w.\[\]-]{0,64}'
# Texts come from people who may mean harm. The time of this expression is linear in a text.
_PLACEHOLDER = re.compile(
    rf"""
    (?P<sign> \{{%[^{{}}]{{0,99}}%\}} | \{{\#[^{{}}]{{0,99}}\#\}} | <%(?!=)[^<>]{{0,99}}%>
        | <\?[^<>]{{0,99}}\?>
        | \{{[\#:/@](?:await|catch|each|else|html|if|key|then)\b[^{{}}]{{0,99}}\}}
        | \\[nrt](?![a-z]) | &(?:[a-zA-Z]{{2,8}}|\#\d{{1,6}}); )
    | (?P<printf>
        %(?:\(\w{{1,64}}\)|<\w{{1,64}}>){_FORMAT}[a-zA-Z]
        | (?<![\d%])%(?:\d{{1,2}}\$)?{_FORMAT}(?:hh?|ll?|[jztLq])?
          (?:[@diouxXeEfFgGcCsSpaA](?![^\W\d_]) | [duf](?=(?:[kKMGT]i?[bB]|ms|px|[smhd])\b))
        | (?<![\w%])%[YmHMBbIyjZ](?![^\W_]) )(?:%%)?
    | (?P<percent> (?<![\w%.,])\d{{1,9}}(?:[.,]\d{{1,4}})?%% )
    | (?P<field>
        \{{\{{\{{?[^{{}}]{{0,99}}\}}\}}\}}? | <%=[^<>]{{0,99}}%>
        | [$\#%]\{{[^{{}}]{{1,99}}\}}
        | \{{\s?{_NAME}\s?(?:![rsa])?(?:[:,][^{{}}\s]{{0,32}})?\}}
        | \{{\w{{1,64}},\s?(?:number|date|time|ordinal|spellout|duration)(?:,[^{{}}]{{1,40}})?\}}
        | \{{\w{{1,64}},\s?(?:plural|select|selectordinal),(?:[^{{}}]++|\{{[^{{}}]*+\}})*+\}}
        | (?<![\w%])%[^\W\d][\w.-]{{1,40}}%(?![\w%])
        | (?<![\w$])\$[A-Za-z_]\w{{1,64}} | \[\[[^\[\]]{{1,99}}\]\] | «[A-Z0-9_]{{2,64}}»
        | (?<!\w)__\w{{1,64}}__(?!\w) | @@\w{{1,64}}@@ )
    | (?P<name>
        (?<![A-Za-z0-9+.-])(?:[a-zA-Z][a-zA-Z0-9+.-]{{1,20}}://|www\.|(?:mailto|tel|sip|xmpp):){_TAIL}
        | (?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}})+
        | (?<![\w@.-])(?:[\w-]{{1,63}}\.){{1,8}}(?:com|org|net|edu|gov|info)(?![\w-]|\.\w)
          (?:[/?\#:]{_TAIL})?
        | (?<![\w@./-])[\w-]{{1,64}}\.(?:csv|docx?|exe|gif|gz|html?|ini|jpe?g|json|log|mp[34]|pdf
          |png|py|sh|sql|svg|toml|txt|xlsx?|xml|ya?ml|zip)(?![\w-]|\.\w)
        | (?<![\w.,])v?\d{{1,4}}(?:\.\d{{1,4}}){{2,3}}(?![\w-]|[.,]\d)
        | (?<![\w-])--[a-z][\w-]{{1,40}}(?:=[\w./-]{{1,64}}(?<=[\w/]))?
        | `[^`\n]{{1,99}}`
        | (?<![\w/])[@\#][^\W\d][\w.-]*\w
        | (?<![\w/.)\]])(?:(?:~|\.\.?)/(?:[\w.@+-]++/)*+(?:[\w.@+-]*\w)?
          | /(?:[\w.@+-]++/)++(?:[\w.@+-]*\w)?
          | /(?:etc|usr|var|tmp|home|bin|opt|dev|proc|root|lib|mnt|srv|boot|sys)\b )
        | (?<![A-Za-z0-9])[A-Za-z]:[\\/](?:[\w\ .()$~@+-]{{1,64}}(?<!\ )[\\/])*+
          (?:[\w.()$~@+*-]*[\w*])?
        | (?<!\\)\\\\[\w.-]++(?:\\[\w.$-]*\w)++ )
    | (?P<path> (?<![\w/.@-])\.?[\w-]++(?:\.[\w-]++)*+(?:/\.?[\w-]++(?:\.[\w-]++)*+)++ )
    """,
    re.VERBOSE,
)
_OF_VALUES = ('sign', 'printf', 'percent', 'field')
# Without any of these there is no placeholder; most texts have none.
_MAY_BEGIN = re.compile(r'[%{@#/\\<$&`«]|\w:[\w+]|\.\w|\[\[|__|--\w')
_IS_NUMBER = re.compile(
    r'\d.*%%|%.*[diouxXeEfFgGYmHMIyj]%*|.*:[^}]*[,df%]\}+|.*,\s?number\b.*|'
    r'\W*(?:\w*[._])?(?:n|num|number|count|total|amount|pages?|year|age|size|percent|seconds'
    r'|minutes|hours|days)\W*',
    re.IGNORECASE | re.DOTALL,
)
_HAS_ENDING = re.compile(r'.*\.[A-Za-z][A-Za-z0-9]{0,4}', re.DOTALL)
_IS_GLUED = re.compile('[A-Za-z0-9_]')
# What may be between two placeholders that are one in the sentence: '{first} {last}', '%d/%d'.
_JOINT = re.compile(r'\s{0,2}|[/:_.+*=×\\-]')


def find_placeholders(text: str) -> list[Placeholder]:
    """Return the placeholders of a text, in their order.

    Those are places for values (as in printf, Python, Java, Objective-C, Ruby and templates),
    addresses, names of accounts and subjects, and paths of files.
    """
    if not _MAY_BEGIN.search(text):
        return []
    found: list[Placeholder] = []
    for placeholder in _each(text):
        before = found[-1] if found else None
        kinds = {placeholder.kind, before.kind} if before else {Kind.SIGN}
        if Kind.SIGN not in kinds and _JOINT.fullmatch(text, before.end, placeholder.begin):
            kind = placeholder.kind if len(kinds) == 1 else Kind.NAME
            found[-1] = Placeholder(before.begin, placeholder.end, kind)
        else:
            found.append(placeholder)
    return found


def value_spans(text: str) -> list[tuple[int, int]]:
    """Return where each place for a value or command of a template begins and ends."""
    if not _MAY_BEGIN.search(text):
        return []
    return [x.span() for x in _PLACEHOLDER.finditer(text) if x.lastgroup in _OF_VALUES]


def without_placeholders(text: str) -> str:
    """Return a text with a blank in the place of each placeholder."""
    parts, end = [], 0
    for placeholder in find_placeholders(text):
        parts.append(text[end : placeholder.begin])
        end = placeholder.end
    return ' '.join([*parts, text[end:]])


def _each(text: str) -> Iterator[Placeholder]:
    last = 0
    for match in _PLACEHOLDER.finditer(text):
        kind = Kind.NAME
        if match.lastgroup == 'sign':
            kind = Kind.SIGN
        elif match.lastgroup in _OF_VALUES:
            kind = Kind.NUMBER if _IS_NUMBER.fullmatch(match[0]) else Kind.NAME
        elif match.lastgroup == 'path' and not _HAS_ENDING.fullmatch(match[0]):
            continue  # 'and/or', '1/2'
        begin, end = match.span()
        # With the letters that touch it, it is one word: '{name}s', 'user%d'.
        while kind != Kind.SIGN and begin > last and _IS_GLUED.match(text, begin - 1):
            begin, kind = begin - 1, Kind.NAME
        while kind == Kind.NAME and _IS_GLUED.match(text, end):
            end += 1
        last = end
        yield Placeholder(begin, end, kind)
