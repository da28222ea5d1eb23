"""The tables of a token: others are treated as if they did not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from siloquent.errors import SiloquentError
from siloquent.schema.table import list_tables_of
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import build_not_found


def require_table(person: Principal, table: str) -> None:
    """Refuse a table outside the token's scope, as if it did not exist.

    Raises:
        Refused: 404.
    """
    if not person.may_see(table):
        raise build_not_found()


def require_declared(session: Any, person: Principal, table: str) -> None:
    """Refuse a table outside the token's scope; a token for some tables is not told the names of others.

    Raises:
        Refused: 404.
    """
    for name in list_tables_of(table):  # a question may join linked tables
        require_table(person, name)
        if not person.sees_all and name not in session.list_tables():
            raise build_not_found()


@dataclass(frozen=True, slots=True)
class AccountScope:
    """The accounts of a token, named without their epochs: a unit's account pays for all of the unit's tables.

    Whoever may ask about one of these tables sees what is left of that account. What was charged to it, entry by entry,
    is for tokens that are for all of these tables.
    """

    sees_all: bool
    paying: frozenset[str]
    shared_with_others: frozenset[str]

    @classmethod
    def of(cls, session: Any, person: Principal) -> AccountScope:
        """Return the scope of the person's token, as tables are declared now."""
        own, others, is_unknown = set(person.tables), set[str](), False
        for table in [] if person.sees_all else session.list_tables():
            try:
                account = _name_without_epoch(session.schema(table).account)
            except SiloquentError:  # a declaration that cannot be read: any unit's account may have paid for it
                is_unknown = is_unknown or not person.may_see(table)
                continue
            (own if person.may_see(table) else others).add(account)
        others |= {name for name in own if is_unknown and name not in person.tables}
        return cls(person.sees_all, frozenset(own), frozenset(others))

    def shows(self, account: str) -> bool:
        """Return whether ``account`` pays for one of the token's tables."""
        return self.sees_all or _name_without_epoch(account) in self.paying

    def shows_charges(self, account: str) -> bool:
        """Return whether ``account`` pays for the token's tables only."""
        return self.shows(account) and _name_without_epoch(account) not in self.shared_with_others


def _name_without_epoch(account: str) -> str:
    return account.partition("@")[0]
