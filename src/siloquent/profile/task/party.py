"""A party's side of one session: its connection, what was agreed, and the computations on its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.group import Group
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.federation.messages.payload import unpack_document
from siloquent.federation.messages.step_message import StepMessage
from siloquent.maths.dependencies import FD
from siloquent.profile.measure import PartyData
from siloquent.profile.task.progress import ProgressCallback
from siloquent.profile.terms import Terms


@dataclass(slots=True)
class Party:
    """A party of a session; ``joint_key``: the workers' sum, ``cfds``: what the votes say holds in every party."""

    channel: Channel
    group: Group
    say: ProgressCallback
    terms: Terms = field(init=False)
    data: PartyData = field(init=False)
    sizes: tuple[int, ...] = field(init=False)
    joint_key: bytes = field(init=False)
    canary_key: bytes = field(init=False)
    cfds: list[FD] = field(init=False, default_factory=list)
    no_duplicate_rows: bool = field(init=False, default=False)

    @property
    def index(self) -> int:
        """The number of this party."""
        return self.channel.members.parties.index(self.channel.me)

    @property
    def moderator(self) -> str:
        """The name of the moderator."""
        return self.channel.members.moderator

    @property
    def own_seed(self) -> bytes:
        """The source of what this party shares with no other role; replaced after each pass."""
        return load_seed(self.channel.state, "own")

    def receive(self, step: str) -> bytes:
        """Receive the moderator's payload of ``step``: a JSON object.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        payload = self.channel.receive(step, self.moderator)
        unpack_document(payload)
        return payload

    def send_to_first(self, step: str, build: Callable[[], StepMessage]) -> None:
        """Send to the first worker what ``build`` returns, unless it was sent before a restart.

        What was sent before is not built again: its seeds may be replaced by now.
        """
        first = self.channel.members.workers[0]
        if not self.channel.is_sent(first, step):
            self.channel.send(first, step, build().to_payload())

    def refuse(self, step: str) -> ProtocolError:
        """Build the error for a request of ``step`` that this party's own computation does not ask for."""
        return ProtocolError("planner_mismatch", role=self.moderator, step=step)

    def check_on_own_rows(self, found: Sequence[FD]) -> None:
        """Check that dependencies reported for every party hold on this party's rows.

        Raises:
            ProtocolError: ``canary_failed``.
        """
        if any(not self.data.holds(lhs, right) for lhs, right in found):
            raise ProtocolError("canary_failed", role=self.moderator)
