"""Sums of squares around the centre, limb by limb: exact, also where distances are large."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from siloquent.explore.measure import squared_deviations
from siloquent.schema import Block


@pytest.mark.parametrize("steps", [5, 2**21 + 3, 2**40])
def test_the_limbs_add_up_to_the_squares(steps: int) -> None:
    random = np.random.default_rng(3)
    places = np.concatenate([random.integers(0, steps, 500), [-1, steps, steps - 1, 0]])
    groups = random.integers(-1, 3, len(places))
    offset = -(steps // 2)
    block = Block(("ward",), (np.array([0, 1, 2, -1]),))
    batch = pa.RecordBatch.from_pydict({"cost": places, "ward": groups})
    limbs = partial(squared_deviations._sum_squares, [block], "cost", steps, offset)(batch)
    found = [sum(int(limb) << (20 * at) for at, limb in enumerate(column)) for column in limbs.T]
    wanted = [
        sum((int(p) + offset) ** 2 for p, g in zip(places, groups, strict=True) if g == ward and 0 <= p < steps)
        for ward in range(3)
    ]
    assert found == wanted
