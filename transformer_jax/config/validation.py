"""Checks of a section's fields; each raises a UserError with field, value and remedy."""

import dataclasses
import math
import sys
from typing import Any, NoReturn

from transformer_jax.errors import UserError, did_you_mean, is_utf8, shown

# Single precision: the smallest normal number, the largest number, and the largest below 1.
_LEAST, _MOST, _MOST_BELOW_ONE = 2.0**-126, 2.0**128 - 2.0**104, 1 - 2.0**-24


def fail(field: str, value: Any, remedy: str) -> NoReturn:
    """Raise the UserError 'field=value remedy'; `remedy` states the problem and what to do."""
    raise UserError(f'{field}={shown(value)} {remedy}')


def check_types(section: str, config: Any) -> None:
    """Check each field against its annotation, and turn an int for a float field into a float."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type is float and type(value) is int:
            value = float(value) if abs(value) <= sys.float_info.max else math.inf
            object.__setattr__(config, field.name, value)
        elif type(value) is not field.type:
            fail(
                f'{section}.{field.name}',
                value,
                f'is of type {type(value).__name__} but must be {field.type.__name__}.',
            )
        if field.type is float and not math.isfinite(value):
            fail(f'{section}.{field.name}', value, 'must be a finite number.')
        if field.type is float and value and not _LEAST <= abs(value) <= _MOST:
            fail(
                f'{section}.{field.name}',
                value,
                f'is beyond single precision: set it to 0, or to a magnitude from {_LEAST:.3g} to '
                f'{_MOST:.3g}.',
            )
        if field.type is str and '\0' in value:
            fail(f'{section}.{field.name}', value, 'has a NUL character: leave it out.')
        if field.type is str and not is_utf8(value):
            fail(f'{section}.{field.name}', value, 'is not UTF-8: rename the file or folder.')


def check_range(section: str, config: Any, **ranges: tuple[float, float]) -> None:
    """Check that numbers are in their range, for example num_layers=(1, 1000)."""
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        if not least <= value <= most:
            fail(f'{section}.{name}', value, f'must be from {least:,} to {most:,}.')


def check_positive(section: str, config: Any, **most: float) -> None:
    """Check that numbers are above 0 and at most their limit, for example epsilon=1."""
    for name, limit in most.items():
        value = getattr(config, name)
        if not 0 < value <= limit:
            fail(f'{section}.{name}', value, f'must be greater than 0 and at most {limit:,}.')


def check_rate(section: str, config: Any, *names: str) -> None:
    """Check that the numbers with these names are at least 0 and below 1."""
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            fail(f'{section}.{name}', getattr(config, name), 'must be at least 0 and below 1.')
        if getattr(config, name) > _MOST_BELOW_ONE:
            fail(
                f'{section}.{name}',
                getattr(config, name),
                f'is 1 in single precision: set it to {_MOST_BELOW_ONE:.7g} or less.',
            )


def check_choice(section: str, config: Any, name: str, choices: tuple[str, ...]) -> None:
    """Check that the value of the field `name` is one of `choices`."""
    value = getattr(config, name)
    if value not in choices:
        remedy = f'must be one of {", ".join(choices)}{did_you_mean(value, choices)}'
        fail(f'{section}.{name}', value, remedy)
