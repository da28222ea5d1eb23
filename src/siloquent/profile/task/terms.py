"""The terms that all roles of a session agree on before any computation, and the bits sent between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from siloquent.errors import ProtocolError, RequestError
from siloquent.federation.messages.payload import encode_canonical
from siloquent.maths.dependencies import FD
from siloquent.profile.plan.costs import compute_max_sets
from siloquent.profile.spec import ProfileColumn, ProfileSpec, parse_column, parse_spec

VERSION = 2
"""The version of the protocol. In version 2 the last worker also sends the verdicts to the parties."""
MAX_SETS = 2**16
ProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """A session's spec with the columns' types.

    ``most_sets``: the number of requests after which a party refuses; 0: the spec's own limit.
    """

    spec: ProfileSpec
    columns: tuple[ProfileColumn, ...]
    most_sets: int = 0

    def __post_init__(self) -> None:
        if not self.most_sets:
            object.__setattr__(self, "most_sets", min(MAX_SETS, compute_max_sets(self.spec)))
        if tuple(column.name for column in self.columns) != self.spec.columns:
            raise RequestError("The columns' types are not those of the spec's columns.")
        if not 1 <= self.most_sets <= MAX_SETS:
            raise RequestError(f"A session asks 1 to {MAX_SETS:,} sets.", fix="max_sets=400")

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as the invitation holds them."""
        columns = [column.to_dict() for column in self.columns]
        return {"v": VERSION, "spec": self.spec.to_dict(), "columns": columns, "most_sets": self.most_sets}


def parse_terms(plain: Any) -> Terms:
    """Parse the output of ``to_dict``.

    Raises:
        ProtocolError: ``version_mismatch``, ``bad_encoding``.
    """
    if not isinstance(plain, dict) or plain.get("v") != VERSION:
        raise ProtocolError("version_mismatch")
    try:
        columns = tuple(parse_column(column) for column in plain["columns"])
        return Terms(parse_spec(plain["spec"]), columns, int(plain["most_sets"]))
    except (KeyError, TypeError, ValueError, RequestError):
        raise ProtocolError("bad_encoding") from None


def compute_digest(value: Any) -> str:
    """Compute the SHA-256 of canonical JSON."""
    return hashlib.sha256(encode_canonical(value)).hexdigest()


def dump_candidates(candidates: Sequence[FD]) -> list[list[int]]:
    """Convert candidates to JSON-compatible lists."""
    return [list(candidate) for candidate in candidates]


def format_bits(bits: Sequence[bool]) -> str:
    """Format bits for a message.

    >>> format_bits([True, False])
    '10'
    """
    return "".join("1" if bit else "0" for bit in bits)


def parse_bits(text: Any) -> list[bool]:
    """Parse the output of ``format_bits``.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if not isinstance(text, str) or set(text) - {"0", "1"}:
        raise ProtocolError("bad_encoding")
    return [letter == "1" for letter in text]


def ignore_progress(_: str) -> None:
    """Ignore progress messages."""
