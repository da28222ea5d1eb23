"""The messages of the service ``chain/1``: keys and seeds, the moderator's orders, and the batches between workers.

``hop`` counts the way of a batch: 1 from its sources to W_1, j + 1 from W_j to W_(j+1), and one more than there are
workers from the last worker to the receiver of the result. docs/reference/profile-messages.md is the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.proofs import PROOF
from siloquent.federation.crypto.seeds import SEED
from siloquent.federation.messages.payload import pack_bytes, pack_words, unpack_bytes, unpack_document, unpack_words
from siloquent.federation.messages.step_message import BytesMessage, DocumentMessage, StepMessage


@dataclass(frozen=True, slots=True)
class WorkerKey(StepMessage):
    """A worker's public key with the proof that it knows the logarithm; workers and moderator need it to mix."""

    step_name = "key"
    senders = ("worker",)
    receivers = ("party", "worker", "moderator")
    public: bytes
    proof: bytes

    def to_payload(self) -> bytes:
        """Encode the key, then the proof."""
        return pack_bytes(self.public + self.proof)

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the payload; ``proofs.verify`` checks the proof.

        Raises:
            ProtocolError: ``bad_encoding``, ``batch_size``.
        """
        content = unpack_bytes(payload, POINT + PROOF)
        return cls(content[:POINT], content[POINT:])


@dataclass(frozen=True, slots=True)
class SharedSeed(BytesMessage):
    """The seed of the random numbers that a party and one worker share."""

    step_name = "seed"
    senders = ("party",)
    receivers = ("worker",)

    @classmethod
    def from_payload(cls, payload: bytes, count: int | None = SEED) -> Self:
        """Parse the payload.

        Raises:
            ProtocolError: ``bad_encoding``, ``batch_size``.
        """
        return cls(unpack_bytes(payload, count))


@dataclass(frozen=True, slots=True)
class WorkerOrder(DocumentMessage):
    """An order of the moderator, the same one for every worker; ``do`` names its kind."""

    step_name = "order/{number}"
    senders = ("moderator",)
    receivers = ("worker",)
    do: ClassVar[str]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Parse the fields, all of them integers unless a kind says otherwise.

        Raises:
            KeyError, TypeError, ValueError: a field is missing or of another type.
        """
        build: Callable[..., Self] = cls
        return build(**{field.name: int(document[field.name]) for field in fields(cls)})

    def to_document(self) -> Mapping[str, Any]:
        """Return the fields, and the kind."""
        return {"do": self.do, **DocumentMessage.to_document(self)}


@dataclass(frozen=True, slots=True)
class HopOrder(WorkerOrder):
    """Run one pass of chains.

    ``sizes``: elements of each party's batch, at most or ``exact``. ``shown``: the least number of parties of which the
    last worker tells how many values they share. ``chunks``: the queries of each message; the first is ``chunk``.
    """

    do = "hop"
    sizes: Mapping[str, int]
    exact: bool
    shown: int
    chunks: tuple[tuple[int, ...], ...]
    chunk: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Parse the fields.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: a field is missing or of another type.
        """
        return cls(
            sizes={name: int(size) for name, size in document["sizes"].items()},
            exact=bool(document["exact"]),
            shown=int(document["shown"]),
            chunks=tuple(tuple(queries) for queries in document["chunks"]),
            chunk=int(document["chunk"]),
        )


@dataclass(frozen=True, slots=True)
class VoteOrder(WorkerOrder):
    """Open the ``count`` ballots of round ``level``."""

    do = "vote"
    level: int
    count: int


@dataclass(frozen=True, slots=True)
class MixOrder(WorkerOrder):
    """Mix the pairs of ``count`` sets, queries from ``first`` on; a party has at most ``most`` pairs of a set."""

    do = "mix"
    chunk: int
    first: int
    count: int
    most: int


@dataclass(frozen=True, slots=True)
class ZeroOrder(WorkerOrder):
    """Test ``count`` sums of encrypted numbers for zero, queries from ``first`` on."""

    do = "zero"
    level: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class EndOrder(WorkerOrder):
    """End the session for workers."""

    do = "end"


ORDERS: tuple[type[WorkerOrder], ...] = (HopOrder, VoteOrder, MixOrder, ZeroOrder, EndOrder)


def parse_order(payload: bytes) -> WorkerOrder:
    """Parse an order of any kind.

    Raises:
        ProtocolError: ``bad_encoding``: an unknown kind, or a field is missing or of another type.
    """
    document = unpack_document(payload)
    for kind in ORDERS:
        if kind.do == document.get("do"):
            try:
                return kind.from_document(document)
            except (AttributeError, KeyError, TypeError, ValueError):
                break
    raise ProtocolError("bad_encoding")


@dataclass(frozen=True, slots=True)
class ChainBatches(BytesMessage):
    """Blinded batches as of ``framing.join_batches``: for each query of a chunk the sender's, then all parties'."""

    step_name = "c{hop}/{chunk}"
    senders = ("party", "worker")
    receivers = ("worker",)


@dataclass(frozen=True, slots=True, eq=False)
class ChainCounts(StepMessage):
    """For each query of a chunk the number of values that exactly k parties share, from k = ``HopOrder.shown`` on."""

    step_name = "c{hop}/{chunk}"
    senders = ("worker",)
    receivers = ("moderator",)
    counts: NDArray[np.int64] | NDArray[np.uint64]

    def to_payload(self) -> bytes:
        """Encode the counts as words."""
        return pack_words(self.counts)

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the payload.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        return cls(unpack_words(payload))


@dataclass(frozen=True, slots=True)
class Ballots(BytesMessage):
    """One pair for each ballot of a round: one party's, then the sum of all."""

    step_name = "v{hop}/{round}"
    senders = ("party", "worker")
    receivers = ("worker",)


@dataclass(frozen=True, slots=True)
class OpenedBallots(BytesMessage):
    """One byte for each ballot of a round: 1 if all parties voted yes, else 0."""

    step_name = "v{hop}/{round}"
    senders = ("worker",)
    receivers = ("party", "moderator")


@dataclass(frozen=True, slots=True)
class MixBatches(BytesMessage):
    """For each set of a chunk a batch of pairs: one party's, then all parties' together."""

    step_name = "m{hop}/{chunk}"
    senders = ("party", "worker")
    receivers = ("worker",)


@dataclass(frozen=True, slots=True)
class MixTags(BytesMessage):
    """For each set of a chunk a batch of tags, all parties' together."""

    step_name = "m{hop}/{chunk}"
    senders = ("worker",)
    receivers = ("moderator",)


@dataclass(frozen=True, slots=True)
class ZeroPairs(BytesMessage):
    """One pair for each number of a level: one role's, then the sum of all."""

    step_name = "d{hop}/{level}"
    senders = ("party", "moderator", "worker")
    receivers = ("worker",)


@dataclass(frozen=True, slots=True)
class ZeroPoints(BytesMessage):
    """One element for each sum of a level: the identity if it is zero."""

    step_name = "d{hop}/{level}"
    senders = ("worker",)
    receivers = ("moderator",)


MESSAGES: tuple[type[StepMessage], ...] = (
    WorkerKey,
    SharedSeed,
    *ORDERS,
    ChainBatches,
    ChainCounts,
    Ballots,
    OpenedBallots,
    MixBatches,
    MixTags,
    ZeroPairs,
    ZeroPoints,
)
