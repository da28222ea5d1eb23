"""A workspace as a party: what its owner approved is reserved in the ledger, then the rows are read, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from siloquent.charging import Charge, request_digest
from siloquent.errors import NotAllowed, ProtocolError, SchemaError
from siloquent.federation.crypto.keeping import kept_seed
from siloquent.ledger import Stored
from siloquent.privacy import Disclosure
from siloquent.profile.measure import Snapshot, require_readable, snapshot_from_bytes, snapshot_of_table
from siloquent.profile.spec import declared_columns, reveals
from siloquent.profile.task.respond import Open
from siloquent.profile.task.terms import Terms

if TYPE_CHECKING:
    from siloquent.federation.channel import Channel
    from siloquent.session import Session

Approve = Callable[[Terms, str], bool]
"""Shown the terms and what they reveal; whether the owner agrees."""
_KEPT, _NULLS = "snapshot", "nulls"


def rows_of(session: Session, channel: Channel, approve: Approve) -> Open:
    """How a workspace's owner takes part: approval, a ``Disclosure`` in the ledger, one reading of the rows.

    Args:
        approve: Policy or person: False declines, and nothing is charged or read.
    Raises:
        ProtocolError: ``policy_refused``: declined, whatever the reason was; the reason is in the error's notes.
    Privacy:
        Not differential privacy: what the session's protocol reveals is what the ledger's entry says.
    """

    def open_rows(terms: Terms) -> Snapshot:
        kept = channel.state.get(_KEPT)
        if kept is not None:
            return snapshot_from_bytes(terms.columns, kept)
        found = _paid(session, channel, terms, approve)
        # From here on a restarted party goes on with these rows, and the ledger's entry stands.
        channel.state.put(_KEPT, found.to_bytes())
        return found

    return open_rows


def _paid(session: Session, channel: Channel, terms: Terms, approve: Approve) -> Snapshot:
    spec, members = terms.spec, channel.members
    try:
        schema = session.schema(spec.table)
        columns = declared_columns(schema, spec.columns)
        account = session.account(spec.table)
        table = session.table_of(schema)
        require_readable(table, columns)
    except SchemaError as wrong:
        raise _declined(channel, str(wrong)) from None
    if columns != terms.columns:
        differs = next(ours.name for ours, theirs in zip(columns, terms.columns, strict=True) if ours != theirs)
        raise _failed(channel, "bad_encoding", f"column {differs!r} is declared otherwise here than in the terms")
    told = reveals(
        spec.protocol,
        spec.columns,
        parties=len(members.parties),
        workers=len(members.workers),
        size_class=spec.size_class,
    )
    if not approve(terms, told):
        raise _declined(channel, "the owner refused")
    event = Disclosure(f"profile/{spec.protocol}", told)
    digest = request_digest(session, account, schema, "profile", channel.session.hex(), spec.canonical())
    charge = Charge(f"profile-{channel.session.hex()[:32]}", account, digest, what="profile")
    try:
        permit = charge.reserve(session, event)
    except NotAllowed as refused:
        raise _declined(channel, str(refused)) from None
    if isinstance(permit, Stored):  # its rows were read by a process that is gone, and its state with it
        raise ProtocolError("state_lost", role=channel.me)
    random = kept_seed(channel.state, _NULLS)[:16]  # nobody else may guess a NULL that meets nothing
    snapshot = snapshot_of_table(table, columns, permit, nulls=spec.nulls, party=channel.me, random=random)
    record = {"task": "profile", "session": channel.session.hex(), "spec": spec.to_plain(), "reveals": told}
    session.ledger.settle(permit, event, json.dumps(record, sort_keys=True, ensure_ascii=False).encode())
    return snapshot


def _declined(channel: Channel, why: str) -> ProtocolError:
    return _failed(channel, "policy_refused", why)


def _failed(channel: Channel, code: str, why: str) -> ProtocolError:
    """What the others hear is the code; ``why`` is for this party's own log."""
    failed = ProtocolError(code, role=channel.me, step="terms")
    failed.add_note(why)
    return failed
