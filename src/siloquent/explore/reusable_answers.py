"""The earlier answers that a session's query may use: its own account's or all, and only about the current rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import DataError, MissingExtra, SchemaError
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers, load_earlier_answers
from siloquent.explore.plan.reuse.plans import resolve_wish
from siloquent.ledger import Permit

if TYPE_CHECKING:
    from siloquent.explore.spec import Query
    from siloquent.ledger import Account, SettledAnswer
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


def load_reusable_answers(
    session: WorkspaceSession,
    query: Query,
    schema: TableSchema,
    account: Account,
    held: Permit | SettledAnswer | None = None,
) -> EarlierAnswers:
    """Load the earlier answers that may be used: all, or only the account's own if analysts do not share.

    Args:
        held: The charge of the request's key. A permit was planned as ``reuse`` and ``sharing`` were declared then, so
            that it is finished with what they allowed, whatever they are now.
    """
    is_open = isinstance(held, Permit)
    if resolve_wish(query, schema) == "none" and not is_open:
        return EarlierAnswers()
    found = load_earlier_answers(session.ledger, schema.account)
    if schema.budget.sharing != "pool" and not is_open:
        found = found.select_account(account.name)  # first, to reveal nothing about others' entries
    return _select_current_rows(session, schema, found)


def find_changed_entry(session: WorkspaceSession, table: str) -> int:
    """Return the newest entry of ``table`` and its version about other rows than the source's; 0 if there is none.

    Privacy:
        Reveals to the table's owner and analysts that a source was replaced, and nothing about its rows.
    """
    schema = session.schema(table)
    return _select_current_rows(session, schema, load_earlier_answers(session.ledger, schema.account)).changed


def _select_current_rows(session: WorkspaceSession, schema: TableSchema, found: EarlierAnswers) -> EarlierAnswers:
    """Return ``found`` without answers about other rows than the source's current ones; all if there is no source.

    A missing source has not changed: its answers remain valid.
    """
    found = found.select_table(schema.entry_name).select_after(session.find_rows_since(schema.name))
    if not found.has_marks:
        return found
    try:
        mark = session.compute_source_mark(session.open_planned_table(schema))
    except (SchemaError, DataError, MissingExtra):
        return found
    return found.select_matching(mark.fits, schema.version)
