"""A workspace as a party: the approved disclosure is reserved in the ledger, then the rows are read once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from siloquent.charge import bind_request
from siloquent.errors import NotAllowed, ProtocolError, SchemaError
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.ledger import SettledAnswer
from siloquent.privacy import Disclosure
from siloquent.profile.measure import Snapshot, decode_snapshot, read_table_snapshot, require_readable
from siloquent.profile.spec import build_columns, format_leakage
from siloquent.profile.task.respond import RowOpener
from siloquent.profile.terms import Terms

if TYPE_CHECKING:
    from siloquent.federation.channel import Channel
    from siloquent.session import WorkspaceSession

Approve = Callable[[Terms, str], bool]
"""A function that shows the terms and their leakage; returns whether the owner agrees."""
_KEPT, _NULLS = "snapshot", "nulls"


def build_row_opener(session: WorkspaceSession, channel: Channel, approve: Approve) -> RowOpener:
    """Build the row opener of a workspace: approval, a ``Disclosure`` in the ledger, one reading of the rows.

    Args:
        approve: The policy or a person: False declines, and nothing is charged or read.
    Raises:
        ProtocolError: ``policy_refused``: declined, for any reason; the reason is in the error's notes.
    Privacy:
        Not differential privacy: the ledger's entry states what the session's protocol reveals.
    """

    def open_rows(terms: Terms) -> Snapshot:
        kept = channel.state.get(_KEPT)
        if kept is not None:
            return decode_snapshot(terms.columns, kept)
        found = _charge_and_read(session, channel, terms, approve)
        # From here on a restarted party continues with these rows, and the ledger's entry is final.
        channel.state.put(_KEPT, found.to_bytes())
        return found

    return open_rows


def _charge_and_read(session: WorkspaceSession, channel: Channel, terms: Terms, approve: Approve) -> Snapshot:
    spec, members = terms.spec, channel.members
    try:
        schema = session.schema(spec.table)
        columns = build_columns(schema, spec.columns)
        account = session.get_account(spec.table)
        table = session.open_planned_table(schema)
        require_readable(table, columns)
    except SchemaError as wrong:
        raise _build_declined_error(channel, str(wrong)) from None
    if columns != terms.columns:
        differs = next(ours.name for ours, theirs in zip(columns, terms.columns, strict=True) if ours != theirs)
        raise _build_failed_error(
            channel, "bad_encoding", f"column {differs!r} is declared otherwise here than in the terms"
        )
    told = format_leakage(
        spec.protocol,
        spec.columns,
        parties=len(members.parties),
        workers=len(members.workers),
        size_class=spec.size_class,
    )
    if not approve(terms, told):
        raise _build_declined_error(channel, "the owner refused")
    event = Disclosure(f"profile/{spec.protocol}", told)
    asked, key = ("profile", channel.session.hex(), spec.canonical()), f"profile-{channel.session.hex()[:32]}"
    charge = bind_request(session, account, schema, *asked, key=key, what="profile")
    try:
        permit = charge.reserve(session, event)
    except NotAllowed as refused:
        raise _build_declined_error(channel, str(refused)) from None
    if isinstance(permit, SettledAnswer):  # its rows were read by a process that has ended, and its state is lost
        raise ProtocolError("state_lost", role=channel.me)
    random = load_seed(channel.state, _NULLS)[:16]  # random, so that no other role can guess a NULL that equals nothing
    snapshot = read_table_snapshot(table, columns, permit, nulls=spec.nulls, party=channel.me, random=random)
    record = {"task": "profile", "session": channel.session.hex(), "spec": spec.to_dict(), "reveals": told}
    session.ledger.settle(permit, event, json.dumps(record, sort_keys=True, ensure_ascii=False).encode())
    return snapshot


def _build_declined_error(channel: Channel, why: str) -> ProtocolError:
    return _build_failed_error(channel, "policy_refused", why)


def _build_failed_error(channel: Channel, code: str, why: str) -> ProtocolError:
    """Build an error whose code is sent to the others; ``why`` is only for this party's own log."""
    failed = ProtocolError(code, role=channel.me, step="terms")
    failed.add_note(why)
    return failed
