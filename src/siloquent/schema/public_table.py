"""A public table as it was read: what each of its columns holds, by the places of a private table's key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from siloquent.schema.attribute import Attribute


@dataclass(frozen=True, slots=True)
class PublicColumn:
    """One attribute of a public table; ``places``: its place for each place of the key, -1 where there is none."""

    attribute: Attribute
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table as it was read, by the places of the private table's ``key``. ``known``: those with a row."""

    name: str
    key: str
    known: tuple[bool, ...]
    columns: tuple[PublicColumn, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of what it says: other rows make other questions."""
        return hashlib.sha256(repr((self.name, self.key, self.known, self.columns)).encode()).hexdigest()

    def column(self, name: str) -> PublicColumn | None:
        """The column of that name, exactly or, failing that, ignoring case."""
        for folded in (str, str.casefold):
            for one in self.columns:
                if folded(one.attribute.name) == folded(name):
                    return one
        return None
