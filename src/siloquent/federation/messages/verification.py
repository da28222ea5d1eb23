"""``federation verify``: recompute a session's transcript from stored headers and check the signed heads."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.errors import ProtocolError, RequestError, UnknownName
from siloquent.federation.identity.bundle import Bundle
from siloquent.federation.identity.seal import is_signed_by
from siloquent.federation.messages.journal import RoleJournal
from siloquent.federation.messages.payload import parse
from siloquent.federation.messages.transcript import check_transcript, split_head
from siloquent.fixes import run


@dataclass(frozen=True, slots=True)
class TranscriptVerdict:
    """The result of a verification; without ``faults``, headers, chains, signatures and this role's own head agree."""

    session: str
    headers: int
    head: str
    signed: tuple[str, ...]
    faults: tuple[str, ...]


def verify_session(bundle: Bundle, journal: RoleJournal, session: str) -> TranscriptVerdict:
    """Check this role's records of a session that ended well.

    Raises:
        RequestError: the session has not ended well: it has no heads to check.
    """
    kept = journal.find_result(session)
    if kept is None:
        raise RequestError("This session has no signed end.", fix=run("federation status", session[:12]))
    try:
        heads = parse(kept)
        count, head = split_head(heads[bundle.name]["head"])
    except (ProtocolError, KeyError, TypeError):
        return TranscriptVerdict(session, 0, "", (), ("the kept heads cannot be read",))
    found = check_transcript(session, journal.list_headers(session), bundle.roster, count)
    faults = [found.fault] if found.fault else []
    if found.head != head:
        faults.append(f"the transcript's head is {found.head[:16]}, and {bundle.name} signed {head[:16]}")
    signed = tuple(name for name, told in heads.items() if _is_signed(bundle, session, name, told))
    faults += [f"the head of {name} is not signed by it" for name in heads if name not in signed]
    return TranscriptVerdict(session, found.headers, found.head, signed, tuple(faults))


def _is_signed(bundle: Bundle, session: str, name: str, told: dict[str, str]) -> bool:
    try:
        label = b"siloquent/head/1|" + bytes.fromhex(session) + b"|"
        key, signature = bundle.roster.get_role(name).sign_key, bytes.fromhex(told["signature"])
        return is_signed_by(key, label, told["head"].encode(), signature)
    except (KeyError, TypeError, ValueError, UnknownName):
        return False
