"""A party's part of a session: it computes every request itself and answers no other.

It supports restarts, see ``Channel``: messages already sent are not computed again; seeds are kept in the role's
state and replaced after each pass.
"""

from __future__ import annotations

import secrets  # allowed: a salt for a commitment, no noise
from collections.abc import Callable, Sequence
from contextlib import suppress

from siloquent.errors import ProtocolError, SiloquentError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.joint_key import gather_proven_keys
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.federation.crypto.votes import compute_joint_key
from siloquent.federation.crypto.worker_messages import SharedSeed
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.encodings import compute_digest
from siloquent.profile.measure import PartyData, Snapshot
from siloquent.profile.protocol import Agreed, CanaryKey, EntryMessage, Final, Report, Sizes
from siloquent.profile.spec import FDReport, build_dependencies, compute_columns_digest
from siloquent.profile.task.level_search import answer_levels
from siloquent.profile.task.party import Party
from siloquent.profile.task.progress import ProgressCallback, ignore_progress
from siloquent.profile.task.set_search import answer_sets
from siloquent.profile.task.voting import cast_votes
from siloquent.profile.terms import Terms

RowOpener = Callable[[Terms], Snapshot]
"""A function that gives the rows for approved terms, or raises; called once, after all public checks."""


def respond(
    channel: Channel, open_rows: RowOpener, *, group: Group | None = None, say: ProgressCallback = ignore_progress
) -> FDReport:
    """Take part in a session as a party.

    Args:
        open_rows: Checks policy, asks a person, charges, reads the rows; ``ProtocolError("policy_refused")`` declines.
    Returns:
        The report, checked by this party against its own rows and its own computation of every request.
    Raises:
        ProtocolError: another role broke the protocol or the session was ended; nothing is reported then.
    Privacy:
        Input privacy: ``siloquent.profile.spec.leakage`` states for the terms' protocol what the
        others learn. Not differential privacy.
    """
    party = Party(channel, group or Ristretto(), say)
    try:
        _join(party, open_rows)
        cast_votes(party)
        ufds, keys = (answer_levels(party), []) if party.terms.spec.protocol == "smfd" else answer_sets(party)
        return _agree(party, ufds, keys)
    except ProtocolError as broken:
        if broken.code in ("aborted_by", "session_closed"):
            raise
        channel.abort(broken.code, step=broken.step)
    except SiloquentError:
        # A failure here is private to this party; the others only learn that it has left.
        with suppress(ProtocolError):
            channel.abort("protocol_failed")
        raise


def _join(party: Party, open_rows: RowOpener) -> None:
    """Accept the terms, open the rows, share seeds and keys."""
    channel, members = party.channel, party.channel.members
    party.terms = Terms.from_payload(party.receive(Terms.step()))
    spec = party.terms.spec
    if len(members.parties) < 2 or len(members.workers) < 2:
        raise ProtocolError("policy_refused", role=channel.me)
    snapshot = open_rows(party.terms)
    if snapshot.columns != party.terms.columns or snapshot.rows < spec.min_rows:
        few = ProtocolError("policy_refused", role=channel.me)
        few.add_note(f"this table has fewer rows than the session's min_rows, {spec.min_rows}, or other columns")
        raise few
    agreed = bytes.fromhex(compute_digest(party.terms.to_dict()))
    party.data = PartyData(snapshot, channel.session, spec.most, spec.empty_lhs, party.group, agreed)
    salt = channel.state.get("salt") or secrets.token_bytes(32)  # allowed: salt of a commitment, no noise
    channel.state.put("salt", salt)
    size = party.data.compute_batch_size(rounded=spec.size_class)
    entry = EntryMessage(compute_columns_digest(party.terms.columns), size, party.data.compute_commitment(salt))
    channel.send(party.moderator, EntryMessage.step(), entry.to_payload())
    for worker in members.workers:
        if not channel.is_sent(worker, SharedSeed.step()):
            seed = SharedSeed(load_seed(channel.state, f"with-{worker}"))
            channel.send(worker, SharedSeed.step(), seed.to_payload())
    party.canary_key = _share_canary_key(channel)
    party.joint_key = compute_joint_key(party.group, gather_proven_keys(channel, party.group, members.workers))
    party.sizes = Sizes.from_payload(party.receive(Sizes.step())).sizes
    if len(party.sizes) != len(members.parties) or party.sizes[party.index] != size:
        raise party.refuse(Sizes.step())


def _share_canary_key(channel: Channel) -> bytes:
    """Share the key of the synthetic values, drawn by the first party; workers and moderator never see it."""
    first, *others = channel.members.parties
    if channel.me != first:
        return CanaryKey.from_payload(channel.receive(CanaryKey.step(), first)).content
    key = CanaryKey(load_seed(channel.state, "canary"))
    for party in others:
        channel.send(party, CanaryKey.step(), key.to_payload())
    return key.content


def _agree(party: Party, ufds: Sequence[FD], keys: Sequence[int]) -> FDReport:
    """Compare the moderator's report with this party's own computation, then confirm it."""
    party.check_on_own_rows(ufds)
    report = Report.from_payload(party.receive(Report.step())).report
    spec, channel = party.terms.spec, party.channel
    same = (
        report.ufd == build_dependencies(ufds, spec.columns)
        and report.cfd == build_dependencies(party.cfds, spec.columns)
        and report.columns == party.terms.columns
        and set(report.keys) == {tuple(spec.columns[column] for column in list_columns(key)) for key in keys}
        and tuple(size for _, size in report.parties) == party.sizes
        and report.session == channel.session.hex()
    )
    if not same:
        raise party.refuse(Report.step())
    channel.send(party.moderator, Agreed.step(), Agreed(report.compute_digest()).to_payload())
    if not Final(channel.members.parties).matches(party.receive(Final.step())):
        raise party.refuse(Final.step())
    return report.add_confirmations(channel.members.parties)
