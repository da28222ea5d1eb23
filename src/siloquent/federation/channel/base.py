"""The interface through which a role's code sees the other roles: their names, sending and receiving."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn, Protocol

from siloquent.errors import ProtocolError

RoleKind = Literal["party", "worker", "moderator", "relay"]
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
STEP = re.compile(r"[a-z][a-z0-9_.-]{0,23}(/[0-9]{1,9}){0,3}")
MAX_ATTEMPT = 999


@dataclass(frozen=True, slots=True)
class Member:
    """A role of a session: its name, kind and owner."""

    name: str
    kind: RoleKind
    owner: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a valid name of a role: a-z, 0-9 and -, at most 32, a letter first")


@dataclass(frozen=True, slots=True)
class Members:
    """All roles of a session in the roster's order, identical for every role."""

    all: tuple[Member, ...]
    _by_name: dict[str, Member] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {member.name: member for member in self.all})
        if len(self._by_name) != len(self.all):
            raise ValueError("two roles of one name")

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the data-holding parties, in order."""
        return self._list_names("party")

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the computing workers, in order: W_1 first."""
        return self._list_names("worker")

    @property
    def moderator(self) -> str:
        """The role that starts the session and gets the result."""
        (name,) = self._list_names("moderator")
        return name

    def __getitem__(self, name: str) -> Member:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Member]:
        return iter(self.all)

    def _list_names(self, kind: RoleKind) -> tuple[str, ...]:
        return tuple(member.name for member in self.all if member.kind == kind)


RoleState = Literal["idle", "invited", "approved", "refused", "joined", "running", "ended", "aborted", "expired"]


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a role: ``waiting_for`` are names, ``since_s`` seconds in this state."""

    role: str
    state: RoleState
    step: str = ""
    waiting_for: tuple[str, ...] = ()
    since_s: float = 0.0


class State(Protocol):
    """A role's small durable values in a session: seeds, noisy vectors. Kept over a restart, erased at the end."""

    def get(self, key: str) -> bytes | None:
        """Return the value stored under ``key``; None if there is none or it was erased."""

    def put(self, key: str, value: bytes) -> None:
        """Store ``value``; durable when this returns."""

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Store all of ``values``, or none of them; durable when this returns."""

    def erase(self, key: str) -> None:
        """Erase ``key`` and its value, as far as the disk allows."""


class Channel(Protocol):
    """One role's connection to the others in one session. All calls block: a role's part runs in a thread of its own.

    A role's part is ordinary code, written once, front to back. When its process is killed, the part is run again from
    its first line by another process: ``receive`` and ``gather`` then give the very same bytes as before, and ``send``
    of what was sent already does nothing more. So the part must be a function of what it receives, of ``state`` and of
    nothing else: randomness is drawn once, ``put`` into ``state``, and used from there. ``is_sent`` lets it skip
    expensive work that was sent already (also work whose seeds are erased by now).

    After an abort, whoever called it, every call raises ``ProtocolError`` with code ``aborted_by``.
    """

    @property
    def me(self) -> str:
        """The name of this role."""

    @property
    def session(self) -> bytes:
        """The session's id: 32 random bytes, equal for all members, fit to bind keys and hashes to this session."""

    @property
    def members(self) -> Members:
        """All members of this session."""

    @property
    def state(self) -> State:
        """This role's durable bytes."""

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        """Send ``payload`` (made by ``payload.pack_*``) to ``to``; returns when it is durably queued.

        Raises:
            ProtocolError: ``message_conflict``: this (to, step, attempt) was sent with other bytes;
                ``bad_encoding``: not a payload; ``aborted_by`` and ``session_closed``.
        """

    def is_sent(self, to: str, step: str, attempt: int = 0) -> bool:
        """Return whether ``send`` has returned for this message, in this process or an earlier one."""

    def receive(self, step: str, sender: str, timeout: float | None = None, attempt: int = 0) -> bytes:
        """Wait for one payload and return it; a repeated call returns the same bytes.

        Args:
            timeout: In seconds; None waits up to the session's own deadlines.
        Raises:
            ProtocolError: ``peer_missing`` with role and step after the time-out; ``aborted_by``.
        """

    def gather(
        self,
        step: str,
        senders: Iterable[str],
        enough: int | None = None,
        timeout: float | None = None,
        attempt: int = 0,
    ) -> dict[str, bytes]:
        """Wait for all ``senders``; after the time-out go on with those received, if there are at least ``enough``.

        The set of senders is decided once: after a restart the same names are returned, whichever messages came
        meanwhile.

        Args:
            enough: How many suffice after the time-out; None means all.
        Returns:
            Payloads by sender, in the order of ``senders``.
        Raises:
            ProtocolError: ``peer_missing``: too few; it names the first missing sender.
        """

    def sign(self, label: str, content: bytes) -> bytes:
        """Sign ``content`` with this role's key, bound to this session and ``label``, for use in a dispute."""

    def verify(self, role: str, label: str, content: bytes, signature: bytes) -> bool:
        """Return whether ``role`` signed ``content`` under ``label`` in this session."""

    def read_head(self) -> str:
        """Return ``COUNT:HASH`` over all headers that this role has sent and received; fixed by the first call."""

    def abort(self, code: str, *, step: str = "") -> NoReturn:
        """End the session for all with ``code`` (one of ``errors.CAUSES``) and raise it as ``ProtocolError``.

        Args:
            step: The step of the protocol; by default the current step of this role.
        """

    def get_status(self) -> Status:
        """Return the progress of this role; may be called from any thread."""


def check_step(step: str, attempt: int) -> None:
    """Check that a step's name and an attempt fit into a header.

    >>> check_step("u1/17", 0)
    """
    if not STEP.fullmatch(step):
        raise ValueError(f"{step!r} is not a valid name of a step, such as 'a1' or 'u2.1/17'")
    if not 0 <= attempt <= MAX_ATTEMPT:
        raise ValueError(f"attempt {attempt} is not within 0..{MAX_ATTEMPT}")


def parse_step(told: object) -> str:
    """Parse the step named by a peer or relay; the empty string if it is not a valid step name.

    >>> parse_step("c2/3"), parse_step("<b>")
    ('c2/3', '')
    """
    return told if isinstance(told, str) and STEP.fullmatch(told) else ""


def build_missing(step: str, role: str) -> ProtocolError:
    """Build the error for a role that did not respond in time."""
    return ProtocolError("peer_missing", role=role, step=step)
