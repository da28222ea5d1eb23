"""The messages between the moderator and the parties of a session; the parties' canary key goes among them alone.

Those to and from workers are in ``federation.crypto.worker_messages``. docs/reference/profile-messages.md lists all of
them in their order. Sets and left sides are masks of columns: bit j is column j of the terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from siloquent.errors import ProtocolError, ReleaseError
from siloquent.federation.crypto.seeds import SEED
from siloquent.federation.messages.payload import unpack_bytes, unpack_document
from siloquent.federation.messages.step_message import BytesMessage, DocumentMessage, StepMessage
from siloquent.profile.encodings import format_bits, parse_bits, parse_seed, parse_whole_numbers
from siloquent.profile.plan.canaries import YES, SharingPlan, parse_sharing_plan
from siloquent.profile.spec import FDReport, parse_report
from siloquent.profile.terms import Terms


@dataclass(frozen=True, slots=True)
class EntryMessage(DocumentMessage):
    """A party joins: a digest of its columns, the size of its batches, a commitment to its rows for a dispute."""

    step_name = "entry"
    senders = ("party",)
    receivers = ("moderator",)
    columns: str
    size: int
    commitment: str

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the message.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        document = unpack_document(payload)
        size = document.get("size")
        if not isinstance(size, int):
            raise ProtocolError("bad_encoding")
        return cls(str(document.get("columns")), size, str(document.get("commitment")))


@dataclass(frozen=True, slots=True)
class CanaryKey(BytesMessage):
    """The key of the synthetic values and of the votes' blinding, drawn by the first party."""

    step_name = "canary"
    senders = ("party",)
    receivers = ("party",)

    @classmethod
    def from_payload(cls, payload: bytes, count: int | None = SEED) -> Self:
        """Parse the message.

        Raises:
            ProtocolError: ``bad_encoding``, ``batch_size``.
        """
        return cls(unpack_bytes(payload, count))


@dataclass(frozen=True, slots=True)
class Sizes(DocumentMessage):
    """The size of every party's batches, in the order of parties."""

    step_name = "sizes"
    senders = ("moderator",)
    receivers = ("party",)
    sizes: tuple[int, ...]

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the message.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        return cls(tuple(parse_whole_numbers(unpack_document(payload).get("sizes"))))


