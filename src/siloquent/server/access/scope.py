"""The tables of a token: others are treated as if they did not exist."""

from __future__ import annotations

from typing import Any

from siloquent.server.access.tokens import Principal
from siloquent.server.problems import build_not_found


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
    for name in table.split("+"):  # a question may join linked tables
        require_table(person, name)
        if not person.sees_all and name not in session.list_tables():
            raise build_not_found()
