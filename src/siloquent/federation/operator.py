"""The name of ``siloquent.federation.identity.operator`` in 0.1; it goes in 0.3."""

from siloquent.deprecation import warn_of_old_name
from siloquent.federation.identity.operator import (
    Authority,
    FederationDescription,
    accept,
    create_authority,
    create_request,
    init,
    open_authority,
    read_description,
    read_offer,
    renew,
    revoke,
    sign,
)

__all__ = [
    "Authority",
    "FederationDescription",
    "accept",
    "create_authority",
    "create_request",
    "init",
    "open_authority",
    "read_description",
    "read_offer",
    "renew",
    "revoke",
    "sign",
]

warn_of_old_name("siloquent.federation.operator", "siloquent.federation.identity.operator")
