"""Estimates are unbiased, intervals hold as often as they say, and the faults that this field invites are caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from siloquent.collect import Collection, ReportStore, Rows, build_single_row_users, estimate, perturb_all
from siloquent.collect.measure.tally import Tally, tally
from siloquent.collect.spec.answer import AggregateEstimate
from unit.collect.shops import ORDERS, PROFILE, WIDE, collection, shoppers

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
USERS, RUNS = 4_000, 60
Floats = NDArray[np.float64]


class Counted(ReportStore):
    """A store over reports that were only counted: a real one, but for the file."""

    def __init__(self, made: Collection, rows: Sequence[Rows]) -> None:
        self.collection = made
        self._batches = perturb_all(made, rows)

    def tally(self, channels: tuple[int, ...]) -> Tally:
        return tally(self.collection, [self._batches[at] for at in channels])


def runs(made: Collection, rows: Sequence[Rows], sql: str, times: int = RUNS) -> list[AggregateEstimate]:
    return [estimate(Counted(made, rows), sql).estimate for _ in range(times)]


def assert_unbiased(found: Sequence[float], truth: float) -> None:
    """The mean is where chance puts it; the spread is the sample's own, so the bound is wide for few runs."""
    mean, error = float(np.mean(found)), float(np.std(found, ddof=1)) / sqrt(len(found))
    limit = norm.isf(FALSE_ALARM / 2) * 1.25 * error  # 60 runs: Student's tails, generously
    assert abs(mean - truth) <= limit, f"mean {mean:.1f}, truth {truth:.1f}, at most {limit:.1f} apart"


PROFILES, SHOPPING = shoppers(USERS, seed=7)
OWNERS = np.repeat(np.arange(USERS), np.diff(SHOPPING.ends))
AGE, REGION = PROFILES.places.T
AMOUNT, GIFT = SHOPPING.places.T
OF_ORDER = AGE[OWNERS]
CASES: dict[str, tuple[str, float]] = {
    "COUNT": ("SELECT COUNT(*) FROM profile WHERE age BETWEEN 5 AND 14", ((AGE >= 5) & (AGE < 15)).sum()),
    "COUNT with OR": (
        "SELECT COUNT(*) FROM profile WHERE age < 5 OR region = 'b'",
        ((AGE < 5) | (REGION == 1)).sum(),
    ),
    "COUNT of several rows": ("SELECT COUNT(*) FROM orders WHERE gift", (GIFT == 1).sum()),
    "SUM of several rows": ("SELECT SUM(amount) FROM orders WHERE gift = false", AMOUNT[GIFT == 0].sum()),
    "COUNT over a join": (
        "SELECT COUNT(*) FROM orders JOIN profile USING (user) WHERE age < 10 AND amount >= 10",
        ((OF_ORDER < 10) & (AMOUNT >= 10)).sum(),
    ),
    "SUM over a join": (
        "SELECT SUM(amount) FROM orders JOIN profile USING (user) WHERE age >= 15",
        AMOUNT[OF_ORDER >= 15].sum(),
    ),
}


@pytest.mark.parametrize(("sql", "truth"), CASES.values(), ids=CASES)
def test_estimates_are_unbiased_and_their_errors_are_theirs(sql: str, truth: float) -> None:
    found = runs(collection(PROFILE, ORDERS, epsilon="6"), (PROFILES, SHOPPING), sql)
    assert_unbiased([one.value for one in found], truth)
    ratio = np.std([one.value for one in found], ddof=1) / np.mean([one.standard_error for one in found])
    # 60 runs know a spread to about 9 %; six times that is a false alarm in 10^9.
    assert 0.55 < ratio < 1.6, ratio


def joined(client: str) -> tuple[Collection, Sequence[Rows]]:
    made = collection(PROFILE, ORDERS, epsilon="6", client=client)
    both = np.column_stack([PROFILES.places[OWNERS], SHOPPING.places])
    return made, [Rows(both, SHOPPING.ends)]


def test_a_coordinated_client_is_unbiased_and_several_times_as_exact() -> None:
    sql, truth = CASES["COUNT over a join"]
    made, rows = joined("coordinated")
    found = runs(made, rows, sql)
    assert_unbiased([one.value for one in found], truth)
    apart = runs(collection(PROFILE, ORDERS, epsilon="6"), (PROFILES, SHOPPING), sql, times=5)
    assert np.mean([one.standard_error for one in apart]) > 2 * np.mean([one.standard_error for one in found])


def coverage(holds: Sequence[bool]) -> None:
    """Between 93 and 97 of 100 intervals hold, as far as so many can tell."""
    hits, trials = sum(holds), len(holds)
    low, high = binom.ppf(FALSE_ALARM, trials, 0.93), binom.isf(FALSE_ALARM, trials, 0.97)
    assert low <= hits <= high, f"{hits} hits in {trials}"


