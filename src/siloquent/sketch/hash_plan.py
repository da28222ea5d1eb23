"""The public part of a sketch: attributes, grids and hash functions, made before any row is read. Silos share it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.foreign import load_json
from siloquent.maths.lsh import (
    Hashes,
    Kernel,
    MinHashes,
    Surrogate,
    build_surrogate_axes,
    dump_kernel,
    lift_records,
    parse_kernel,
)
from siloquent.maths.lsh.families import is_of_sets

FORMAT = 1
Sets = Literal["none", "words", "one-hot", "group"]
_ARRAYS = {"A": "<f8", "B": "<f8", "shift": "<i8", "column": "<i8", "low": "<i8", "key": "<u8"}
_SETS = {"seed": "<u4", "odd": "<u4"}
MAX_BYTES = 2**28
MAX_STEPS = 2**53


@dataclass(frozen=True, slots=True)
class HashedFeature:
    """One attribute as seen by the hash functions: index k represents (lo + k grid) / scale in the kernel's units."""

    name: str
    kind: str
    steps: int
    lo: float
    grid: float
    scale: float = 1.0
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.lo, self.grid, self.scale)
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise ValueError("a feature's numbers are finite")
        if type(self.steps) is not int or not 0 <= self.steps <= MAX_STEPS or self.grid <= 0 or self.scale <= 0:
            raise ValueError("a feature has whole steps on a grid above 0")


@dataclass(frozen=True, slots=True, eq=False)
class HashPlan:
    """Everything public that determines a sketch; ``digest`` is the SHA-256 of its canonical text."""

    kernel: Kernel
    features: tuple[HashedFeature, ...]
    hashes: Hashes | MinHashes
    sets: Sets = "none"
    label: str | None = None
    labels: tuple[Any, ...] = ()
    group: str | None = None
    token_key: int = 0

    @property
    def classes(self) -> int:
        """The number of stacks of counters."""
        return max(1, len(self.labels))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (classes, R, W)."""
        return self.classes, self.hashes.rows, self.hashes.width

    def compute_hashed_indices(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert records' indices (records, features) for the hash functions: those of a surrogate loss are lifted."""
        if isinstance(self.kernel, Surrogate):
            return lift_records(places, np.array([feature.steps for feature in self.features]))
        return places

    @property
    def digest(self) -> str:
        """The SHA-256 of ``to_json``, in hex."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the canonical text: sorted keys, arrays as packed bytes."""
        hashes: dict[str, Any]
        if isinstance(self.hashes, Hashes):
            hashes = {name: _pack_array(getattr(self.hashes, name), kind) for name, kind in _ARRAYS.items()}
            hashes["bucket"] = self.hashes.bucket
        else:
            hashes = {name: _pack_array(getattr(self.hashes, name), kind) for name, kind in _SETS.items()}
        plain = {
            "format": FORMAT,
            "kernel": dump_kernel(self.kernel),
            "features": [
                {name: getattr(feature, name) for name in HashedFeature.__dataclass_fields__}
                for feature in self.features
            ],
            "hashes": {**hashes, "width": self.hashes.width},
            "sets": self.sets,
            "label": self.label,
            "labels": list(self.labels),
            "group": self.group,
            "token_key": self.token_key,
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse_hash_plan(text: str) -> HashPlan:
    """Parse the output of ``to_json``.

    Raises:
        ReleaseError: It is not a plan, of a later format, or too large.
    """
    if len(text) > MAX_BYTES:
        raise ReleaseError("The hash plan is too large.")
    try:
        plain = load_json(text)
        if plain["format"] != FORMAT:
            raise ReleaseError("The hash plan has a newer format.", fix="pip install --upgrade siloquent")
        features = tuple(HashedFeature(**{**f, "values": tuple(f["values"])}) for f in plain["features"])
        made = HashPlan(
            kernel=parse_kernel(plain["kernel"]),
            features=features,
            hashes=_parse_hashes(plain["hashes"]),
            sets=plain["sets"],
            label=plain["label"],
            labels=tuple(plain["labels"]),
            group=plain["group"],
            token_key=int(plain["token_key"]),
        )
        require_fit(made)
        return made
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError):
        raise ReleaseError("The hash plan cannot be read: it is not a plan, or it was altered.") from None


def require_fit(plan: HashPlan) -> None:
    """Check that kernel, sets, labels and functions are consistent; compiled loops rely on it.

    Raises:
        ValueError: They are not.
    """
    of_sets, hashes = is_of_sets(plan.kernel), plan.hashes
    if plan.sets not in ("none", "words", "one-hot", "group") or of_sets != (plan.sets != "none") or not plan.features:
        raise ValueError("kernel and features do not fit")
    if (plan.label is None) != (not plan.labels) or len(set(plan.labels)) < len(plan.labels):
        raise ValueError("label and classes do not fit")
    if isinstance(hashes, MinHashes) != of_sets or hashes.rows < 2:
        raise ValueError("kernel and hash functions do not fit")
    if isinstance(hashes, Hashes):
        steps = np.array([feature.steps for feature in plan.features], dtype=np.int64)
        if steps.min() < 1:
            raise ValueError("a feature without places")
        if isinstance(plan.kernel, Surrogate) and hashes.bucket == "range":
            raise ValueError("models lie outside of the records, and a range of codes ends with these")
        hashes.require_within(build_surrogate_axes(steps).steps if isinstance(plan.kernel, Surrogate) else steps)


def _parse_hashes(plain: dict[str, Any]) -> Hashes | MinHashes:
    width = int(plain["width"])
    if "seed" in plain:
        seed, odd = (_unpack_array(plain[name], kind) for name, kind in _SETS.items())
        if seed.ndim != 2 or seed.shape != odd.shape or width & (width - 1) or width < 2:
            raise ValueError("shapes do not fit")
        return MinHashes(seed, odd, width)
    arrays = {name: _unpack_array(plain[name], kind) for name, kind in _ARRAYS.items()}
    rows, parts = arrays["B"].shape
    shapes = [arrays[name].shape for name in ("shift", "column")] + [(rows, parts)]
    if (
        len(set(shapes)) > 1
        or arrays["A"].ndim != 3
        or arrays["A"].shape[:2] != (rows, parts)
        or not 2 <= width <= 2**24
    ):
        raise ValueError("shapes do not fit")
    if (
        arrays["low"].shape != (rows,)
        or arrays["key"].shape != (rows,)
        or not all(np.isfinite(arrays[name]).all() for name in ("A", "B"))
    ):
        raise ValueError("shapes do not fit")
    if arrays["shift"].min() < 0 or arrays["shift"].max() > 62 or plain["bucket"] not in ("range", "bits", "hash"):
        raise ValueError("numbers do not fit")
    return Hashes(**arrays, bucket=plain["bucket"], width=width)


def _pack_array(array: NDArray[Any], kind: str) -> list[object]:
    raw = np.ascontiguousarray(array, dtype=kind).tobytes()
    return [list(array.shape), base64.b64encode(raw).decode()]


def _unpack_array(packed: list[Any], kind: str) -> NDArray[Any]:
    shape, text = packed
    array = np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="))
