"""Where a connection comes from: the address that its peer is counted by."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any


def host_of(transport: Any) -> str:
    """The address of a connection's peer; "" if there is none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def address_of(transport: Any) -> str:
    """The address that a peer is counted by: of IPv6 its network of 2^64, which is what one customer is given."""
    host = host_of(transport)
    if ":" in host and "." not in host:
        return str(ip_network((host.partition("%")[0], 64), strict=False))
    return host
