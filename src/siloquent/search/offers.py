"""An offer: noisy sums by key with the public domains needed to read them, and its file format."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import build_fix, run
from siloquent.privacy import Event, event_from_json, event_to_json
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.provenance import Provenance, parse_positive
from siloquent.search.domains import (
    Feature,
    JoinKey,
    dump_features,
    dump_key,
    parse_features,
    parse_key,
)
from siloquent.search.plan.planner import Parameters, compute_deviation

FORMAT = 1
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_MAX_VALUE = 2**60


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSums:
    """The released measurement, in whole steps: for each key counts (cells,) and sums (cells, columns).

    ``second``: products (columns, columns), or one such matrix per cell, or None. An offer without keys has one cell.
    ``higher``: products of three numbers, and of four, each once (``maths/models/monomial_index.py``), up to its order.
    """

    counts: tuple[Integers, ...]
    sums: tuple[Integers, ...]
    second: Integers | None
    higher: tuple[Integers, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Noisy sums and all that is needed to read them; values that are not None have arrays of the keys' shapes.

    ``steps``: whole steps from 0 to 1 in every column. ``noise``, ``parameters``: the noise distribution of counts,
    sums and second moments; ``is_halved``: entries off the diagonal have half the variance.
    """

    table: str
    features: tuple[Feature, ...]
    keys: tuple[JoinKey, ...]
    measured: MeasuredSums
    steps: int
    noise: str
    parameters: Parameters
    is_halved: bool
    event: Event
    owner: str = ""
    part: Provenance | None = None
    request: str = "{}"
    schema_digest: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        p, sizes = len(self.columns), [key.cells for key in self.keys] or [1]
        found = self.measured
        shapes = [(c.shape, s.shape) for c, s in zip(found.counts, found.sums, strict=True)]
        if shapes != [((size,), (size, p)) for size in sizes]:
            raise ReleaseError("The offer's sums do not have the shape of its keys and features.")
        if found.second is not None and found.second.shape not in ((p, p), (sizes[0], p, p)):
            raise ReleaseError("The offer's second moments do not have the shape of its features.")
        wanted = [(math.comb(p + order - 1, order),) for order in range(3, 3 + len(found.higher))]
        if [array.shape for array in found.higher] != wanted or len(self.parameters) != 3 + len(wanted):
            raise ReleaseError("The offer's higher products do not have the shape of its features.")
        arrays = [*found.counts, *found.sums, *([] if found.second is None else [found.second]), *found.higher]
        if any(array.dtype != np.int64 or np.abs(array).max(initial=0) > _MAX_VALUE for array in arrays):
            raise ReleaseError("The offer's sums are whole numbers below 2^60.")

    @property
    def id(self) -> str:
        """The offer's name: the first characters of its ledger's id and its position there."""
        assert self.part is not None
        return f"{self.part.ledger[:8]}-{self.part.seq:06d}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all features' columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def scale(self) -> tuple[tuple[float, float], ...]:
        """For each column (middle, half range) in its feature's unit."""
        return tuple(one for feature in self.features for one in feature.scale)

    @property
    def deviations(self) -> tuple[float, float, float]:
        """The noise deviations of a count, a sum and a second moment on the diagonal, in units of -1 to 1."""
        law = "gaussian" if self.noise == "gaussian" else "laplace"
        zero, first, second = (compute_deviation(law, parameter) for parameter in self.parameters[:3])  # type: ignore[arg-type]
        return zero, first / self.steps, second / self.steps**2

    def get_key_sums(self, key: int) -> tuple[Floats, Floats]:
        """Return noisy counts (cells,) and sums (cells, columns) in units of -1 to 1."""
        return self.measured.counts[key].astype(np.float64), self.measured.sums[key] / self.steps

    def compute_second_moments(self) -> Floats | None:
        """Compute noisy sums of products (columns, columns) in units of -1 to 1, over all keys."""
        found = self.measured.second
        if found is None:
            return None
        return np.asarray((found if found.ndim == 2 else found.sum(axis=0)) / self.steps**2)

    def describe_guarantee(self) -> str:
        """Return the guarantee in words."""
        return "" if self.part is None else self.part.guarantee

    def to_bytes(self) -> bytes:
        """Encode the offer as ``moments.npz``: integer arrays and text, no objects; equal offers give equal bytes."""
        part = self.part
        words = {
            "format": FORMAT,
            "table": self.table,
            "features": dump_features(self.features),
            "keys": [dump_key(key) for key in self.keys],
            "steps": self.steps,
            "noise": self.noise,
            "parameters": [None if value is None else str(value) for value in self.parameters],
            "is_halved": self.is_halved,
            "event": event_to_json(self.event),
            "owner": self.owner,
            "part": None if part is None else part.to_dict(),
            "request": self.request,
            "schema_digest": self.schema_digest,
            "notes": list(self.notes),
        }
        arrays: dict[str, Integers] = {}
        for i, (counts, sums) in enumerate(zip(self.measured.counts, self.measured.sums, strict=True)):
            arrays |= {f"counts{i}": counts, f"sums{i}": sums}
        if self.measured.second is not None:
            arrays["second"] = self.measured.second
        arrays |= {f"order{order}": array for order, array in enumerate(self.measured.higher, start=3)}
        return pack(arrays, words)


def decode_offer(data: bytes) -> Offer:
    """Decode the output of ``to_bytes``; nothing in ``data`` is executed.

    Raises:
        ReleaseError: It is not an offer, was truncated or edited, or has invalid content.
    """
    try:
        arrays, words = unpack(data, ("counts[0-9]{1,3}", "sums[0-9]{1,3}", "second", "order[0-9]"))
        if words["format"] != FORMAT:
            raise ReleaseError("The offer has a newer format.", fix="pip install --upgrade siloquent")
        keys = tuple(parse_key(plain) for plain in words["keys"])
        many = range(max(1, len(keys)))
        measured = MeasuredSums(
            counts=tuple(arrays.pop(f"counts{i}") for i in many),
            sums=tuple(arrays.pop(f"sums{i}") for i in many),
            second=arrays.pop("second", None),
            higher=tuple(arrays.pop(f"order{order}") for order in range(3, len(words["parameters"]))),
        )
        if arrays or not isinstance(words["steps"], int) or words["steps"] < 1:
            raise ValueError("more arrays than an offer has")
        if words["noise"] not in ("gaussian", "laplace"):
            raise ValueError("unknown noise")
        parameters = [None if text is None else parse_positive(text) for text in words["parameters"]]
        return Offer(
            table=str(words["table"]),
            features=parse_features(words["features"]),
            keys=keys,
            measured=measured,
            steps=words["steps"],
            noise=words["noise"],
            parameters=tuple(parameters),
            is_halved=bool(words["is_halved"]),
            event=event_from_json(words["event"]),
            owner=str(words["owner"]),
            part=None if words["part"] is None else Provenance(**words["part"]),
            request=str(words["request"]),
            schema_digest=str(words["schema_digest"]),
            notes=tuple(str(note) for note in words["notes"]),
        )
    except ReleaseError:
        raise
    except Exception:  # allowed: whatever a hostile file does to the readers, it is no offer
        raise ReleaseError(
            "The file is not an offer, or it was truncated or altered.",
            fix=build_fix(run("verify", "RELEASE"), ", then send it again"),
        ) from None
