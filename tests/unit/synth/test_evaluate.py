"""An evaluation's figures against what they are by hand."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.synth.estimate.report.evaluate import evaluate
from unit.synth.test_constraints import SMALL, compiled, never


def test_equal_tables_are_at_no_distance_and_break_the_same() -> None:
    found = compiled(SMALL, never("t1.c > t2.c and t1.d < t2.d", hard=False))
    random = np.random.default_rng(0)
    rows = np.stack([random.integers(0, min(size, 2), 200) for size in found.sizes], axis=1)
    rows[:, 1] = rows[:, 0]
    seen = evaluate(rows, rows, found, [])
    assert {one.distance for one in (*seen.ones, *seen.pairs)} == {0.0}
    assert len(seen.pairs) == len(found.attributes) * (len(found.attributes) - 1) // 2
    ((number, ours, theirs),) = seen.broken
    assert (number, ours.pairs) == (1, theirs.pairs)


def test_a_distance_is_half_of_all_differences() -> None:
    found = compiled(SMALL)
    rows = np.zeros((10, len(found.attributes)), dtype=np.int64)
    other = rows.copy()
    other[:3, 0] = 1
    seen = evaluate(rows, other, found, [])
    assert seen.ones[0].distance == pytest.approx(0.3)
    assert seen.ones[1].distance == 0
    assert seen.pairs[0].distance == pytest.approx(0.3)
