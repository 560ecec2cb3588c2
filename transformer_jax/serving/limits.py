"""What a request may ask for."""

import dataclasses
from typing import Any

from transformer_jax.errors import UserError

_MOST = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a request may ask for.

    Attributes:
      body: bytes of the body.
      characters: of all texts together.
      texts: number of texts.
      alternatives: further translations of each text.
      file_body: bytes of the body of a request with a file.
      file_characters: of the texts of a file.
    """

    body: int = 1 << 20
    characters: int = 20_000
    texts: int = 256
    alternatives: int = 3
    file_body: int = 16 << 20
    file_characters: int = 200_000


def check_flags(flags: Any) -> None:
    """Raise UserError if a flag of the command `serve` is out of range."""
    for name, least, most in (
        ('port', 0, 65_535),
        ('requests_per_minute', 0, _MOST),
        ('max_characters', 1, _MOST),
        ('max_texts', 1, _MOST),
        ('max_alternatives', 0, 1000),
        ('max_body', 1, _MOST),
        ('max_file_characters', 1, _MOST),
        ('max_file_body', 1, _MOST),
        ('max_waiting', 1, _MOST),
        ('batch_timeout_ms', 0, 10_000),
    ):
        value = getattr(flags, name)
        if not least <= value <= most:
            raise UserError(f'--{name}={value} must be from {least:,} to {most:,}.')
