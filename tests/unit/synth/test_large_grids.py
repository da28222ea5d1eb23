"""Memory follows rows and groups, never the number of cells of a declared grid."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from siloquent.synth.spec.fine_domain import CellGroups, group_single_cells
from tests.unit.synth.test_before_spending import asked, opened

MAX_BYTES = 150 * 2**20
ROWS = 500


def attribute(name: str, hi: int, grid: str) -> str:
    return f"{{ name = '{name}', type = 'real', lo = 0, hi = {hi}, grid = {grid}, outside = 'clamp', null = 'drop' }}"


@pytest.mark.parametrize("rule", ["", "{ kind = 'denial', not = 'x < y', hard = true }"], ids=["free", "ordered"])
@pytest.mark.parametrize(("hi", "grid"), [(500, "0.01"), (5_000_000, "0.01"), (5_000_000_000, "0.005")])
def test_a_synthesis_takes_memory_by_groups(hi: int, grid: str, rule: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    low, high = np.sort(random.uniform(0, hi, (2, ROWS)), axis=0)
    names = [attribute("x", hi, grid), attribute("y", hi, grid)]
    session = opened(tmp_path / "w", names, pa.table({"x": high, "y": low}), *([rule] if rule else []))
    tracemalloc.start()
    try:
        made = session.synth.synthesize(asked(rows=ROWS))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    x, y = (np.array(made.rows[name]) for name in ("x", "y"))
    assert peak < MAX_BYTES
    # A number of a cell that did not fit into 32 bits would lie anywhere, also below 0.
    assert min(x.min(), y.min()) >= 0
    assert max(x.max(), y.max()) <= hi
    assert (x > hi / 2).mean() > 0.5
    assert not rule or (x >= y).all()


def test_groups_by_runs_are_those_by_cells() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        widths = random.integers(1, 9, random.integers(1, 30))
        groups = random.integers(0, 5, len(widths))
        groups = np.unique(groups, return_inverse=True)[1]
        runs = CellGroups(np.cumsum(widths) - widths, widths, groups)
        cells = group_single_cells(np.repeat(groups, widths))
        asked_for = random.integers(0, widths.sum(), 200)
        assert (runs.find_groups(asked_for) == cells.find_groups(asked_for)).all()
        seed = int(random.integers(2**31))
        drawn = [each.draw_within(asked_for, np.random.default_rng(seed)) for each in (runs, cells)]
        assert (drawn[0] == drawn[1]).all()
        assert (runs.find_groups(drawn[0]) == runs.find_groups(asked_for)).all()
