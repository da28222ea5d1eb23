"""A loaded public table: the values of each column, indexed by the values of a private table's key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from siloquent.schema.attribute import Attribute


@dataclass(frozen=True, slots=True)
class PublicColumn:
    """One attribute of a public table; ``places``: its index for each index of the key, -1 if there is no row."""

    attribute: Attribute
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A loaded public table, indexed by the private table's ``key``. ``known``: the key values with a row."""

    name: str
    key: str
    known: tuple[bool, ...]
    columns: tuple[PublicColumn, ...]

    @property
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
