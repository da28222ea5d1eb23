"""Known rates are met by exchanges that touch nothing else."""

from __future__ import annotations

import numpy as np

from siloquent.schema.constraints import FunctionalDependency
from siloquent.synth.estimate.enforce.constraints import count_violations, find_broken_hard
from siloquent.synth.estimate.match_rates import choose_target, match_rates
from unit.synth.test_constraints import SMALL, compiled, never

FALLS = "t1.c > t2.c and t1.d < t2.d"


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, (4, 5, 6, 7), (2_000, 4))


def test_a_rate_is_met_from_above_and_from_below_and_marginals_with_parents_stay() -> None:
    found = compiled(SMALL, never(FALLS, hard=False))
    before = rows()
    for wanted in (0.25, 0.45):
        after, reached = match_rates(before, found, {1: wanted}, np.random.default_rng(1), parents={"d": ("a",)})
        assert abs(reached[1] / wanted - 1) <= 0.02
        assert reached[1] == count_violations(after, found)[1].rate
        assert (after[:, :3] == before[:, :3]).all()
        joint = [np.unique(table[:, [0, 3]], axis=0, return_counts=True)[1].tolist() for table in (before, after)]
        assert joint[0] == joint[1]


def test_what_a_hard_constraint_reads_is_never_exchanged() -> None:
    found = compiled(SMALL, never(FALLS, hard=False), FunctionalDependency(("a",), "d"))
    assert choose_target(found.constraints[0], found) == "c"
    before = rows()
    before[:, 3] = before[:, 0]
    after, _ = match_rates(before, found, {1: 0.1}, np.random.default_rng(1))
    assert not find_broken_hard(after, found)
    assert (after[:, [0, 1, 3]] == before[:, [0, 1, 3]]).all()


def test_nothing_to_exchange_leaves_the_rows_and_tells_the_rate() -> None:
    found = compiled(SMALL, never(FALLS, hard=False), never("t1.c = t2.c and t1.d != t2.d"))
    after, reached = match_rates(rows(), found, {1: 0.1}, np.random.default_rng(1))
    assert (after == rows()).all()
    assert reached[1] > 0.2
