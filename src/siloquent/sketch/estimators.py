"""Sketches as scikit-learn estimators: ``fit`` releases a sketch of an array, everything after it is free.

Rows of X are the protected units (one added or removed). Bounds are public parameters, never computed from X: values
outside are clamped. ``random_state`` seeds only the public hash functions; noise is never seeded, so two fits differ.
"""

from __future__ import annotations

import threading
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (  # type: ignore[import-untyped, unused-ignore]
    BaseEstimator,
    ClassifierMixin,
    DensityMixin,
    OutlierMixin,
)
from sklearn.utils import check_random_state  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped, unused-ignore]

from siloquent.errors import PrivacyWarning
from siloquent.maths.lsh import PStable
from siloquent.privacy import convert_zcdp_to_epsilon, format_digits, get_accountant, parse_exact
from siloquent.privacy.budget import Budget as Price
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from siloquent.sketch import spec as questions
from siloquent.sketch.estimate import classify, estimate_density, find_anomalies, sample
from siloquent.sketch.plan import SketchPlan, compute_noise_variance, plan
from siloquent.sketch.sketch import Sketch

Floats = NDArray[np.float64]
STEPS = 4_096
"""The number of steps of each feature between its bounds."""


class _FitTally:
    """The fits of an estimator and of its clones in this process: each of them is a release of its own."""

    def __init__(self) -> None:
        self.fits, self.rho = 0, Fraction(0)
        self._lock = threading.Lock()

    def add(self, rho: Fraction) -> tuple[int, Fraction]:
        """Count one more fit; return the number of fits and their total cost."""
        with self._lock:
            self.fits, self.rho = self.fits + 1, self.rho + rho
            return self.fits, self.rho


_TALLIES: WeakKeyDictionary[Any, _FitTally] = WeakKeyDictionary()


