"""Fields that a config file may write as lists and dicts, and their form as one text.

A command line, `config.json` and the rest of the package have the text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from transformer_jax.config.mixture import PART_FIELDS
from transformer_jax.config.validation import fail
from transformer_jax.errors import did_you_mean

FIELDS = ('corpora', 'mix', 'filters', 'augment')
_NUMBERS = (int, float)


def as_text(field: str, value: Any) -> Any:
    """Return the text form of a field of the section `data`; other values stay as they are.

    Args:
      field: one of `FIELDS`.
      value: of `corpora`, {name: {field: value}}; of `mix`, {name: number}, or a list of stages, of
        which all but the last have the key 'until'; of `filters`, a list of texts, or a dict
        whose values are numbers, texts, or True for none; of `augment`, {name: number}.

    Raises:
      UserError: if the value is a list or dict of another form.
    """
    if not isinstance(value, Mapping | Sequence) or isinstance(value, str | bytes):
        return value
    return _FORMS[field](f'data.{field}', value)


def _corpora(field: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        fail(field, value, "must be a dict: {'web': {'train_source': 'web.tsv'}}, or a text.")
    lines = []
    for name, part in value.items():
        if not isinstance(part, Mapping):
            fail(field, value, f'has {part!r} for the part {name!r}: write a dict of its fields.')
        words = [_word(field, name)]
        for key, given in part.items():
            if key not in PART_FIELDS:
                fail(
                    f'{field}[{name!r}]',
                    part,
                    f'has the field {key!r}, which is none of {", ".join(PART_FIELDS)}'
                    f'{did_you_mean(str(key), PART_FIELDS)}',
                )
            text = as_text(key, given) if key in FIELDS else given
            if not isinstance(text, str):
                fail(f'{field}[{name!r}]', part, f'has {key}={given!r}: write a text.')
            words.append(f'{key}={_quoted(field, text)}')
        lines.append(' '.join(words))
    return '\n'.join(lines)


def _mix(field: str, value: Any) -> str:
    stages = [value] if isinstance(value, Mapping) else value
    texts = []
    for stage in stages:
        if not isinstance(stage, Mapping):
            fail(field, value, "must be a dict, {'web': 0.8, 'news': 0.2}, or a list of them.")
        until = stage.get('until')
        if until is not None and type(until) is not int:
            fail(field, value, f'has until={until!r}: write the number of a step.')
        shares = {name: share for name, share in stage.items() if name != 'until'}
        text = _numbers(field, value, shares)
        if not shares and stage is not value:
            fail(field, value, "has a stage without a corpus: give each one its share, {'web': 1}.")
        texts.append(text if until is None else f'{text} until {until}')
    return '; '.join(texts)


def _filters(field: str, value: Any) -> str:
    if isinstance(value, Mapping):
        for name, given in value.items():
            if given is False or not isinstance(given, int | float | str):
                fail(field, value, f'has {name}={given!r}: write a number, a text, or True.')
        value = [name if given is True else f'{name}={given}' for name, given in value.items()]
    return ' '.join(_word(field, word) for word in value)


def _augment(field: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        fail(field, value, "must be a dict, {'upper': 0.05, 'typos': 0.1}, or a text.")
    return _numbers(field, value, value)


def _numbers(field: str, value: Any, numbers: Mapping[str, Any]) -> str:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, _NUMBERS):
            fail(field, value, f'has {name}={number!r}: write a number.')
    return ' '.join(f'{_word(field, name)}={number}' for name, number in numbers.items())


def _word(field: str, word: Any) -> str:
    if not isinstance(word, str) or not word or any(map(str.isspace, word)) or ';' in word:
        fail(field, word, "must be a text without spaces and ';'.")
    return word


def _quoted(field: str, text: str) -> str:
    """Return a value as `mixture.read_corpora` reads it."""
    if '\n' in text or ('"' in text and "'" in text):
        fail(field, text, 'has a line end or both kinds of quotation marks: rename it.')
    quote = "'" if '"' in text else '"'
    return f'{quote}{text}{quote}' if text == '' or set(text) & {*' \t;"\''} else text


_FORMS = {'corpora': _corpora, 'mix': _mix, 'filters': _filters, 'augment': _augment}
