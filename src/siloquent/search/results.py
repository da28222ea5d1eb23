"""The result of a search: ranked offers with intervals, the model, and a plan that adds the features to own rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.readable import Readable
from siloquent.search.domains import JoinKey, dump_key, parse_key

if TYPE_CHECKING:
    from siloquent.charts import Bars

Floats = NDArray[np.float64]
FORMAT = 1
MAX_BARS = 10


@dataclass(frozen=True, slots=True)
class Augmentation:
    """One offer and its effect.

    ``gain``: of R2, between ``low`` and ``high`` for all candidates simultaneously; ``realised``: on held-out rows,
    None where there are none. ``key``: of the request; ``feature``: the offer's column; both empty for unions.
    """

    offer: str
    table: str
    kind: str
    key: str
    feature: str
    gain: float
    low: float
    high: float
    realised: float | None = None

    @property
    def name(self) -> str:
        """A short name of the addition."""
        return f"rows of {self.table}" if self.kind == "union" else f"{self.table}.{self.feature} by {self.key}"

    @property
    def reason(self) -> str:
        """The reason why it helps, in words."""
        if self.kind == "union":
            return f"its rows of the same columns add {self.gain:.3f} to R2"
        return f"{self.feature} by {self.key} adds {self.gain:.3f} to R2, surely {self.low:.3f} to {self.high:.3f}"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One slope in the attributes' own units, with its 95 % interval."""

    feature: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model, target = intercept + sum of value * feature; ``r2`` of the rows or sums it was fitted to."""

    target: str
    intercept: float
    coefficients: tuple[Coefficient, ...]
    r2: float
    kind: str = "linear"

    def predict(self, columns: dict[str, Any]) -> Floats:
        """Predict the target from columns by feature name; a logistic model gives probabilities, Poisson rates."""
        score = np.full(len(next(iter(columns.values()))) if columns else 1, self.intercept)
        for one in self.coefficients:
            score = score + one.value * np.asarray(columns[one.feature], dtype=np.float64)
        if self.kind == "logistic":
            return np.asarray(1 / (1 + np.exp(-score)))
        return np.asarray(np.exp(score)) if self.kind == "poisson" else score


@dataclass(frozen=True, slots=True, eq=False)
class AddedFeature:
    """A feature to add: its value and standard error for each cell of the own key, in its own unit."""

    offer: str
    name: str
    key: JoinKey
    values: Floats
    errors: Floats
    other: float
    other_error: float


@dataclass(frozen=True, slots=True, eq=False)
class AugmentPlan:
    """The features to add to ``table``. It holds only public releases, but the choice was made with own rows."""

    table: str
    steps: tuple[AddedFeature, ...]

    def to_json(self) -> str:
        """Return the content of the file ``PLAN.json``."""
        steps = [
            {
                "offer": step.offer,
                "name": step.name,
                "key": dump_key(step.key),
                "values": step.values.tolist(),
                "errors": step.errors.tolist(),
                "other": step.other,
                "other_error": step.other_error,
            }
            for step in self.steps
        ]
        plain = {"format": FORMAT, "table": self.table, "steps": steps}
        return json.dumps(plain, sort_keys=True, ensure_ascii=False) + "\n"


def parse_augment_plan(text: str) -> AugmentPlan:
    """Parse the output of ``to_json``.

    Raises:
        RequestError: It is not a plan, or has values that are not valid numbers.
    """
    try:
        plain = load_json(text)
        if plain["format"] != FORMAT:
            raise RequestError("The plan has a newer format.", fix="pip install --upgrade siloquent")
        return AugmentPlan(str(plain["table"]), tuple(_parse_added_feature(step) for step in plain["steps"]))
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise RequestError(
            "The file is not a search plan.", fix=run("search find", "REQUEST.toml", "-o", "PLAN.json")
        ) from None


def _parse_added_feature(plain: dict[str, Any]) -> AddedFeature:
    key = parse_key(plain["key"])
    values, errors = (np.array(plain[name], dtype=np.float64) for name in ("values", "errors"))
    other, other_error = float(plain["other"]), float(plain["other_error"])
    numbers = np.concatenate([values, errors, [other, other_error]])
    if values.shape != (key.cells,) or errors.shape != (key.cells,) or not np.isfinite(numbers).all():
        raise ValueError("one finite value and error a cell")
    return AddedFeature(str(plain["offer"]), str(plain["name"]), key, values, errors, other, other_error)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SearchResult(Readable):
    """The result of a search.

    ``chosen``: the additions of the plan, in order; ``ranked``: the best candidates of the first round; ``base_r2``:
    without any of them; ``r2``: with the chosen ones, both on held-out rows if there are any. ``candidates``: the
    number examined.
    """

    table: str
    scoring: str
    chosen: tuple[Augmentation, ...]
    ranked: tuple[Augmentation, ...]
    model: FittedModel
    plan: AugmentPlan
    base_r2: float
    r2: float
    candidates: int
    notes: tuple[str, ...] = ()
    guarantee: str = ""
    receipt: str = ""

    def __str__(self) -> str:
        shown = [f"  {one.name}: {one.reason}" for one in self.chosen]
        head = f"{len(self.chosen)} additions to {self.table} of {self.candidates:,} candidates"
        lines = [head, *shown, f"R2 without them {self.base_r2:.3f}, with them {self.r2:.3f}", self.guarantee]
        return "\n".join([line for line in lines if line] + list(self.notes))

    def draw_picture(self) -> Bars | None:
        """Draw the gain of each of the best candidates, with its interval; None where there is none."""
        from siloquent.charts import Bars, Labels, Series

        if not self.ranked:
            return None
        best = self.ranked[:MAX_BARS]
        words = Labels(
            f"R2 gained for {self.table}",
            f"The best of {self.candidates} candidates adds {best[0].gain:.3f}, surely {best[0].low:.3f} to "
            f"{best[0].high:.3f}.",
            across="R2 gained",
        )
        gains, low, high = (tuple(getattr(one, name) for one in best) for name in ("gain", "low", "high"))
        series = Series(gains, low=low, high=high)
        return Bars(words, [one.name for one in best], (series,))
