"""C corpus: public school tables; which column of the others explains a target, preprocessing inside the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import search_mechanisms as paper
from benchmarks.baselines.search_tables import GRID, offered, planned
from benchmarks.row import Options, Row
from siloquent.maths.models.partial_correlation import compute_exact_gains
from siloquent.search.estimate.joins import pool_candidates
from siloquent.search.estimate.training import LocalRows, ReleasedSums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
REQUESTS = {
    "graduation": ("total_regents_of_cohort", "total_cohort"),
    "class_size": ("average_class_size", "number_of_sections"),
    "demographics_2005_2012": ("frl_percent", "total_enrollment"),
    "demo_ela_math": ("mean_scale_score_math", "total_enrollment"),
    "charter_math": ("mean_scale_score", "number_tested"),
}
DRAWS, MIN_ROWS = 10, 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A numeric column with its key: places over the declared range, -1 where missing."""

    name: str
    places: Integers
    key: Integers


def rows(options: Options) -> Iterator[Row]:
    """C-district, C-school."""
    folder = options.data / "search-corpus"
    if options.quick or not folder.is_dir():
        return
    for name, characters, goal in (("C-district", 2, 0.95), ("C-school", None, None)):
        for scoring in ("platform", "local"):
            row = f"{name}-{scoring}"
            if options.wants(row):
                yield _row(row, folder, characters, goal if characters else None, is_local=scoring == "local")


@cache
def _tables(folder: Path) -> dict[str, Any]:
    import pandas as pd

    found = {}
    for file in sorted(folder.glob("*.csv.gz")):
        frame = pd.read_csv(file, low_memory=False)
        if "dbn" in frame and len(frame) >= MIN_ROWS:
            found[file.name.removesuffix(".csv.gz")] = frame[frame["dbn"].notna()]
    return found


def _keys(folder: Path, characters: int | None) -> dict[str, int]:
    """The public key values, in order, over all tables."""
    values = {str(dbn)[:characters] for frame in _tables(folder).values() for dbn in frame["dbn"]}
    return {value: i for i, value in enumerate(sorted(values))}


