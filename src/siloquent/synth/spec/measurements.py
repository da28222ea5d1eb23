"""The released measurements of a synthesis: noisy whole numbers with their noise, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.privacy import Event, event_from_json, event_to_json
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.rules import RULES as RELEASE_RULES

FORMAT = 1
RULES = RELEASE_RULES["synth"].measurement
"""The number of the rules by which measurements are read (bins, joints, order of the steps). Measurements of other
rules are refused instead of misread."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """One vector of noisy counts.

    Attributes:
        kind: "fine" (one attribute's fine cells), "joint" (groups of some attributes), "table" (an FD's histogram),
            "rates" (soft constraints) or "report" (the output compared with the truth).
        attributes: The counted attributes, in the order of the axes.
        counts: Noisy counts, with one axis per attribute.
        variance: The variance of the noise on each count.
        number: The number of the constraint that a table belongs to; 0 elsewhere.
        candidates: For a selected joint: the number of candidates it was chosen from.
    """

    kind: str
    attributes: tuple[str, ...]
    counts: NDArray[np.int64]
    variance: Fraction
    number: int = 0
    candidates: int = 0

    def dump_header(self) -> dict[str, Any]:
        """Return everything but the counts, as JSON values."""
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "shape": list(self.counts.shape),
            "variance": f"{self.variance.numerator}/{self.variance.denominator}",
            "number": self.number,
            "candidates": self.candidates,
        }


@dataclass(frozen=True, slots=True)
class CandidateMarginals:
    """The candidates for the next measurement: their numbers, and the model's expected counts of their cells."""

    candidates: tuple[int, ...]
    expected: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Everything that one run has released, in the order of its steps, and the event that was charged for it."""

    request: str
    schema_digest: str
    event: Event
    steps: tuple[NoisyCounts, ...]
    starts: tuple[tuple[str, NDArray[np.int64]], ...] = ()

    def select_kind(self, kind: str) -> tuple[NoisyCounts, ...]:
        """Return the steps of one kind, in order."""
        return tuple(step for step in self.steps if step.kind == kind)

    def to_bytes(self) -> bytes:
        """Encode as a file that holds no code; equal measurements give equal bytes."""
        counts = [step.counts.ravel() for step in self.steps]
        starts = [places for _, places in self.starts]
        words = {
            "format": FORMAT,
            "rules": RULES,
            "task": "synth",
            "request": self.request,
            "schema": self.schema_digest,
            "event": event_to_json(self.event),
            "steps": [step.dump_header() for step in self.steps],
            "starts": [[name, len(places)] for name, places in self.starts],
        }
        return pack({"counts": _concatenate(counts), "starts": _concatenate(starts)}, words)


def _concatenate(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def decode_run_measurements(data: bytes) -> Measurements:
    """Decode the output of ``Measurements.to_bytes``.

    Raises:
        ReleaseError: It is something else, truncated or tampered with.
    """
    arrays, words = unpack(data, ("counts", "starts"))
    if words.get("task") != "synth" or words.get("format") != FORMAT:
        raise ReleaseError(
            "The file does not contain measurements of a synthesis.", fix="pip install --upgrade siloquent"
        )
    if words.get("rules") != RULES:
        raise ReleaseError(
            f"The model was made by other rules than this version's (number {RULES}), so it cannot be read here.",
            fix="use the version of siloquent that manifest.json names as package",
        )
    try:
        sizes = [math.prod(step["shape"]) for step in words["steps"]]
        counts = np.split(arrays["counts"], np.cumsum(sizes)[:-1].astype(int)) if sizes else []
        steps = tuple(
            NoisyCounts(
                step["kind"],
                tuple(step["attributes"]),
                part.reshape(step["shape"]),
                Fraction(step["variance"]),
                step["number"],
                step["candidates"],
            )
            for step, part in zip(words["steps"], counts, strict=True)
        )
        lengths = [length for _, length in words["starts"]]
        places = np.split(arrays["starts"], np.cumsum(lengths)[:-1].astype(int)) if lengths else []
        starts = tuple((name, part) for (name, _), part in zip(words["starts"], places, strict=True))
        return Measurements(words["request"], words["schema"], event_from_json(words["event"]), steps, starts)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise ReleaseError("The measurements were truncated or altered.", fix=run("verify", "RELEASE")) from None
