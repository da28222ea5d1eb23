"""The specifications of sketches and questions: frozen values that check themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, join_choices, run, use_budget
from siloquent.foreign.spec_types import check_types
from siloquent.maths.lsh import Kernel, dump_kernel, parse_kernel
from siloquent.privacy import parse_exact
from siloquent.privacy.budget import Budget

Mode = Literal["auto", "dense", "sparse"]
Mechanism = Literal["default", "race-2021"]
MAX_ROWS = 2**16
MAX_COUNTERS = 2**24
MAX_FEATURES = 4_096


@dataclass(frozen=True, slots=True)
class SketchAccuracy:
    """The allowed error of one question: ``relative`` of the value, where the value is ``at_density`` of the rows.

    It holds with probability 1 - ``beta``. ``planning``: "guaranteed" holds for every table; "typical" estimates the
    spread between rows of the sketch from experience and costs far less.
    """

    relative: float
    at_density: float
    beta: float = 0.05
    planning: Literal["guaranteed", "typical"] = "guaranteed"

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        for name in ("relative", "at_density", "beta"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < (1 if name != "relative" else float("inf"))):
                raise RequestError(f"{name} must be a number above 0 and below 1, not {value!r}.")
        if self.planning not in ("guaranteed", "typical"):
            raise RequestError(f"planning must be guaranteed or typical, not {self.planning!r}.")


@dataclass(frozen=True, slots=True)
class SketchSpec:
    """The specification of a sketch.

    Args:
        table: A declared table.
        features: Numbers (integer, real, date) for kernels of numbers; for Jaccard one text attribute (its words), or
            booleans and categories (the properties of a row), or with ``group`` one attribute whose values form sets.
        kernel: From ``siloquent.maths.lsh``; its bandwidth is in units of the features after ``scale``.
        budget, accuracy: Exactly one.
        rows: R, or "auto". A power of two unless projections are "iid".
        width: Buckets per row: "auto", "range" (one for each code), or a power of two.
        mode, hits: "sparse" counts every record in ``hits`` rows only; "auto" chooses.
        scale: "raw", "range" (every feature to 0..1 by its declared bounds), or a divisor for each feature.
        label: A category or boolean: one stack of counters per class.
        group: The unit's column: all rows of one user make one set.
        count_share: The part of the price that buys the numbers of records; None: 1 %, or 20 % where there are classes,
            whose likelihoods are divided by them.
        plan_file: Use the hash functions of this file; silos with the same file can add their sketches.
    """

    table: str
    features: tuple[str, ...]
    kernel: Kernel
    budget: Budget | None = None
    accuracy: SketchAccuracy | None = None
    rows: int | Literal["auto"] = "auto"
    width: int | Literal["auto", "range"] = "auto"
    mode: Mode = "auto"
    hits: int = 1
    projections: Literal["sobol", "iid"] = "sobol"
    scale: Literal["raw", "range"] | tuple[float, ...] = "raw"
    label: str | None = None
    group: str | None = None
    count_share: float | None = None
    mechanism: Mechanism = "default"
    plan_file: Path | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= len(self.features) <= MAX_FEATURES or len(set(self.features)) != len(self.features):
            raise RequestError(f"A sketch takes 1 to {MAX_FEATURES:,} distinct features.")
        if (self.budget is None) == (self.accuracy is None):
            raise RequestError("A sketch takes either a budget or an accuracy.", fix=use_budget("epsilon", "1"))
        self._check_size()
        self._check_words()
        if self.count_share is not None and not 0 < self.count_share < 1:
            raise RequestError(f"count_share must be between 0 and 1, not {self.count_share!r}.")
        if self.label is not None and (self.label in self.features or self.group is not None):
            raise RequestError("The label must be an attribute other than the features; sets of a group take no label.")

    def _check_size(self) -> None:
        if self.rows != "auto" and not (isinstance(self.rows, int) and 2 <= self.rows <= MAX_ROWS):
            raise RequestError(
                f"rows must be auto or between 2 and {MAX_ROWS:,}, not {self.rows!r}.", fix=UseOption("rows", MAX_ROWS)
            )
        if isinstance(self.rows, int) and self.rows & (self.rows - 1) and self.is_power_of_two_needed:
            near = 2 ** (self.rows.bit_length() - 1)
            raise RequestError(
                f"rows must be a power of two here, not {self.rows}.",
                fix=join_choices([UseOption("rows", near), UseOption("projections", "iid")]),
            )
        if isinstance(self.width, int) and not (2 <= self.width <= 2**20 and not self.width & (self.width - 1)):
            raise RequestError(
                f"width must be a power of two up to 2^20, not {self.width}.", fix=UseOption("width", 4096)
            )
        if not isinstance(self.hits, int) or self.hits < 1 or (isinstance(self.rows, int) and self.hits > self.rows):
            raise RequestError(
                f"hits must be between 1 and the number of rows, not {self.hits!r}.", fix=UseOption("hits", self.rows)
            )

    def _check_words(self) -> None:
        for name, allowed in (
            ("mode", ("auto", "dense", "sparse")),
            ("projections", ("sobol", "iid")),
            ("mechanism", ("default", "race-2021")),
        ):
            if getattr(self, name) not in allowed:
                raise RequestError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        if self.width not in ("auto", "range") and not isinstance(self.width, int):
            raise RequestError(f"width must be auto, range or a power of two, not {self.width!r}.")
        if isinstance(self.scale, str):
            if self.scale not in ("raw", "range"):
                raise RequestError(f"scale must be raw, range or one number per feature, not {self.scale!r}.")
        elif len(self.scale) != len(self.features) or not all(np.isfinite(s) and s > 0 for s in self.scale):
            raise RequestError("scale must have one number above 0 for each feature.")

    @property
    def share_for_sizes(self) -> float:
        """The part of the price for the numbers of records; 0 for the paper's method."""
        if self.mechanism == "race-2021":
            return 0.0
        if self.count_share is not None:
            return self.count_share
        return 0.01 if self.label is None else 0.2

    @property
    def is_power_of_two_needed(self) -> bool:
        """Whether R must be a power of two: for Sobol points, and for drawing rows."""
        from siloquent.maths.lsh.families import is_of_sets

        return self.mode == "sparse" or (
            self.projections == "sobol" and self.mechanism == "default" and not is_of_sets(self.kernel)
        )

    def canonical(self) -> str:
        """Return the spec as canonical JSON: equal specs have equal texts. A plan file's digest is kept elsewhere."""
        plain: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("table", "features", "rows", "width", "mode", "hits", "projections", "scale", "label", "group")
        }
        plain |= {"count_share": self.count_share, "mechanism": self.mechanism, "kernel": dump_kernel(self.kernel)}
        for name in ("budget", "accuracy"):
            part = getattr(self, name)
            plain[name] = part and {key: _format_text(getattr(part, key)) for key in part.__dataclass_fields__}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _format_text(value: object) -> str | None:
    if value is None or isinstance(value, float):
        return None if value is None else repr(value)
    if isinstance(value, str) and not value[:1].isdigit():
        return value
    return str(parse_exact(value))  # type: ignore[arg-type]