def _nice(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten away from zero: a stand-in for a declared end."""
    if value == 0:
        return 0.0
    power = 10 ** math.floor(math.log10(abs(value)))
    return math.copysign(next(m * power for m in (1, 2, 5, 10) if m * power >= abs(value) * (1 - 1e-12)), value)


def _places(values: Floats) -> Integers | None:
    """Places on a grid over a declared range; None for a column with one value."""
    known = values[np.isfinite(values)]
    lo, hi = (_nice(float(end)) for end in (known.min(), known.max())) if len(known) else (0.0, 0.0)
    lo = min(lo, 0.0) if lo >= 0 else lo
    if hi <= lo or known.min() == known.max():
        return None
    scaled = np.where(np.isfinite(values), np.rint((values - lo) / (hi - lo) * 2 * GRID), -1)
    return np.asarray(scaled, dtype=np.int64)


def _candidates(folder: Path, request: str, keys: dict[str, int], characters: int | None) -> list[Candidate]:
    found = []
    for table, frame in _tables(folder).items():
        if table == request:
            continue
        key = np.array([keys[str(dbn)[:characters]] for dbn in frame["dbn"]], dtype=np.int64)
        for column in frame.select_dtypes("number").columns:
            places = _places(frame[column].to_numpy(dtype=float))
            if places is not None:
                found.append(Candidate(f"{table}.{column}", places, key))
    return found


def _row(name: str, folder: Path, characters: int | None, goal: float | None, *, is_local: bool) -> Row:
    keys = _keys(folder, characters)
    provider = planned(("f",), epsilon="1", keys=len(keys), range="quantiles")
    request = planned(("x", "y"), epsilon="1", keys=len(keys), second_moments="total", range="quantiles")
    shares, words, every, papers = list[float](), list[str](), list[float](), dict[str, list[float]]()
    for table, (target, feature) in REQUESTS.items():
        if characters is not None and table == "charter_math":
            continue  # all of its schools lie in one district
        frame = _tables(folder)[table]
        own = {name: _places(frame[column].to_numpy(dtype=float)) for name, column in (("x", feature), ("y", target))}
        own["k"] = np.array([keys[str(dbn)[:characters]] for dbn in frame["dbn"]], dtype=np.int64)
        placed: dict[str, Integers] = {name: column for name, column in own.items() if column is not None}
        known = (placed["x"] >= 0) & (placed["y"] >= 0)
        numbers = np.column_stack([_unit(placed["x"]), _unit(placed["y"])])[known]
        exact = LocalRows(numbers, (placed["k"][known],), (len(keys),)).compute_key_moments(0)
        candidates = _candidates(folder, table, keys, characters)
        truth = compute_exact_gains(exact, np.stack([_means(c, len(keys)) for c in candidates])).gains
        base = float(exact.covariance[0, 1] ** 2 / exact.covariance[0, 0] / exact.covariance[1, 1])
        figures, peers = [], dict[str, list[float]]()
        for draw in range(DRAWS):
            offers = [offered(provider, {"k": c.key, "f": c.places}) for c in candidates]
            pool = pool_candidates(offers, provider.keys, without=frozenset())[0]
            if is_local:
                table_ = exact
            else:
                mine = offered(request, placed)
                counts, sums = mine.get_key_sums(0)
                second = mine.compute_second_moments()
                assert second is not None
                table_ = ReleasedSums((counts,), (sums,), second, mine.deviations, mine.is_halved).compute_key_moments(
                    0
                )
            picked = int(np.argmax(compute_exact_gains(table_, pool.values, unsure=pool.unsure).compute_expected()))
            figures.append((base + truth[picked]) / (base + truth.max()))
            for mechanism, chosen in _papers(numbers, placed["k"][known], candidates, len(keys), draw, is_local):
                peers.setdefault(mechanism, []).append((base + truth[chosen]) / (base + truth.max()))
        shares.append(float(np.median(figures)))
        every += figures
        for mechanism, found in peers.items():
            papers.setdefault(mechanism, []).append(float(np.median(found)))
        words.append(f"{table} {shares[-1]:.3f} of R2 {base + truth.max():.3f} ({len(candidates)} columns)")
    return Row(
        name,
        ours=float(np.mean(shares)),
        peer=float(np.mean(papers["FPM"])) if papers else None,
        goal=goal,
        better="higher",
        unit="of the best R2",
        how=f"eps 1 each, delta 1e-6, add-remove, ranges estimated inside the budget, {len(keys):,} key values; median "
        f"of {DRAWS} draws a request, mean of the requests (median {np.median(shares):.3f}); all draws: mean "
        f"{np.mean(every):.3f}, worst {min(every):.3f}; {'; '.join(words)}{_words(papers)}",
    )


def _words(papers: dict[str, list[float]]) -> str:
    if not papers:
        return ""
    found = ", ".join(f"{mechanism} {np.mean(shares):.3f}" for mechanism, shares in papers.items())
    return f"; the paper's, after a preprocessing that is not private: {found}"


def _papers(
    numbers: Floats, key: Integers, candidates: list[Candidate], keys: int, draw: int, is_local: bool
) -> Iterator[tuple[str, int]]:
    """What the paper's mechanisms pick: values beyond 1.5 deviations cut, the rest divided by the longest norm."""
    if is_local or keys > 100:  # it knows no local scoring; and 2,000 keys take its noise an hour
        return
    own, kept = _cut(numbers)
    exact = paper.keyed_sums(own, key[kept], keys)
    offers = []
    for candidate in candidates:
        known = candidate.places >= 0
        values, stay = _cut(_unit(candidate.places[known])[:, None])
        offers.append(paper.keyed_sums(values, candidate.key[known][stay], keys))
    rng = np.random.default_rng(7_000 + draw)
    for name, run in paper.BY_KEY.items():
        yield name, paper.picked(exact, offers, run, (1.0, 1.0), rng, epsilon=1.0, delta=1e-6)


def _cut(rows_: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows within 1.5 deviations of the mean in every number, centred, with norms of at most 1; and which are kept."""
    centred = rows_ - rows_.mean(axis=0)
    kept = (np.abs(centred) <= 1.5 * centred.std(axis=0)).all(axis=1)
    if not kept.any():
        kept = np.ones(len(rows_), dtype=np.bool_)
    return centred[kept] / max(float(np.linalg.norm(centred[kept], axis=1).max()), 1e-9), kept


def _unit(places: Integers) -> Floats:
    return np.asarray(places / GRID - 1)


def _means(candidate: Candidate, keys: int) -> Floats:
    """Exact means by key over the declared range; keys without rows get the mean of all."""
    known = candidate.places >= 0
    key, values = candidate.key[known], _unit(candidate.places[known])
    counts, sums = np.bincount(key, minlength=keys), np.bincount(key, weights=values, minlength=keys)
    return np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
