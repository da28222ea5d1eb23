"""A sketch: noisy counters with the public plan needed to read them, and its file format."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import build_fix, run
from siloquent.maths.tails.distributions import compute_laplace_variance
from siloquent.privacy import Event, event_from_json, event_to_json, parse_fraction
from siloquent.readable import Readable
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.provenance import Provenance, parse_positive
from siloquent.sketch.hash_plan import HashPlan, parse_hash_plan
from siloquent.sketch.spec import MAX_COUNTERS

FORMAT = 1
Integers = NDArray[np.int64]
_ARRAYS = ("counters", "plan", "sizes")


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCounters:
    """A released measurement: noisy counters (classes, R, W), and noisy numbers of records (classes,) or None."""

    counters: Integers
    sizes: Integers | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sketch(Readable):
    """Noisy counters and all that is needed to query them; the counters have the plan's shape.

    ``noise`` and ``parameter``: the distribution of the counters' noise (Laplace scale, Gaussian variance), of each
    part. ``variance`` and ``size_variance``: of the noise on one counter and on one number of records, over all parts.
    ``hits``: the number of rows in which each record counts, None: all of them.
    """

    plan: HashPlan
    counters: Integers
    sizes: Integers | None
    noise: str
    parameter: Fraction
    variance: Fraction
    size_variance: Fraction
    hits: int | None
    event: Event
    parts: tuple[Provenance, ...] = ()
    table: str = ""
    request: str = "{}"
    schema_digest: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.counters.dtype != np.int64 or self.counters.shape != self.plan.shape:
            raise ReleaseError(f"The counters must be int64 of shape {self.plan.shape}.")
        if self.sizes is not None and (self.sizes.dtype != np.int64 or self.sizes.shape != (self.plan.classes,)):
            raise ReleaseError(f"The numbers of records must be int64 of shape {(self.plan.classes,)}.")

    def __str__(self) -> str:
        classes, rows, width = self.plan.shape
        size = f"{classes * rows * width:,} noisy counters of about {sum(self.estimate_class_sizes()):,.0f} records"
        where = f" of {self.table}" if self.table else ""
        asked = "Questions about it are free: session.sketch.ask(sketch, ...); each answer has an interval."
        return "\n".join([f"Sketch{where}: {size}", asked, *([self.describe_guarantee()] if self.parts else [])])

    @property
    def rows(self) -> int:
        """The number of rows R."""
        return self.plan.hashes.rows

    @property
    def per_record(self) -> int:
        """The number of rows in which a record counts."""
        return self.hits or self.rows

    def estimate_class_sizes(self) -> NDArray[np.float64]:
        """Estimate the numbers of records by class, at least 1, from released ones and rows' totals."""
        totals = self.counters.sum(axis=(1, 2)) / self.per_record
        if self.sizes is None:
            return np.asarray(np.maximum(totals, 1.0))
        of_sizes, of_totals = float(self.size_variance), self._total_variance
        weight = of_totals / (of_totals + of_sizes)
        return np.asarray(np.maximum(weight * self.sizes + (1 - weight) * totals, 1.0))

    @property
    def class_size_variance(self) -> float:
        """The variance of ``estimate_class_sizes``."""
        if self.sizes is None:
            return self._total_variance
        of_sizes, of_totals = float(self.size_variance), self._total_variance
        return of_sizes * of_totals / max(of_sizes + of_totals, 1e-300)

    @property
    def _total_variance(self) -> float:
        """The variance of the mean of all rows' totals: every record is in each, and R W counters' noise is added."""
        return float(self.variance) * self.rows * self.plan.hashes.width / self.per_record**2

    def describe_guarantee(self) -> str:
        """Return the guarantee in words."""
        if len(self.parts) == 1:
            return self.parts[0].guarantee
        each = " ".join(
            f"({i}) {part.account}, entry {part.seq} of ledger {part.ledger[:12]}: {part.guarantee}"
            for i, part in enumerate(self.parts, start=1)
        )
        return (
            f"A sum of {len(self.parts)} sketches, each with a guarantee of its own. For people whose records are in "
            f"one silo, that silo's holds; for those in several, their costs add up. {each}"
        )

    def to_bytes(self) -> bytes:
        """Encode the sketch as ``sketch.npz``: arrays and text, no objects; equal sketches give equal bytes."""
        words = {
            "format": FORMAT,
            "noise": self.noise,
            "parameter": str(self.parameter),
            "variance": str(self.variance),
            "size_variance": str(self.size_variance),
            "hits": self.hits,
            "event": event_to_json(self.event),
            "parts": [part.to_dict() for part in self.parts],
            "table": self.table,
            "request": self.request,
            "schema_digest": self.schema_digest,
            "notes": list(self.notes),
        }
        arrays: dict[str, NDArray[Any]] = {
            "counters": self.counters,
            "plan": np.frombuffer(self.plan.to_json().encode(), dtype=np.uint8),
            "sizes": self.sizes if self.sizes is not None else np.zeros(0, dtype=np.int64),
        }
        return pack(arrays, words)


def decode_sketch(data: bytes) -> Sketch:
    """Decode the output of ``to_bytes``; nothing is executed, and sizes are checked before unpacking.

    Raises:
        ReleaseError: It is not a sketch, was truncated or edited, or has invalid content.
    """
    try:
        arrays, words = unpack(data, _ARRAYS, most=MAX_COUNTERS)
        if tuple(sorted(arrays)) != _ARRAYS:
            raise ReleaseError("The file is not a sketch: it does not hold the arrays of one.")
        if words["format"] != FORMAT:
            raise ReleaseError("The sketch has a newer format.", fix="pip install --upgrade siloquent")
        sizes, parameter = arrays["sizes"], parse_positive(words["parameter"])
        return Sketch(
            plan=parse_hash_plan(_decode_text(arrays["plan"])),
            counters=arrays["counters"],
            sizes=None if sizes.shape == (0,) else sizes,
            noise=str(words["noise"]),
            parameter=parameter,
            # Earlier revisions wrote 0 where Laplace noise is almost always 0.
            variance=parse_positive(words["variance"])
            if words["variance"] != "0"
            else compute_laplace_variance(parameter),
            size_variance=parse_fraction(words["size_variance"]),
            hits=None if words["hits"] is None else int(words["hits"]),
            event=event_from_json(words["event"]),
            parts=tuple(Provenance(**part) for part in words["parts"]),
            table=str(words["table"]),
            request=str(words["request"]),
            schema_digest=str(words["schema_digest"]),
            notes=tuple(str(note) for note in words["notes"]),
        )
    except ReleaseError:
        raise
    except Exception:  # allowed: whatever a hostile file does to the readers, it is no sketch
        raise ReleaseError(
            "The file is not a sketch, or it was truncated or altered.",
            fix=build_fix(run("verify", "RELEASE"), ", then send it again"),
        ) from None


def _decode_text(array: NDArray[Any]) -> str:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ReleaseError("The sketch's description is not text.")
    return array.tobytes().decode()