_KEYS = {"table", "features", "kernel", "budget", "accuracy", *SketchSpec.__dataclass_fields__}


def parse_spec(plain: dict[str, Any]) -> SketchSpec:
    """Parse the spec in a TOML file or JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    unknown = sorted(set(plain) - _KEYS)
    if unknown:
        raise RequestError(f"A sketch has no {unknown[0]!r}. Known: {', '.join(sorted(_KEYS))}.")
    try:
        values = dict(plain)
        values["kernel"] = parse_kernel(values["kernel"])
        values["features"] = tuple(values["features"])
        if isinstance(values.get("scale"), list):
            values["scale"] = tuple(values["scale"])
        if "budget" in values:
            values["budget"] = Budget(**values["budget"])
        if "accuracy" in values:
            values["accuracy"] = SketchAccuracy(**values["accuracy"])
        if "plan_file" in values:
            values["plan_file"] = Path(values["plan_file"])
        return SketchSpec(**values)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise RequestError(f"The sketch's spec is invalid: {wrong}.", fix=run("sketch plan", "--help")) from None


Points = Any
"""Records in the features' own units, shape (points, features): anything numpy reads; sets for kernels of sets."""


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """The number of records near each point, by the kernel; ``normalise``: as a share of all. ``label``: one class."""

    points: Points
    normalise: bool = False
    beta: float = 0.05
    label: str | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The difference f(point) - f(other) of the records near two points, with a smaller error than two intervals."""

    points: Points
    others: Points
    beta: float = 0.05

    def __post_init__(self) -> None:
        check_types(self, RequestError)


@dataclass(frozen=True, slots=True, eq=False)
class Classify:
    """Each point's class: "likelihood" (f_c / N_c), "prior" (times the declared ``priors``), "map" (f_c)."""

    points: Points
    rule: Literal["likelihood", "prior", "map"] = "likelihood"
    priors: tuple[float, ...] = ()
    beta: float = 0.05

    def __post_init__(self) -> None:
        check_types(self, RequestError)


