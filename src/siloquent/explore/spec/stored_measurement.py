"""A measurement as the ledger stores it: integers, the event, and everything needed to evaluate them again."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import LedgerError
from siloquent.explore.spec.answers.answer import Label
from siloquent.explore.spec.footprint import Footprint
from siloquent.fixes import run
from siloquent.maths.strategies.sparse import Sparse
from siloquent.privacy import Event, event_from_json, event_to_json

Form = Literal["answers", "strategy", "chosen", "combined"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredMeasurement:
    """The release of a mechanism.

    ``form``: noisy ``answers`` of the workload in grid steps; noisy ``strategy`` queries, whose integer matrices are
    ``strategy``, one per block; the ids ``chosen``; or answers ``combined`` from earlier ones, whose receipts' seqs are
    ``sources``, and new strategy queries, if any: then ``estimate`` holds the answers in small parts of a grid step.
    ``alpha`` is the promised error bound, as text.

    For later queries: ``question`` is a digest of the query, ``footprint`` states what the noisy values add up, and
    ``version`` the declared version of the measured rows, if no footprint states it (0: unknown).
    """

    mechanism: str
    form: Form
    event: Event
    values: tuple[int, ...]
    alpha: str
    strategy: tuple[NDArray[np.int64] | Sparse, ...] = ()
    label: Label = "fresh"
    sources: tuple[int, ...] = ()
    estimate: tuple[int, ...] = ()
    question: str = ""
    footprint: Footprint | None = None
    version: int = 0

    def to_payload(self) -> bytes:
        """Return canonical bytes: the same measurement always gives the same ones."""
        return encode_payload([self])

    def _to_plain(self) -> dict[str, Any]:
        later: dict[str, Any] = {}  # later fields are left out if they are empty, so that old payloads stay unchanged
        if self.label != "fresh" or self.estimate:
            later |= {"label": self.label, "sources": list(self.sources), "estimate": list(self.estimate)}
        if self.question:
            later["question"] = self.question
        if self.footprint is not None:
            later["footprint"] = self.footprint.to_plain()
        elif self.version:
            later["version"] = self.version
        return {
            **later,
            "mechanism": self.mechanism,
            "form": self.form,
            "event": event_to_json(self.event),
            "values": list(self.values),
            "alpha": self.alpha,
            "strategy": [_pack_matrix(matrix) for matrix in self.strategy],
        }

    @classmethod
    def from_payload(cls, payload: bytes) -> StoredMeasurement:
        """Parse the one measurement that ``payload`` was made from.

        Raises:
            LedgerError: it is not one measurement, or has a later format.
        """
        measured = decode_measurements(payload)
        if len(measured) != 1:
            raise LedgerError("A stored answer does not belong to this query.", fix=run("ledger verify"))
        return measured[0]

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> StoredMeasurement:
        return cls(
            mechanism=plain["mechanism"],
            form=plain["form"],
            event=event_from_json(plain["event"]),
            values=tuple(plain["values"]),
            alpha=plain["alpha"],
            strategy=tuple(_unpack_matrix(text) for text in plain["strategy"]),
            label=plain.get("label", "fresh"),
            sources=tuple(plain.get("sources", ())),
            estimate=tuple(plain.get("estimate", ())),
            question=plain.get("question", ""),
            footprint=Footprint.from_plain(plain["footprint"]) if "footprint" in plain else None,
            version=int(plain.get("version", 0)),
        )


def encode_payload(
    parts: Sequence[StoredMeasurement], *, request: str = "", changed: int = 0, table: str = ""
) -> bytes:
    """Encode the query and the measurements, one or several, of one permit for the ledger.

    Args:
        changed: The newest entry that was skipped because it is about other rows.
        table: The table that is asked about, if it shares its account with others.
    """
    asked: dict[str, Any] = {"request": request} if request else {}
    if table:
        asked["table"] = table
    if changed:
        asked["other_rows"] = changed
    plain = parts[0]._to_plain() if len(parts) == 1 else {"parts": [part._to_plain() for part in parts]}
    return _compress({"format": 1, **asked, **plain})


def read_request(payload: bytes) -> str:
    """Return the query that ``payload`` answers, as text; empty if it was not stored, or for another task."""
    try:
        plain = json.loads(payload)
        return str(plain.get("request", ""))
    except (ValueError, AttributeError):
        return ""


def read_table(payload: bytes) -> str:
    """Return the table that ``payload`` is about, if it shares its account with others; empty otherwise."""
    if b'"table":' not in payload:
        return ""
    try:
        return str(json.loads(payload).get("table", ""))
    except (ValueError, AttributeError):
        return ""


OTHER_ROWS = "earlier answers about other rows than the source holds now are not drawn from"
"""The note of an answer for which some were skipped. It names no entry: rows may be replaced, and return."""


def describe_changed(payload: bytes) -> str:
    """Return the answer's note about earlier ones on other rows, in the wording of its time; empty if none."""
    try:
        plain = json.loads(payload)
        before, now = plain.get("changed", 0), plain.get("other_rows", 0)
    except (ValueError, AttributeError):
        return ""
    if before and isinstance(before, int):
        return f"the source has changed since entry {before}, so nothing is drawn from it: declare a new version"
    return OTHER_ROWS if now else ""


def decode_measurements(payload: bytes) -> tuple[StoredMeasurement, ...]:
    """Parse the measurements that ``payload`` was made from.

    Raises:
        LedgerError: it holds none, or has a later format.
    """
    try:
        plain = json.loads(payload)
        if plain["format"] != 1:
            raise LedgerError("A stored answer has a newer format.", fix="pip install --upgrade siloquent")
        return tuple(StoredMeasurement._from_plain(part) for part in plain.get("parts", [plain]))
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise LedgerError("A stored answer cannot be read.", fix=run("ledger verify")) from broken


def _compress(plain: dict[str, Any]) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _pack_matrix(matrix: NDArray[np.int64] | Sparse) -> list[object]:
    """Pack rows, columns and entries; a sparse matrix also has columns beyond, starts and indices, before entries."""
    if isinstance(matrix, Sparse):
        return [*matrix.shape, matrix.beyond, *map(_encode_numbers, (matrix.starts, matrix.places, matrix.entries))]
    return [*matrix.shape, _encode_numbers(matrix)]


def _unpack_matrix(packed: list[object]) -> NDArray[np.int64] | Sparse:
    rows, columns, *rest = packed
    if len(rest) == 1:
        return _decode_numbers(rest[0]).reshape(int(str(rows)), int(str(columns)))
    beyond, *arrays = rest
    starts, places, entries = map(_decode_numbers, arrays)
    return Sparse(int(str(columns)), starts, places, entries, int(str(beyond)))


def _encode_numbers(numbers: NDArray[np.int64]) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(numbers, dtype="<i8").tobytes(), 6)).decode()


def _decode_numbers(text: object) -> NDArray[np.int64]:
    return np.frombuffer(zlib.decompress(base64.b64decode(str(text))), dtype="<i8").astype(np.int64)
