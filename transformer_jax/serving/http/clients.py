"""Which requests and connections are one client's."""

import functools
import ipaddress
from typing import Any


def client_of(scope: dict[str, Any]) -> str:
    """Return the client of an ASGI scope, see `client_of_address`."""
    client = scope.get('client')
    return client_of_address(client[0]) if client else ''


@functools.lru_cache(4096)
def client_of_address(address: str) -> str:
    """Return the address itself; for IPv6 the network of 64 bits, all of which one client has."""
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
