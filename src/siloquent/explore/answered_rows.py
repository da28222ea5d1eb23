"""The rows that an answer is about, once those of its table were replaced: as recorded in the ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siloquent.errors import SiloquentError
from siloquent.schema.table import list_tables_of

if TYPE_CHECKING:
    from siloquent.explore.spec import Answer
    from siloquent.session import WorkspaceSession


def tell_rows(session: WorkspaceSession, answer: Answer) -> Answer:
    """Return ``answer`` with the rows that it is about, if those of its table were ever replaced.

    Of an answer by an earlier declaration, what is declared otherwise now is noted.
    """
    if session.earlier:
        note = f"answered as its table was declared when it was charged; since then {session.earlier}"
        answer = replace(answer, notes=(*answer.notes, note))
    with suppress(SiloquentError):  # the table is no longer declared, so the answer says nothing more
        return replace(answer, about_rows=_find_rows(session, answer))
    return answer


def _find_rows(session: WorkspaceSession, answer: Answer) -> dict[str, str] | None:
    account, seq = answer.cost.account, answer.receipt.seq
    told = build_rows_entry(session, account, seq, table=answer.table_name)
    if not answer.replayed or (told is not None and told["replaced"]):
        return told
    if session.find_rows_of(answer.table_name, seq) is not None:
        return told
    # The source changed without a refresh, so it is not recorded when.
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"text": describe_earlier_rows(_find_time(session, seq)), "since": "", "replaced": now}


def build_rows_entry(session: WorkspaceSession, account: str, seq: int, *, table: str) -> dict[str, str] | None:
    """Return which rows entry ``seq`` of ``account`` is about, as recorded; None if they were never replaced."""
    replaced = session.find_replacement(account, seq, table=table)
    if replaced:
        return {"text": describe_earlier_rows(_find_time(session, seq)), "since": "", "replaced": replaced}
    since = session.find_rows_start(table)[1] if list_tables_of(table)[0] in session.list_tables() else ""
    if not since:
        return None
    version = session.schema(table).version + session.find_refresh(table).count
    return {"text": describe_current_rows(version, since), "since": since, "replaced": ""}


def _find_time(session: WorkspaceSession, seq: int) -> str:
    return next(iter(session.ledger.iter_entries(after=seq - 1))).at


def describe_current_rows(version: int, since: str) -> str:
    """Describe rows that count now, from their version and the time at which they came to count."""
    return f"version {version}, since {format_minute(since)}; earlier answers are about earlier rows"


def describe_earlier_rows(at: str) -> str:
    """Describe the rows of an answer given at ``at``, which were replaced later."""
    return f"as of {format_minute(at)}: they were replaced since"


def format_minute(at: str) -> str:
    """Format a time of the ledger for readers.

    >>> format_minute("2026-11-30T08:15:59.123456+00:00")
    '2026-11-30 08:15 UTC'
    """
    return f"{at[:16].replace('T', ' ')} UTC"
