"""What a request may ask for."""

import dataclasses
from ipaddress import ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit

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
    """Raise UserError if a flag of the command `serve` is out of range, or no address."""
    if not flags.host:
        raise UserError('--host is empty: name an address, or 0.0.0.0 for all.')
    for origin in flags.origin:
        url = urlsplit(origin)
        if origin != '*' and (not _is_http(url) or url.path or url.query or url.fragment):
            raise UserError(
                f'--origin={origin!r} is no origin: write https://HOST, without a path, or *.'
            )
    for proxy in flags.proxy:
        try:
            ip_network(proxy)
        except ValueError:
            raise UserError(
                f'--proxy={proxy!r} is no address: write that of a host or a network, for example '
                '10.0.0.0/8.'
            ) from None
    if flags.public_url and not _is_http(urlsplit(flags.public_url)):
        raise UserError(
            f'--public_url={flags.public_url!r} is no address: write https://HOST or http://HOST.'
        )
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


def _is_http(url: SplitResult) -> bool:
    return url.scheme in ('http', 'https') and bool(url.hostname)
