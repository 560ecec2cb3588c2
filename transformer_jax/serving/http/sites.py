"""Which web sites may ask from a browser."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

_HOST = re.compile(r'(\[[0-9a-f:.]+\]|[\w.-]*)(:\d{1,5})?', re.ASCII | re.IGNORECASE)


class Sites:
    """Tells requests of people's programs and of own pages from those of other sites' pages."""

    def __init__(self, origins: Sequence[str] = (), public_url: str = '', host: str = ''):
        """Take who may ask.

        Args:
          origins: pages of these origins may ask, '*' being all.
          public_url: the address at which clients reach the server, '' if a proxy changes none.
          host: the address that the server listens at. If only this machine reaches it, requests
            for hosts of other names are refused: a site's name may lead to this machine.
        """
        public = urlsplit(public_url)
        self._origins = {*origins, *([f'{public.scheme}://{public.netloc}'] if public_url else [])}
        self._is_open = '*' in origins
        self._own_hosts = {urlsplit(origin).hostname for origin in self._origins}
        self._is_local = is_loopback(host) and not self._is_open

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Return why a request is refused, '' if it is not."""
        host = headers.get('host', '').lower()
        found = _HOST.fullmatch(host)
        if not found:
            return 'the header Host is not the name of a host.'
        name = found[1].strip('[]')
        if self._is_local and not (is_loopback(name) or not name or name in self._own_hosts):
            return (
                f'this server is not {name:.100}: ask it at the address that it listens at '
                '(--public_url of the server).'
            )
        if method in ('GET', 'HEAD', 'OPTIONS') or self._may_ask(host, headers):
            return ''
        return 'pages of other sites may not ask this server (--origin of the server).'

    def _may_ask(self, host: str, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from no page, from an own one, or one that may ask."""
        origin, relation = headers.get('origin'), headers.get('sec-fetch-site')
        if self._is_open or origin in self._origins or relation in ('same-origin', 'none'):
            return True
        if origin is None:
            return relation is None
        scheme, _, rest = origin.lower().partition('://')
        if scheme not in ('http', 'https', 'null', 'file'):  # an extension that the user installed
            return True
        return relation is None and rest == host


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address or a name."""
    name = host.lower().rstrip('.')
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == 'localhost' or name.endswith('.localhost')
