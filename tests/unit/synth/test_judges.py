"""Right answers of classifiers are counts: a row that comes or goes moves each by one at most."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from siloquent.synth import Budget
from siloquent.synth.estimate.report.classifiers import FittedClassifiers, round_coefficients, train_classifiers
from siloquent.synth.measure.quality import measure_distances
from siloquent.synth.plan.budget import VectorNoise
from siloquent.synth.spec.measurements import decode_run_measurements
from unit.synth.people import opened, rows, spec

SIZES = (2, *(4 for _ in range(12)))


def nearly_undecided(seed: int) -> tuple[LogisticRegression, np.ndarray]:
    """A classifier of the first column, and a row whose score is 0 but for rounding."""
    random = np.random.default_rng(seed)
    row = np.array([0, *random.integers(0, 4, 12)])
    weights = random.normal(size=48).astype(np.float32)
    held = [4 * i + value for i, value in enumerate(row[1:])]
    weights[held[-1]] = -weights[held[:-1]].astype(np.float64).sum()
    model = LogisticRegression()
    model.classes_, model.coef_, model.intercept_ = np.array([0, 1]), weights[None], np.zeros(1, dtype=np.float32)
    return model, row


@pytest.mark.slow
def test_one_more_row_changes_what_is_said_of_no_other() -> None:
    for seed in range(20):
        model, row = nearly_undecided(seed)
        judges = FittedClassifiers(0, SIZES, (round_coefficients(model),))
        right = [int(judges.count_right(np.repeat(row[None], count, axis=0))[0]) for count in range(30)]
        assert set(np.diff(right).tolist()) in ({0}, {1})


def test_fitted_scores_are_sums_of_whole_steps() -> None:
    rows = np.random.default_rng(0).integers(0, SIZES, (300, 13))
    linear = train_classifiers(rows, 0, SIZES, seed=1).models[0]
    for found in (linear.coef_, linear.intercept_):
        assert found.dtype == np.float64
        assert (found * 2**24 == np.rint(found * 2**24)).all()
        assert np.abs(found).max() <= 2**20


def test_a_report_holds_each_distance_and_each_count_with_the_noise_that_was_planned_for_it(tmp_path: Path) -> None:
    """Against the same distances of the output, computed from rows: at this budget noise is a hundredth of them."""
    asked = spec(rows=400, report="0.5", targets=("smoker",), budget=Budget(epsilon="90"), seed=5, constraints="none")
    table = rows(400)
    with opened(tmp_path / "w", table) as session:
        planned = session.synth.explain(asked)
        session.synth.synthesize(asked, key="k")
        (stored,) = session.ledger.iter_answers("people@1")
    found = decode_run_measurements(stored.payload).select_kind("report")
    assert [step.variance for step in found] == [noise.variance for noise in planned.report]
    assert len({noise.variance for noise in planned.report}) == 3
    assert [step.counts.size for step in found] == [1, 1, 3]
    for step, most in zip(found, (2 * 400 * 6, 2 * 400 * 15, 400), strict=True):
        assert (step.counts > 0).all()
        assert (step.counts <= most + 9 * math.sqrt(step.variance)).all()


def test_a_distance_adds_up_cells_that_have_too_many_and_cells_that_have_too_few() -> None:
    exact = [np.array([5, 0, 2]), np.array([[1, 1], [4, 1]])]
    output = [np.array([2.2, 3.0, 2.0]), np.array([[1.0, 1.0], [0.6, 4.4]])]
    fine = VectorNoise("laplace", Fraction(1, 1_024), 1)  # noise is 0 but for e^-1024
    ones, pairs = measure_distances(([exact[0]], [exact[1]]), ([output[0]], [output[1]]), (fine, fine))
    assert (ones.counts.tolist(), pairs.counts.tolist()) == ([6], [6])
    (both, _) = measure_distances((exact, exact), (output, output), (fine, fine))
    assert both.counts.tolist() == [12]
