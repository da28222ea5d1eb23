"""The peer address of a connection, by which its connections are counted."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_network
from typing import Any


def host_of(transport: Any) -> str:
    """Return the address of a connection's peer; "" if there is none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def address_of(transport: Any) -> str:
    """Return the address by which a peer is counted."""
    return network_of(host_of(transport))


def network_of(host: str) -> str:
    """Return the address by which a host is counted: for IPv6 its /64 network, which is assigned to one customer.

    >>> network_of("2001:db8::5:1"), network_of("192.0.2.1")
    ('2001:db8::/64', '192.0.2.1')
    """
    if ":" in host and "." not in host:
        with suppress(ValueError):  # no address
            return str(ip_network((host.partition("%")[0], 64), strict=False))
    return host
