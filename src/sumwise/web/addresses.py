"""What counts as one address, and how much of a limited thing it may have."""

from __future__ import annotations

import ipaddress
from typing import Final

from sumwise.web.security import is_loopback

PART: Final = 4  # an address may have a quarter


def neighbourhood(host: str) -> str:
    """The address, or of IPv6 the 64 bits that one household or machine has.

    >>> neighbourhood("10.1.2.3"), neighbourhood("::ffff:10.1.2.3"), neighbourhood("fe80::1%eth0")
    ('10.1.2.3', '10.1.2.3', 'fe80::')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, ipaddress.IPv6Address) or address.is_loopback:
        return str(address)
    near = ipaddress.ip_network((address, 64), strict=False).network_address
    return str(address.ipv4_mapped or near)


def share(host: str, all_places: int) -> int:
    """How many of the places an address may have; this machine all, as a proxy brings everybody."""
    return all_places if is_loopback(host) else max(1, all_places // PART)
