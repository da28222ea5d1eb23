"""Discovery inside one table: exact lists and CPU milliseconds, beside trying every set of columns."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.profile.smfd import SETS, load
from benchmarks.row import Options, Row
from siloquent.maths.dependencies import FD, discover, list_columns, number_groups

PROTOTYPE_MS = {
    "iris": 0.4,
    "balance-scale": 0.5,
    "chess": 31,
    "abalone": 28,
    "nursery": 20,
    "breast-cancer-wisconsin": 8,
    "bridges": 7,
    "echocardiogram": 12,
}
LATTICE = ("iris", "balance-scale", "abalone", "breast-cancer-wisconsin")


def rows(options: Options) -> Iterator[Row]:
    """Wrong dependencies (none may be), CPU milliseconds, and how many times faster than the whole lattice."""
    folder = options.data / "smfd"
    for name in SETS:
        if not any(options.wants(f"local-{name}-{what}") for what in ("wrong", "ms", "speedup")):
            continue
        codes, golden = _codes(folder, name), _golden(folder, name)
        found, seconds = _timed(lambda codes=codes: discover(codes))  # type: ignore[misc]
        yield Row(f"local-{name}-wrong", ours=len(set(found) ^ golden), goal=0, unit="dependencies")
        yield Row(f"local-{name}-ms", ours=1e3 * seconds, peer=PROTOTYPE_MS[name], unit="CPU ms", how="median of 5")
        if name in LATTICE and not options.quick:
            start = time.process_time()
            whole = lattice(codes)
            slow = time.process_time() - start
            assert set(whole) == golden
            yield Row(f"local-{name}-speedup", ours=slow / seconds, goal=1, better="higher", unit="times")


def lattice(codes: NDArray[Any]) -> list[FD]:
    """The minimal dependencies by counting the values of every set of columns."""
    columns = codes.shape[1]
    counts = [len(number_groups(codes, mask)[1]) for mask in range(2**columns)]
    found: list[FD] = []
    for lhs in sorted(range(1, 2**columns), key=int.bit_count):
        for right in list_columns(~lhs & ((1 << columns) - 1)):
            known = any(given == right and inner & ~lhs == 0 for inner, given in found)
            if not known and counts[lhs] == counts[lhs | 1 << right]:
                found.append((lhs, right))
    return found


def _timed(run: Callable[[], list[FD]]) -> tuple[list[FD], float]:
    run()
    times, found = [], list[FD]()
    for _ in range(5):
        start = time.process_time()
        found = run()
        times.append(time.process_time() - start)
    return found, sorted(times)[2]


def _codes(folder: Path, name: str) -> NDArray[np.int64]:
    table = load(folder, name)
    columns = [np.unique(column.to_pylist(), return_inverse=True)[1] for column in table.columns]
    return np.stack(columns, axis=1).astype(np.int64)


def _golden(folder: Path, name: str) -> set[FD]:
    names = load(folder, name).column_names
    with gzip.open(folder / f"{name}.fds.json.gz", "rt") as file:
        golden = json.load(file)
    return {(sum(1 << names.index(column) for column in lhs), names.index(rhs)) for lhs, rhs in golden["uFD"]}
