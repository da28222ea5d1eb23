"""A check before a secure sum and before any charge: silos have equal agreements, and each is there only once.

Every silo sends the moderator hashes of its agreement and an identity of its rows; the moderator names the first that
does not fit, or the participants. Only then does a silo reserve budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from siloquent.errors import ProtocolError, RequestError

if TYPE_CHECKING:
    from siloquent.federation.channel.base import Channel

READY, GO, ENDED = "ready", "go", "a6"
"""The steps: a silo is ready, the moderator names the participants, and the result of the following sum."""
LOOK_S = 2.0
"""The seconds for which a restarted silo checks whether the sum already exists."""
Prints = tuple[tuple[str, str], ...]
"""The items of an agreement, in words, each with a hash."""


def join_sum(channel: Channel, prints: Prints, rows: str, least: int) -> bool:
    """Run a silo's part; return whether it is in time to take part. Nothing is spent.

    Args:
        prints: Of this silo's agreement.
        rows: An identity of the rows: equal where one silo joins under two names, and opaque to others.
        least: The minimal number of silos of a sum.
    Raises:
        ProtocolError: As the channel says; ``planner_mismatch``: the silos' agreements differ.
    """
    from siloquent.federation.messages.payload import pack_json, unpack_json

    moderator = channel.members.moderator
    is_again = channel.is_sent(moderator, READY)
    channel.send(moderator, READY, pack_json({"prints": [list(pair) for pair in prints], "rows": rows}))
    names = _parse_names(unpack_json(channel.receive(GO, moderator)))
    if len(set(names)) < least or not set(names) <= set(channel.members.parties):
        raise ProtocolError("planner_mismatch", role=moderator, step=GO)
    return channel.me in names and not (is_again and _is_left_behind(channel))


def convene_sum(channel: Channel, prints: Prints, least: int, timeout: float | None) -> tuple[str, ...]:
    """Run the moderator's part; return the participants of the sum.

    Args:
        timeout: Seconds after which missing silos are left out, if ``least`` have come.
    Raises:
        ProtocolError: ``planner_mismatch`` names the silo and the item that differs; ``message_conflict``: two silos
            are one, or of one workspace.
    """
    from siloquent.federation.messages.payload import pack_json, unpack_json

    parties = channel.members.parties
    told = {
        name: unpack_json(payload)
        for name, payload in channel.gather(READY, parties, enough=least, timeout=timeout).items()
    }
    seen: dict[str, str] = {}
    for name, said in told.items():
        theirs, rows = _read(said, name)
        if odd := find_first_difference(prints, theirs):
            raise ProtocolError("planner_mismatch", role=name, step=READY, where=f"{odd} differs")
        if rows in seen:
            where = f"{seen[rows]} holds the same rows, or tables of one workspace"
            raise ProtocolError("message_conflict", role=name, step=READY, where=where)
        seen[rows] = name
    for party in parties:
        channel.send(party, GO, pack_json({"parties": list(told)}))
    return tuple(told)


def find_first_difference(mine: Prints, theirs: Prints) -> str:
    """Return the first difference between two agreements, in the first one's words; empty if they are equal."""
    if [what for what, _ in mine] == [what for what, _ in theirs]:
        return next((what for (what, one), (_, other) in zip(mine, theirs, strict=True) if one != other), "")
    return "the features"


def build_left_out_error() -> RequestError:
    """Build the error for a silo that came too late."""
    return RequestError(
        "The other silos completed their sum without this one.",
        fix="request the release from one of them; learning from it is free",
    )


def _is_left_behind(channel: Channel) -> bool:
    """Return whether the sum exists without this silo: after a restart it would be charged for nothing."""
    from siloquent.federation.messages.payload import unpack_json

    try:
        told = unpack_json(channel.receive(ENDED, channel.members.moderator, timeout=LOOK_S))
    except ProtocolError as absent:
        if absent.code != "peer_missing":
            raise
        return False
    return channel.me not in _parse_names(told)


def _parse_names(told: Any) -> list[str]:
    names = told.get("parties") if isinstance(told, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProtocolError("bad_encoding", step=GO)
    return names


def _read(said: Any, name: str) -> tuple[Prints, str]:
    try:
        prints, rows = said["prints"], said["rows"]
        return parse_prints(prints), str(rows)
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("bad_encoding", role=name, step=READY) from None


def parse_prints(plain: Sequence[Sequence[Any]]) -> Prints:
    """Parse prints from JSON.

    Raises:
        TypeError, ValueError: They are not prints.
    """
    return tuple((str(what), str(made)) for what, made in plain)
