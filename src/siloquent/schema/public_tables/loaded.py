"""A loaded public table: the values of each column, indexed by the values of a private table's key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from siloquent.schema.attribute import Attribute


@dataclass(frozen=True, slots=True)
class PublicColumn:
    """One attribute of a public table; ``places``: its index for each index of the key, -1 if there is no row."""

    attribute: Attribute
    places: tuple[int, ...]


@dataclass(frozen=True)
class PublicTable:
    """A loaded public table, indexed by the private table's ``key``. ``known``: the key values with a row.

    ``own_key``: the name of the key in the public table. ``via``: the attribute of another public table that ``key``
    is, if that table refers to this one and the private table does not.
    """

    name: str
    key: str
    known: tuple[bool, ...]
    columns: tuple[PublicColumn, ...]
    own_key: str = field(default="", repr=False)
    via: Attribute | None = field(default=None, repr=False)

    @cached_property
    def met(self) -> tuple[int, ...]:
        """For each index of the key, the index of TRUE if it has a row, and -1 if it has none."""
        return tuple(1 if known else -1 for known in self.known)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the contents; different rows make different queries."""
        return hashlib.sha256(repr((self.name, self.key, self.known, self.columns)).encode()).hexdigest()

    def column(self, name: str) -> PublicColumn | None:
        """Return the column of that name, matched exactly or else ignoring case; None if there is none."""
        for folded in (str, str.casefold):
            for one in self.columns:
                if folded(one.attribute.name) == folded(name):
                    return one
        return None