@dataclass(frozen=True, slots=True)
class VerdictsMessage(DocumentMessage):
    """Bits that answer the last questions: all that the last message of ``v0`` and ``u0`` holds.

    Longer messages of these steps hold them, too; whether the search goes on follows from them.
    """

    senders = ("moderator",)
    receivers = ("party",)
    bits: tuple[bool, ...]

    def to_document(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        return {"bits": format_bits(self.bits)}

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the message, or the bits of a longer one.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        return cls(parse_bits(unpack_document(payload).get("bits")))


@dataclass(frozen=True, slots=True)
class VoteVerdicts(VerdictsMessage):
    """The verdicts of the last round of votes, as many as it had candidates; none before the first round."""

    step_name = "v0/{round}"


@dataclass(frozen=True, slots=True)
class VoteRound(VoteVerdicts):
    """A round of votes, with the verdicts of the round before.

    ``digest``: of the candidates, which parties compute themselves. ``canaries``: for each ballot of known result
    ``YES`` or the number of the party that votes no. ``order``: the seed of the ballots' order.
    """

    digest: str
    canaries: tuple[int, ...]
    order: bytes

    def to_document(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        bits = format_bits(self.bits)
        return {"bits": bits, "digest": self.digest, "canaries": list(self.canaries), "order": self.order.hex()}

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the message.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        document = unpack_document(payload)
        canaries = document.get("canaries")
        if not isinstance(canaries, list) or any(type(kind) is not int or kind < YES for kind in canaries):
            raise ProtocolError("bad_encoding")
        bits, order = parse_bits(document.get("bits")), parse_seed(document.get("order"))
        # Any other value than a text is another digest than that of the candidates.
        return cls(bits, str(document.get("digest")), tuple(canaries), order)


@dataclass(frozen=True, slots=True)
class PassVerdicts(VerdictsMessage):
    """The results of the comparisons of the last pass, as many as the search needs; none before the first pass."""

    step_name = "u0/{number}"


@dataclass(frozen=True, slots=True)
class SearchPass(PassVerdicts):
    """A pass of requests, with the results of the pass before.

    ``queries``: the set of each real query. ``canaries``: for each synthetic one its plan, and the real query whose
    batch it imitates in size. ``chunks``: the queries of each message; the first is ``chunk``.
    """

    queries: Mapping[int, int]
    canaries: Mapping[int, tuple[SharingPlan, int]]
    chunks: tuple[tuple[int, ...], ...]
    chunk: int

    def to_document(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        return {
            "bits": format_bits(self.bits),
            "queries": [[query, mask] for query, mask in self.queries.items()],
            "canaries": [[query, plan.to_list(), like] for query, (plan, like) in self.canaries.items()],
            "chunks": [list(chunk) for chunk in self.chunks],
            "chunk": self.chunk,
        }

    @classmethod
    def from_payload(cls, payload: bytes, sizes: Sequence[int] = ()) -> Self:
        """Parse the message; the canaries' plans must fit batches of ``sizes``.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        document = unpack_document(payload)
        try:
            queries = {int(query): int(mask) for query, mask in document["queries"]}
            canaries = {
                int(query): (parse_sharing_plan(plan, sizes), int(like)) for query, plan, like in document["canaries"]
            }
            chunks = tuple(tuple(int(query) for query in chunk) for chunk in document["chunks"])
            (chunk,) = parse_whole_numbers([document["chunk"]])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("bad_encoding") from None
        return cls(parse_bits(document.get("bits")), queries, canaries, chunks, chunk)


@dataclass(frozen=True, slots=True)
class LevelMessage(DocumentMessage):
    """A level of the thesis' traversal: its new sets, a digest of its candidates, the number of its first query.

    Parties compute it themselves and accept no other.
    """

    step_name = "s0/{level}"
    senders = ("moderator",)
    receivers = ("party",)
    sets: tuple[int, ...]
    digest: str
    first: int


@dataclass(frozen=True, slots=True)
class LevelVerdicts(VerdictsMessage):
    """The verdicts on the candidates of a level."""

    step_name = "s9/{level}"


@dataclass(frozen=True, slots=True)
class Report(DocumentMessage):
    """The result, which each party compares with its own computation."""

    step_name = "report"
    senders = ("moderator",)
    receivers = ("party",)
    report: FDReport

    def to_document(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        return self.report.to_dict()

    @classmethod
    def from_payload(cls, payload: bytes) -> Self:
        """Parse the message.

        Raises:
            ProtocolError: ``bad_encoding``.
        """
        try:
            return cls(parse_report(unpack_document(payload)))
        except ReleaseError:
            raise ProtocolError("bad_encoding") from None


@dataclass(frozen=True, slots=True)
class Agreed(DocumentMessage):
    """A party confirms the report with this digest; the moderator accepts no other."""

    step_name = "agreed"
    senders = ("party",)
    receivers = ("moderator",)
    digest: str


@dataclass(frozen=True, slots=True)
class Final(DocumentMessage):
    """The report is final: these parties, which are all, confirmed it; a party accepts no other list."""

    step_name = "final"
    senders = ("moderator",)
    receivers = ("party",)
    agreed: tuple[str, ...]


MESSAGES: tuple[type[StepMessage], ...] = (
    Terms, EntryMessage, CanaryKey, Sizes, VoteRound, VoteVerdicts, SearchPass, PassVerdicts, LevelMessage,
    LevelVerdicts, Report, Agreed, Final,
)  # fmt: skip
