"""Every mechanism of the paper on one question, SUM under a range, beside ours; and sweeps of volume, m, d and eps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.collect import paper
from benchmarks.collect.data import Integers, Simulated, nmse, one_service, ordinal, syn1
from benchmarks.row import Options, Row
from siloquent.collect import build_single_row_users, design
from siloquent.maths.local.hierarchy import Tree, build_tree

USERS, M, VOLUME = 1_000_000, 125, 0.15
Sum = Callable[[int, int], float]
"""The estimated sum of attribute 1, for attribute 0 in a range."""


def hio(table: Integers, epsilon: float, m: int) -> Sum:
    """HIO, enumerating the values of the measure."""
    made, values = paper.Hio(table, epsilon, 1, _trees(table, m)), np.arange(1.0, m + 1).tolist()
    return lambda low, high: made.sum(1, values, {0: (low, high)})


def sr_hio(table: Integers, epsilon: float, m: int) -> Sum:
    """SR-HIO: a rounded copy of every attribute."""
    made = paper.SrHio(table, epsilon, 1, ends=[(1, m)] * table.shape[1], trees=_trees(table, m))
    return lambda low, high: made.sum(1, {0: (low, high)})


def ahio(table: Integers, epsilon: float, m: int, *, k: int | None = None, mirror: bool = False) -> Sum:
    """AHIO; with ``k`` AHIO-RDC, with ``mirror`` EHIO."""
    made = paper.Ahio(table, epsilon, 1, most=m, trees=_trees(table, m), mirror=mirror)
    return lambda low, high: made.sum(1, {0: (low, high)}, k=k)


def amg(table: Integers, epsilon: float, m: int) -> Sum:
    """AMG: the finest layer alone."""
    made = paper.Mg(table, epsilon, 1, _trees(table, m), ends=(1, m))
    return lambda low, high: made.sum(1, {0: (low, high)})


def hio_pub(table: Integers, epsilon: float, m: int) -> Sum:
    """HIO-PUB: the measure is shown."""
    others = [axis for axis in range(table.shape[1]) if axis != 1]
    made = paper.Hio(table[:, others], epsilon, 1, _trees(table[:, others], m))
    return lambda low, high: made.sum_of_public(np.asarray(table[:, 1] + 1.0, dtype=np.float64), {0: (low, high)})


MECHANISMS: dict[str, Callable[[Integers, float, int], Sum]] = {
    "hio": hio,
    "sr-hio": sr_hio,
    "ahio": ahio,
    "ehio": partial(ahio, mirror=True),
    **{f"ahio-rdc{k}": partial(ahio, k=k) for k in (2, 4, 8, 16)},
    "amg": amg,
    "hio-pub": hio_pub,
}
SWEEPS: dict[str, tuple[float, int, int, float]] = {
    **{f"volume-{volume}": (volume, M, 2, 2.0) for volume in (0.04, 0.08, 0.3)},
    **{f"m-{m}": (VOLUME, m, 2, 2.0) for m in (5, 25, 625)},
    **{f"d-{d}": (VOLUME, M, d, 2.0) for d in (3, 4)},
    "d-5": (VOLUME, 25, 5, 2.0),  # 125^5 nodes are more than the hashes tell apart
    **{f"eps-{epsilon}": (VOLUME, M, 2, epsilon) for epsilon in (0.5, 1.0, 5.0)},
}


def rows(options: Options) -> Iterator[Row]:
    """NMSE of SUM under a range, one draw of data, 10 queries; n = 10^6 (quick: 10^5)."""
    users = USERS // 10 if options.quick else USERS
    named = [name for name in MECHANISMS if options.wants(f"mechanism-{name}")]
    if named:
        table = syn1(0, users)
        ours = _error(table, _ours(table, 2.0, M), VOLUME, M)
        for name in named:
            theirs = _error(table, MECHANISMS[name](table, 2.0, M), VOLUME, M)
            how = f"SUM, SYN-1, n {users:,}, d 2, m 125, eps 2, 10 ranges of 19; peer: {name.upper()}"
            yield Row(f"mechanism-{name}", ours=ours, peer=theirs, unit="NMSE", how=how)
    for name, (volume, m, d, epsilon) in SWEEPS.items():
        if options.wants(f"sweep-{name}"):
            table = syn1(0, users, m=m, d=d)
            ours = _error(table, _ours(table, epsilon, m), volume, m)
            theirs = _error(table, ahio(table, epsilon, m), volume, m)
            how = f"SUM, SYN-1, n {users:,}, d {d}, m {m}, eps {epsilon:g}, volume {volume}; peer: AHIO"
            yield Row(f"sweep-{name}", ours=ours, peer=theirs, unit="NMSE", how=how)


def _trees(table: Integers, m: int) -> list[Tree]:
    return [build_tree(m) for _ in range(table.shape[1])]


def _ours(table: Integers, epsilon: float, m: int) -> Sum:
    resolution = min(m, 25)
    roles = [ordinal(f"a{j}", m, lo=1, use="both" if j == 1 else "filter", resolution=resolution, ends=m > 25)
             for j in range(table.shape[1])]  # fmt: skip
    made = Simulated(design(one_service(roles, f"{epsilon:g}")), [build_single_row_users(table)])
    return lambda low, high: made.ask(f"SELECT SUM(a1) FROM t WHERE a0 BETWEEN {low + 1} AND {high + 1}").value


def _error(table: Integers, estimate: Sum, volume: float, m: int) -> float:
    width, rng = max(1, round(volume * m)), np.random.default_rng(9)
    found, truth = [], []
    for low in rng.integers(0, m - width + 1, 10):
        inside = (table[:, 0] >= low) & (table[:, 0] < low + width)
        found.append(estimate(int(low), int(low) + width - 1))
        truth.append(float((table[inside, 1] + 1).sum()))
    return nmse(found, truth, float((table[:, 1] + 1).sum()))
