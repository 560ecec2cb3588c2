"""Which marks in a text belong together, such as '{% if %}' and '{% endif %}'."""

import re
from collections.abc import Hashable, Mapping
from typing import NamedTuple

# Marks of templates in a text.
MARKS = re.compile(
    r"""(
    \{%[^{}]{0,199}%\}
    | \{\{[-~]?\ *(?:[\#^/]|(?:block|define|else|end|if|range|with)\b)[^{}]{0,99}\}\}
    | \{[\#^/][\w.]{1,64}\}
    | \{[\#:/](?:await|catch|each|else|if|key|then)\b[^{}]{0,99}\}
    | \{(?:block|else|elseif|for|foreach|if|section|while)(?:\s[^{}]{1,99})?\}
    | \*\|(?:IF|ELSE|ELSEIF|END)\b[^|*]{0,99}\|\*
    )""",
    re.VERBOSE,
)
# The same and the commands of programs, which are no text in HTML.
_COMMANDS = re.compile(
    rf'{MARKS.pattern}|(<%(?!=)[^<>]{{0,199}}%>|<\?(?!=)[^?]{{0,199}}\?>)', re.VERBOSE
)
_MAY_DIVIDE = re.compile(r'\{[%{#^/:a-z]|<[%?]|\*\|')
# Kinds of marks that are commands of a template: what is between them are branches.
_OF_TEMPLATES = frozenset(['code', 'block', 'double', 'single', 'merge'])
# What follows a command, but belongs to the words before it.
BEFORE_WORDS = re.compile(r'[\s,.;:!?)\]»”]*')
# What is around the words of a mark, by the kind of the mark.
_KINDS = tuple(
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in (
        ('comment', r'<!--(.*?)(?:--!?>)?'),
        ('conditional', r'<!\[(.*?)\]>'),
        ('code', r'<[?%](?:php\b|[-=#])?(.*?)-?(?:[?%]>)?'),
        ('block', r'\{%[-+~]?(.*?)[-+~]?%\}'),
        ('double', r'\{\{[-~{]?(.*?)[-~}]?\}\}'),
        ('single', r'\{(.*?)\}'),
        ('merge', r'\*\|(.*?)\|\*'),
        ('tag', r'<(?=[0-9#@/])(.*?)>'),
    )
)
_END = re.compile(r'(?:/\s*[#@]?|(?:end|stop|close)\s*[:_-]?\s*(?:of\s)?)\s*([\w:.-]*)', re.I)
_MIDDLE = re.compile(r'[}#]?\s*(?:else(?:if)?|elif|elsif|when|empty|default|plural)\b|\^$', re.I)
_BEGIN = re.compile(r'[#^@]?\s*(?:(begin|start)\s*[:_-]?\s*)?([\w:.-]*)', re.I)
# What an end without a name ends.
_BLOCK = re.compile(
    r'[#@]?\s*(?:begin|block|case|define|for|foreach|if|range|start|switch|unless|until|while|with)\b',
    re.IGNORECASE,
)
_BLOCK_END = re.compile(r'(?:\{|:|\bdo(?:\s*\|[^|]*\|)?|\bthen)\Z', re.IGNORECASE)


class Side(NamedTuple):
    """What a point is to a range of words.

    Attributes:
      role: 'begin', 'end' or 'middle', such as '{% else %}'.
      kind: of the mark; ranges of a kind with `crosses` need not be within one another.
      name: of the range; an end with the name '' ends the last block.
      is_block: whether an end without a name ends it.
      crosses: whether the range may begin in another one and end behind it.
    """

    role: str
    kind: str
    name: Hashable
    is_block: bool = False
    crosses: bool = False


