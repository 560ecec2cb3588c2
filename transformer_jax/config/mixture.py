"""The texts of data.corpora, data.tag and data.mix: what they may say."""

import re
import shlex
from typing import NamedTuple

from transformer_jax.config.validation import fail
from transformer_jax.errors import did_you_mean

# Fields of the section `data` that a part may set.
PART_FIELDS = (
    'corpus',
    'source_language',
    'target_language',
    'train_source',
    'train_target',
    'dev_source',
    'dev_target',
    'test_source',
    'test_target',
    'filters',
    'tag',
    'source_column',
    'target_column',
    'dataset',
    'train_split',
    'dev_split',
    'test_split',
    'data_dir',
    'manual_dir',
)
# A ';' in quotes ends no line.
_LINE_END = re.compile(r""";(?=(?:[^'"\n]|'[^'\n]*'|"[^"\n]*")*(?:\n|$))|\n""")
_NAME = re.compile(r'[A-Za-z][\w-]*')
TAG = r'<2[\w-]{1,40}>'


class MixStage(NamedTuple):
    """A stage of data.mix.

    Attributes:
      shares: the number of each part that it names.
      until: its last step; None for the last stage.
    """

    shares: dict[str, float]
    until: int | None


def is_tag(text: str) -> bool:
    """Return whether a text has the form of a tag, such as '<2fr>'."""
    return re.fullmatch(TAG, text) is not None


def read_corpora(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each part of data.corpora, by its name.

    Args:
      text: a line for each part, or ';' between them: its name, then FIELD=VALUE with spaces
        between them. A value with spaces stands in quotes.

    Raises:
      UserError: if the text is not of this form, or a field is unknown.
    """
    parts: dict[str, dict[str, str]] = {}
    for line in _LINE_END.split(text):
        try:
            words = _words(line)
        except ValueError:
            fail(
                'data.corpora',
                text,
                f'has a quotation mark without its other half in {line.strip()[:60]!r}: write '
                'FIELD="VALUE" if the value has a quotation mark of the other kind.',
            )
        if not words:
            continue
        name, *fields = words
        if not _NAME.fullmatch(name) or name == 'until':
            fail(
                'data.corpora',
                text,
                f'has no name at the beginning of {line.strip()[:60]!r}: write one of the letters '
                "a to z, digits, '-' and '_', other than 'until'.",
            )
        if name in parts:
            fail('data.corpora', text, f'names two parts {name!r}: choose another name.')
        parts[name] = {}
        for word in fields:
            field, equals, value = word.partition('=')
            if not equals or field not in PART_FIELDS:
                fail(
                    'data.corpora',
                    text,
                    f'has {word!r} in the part {name!r}, which must be FIELD=VALUE with one of '
                    f'{", ".join(PART_FIELDS)}{did_you_mean(field, PART_FIELDS)}',
                )
            if field in parts[name]:
                fail(
                    'data.corpora',
                    text,
                    f'has {field} twice in the part {name!r}: make two parts, or one pattern such '
                    "as 'web*.tsv'.",
                )
            parts[name][field] = value
    return parts


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, '', ''
    return list(lexer)


def read_mix(text: str, names: list[str]) -> list[MixStage]:
    """Return the stages of data.mix, for example 'web=0.8 news=0.2 until 20000; news=1'.

    Args:
      text: stages with ';' between them, each NAME=NUMBER for some parts; all but the last end with
        'until STEP'.
      names: of the parts there are.

    Raises:
      UserError: if the text is not of this form.
    """
    stages: list[MixStage] = []
    texts = [x for x in re.split('[;\n]', text) if x.strip()]
    if text and not texts:
        fail('data.mix', text, "has no stage: write for example 'web=0.8 news=0.2', or ''.")
    for number, stage in enumerate(texts, 1):
        words, until = stage.split(), None
        if len(words) > 2 and words[-2] == 'until':
            until = int(words[-1]) if words[-1].isdecimal() else 0
            words = words[:-2]
            before = stages[-1].until if stages and stages[-1].until else 0
            if until <= before:
                fail('data.mix', text, f'must end {stage.strip()!r} after a step above {before}.')
        if (until is None) != (number == len(texts)):
            fail(
                'data.mix',
                text,
                "must end every stage but the last with 'until STEP', for example 'web=0.8 "
                "news=0.2 until 20000; news=1'.",
            )
        shares: dict[str, float] = {}
        for word in words:
            name, _, value = word.partition('=')
            try:
                share = float(value)
            except ValueError:
                share = -1.0
            if not 0 < share <= 1e9:
                fail(
                    'data.mix',
                    text,
                    f'has {word!r}: write NAME=NUMBER without spaces, with a number above 0 and at '
                    'most 1e9.',
                )
            if name not in names:
                fail(
                    'data.mix',
                    text,
                    f'names {name!r}, which is none of {", ".join(names)}'
                    f'{did_you_mean(name, names)}',
                )
            if name in shares:
                fail('data.mix', text, f'names {name!r} twice in a stage: add the numbers.')
            shares[name] = share
        stages.append(MixStage(shares, until))
    return stages
