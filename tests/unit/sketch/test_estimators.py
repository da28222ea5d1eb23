"""Sketches keep scikit-learn's rules for estimators, but for those that privacy forbids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from siloquent.errors import PrivacyWarning
from siloquent.sketch.estimators import SketchClassifier, SketchDensity, SketchOutlier

NOISY = "noise is drawn anew at each fit and is never seeded, so two fits on the same rows differ"
ROWS = "an exact share of the training rows could only be flagged by reading them a second time, without noise"
EXPECTED: dict[type[Any], dict[str, str]] = {
    SketchDensity: {},
    SketchClassifier: {"check_fit_idempotent": NOISY, "check_supervised_y_2d": NOISY},
    SketchOutlier: {
        "check_fit_idempotent": NOISY,
        "check_outliers_fit_predict": ROWS,
        "check_outliers_train": ROWS,
    },
}
# A large epsilon, so that rules about shapes, types and names are what is tested, not the noise on thirty rows.
pytestmark = pytest.mark.filterwarnings("ignore::siloquent.errors.PrivacyWarning")
ESTIMATORS = [
    SketchDensity(epsilon=1_000, bounds=(-10, 10), rows=64),
    SketchClassifier(epsilon=1_000, bounds=(-10, 10), rows=256, bandwidth=0.1),
    SketchOutlier(epsilon=1_000, bounds=(-10, 10), rows=64),
]


# Not strict: what depends on noise may pass by chance.
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda made: EXPECTED[type(made)], xfail_strict=False)
def test_scikit_learns_rules_are_kept(estimator: Any, check: Any) -> None:
    check(estimator)


def clouds(count: int = 4_000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = random.random(count) < 0.4
    X = np.clip(np.where(y, 0.25, 0.75)[:, None] + random.normal(0, 0.1, (count, 2)), 0, 1)
    return X, np.where(y, "left", "right")


def test_the_classifier_tells_clouds_apart() -> None:
    X, y = clouds()
    made = SketchClassifier(epsilon="1", classes=["left", "right"]).fit(X[:3_000], y[:3_000])
    assert made.score(X[3_000:], y[3_000:]) > 0.95
    assert made.predict_proba(X[:5]).sum(axis=1) == pytest.approx(1)
    assert made.rho_ <= 0.0244


def test_dense_places_score_higher_and_drawn_points_lie_there() -> None:
    X, _ = clouds()
    made = SketchDensity(epsilon="1").fit(X)
    inside, outside = made.score_samples([[0.75, 0.75], [0.05, 0.95]])
    assert inside > outside + 1
    drawn = made.sample(4_000)  # some 834 of 1,000 lie there, give or take 4
    assert (np.abs(drawn[:, 0] - drawn[:, 1]) < 0.5).mean() > 0.8


def test_a_far_point_is_an_outlier_and_a_near_one_is_not() -> None:
    X, _ = clouds()
    made = SketchOutlier(epsilon="1", bandwidth=0.15, contamination=0.02).fit(X)
    assert made.predict([[0.75, 0.75], [0.02, 0.98]]).tolist() == [1, -1]


def test_two_fits_differ_since_noise_is_never_seeded() -> None:
    X, _ = clouds(200)
    one, two = (SketchDensity(random_state=3).fit(X).sketch_ for _ in range(2))
    assert one.plan.digest == two.plan.digest
    assert not np.array_equal(one.counters, two.counters)


def test_labels_that_are_not_declared_count_nowhere() -> None:
    X, y = clouds(1_000)
    made = SketchClassifier(epsilon="5", classes=["left", "other"]).fit(X, y)
    assert made.classes_.tolist() == ["left", "other"]
    assert made.sketch_.estimate_class_sizes()[1] < 60


@pytest.mark.parametrize("bounds", [(1.0, 0.0), [(0, 1)], (0.0, float("inf"))])
def test_bounds_that_are_none_are_refused(bounds: Any) -> None:
    with pytest.raises(ValueError, match="bounds are"):
        SketchDensity(bounds=bounds).fit(clouds(50)[0])


def test_an_estimator_is_cloned_with_its_parameters() -> None:
    made = SketchOutlier(epsilon="0.5", contamination=0.1)
    assert clone(made).get_params() == made.get_params()


def test_classes_that_are_read_off_y_are_warned_about_and_not_told() -> None:
    X, y = clouds(200)
    with pytest.warns(PrivacyWarning, match=r"takes the classes from y.* declare them: classes=") as told:
        SketchClassifier().fit(X, y)
    assert not any(label in str(told[0].message) for label in ("left", "right"))
    assert told[0].filename == __file__


def test_one_fit_with_declared_classes_is_not_warned_about(recwarn: pytest.WarningsRecorder) -> None:
    X, y = clouds(200)
    made = SketchClassifier(classes=["left", "right"]).fit(X, y)
    assert [one for one in recwarn if issubclass(one.category, PrivacyWarning)] == []
    assert (made.fits_, made.total_rho_) == (1, made.rho_)
    assert made.total_epsilon_ == pytest.approx(1.0, rel=0.01)


def test_a_grid_search_says_what_all_its_fits_cost() -> None:
    X, y = clouds(300)
    own = SketchClassifier(epsilon="0.5", classes=["left", "right"], rows=64)
    search = GridSearchCV(own, {"bandwidth": [0.1, 0.3]}, cv=3)
    with pytest.warns(PrivacyWarning, match="Every fit is a release") as told:
        search.fit(X, y)
    best = search.best_estimator_
    assert best.fits_ == 7  # two bandwidths on three folds, and the chosen one on all rows
    assert best.total_rho_ == pytest.approx(7 * best.rho_)
    assert best.total_epsilon_ > 2 * 0.5
    counts = [str(one.message).split()[0] for one in told if issubclass(one.category, PrivacyWarning)]
    assert counts == ["2", "4"]


def test_an_estimator_that_was_made_anew_counts_from_one() -> None:
    X, _ = clouds(100)
    made = SketchDensity().fit(X)
    assert (made.fit(X).fits_, clone(made).fit(X).fits_, SketchDensity().fit(X).fits_) == (2, 3, 1)