def intervals(shrink: float = 1.0) -> list[bool]:
    rows, holds = build_single_row_users(PROFILES.places), []
    made = collection(PROFILE, epsilon="2")
    for _ in range(150):
        store = Counted(made, [rows])
        for low in (0, 5, 10, 15, 20):
            one = estimate(store, f"SELECT COUNT(*) FROM profile WHERE age BETWEEN {low} AND {low + 4}").estimate
            truth = ((low <= AGE) & (low + 4 >= AGE)).sum()
            holds.append(bool(abs(one.value - truth) <= shrink * (one.high - one.value)))
    return holds


def test_intervals_hold_as_often_as_they_say() -> None:
    coverage(intervals())


def test_the_coverage_test_catches_errors_that_are_too_small() -> None:
    with pytest.raises(AssertionError, match="hits in"):
        coverage(intervals(shrink=0.5))


def test_averages_are_near_the_truth_and_their_intervals_hold() -> None:
    sql = "SELECT AVG(amount) FROM orders JOIN profile USING (user) WHERE age >= 10"
    found = runs(collection(PROFILE, ORDERS, epsilon="8"), (PROFILES, SHOPPING), sql)
    truth = AMOUNT[OF_ORDER >= 10].mean()
    hits = sum(one.low <= truth <= one.high for one in found)
    assert hits >= binom.ppf(FALSE_ALARM, RUNS, 0.93)


def test_counts_under_three_conditions_are_modelled_and_near() -> None:
    random = np.random.default_rng(3)
    base = random.normal(12, 6, USERS * 5)
    places = np.clip(np.rint(base[:, None] + random.normal(0, 3, (USERS * 5, 4))), 0, 24).astype(np.int64)
    sql = "SELECT COUNT(*) FROM wide WHERE a < 15 AND b < 15 AND c < 15"
    truth = (places[:, :3] < 15).all(axis=1).sum()
    found = runs(collection(WIDE, epsilon="4"), [build_single_row_users(places)], sql, times=10)
    assert all(one.model_based for one in found)
    assert abs(np.mean([one.value for one in found]) - truth) < 0.05 * len(places)


def cut_and_rescaled(estimates: Floats) -> Floats:
    """The popular repair of negative counts: cut at 0, then scaled to the total."""
    cut = np.maximum(estimates, 0)
    return cut * estimates.sum() / cut.sum()


def sums_of_rare(repair: Callable[[Floats], Floats]) -> list[float]:
    """The estimated number of users in three rare regions of age, from one layer's nodes."""
    made, found = collection(PROFILE, epsilon="1"), []
    rare = build_single_row_users(np.column_stack([np.zeros(USERS, dtype=np.int64), np.zeros(USERS, dtype=np.int64)]))
    channel = made.channels[0]
    at = next(i for i, one in enumerate(channel.layers) if one.nodes == 25)
    oracle = channel.layers[at].oracle
    for _ in range(RUNS):
        counts = tally(made, perturb_all(made, [rare])).supports[(at,), ()]
        estimates = (counts[:-1] - oracle.q * counts[-1]) / (oracle.p - oracle.q)
        found.append(float(repair(estimates)[10:].sum()))
    return found


def test_nodes_that_nobody_holds_are_estimated_as_nothing() -> None:
    assert_unbiased(sums_of_rare(lambda estimates: estimates), 0.0)


def test_the_bias_test_catches_cut_negatives() -> None:
    with pytest.raises(AssertionError, match=r"truth 0\.0"):
        assert_unbiased(sums_of_rare(cut_and_rescaled), 0.0)


SPIKY = """
[[service]]
name = "work"
everyone = true
attribute = [
  { name = "kind", type = "category", values = ["a", "b"], other = "cell", null = "cell" },
  { name = "hours", type = "integer", lo = 0, hi = 99, outside = "clamp", null = { value = 0 }, use = "measure" },
]
"""


def test_measures_that_crowd_at_one_value_are_averaged_without_bias() -> None:
    hours = np.where(np.arange(USERS) % 10 < 8, 40, 5)
    rows = [build_single_row_users(np.column_stack([np.arange(USERS) % 2, hours]))]
    found = runs(collection(SPIKY, epsilon="6"), rows, "SELECT SUM(hours) FROM work WHERE kind = 'b'")
    assert_unbiased([one.value for one in found], float(hours[np.arange(USERS) % 2 == 1].sum()))
    ratio = np.std([one.value for one in found], ddof=1) / np.mean([one.standard_error for one in found])
    assert 0.55 < ratio < 1.6, ratio