class _SketchEstimator(BaseEstimator):  # type: ignore[misc]
    """The shared parts of the three estimators: public bounds, a plan, one noisy count.

    ``fits_``, ``total_rho_`` and ``total_epsilon_`` add up the fits of an estimator and its clones in one process, such
    as those of a grid search.
    """

    def __init__(
        self,
        *,
        epsilon: float | str = 1.0,
        delta: float | str = "1e-6",
        bounds: tuple[float, float] | list[tuple[float, float]] = (0.0, 1.0),
        bandwidth: float = 0.25,
        rows: int = 1024,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bandwidth = bandwidth
        self.rows = rows
        self.random_state = random_state

    def _fit_sketch(self, X: Floats, classes: NDArray[Any] | None, labels: tuple[str, ...]) -> None:
        """Release the counters of X.

        Privacy:
            (epsilon, delta)-DP for one row of X added or removed, by rho-zCDP; the set of labels counts as public.
        """
        from siloquent.sketch.measure import add_counter_noise, count_places

        self.plan_ = self._plan(X.shape[1], labels)
        places = _compute_indices(self.plan_, X)
        counters, sizes = count_places(self.plan_, places, classes)
        assert self.plan_.size_parameter is not None
        self.sketch_ = Sketch(
            plan=self.plan_.hash_plan,
            counters=add_counter_noise(self.plan_, counters, self.plan_.parameter),
            sizes=add_counter_noise(self.plan_, sizes, self.plan_.size_parameter),
            noise=self.plan_.noise,
            parameter=self.plan_.parameter,
            variance=compute_noise_variance(self.plan_.noise, self.plan_.parameter),
            size_variance=self.plan_.size_parameter,
            hits=self.plan_.hits,
            event=self.plan_.event,
        )
        rho = get_accountant("zcdp").compute_price(self.plan_.event).amount
        self.rho_ = float(rho)
        self._count_fit(rho)

    def _count_fit(self, rho: Fraction) -> None:
        """Add a fit to those of this estimator and its clones, and warn at the 2nd, 4th, 8th fit and so on."""
        self.fits_, total = _TALLIES.setdefault(self, _FitTally()).add(rho)
        self.total_rho_ = float(total)
        self.total_epsilon_ = convert_zcdp_to_epsilon(self.total_rho_, float(parse_exact(str(self.delta))))
        if self.fits_ > 1 and self.fits_.bit_count() == 1:
            warnings.warn(
                f"{self.fits_} fits of this {type(self).__name__} and its clones cost rho {format_digits(total)} "
                f"(epsilon {format_digits(self.total_epsilon_)} at delta {self.delta}) for a row in all of them. "
                "Every fit is a release. Choose parameters on public or synthetic rows; total_epsilon_ is the sum.",
                PrivacyWarning,
                stacklevel=4,
            )

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy whose fits count together with this estimator's."""
        clone: Self = super().__sklearn_clone__()
        _TALLIES[clone] = _TALLIES.setdefault(self, _FitTally())
        return clone

    def _plan(self, d: int, labels: tuple[str, ...]) -> SketchPlan:
        bounds = np.asarray(self.bounds, dtype=float)
        bounds = np.tile(bounds, (d, 1)) if bounds.ndim == 1 else bounds
        if bounds.shape != (d, 2) or not (np.isfinite(bounds).all() and (bounds[:, 0] < bounds[:, 1]).all()):
            raise ValueError(f"bounds are (lo, hi), or one such pair for each of {d} features, lo < hi")
        attributes = [_build_attribute(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(bounds.tolist())]
        if labels:
            attributes.append(Attribute("label", "category", values=labels))
        epsilon, delta = parse_exact(str(self.epsilon)), parse_exact(str(self.delta))
        schema = TableSchema("X", Domain(tuple(attributes)), TableBudget("zcdp", epsilon=epsilon, delta=delta))
        spec = questions.SketchSpec(
            table="X",
            features=tuple(f"x{i}" for i in range(d)),
            kernel=PStable(2, float(self.bandwidth)),
            budget=Price(epsilon=str(self.epsilon)),
            rows=self.rows,
            scale="range",
            label="label" if labels else None,
        )
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        return plan(spec, schema, seed=seed)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise is never seeded
        return tags


def _build_attribute(name: str, lo: float, hi: float) -> Attribute:
    """Build a number whose grid is a power of two; bounds are moved outwards to multiples of the grid."""
    grid = Fraction(2) ** int(np.floor(np.log2((hi - lo) / STEPS)))
    low, high = (int(np.floor(lo / float(grid))), int(np.ceil(hi / float(grid))))
    return Attribute(
        name,
        "real",
        lo=_convert_to_decimal(low * grid),
        hi=_convert_to_decimal(high * grid),
        grid=_convert_to_decimal(grid),
        outside="clamp",
    )


def _convert_to_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _compute_indices(planned: SketchPlan, X: Floats) -> NDArray[np.int64]:
    from siloquent.sketch.estimate.points import compute_point_indices

    return compute_point_indices(planned.hash_plan, np.asarray(X, dtype=np.float64))[0]


class SketchDensity(DensityMixin, _SketchEstimator):  # type: ignore[misc]
    """A private kernel density: ``score_samples`` gives the log of the share of rows near each point.

    Parameters: ``epsilon``, ``delta``; ``bounds`` (lo, hi) of the features, or one pair per feature; ``bandwidth`` as a
    share of the bounds; ``rows`` of counters; ``random_state`` for the public hash functions.

    Privacy:
        (epsilon, delta)-DP for one row added or removed.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a sketch of X; y is ignored.

        Privacy:
            (epsilon, delta)-DP for one row of X added or removed.
        """
        X = validate_data(self, X, dtype=np.float64)
        self._fit_sketch(X, None, ())
        return self

    def score_samples(self, X: Any) -> Floats:
        """Return the log of the kernel density at each row of X, at least that of a hundredth of one record."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        found = estimate_density(self.sketch_, questions.Density(X, normalise=True)).values
        return np.asarray(np.log(np.maximum(found, 0.01 / self.sketch_.estimate_class_sizes().sum())))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of ``score_samples``."""
        return float(np.sum(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: int = 0) -> Floats:
        """Draw points from the density: free, and repeatable by ``random_state``."""
        check_is_fitted(self)
        return sample(self.sketch_, questions.Sample(n_samples, seed=random_state)).points


class SketchClassifier(ClassifierMixin, _SketchEstimator):  # type: ignore[misc]
    """A private maximum-likelihood classifier; ``classes`` are public, either given or taken from y.

    Parameters: those of ``SketchDensity``; ``classes``: the possible labels. None takes them from y, which reveals
    the labels that occur: give them where that is private.

    Privacy:
        (epsilon, delta)-DP for one row of (X, y) added or removed, with the set of labels public.
    """

    def __init__(
        self,
        *,
        epsilon: float | str = 1.0,
        delta: float | str = "1e-6",
        bounds: tuple[float, float] | list[tuple[float, float]] = (0.0, 1.0),
        bandwidth: float = 0.25,
        rows: int = 1024,
        random_state: int | None = None,
        classes: list[Any] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, bandwidth=bandwidth, rows=rows, random_state=random_state
        )
        self.classes = classes

    def fit(self, X: Any, y: Any) -> Self:
        """Release a sketch of X with one stack of counters per class.

        Privacy:
            (epsilon, delta)-DP for one row of (X, y) added or removed, with the set of labels public.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if self.classes is None:
            warnings.warn(
                f"{type(self).__name__} takes the classes from y, which reveals the labels that occur in it. "
                "If that is private, declare them: classes=[...].",
                PrivacyWarning,
                stacklevel=2,
            )
        self.classes_ = np.unique(y if self.classes is None else np.asarray(self.classes))
        known = np.isin(y, self.classes_)
        codes = np.searchsorted(self.classes_, np.asarray(y)[known])
        self._fit_sketch(X[known], codes, tuple(f"c{i}" for i in range(len(self.classes_))))
        return self

    def decision_function(self, X: Any) -> Floats:
        """Compute log-likelihoods, shape (rows, classes); for two classes, the second's minus the first's, (rows,)."""
        scores = np.log(self._compute_likelihoods(X))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Compute each class's share of the likelihood, shape (rows, classes): classes are assumed equally frequent."""
        scores = self._compute_likelihoods(X)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the likeliest class of each row of X."""
        best = self._compute_likelihoods(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _compute_likelihoods(self, X: Any) -> Floats:
        """Compute kernel densities of the classes, each at least that of a hundredth of one record."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if len(self.classes_) == 1:
            return np.ones((len(X), 1))
        found = classify(self.sketch_, questions.Classify(X)).scores
        return np.asarray(np.maximum(found, 0.01 / self.sketch_.estimate_class_sizes()))


class SketchOutlier(OutlierMixin, _SketchEstimator):  # type: ignore[misc]
    """A private outlier detector: points less dense than the ``contamination`` share of drawn points are outliers.

    Parameters: those of ``SketchDensity``; ``contamination``: the share of rows that may be outliers.

    Privacy:
        (epsilon, delta)-DP for one row added or removed.
    """

    def __init__(
        self,
        *,
        epsilon: float | str = 1.0,
        delta: float | str = "1e-6",
        bounds: tuple[float, float] | list[tuple[float, float]] = (0.0, 1.0),
        bandwidth: float = 0.25,
        rows: int = 1024,
        random_state: int | None = None,
        contamination: float = 0.05,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, bandwidth=bandwidth, rows=rows, random_state=random_state
        )
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a sketch of X, and compute the threshold from it; y is ignored.

        Privacy:
            (epsilon, delta)-DP for one row of X added or removed.
        """
        if not 0 < self.contamination <= 0.5:
            raise ValueError(f"contamination must be in (0, 0.5], not {self.contamination!r}")
        X = validate_data(self, X, dtype=np.float64)
        self._fit_sketch(X, None, ())
        low = [feature.lo for feature in self.sketch_.plan.features]
        judged = find_anomalies(self.sketch_, questions.Anomaly([low], share=self.contamination))
        self.offset_ = judged.threshold
        return self

    def score_samples(self, X: Any) -> Floats:
        """Return the kernel density at each row of X, as a share of all rows; low values are unusual."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return estimate_density(self.sketch_, questions.Density(X, normalise=True)).values

    def decision_function(self, X: Any) -> Floats:
        """Return ``score_samples`` minus the threshold: negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for outliers, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)
