"""The moderator's side of one session: its connection, and the counts of what it has asked so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from siloquent.federation.channel import Channel
from siloquent.federation.crypto.group import Group
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.federation.crypto.worker_messages import WorkerOrder
from siloquent.federation.messages.step_message import StepMessage
from siloquent.profile.task.progress import ProgressCallback
from siloquent.profile.terms import Terms


@dataclass(slots=True)
class Moderator:
    """The moderator of a session; ``canaries`` are ballots, ``synthetic`` are queries."""

    channel: Channel
    terms: Terms
    group: Group
    say: ProgressCallback
    sizes: list[int] = field(default_factory=list)
    orders: int = 0
    votes: int = 0
    sets: int = 0
    passes: int = 0
    queries: int = 0
    chunks: int = 0
    synthetic: int = 0
    canaries: int = 0
    no_duplicate_rows: bool = False

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties."""
        return self.channel.members.parties

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers."""
        return self.channel.members.workers

    @property
    def last_hop(self) -> int:
        """The hop on which the last worker sends the result."""
        return len(self.workers) + 1

    @property
    def seed(self) -> bytes:
        """The source of all that the moderator draws in this session."""
        return load_seed(self.channel.state, "own")

    def tell(self, step: str, message: StepMessage) -> None:
        """Send ``message`` to every party."""
        payload = message.to_payload()
        for party in self.parties:
            self.channel.send(party, step, payload)

    def order(self, order: WorkerOrder) -> None:
        """Send the next order to every worker."""
        payload, step = order.to_payload(), WorkerOrder.step(number=self.orders)
        for worker in self.workers:
            self.channel.send(worker, step, payload)
        self.orders += 1

    def receive_from_last(self, step: str) -> bytes:
        """Receive the last worker's payload of ``step``."""
        return self.channel.receive(step, self.workers[-1])