@dataclass(frozen=True, slots=True, eq=False)
class Anomaly:
    """Whether points are unusual: density below ``threshold``, or below the ``share`` least dense of the records."""

    points: Points
    threshold: float | None = None
    share: float | None = None
    beta: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if (self.threshold is None) == (self.share is None):
            raise RequestError(
                "An anomaly takes either a threshold or a share.",
                fix=UseOption("share", 0.01, "Anomaly(points, share=.01)"),
            )
        if self.share is not None and not 0 < self.share < 1:
            raise RequestError(f"share must be between 0 and 1, not {self.share!r}.")


@dataclass(frozen=True, slots=True)
class Modes:
    """The ``count`` highest peaks of the density, at least a bandwidth apart."""

    count: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= self.count <= 1_000:
            raise RequestError(f"count must be between 1 and 1,000, not {self.count!r}.")


@dataclass(frozen=True, slots=True)
class Sample:
    """``count`` points drawn from the estimated density, repeatable by ``seed``."""

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= self.count <= 10**6:
            raise RequestError(f"count must be between 1 and 1,000,000, not {self.count!r}.")


@dataclass(frozen=True, slots=True)
class Regress:
    """The linear model of ``target`` by the sketch's other features, by the paper's surrogate loss (``Surrogate``).

    ``reach``: the maximal length of the vector of weights, with all features on -1 to 1; longer ones are distinguished
    less well.
    """

    target: str
    reach: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not (isinstance(self.reach, int | float) and 0 < self.reach <= 100):
            raise RequestError(f"reach must be above 0 and at most 100, not {self.reach!r}.")


Question = Density | Difference | Classify | Anomaly | Modes | Sample | Regress


@dataclass(frozen=True, slots=True, eq=False)
class DensityEstimate:
    """Values with standard errors and intervals; ``outside``: points that were moved to the domain's edge, (points,).

    All arrays have shape (points,). Values may be negative: they are noisy, not clamped.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    outside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """A class for each point, shape (points,); ``decided``: the interval against the runner-up excludes a tie."""

    labels: tuple[Any, ...]
    decided: NDArray[np.bool_]
    scores: NDArray[np.float64]
    outside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Flags:
    """Whether each point is unusual, its density with interval, and the threshold."""

    flagged: NDArray[np.bool_]
    density: DensityEstimate
    threshold: float


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """Peaks of the density, shape (peaks, features); heights from rows not used to choose them."""

    points: NDArray[np.float64]
    heights: DensityEstimate


@dataclass(frozen=True, slots=True, eq=False)
class SampledPoints:
    """Points from the estimated density, shape (count, features), and notes on their limitations."""

    points: NDArray[np.float64]
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """A linear model in the attributes' own units, from a release; ``count``: the noisy number of records."""

    features: tuple[str, ...]
    target: str
    weights: NDArray[np.float64]
    intercept: float
    count: int
    low: float
    high: float

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Predict the target at each point (points, features), clamped to its declared range."""
        array = np.asarray(points, dtype=np.float64)
        return np.clip(array @ self.weights + self.intercept, self.low, self.high)