def side(mark: str) -> Side | None:
    """Return what a mark is, None if it does not look like the side of a range."""
    matches = ((kind, pattern.fullmatch(mark)) for kind, pattern in _KINDS)
    kind, found = next((x for x in matches if x[1]), ('', None))
    if found is None:
        return None
    words = found[1].strip('[<!> \t\r\n')
    if kind == 'merge':
        words = words.replace(':', ' ')
    if _MIDDLE.match(words):
        return Side('middle', kind, '')
    if words.startswith('}'):
        return Side('end', kind, '')
    if found := _END.match(words):
        return Side('end', kind, found[1].lower())
    found = _BEGIN.match(words)
    is_block = bool(found[1] or _BLOCK.match(words) or _BLOCK_END.search(words[-99:]))
    return Side('begin', kind, found[2].lower(), is_block)


def pairs(sides: Mapping[int, Side]) -> dict[int, int]:
    """Return the place of the end of each range, by the place of its begin.

    Args:
      sides: what marks are, by their places, in order.
    """
    found = dict[int, int]()
    stack = list[int]()
    heights = dict[Hashable, list[tuple[int, int]]]()  # in the stack, and the places there
    crossing = dict[Hashable, int]()
    for place, side in sides.items():
        if side.crosses:
            if side.role == 'begin':
                crossing[side.name] = place
            elif side.name in crossing:
                found[crossing.pop(side.name)] = place
        elif side.role == 'begin':
            for name in {side.name or None, '' if side.is_block else None} - {None}:
                heights.setdefault((side.kind, name), []).append((len(stack), place))
            stack.append(place)
        elif side.role == 'end':
            candidates = heights.get((side.kind, side.name), [])
            while candidates:
                height, begin = candidates.pop()
                if height < len(stack) and stack[height] == begin:
                    found[begin] = place
                    del stack[height:]
                    break
    return found


def dividing(sides: Mapping[int, Side]) -> set[int]:
    """Return the places of the marks that divide a text, around what a template may leave out.

    Ranges that such marks divide do so, too.

    Args:
      sides: see `pairs`.
    """
    ends = {begin: end for begin, end in pairs(sides).items() if not sides[begin].crosses}
    begins = {end: begin for begin, end in ends.items()}
    found = {
        place
        for place, side in sides.items()
        if side.kind in _OF_TEMPLATES
        and (side.is_block or side.role != 'begin' or place in ends)
        and (side.kind != 'single' or _is_command(sides[begins.get(place, place)]))
    }
    divides = [False]  # of each open range, whether there is such a mark within it
    for place in sides:
        if place in ends:
            divides.append(False)
        elif place in begins:
            if divides.pop():
                found |= {begins[place], place}
                divides[-1] = True
        elif place in found:
            divides[-1] = True
    return found


def _is_command(side: Side) -> bool:
    """Whether a mark in simple braces is a command, and not the place of a format, as in '{#b}'."""
    return side.is_block or side.role == 'middle' or _BLOCK.match(side.name) is not None


def may_divide(text: str) -> bool:
    """Return whether there may be commands of templates in a text."""
    return _MAY_DIVIDE.search(text) is not None


def divided(text: str) -> list[str]:
    """Return a text, divided at commands of templates (see `dividing`): text, command, text, ..."""
    if not may_divide(text):
        return [text]
    marks = [*_COMMANDS.finditer(text)]
    sides = {k: found for k, mark in enumerate(marks) if (found := side(mark[0])) is not None}
    parts, end = list[str](), 0
    for k in sorted(dividing(sides)):
        begin, stop = marks[k].span()
        parts += text[end:begin], text[begin:stop]
        end = stop
    return [*parts, text[end:]]


def as_part(output: str, source: str) -> str:
    """Return the translation of a part of a sentence without what makes it a whole sentence.

    Args:
      output: the translation.
      source: the part.
    """
    if source and source[-1] not in '.\u3002':
        output = output.removesuffix('.').removesuffix('\u3002')
    if source[:1].islower() and output[:1].isupper() and not output[1:2].isupper():
        output = output[0].lower() + output[1:]
    return output
