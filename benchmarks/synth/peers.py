"""Adult beside dpmm's AIM, MST and PrivBayes: the same rows and declared domain, each run in an environment of its own.

Peers get the public bins that a user would give them: MST the fine domain, AIM and PrivBayes a coarser one, since they
have no binning of their own. A peer that cannot be installed or takes more than forty minutes is shown as such.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.kamino_tables import EDGES, WHOLE, Published, adult, distances, learned
from benchmarks.explore.peers import Peer, environment, printed
from benchmarks.row import Options, Row
from benchmarks.synth.adult import Run, run

METHODS = {"privbayes": "coarse", "mst": "fine", "aim": "coarse"}
PEER = Peer("dpmm", "dpmm_tables.py", ("dpmm>=0.1.9,<0.2",), 1)
SECONDS = 2_400
HOURS = (9, 19, 20, 29, 34, 35, 39, 40, 44, 45, 49, 50, 59, 60)


def rows(options: Options) -> Iterator[Row]:
    """Rows synth-peer-...: our default run beside each method's."""
    wanted = [method for method in METHODS if options.wants(f"synth-peer-{method}")]
    if options.quick or not wanted:
        return
    true = adult(options.data)
    ours = run(true, 0)
    for method in wanted:
        yield from _beside(true, ours, method)


def _beside(true: Published, ours: Run, method: str) -> Iterator[Row]:
    name = f"synth-peer-{method}"
    with tempfile.TemporaryDirectory() as folder:
        edges = _edges(true, METHODS[method])
        figures = _figures(true, edges, method, Path(folder))
        if isinstance(figures, str):
            yield Row(name, ours=ours.far.two, unit="mean TV of pairs", how=f"no figure of the peer: {figures}")
            return
        found = _decoded(true, edges, Path(folder))
    far = distances(true, found)
    accuracy, auc = learned(true, found, "income", "hgb")
    how = (
        f"Adult, eps 1, delta 1e-6, one seed; dpmm {method}, {METHODS[method]} domain: worst {far.two_worst:.3f}, "
        f"1-way {far.one:.4f}, AUC {auc:.4f}, {figures['cpu_seconds']:.0f} CPU s, {figures['megabytes']:.0f} MB"
    )
    yield Row(f"{name}-two", ours=ours.far.two, peer=far.two, unit="mean TV of pairs", how=how)
    yield Row(f"{name}-income", ours=ours.accuracy, peer=accuracy, better="higher", unit="accuracy", how=how)


def _edges(true: Published, domain: str) -> dict[str, list[int]]:
    """The first value of every public bin of the numbers, and the end."""
    made = {name: list(edges) for name, edges in EDGES.items()}
    made |= {name: list(range(low, high + 2)) for name, (low, high) in WHOLE.items()}
    if domain == "coarse":
        made["age"] = [*range(17, 91, 4), 91]
        made["fnlwgt"] = list(range(0, 1_500_001, 150_000))
        made["capital-loss"] = [*EDGES["capital-loss"][:2], *EDGES["capital-loss"][2::2], 4_601]
        made["hours-per-week"] = [1, *(last + 1 for last in HOURS), 100]
    return {name: edges for name, edges in made.items() if name in true.columns}


def _figures(true: Published, edges: Mapping[str, Sequence[int]], method: str, folder: Path) -> dict[str, float] | str:
    """Seconds and memory of a peer, whose rows lie in ``folder``/made.csv; or why there are none."""
    import pyarrow as pa
    import pyarrow.csv

    python = environment(PEER)
    if isinstance(python, str):
        return python
    cells, sizes = {}, {}
    for name, values in true.columns.items():
        bins = edges[name] if name in edges else np.unique(values.astype(str))
        sizes[name] = len(bins) - (name in edges)
        found = np.searchsorted(bins, values if name in edges else values.astype(str), side="right") - 1
        cells[name] = np.clip(found, 0, sizes[name] - 1)
    pyarrow.csv.write_csv(pa.table(cells), folder / "cells.csv")
    (folder / "sizes.json").write_text(json.dumps(sizes))
    return printed(python, PEER, str(folder), method, "1", "1e-6", seconds=SECONDS)


def _decoded(true: Published, edges: Mapping[str, Sequence[int]], folder: Path) -> dict[str, NDArray[Any]]:
    """The peer's rows as values; numbers are uniform whole ones inside their bins."""
    import pyarrow.csv

    made, random = pyarrow.csv.read_csv(folder / "made.csv"), np.random.default_rng(0)
    found: dict[str, NDArray[Any]] = {}
    for name, values in true.columns.items():
        cells = made.column(name).to_numpy().astype(np.int64)
        if name in edges:
            starts = np.array(edges[name])
            found[name] = random.integers(starts[cells], starts[cells + 1])
        else:
            found[name] = np.unique(values.astype(str))[cells]
    return found
