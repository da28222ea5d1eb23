"""The form of a protocol's typed messages: a class states the step, who sends it to whom, and its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from siloquent.federation.messages.payload import pack_bytes, pack_json, unpack_bytes, unpack_json

if TYPE_CHECKING:
    from siloquent.federation.channel.base import RoleKind


class StepMessage(ABC):
    """A message of one step.

    ``step_name``: the step as headers have it, with its numbers in braces. ``senders``, ``receivers``: kinds of roles.
    A message that its receiver reads has ``from_payload``; one that its receiver can compute is compared.
    """

    __slots__ = ()
    step_name: ClassVar[str]
    senders: ClassVar[tuple[RoleKind, ...]]
    receivers: ClassVar[tuple[RoleKind, ...]]

    @classmethod
    def step(cls, **numbers: int) -> str:
        """Return the name of one step, such as ``step(hop=2, chunk=5)``: ``c2/5``."""
        return cls.step_name.format(**numbers)

    @abstractmethod
    def to_payload(self) -> bytes:
        """Encode the message as the payload to send."""


@dataclass(frozen=True, slots=True)
class DocumentMessage(StepMessage):
    """A message that is one JSON object, with the names of its fields as keys unless a class says otherwise."""

    def to_document(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_payload(self) -> bytes:
        """Encode the message as canonical JSON."""
        return pack_json(self.to_document())

    def matches(self, payload: bytes) -> bool:
        """Return whether ``payload`` is this very message.

        Raises:
            ProtocolError: ``bad_encoding``: it is not JSON.
        """
        return bool(unpack_json(payload) == unpack_json(self.to_payload()))


@dataclass(frozen=True, slots=True)
class BytesMessage(StepMessage):
    """A message of bytes alone; ``crypto`` checks what they encode."""

    content: bytes

    def to_payload(self) -> bytes:
        """Encode the message as bytes."""
        return pack_bytes(self.content)

    @classmethod
    def from_payload(cls, payload: bytes, count: int | None = None) -> Self:
        """Parse the payload.

        Raises:
            ProtocolError: ``bad_encoding``; ``batch_size`` if there are not ``count`` bytes.
        """
        return cls(unpack_bytes(payload, count))
