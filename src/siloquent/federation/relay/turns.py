"""The order in which one receiver gets what several senders have queued: fair by bytes, and causal in each session."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW_BYTES = 2**24
WINDOW_MESSAGES = 128
"""The limits on messages whose order is fixed: what arrives later, of any sender, waits for no more than these."""


@dataclass(frozen=True, slots=True)
class QueuedEnvelope:
    """An envelope that has no place in its receiver's order yet."""

    seq: int
    session: str
    sender: str
    size: int


@dataclass(slots=True)
class SenderTurns:
    """The turns of the senders to one receiver.

    A session's envelopes keep their order of arrival: the others of a session may refer to what came before. Among the
    first ones of all sessions, the next is the one whose sender has then had the fewest bytes.

    Source:
        "A Self-Clocked Fair Queueing Scheme for Broadband Applications" (INFOCOM 1994); the flows are senders.
    """

    _now: int = 0
    _had: dict[str, int] = field(default_factory=dict)

    def choose(self, queued: Iterable[QueuedEnvelope]) -> list[int]:
        """Return which of ``queued``, in order of arrival, come next: at least one, within the limits of a window.

        >>> bulk = [QueuedEnvelope(seq, "s1", "north", 10**7) for seq in range(3)]
        >>> SenderTurns().choose([*bulk, QueuedEnvelope(3, "s2", "river", 100)])
        [3, 0]
        """
        sessions: dict[str, deque[QueuedEnvelope]] = {}
        for envelope in queued:
            sessions.setdefault(envelope.session, deque()).append(envelope)
        chosen: list[int] = []
        size = 0
        while sessions and len(chosen) < WINDOW_MESSAGES:
            session, line = min(sessions.items(), key=lambda item: (self._end(item[1][0]), item[1][0].seq))
            envelope = line[0]
            size += envelope.size
            if chosen and size > WINDOW_BYTES:
                break
            self._now = self._had[envelope.sender] = self._end(envelope)
            chosen.append(envelope.seq)
            line.popleft()
            if not line:
                del sessions[session]
        return chosen

    def _end(self, envelope: QueuedEnvelope) -> int:
        """Return the bytes that the sender will have had after ``envelope``; one that was idle has saved up nothing."""
        return max(self._now, self._had.get(envelope.sender, 0)) + envelope.size
