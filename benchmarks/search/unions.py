"""U union: two tables of three numbers with norms up to 5, and the model of both; the paper's section 5.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import search_mechanisms as paper
from benchmarks.baselines.search_tables import Adjacency, planned, released
from benchmarks.row import Options, Row, of_full_size
from siloquent.maths.models.moments import Moments
from siloquent.search.estimate.unions import compute_totals, fit_noisy_moments

Floats = NDArray[np.float64]
BOUND, DELTA = 5.0, 1e-6
SEEDS, QUICK = 300, 60
GOALS = {
    (1_000, "replace-one"): 0.19,
    (1_000, "add-remove"): 0.16,
    (10_000, "replace-one"): 0.024,
    (10_000, "add-remove"): 0.019,
}
ADJACENCIES: tuple[tuple[str, Adjacency], ...] = (("ro", "replace-one"), ("ar", "add-remove"))
SIZES = ((100, "1"), (500, "1"), (1_000, "1"), (10_000, "1"), (1_000, "0.1"), (10_000, "0.1"))


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """U-n-eps-adjacency, coverage of intervals, and one release for many requests or beside many tables."""
    seeds = QUICK if options.quick else SEEDS
    for n, epsilon in SIZES if not options.quick else SIZES[2:4]:
        for short, adjacency in ADJACENCIES:
            name = f"U-n{n}-eps{epsilon}-{short}"
            if options.wants(name):
                yield _row(name, n, epsilon, adjacency, seeds)
    for n in (500, 1_000, 10_000):
        if options.wants(f"U-cover-n{n}"):
            yield _coverage(n, seeds)
    if not options.quick:
        yield from _shared(options)
    for n in (50, 100, 1_000, 10_000):
        if options.wants(f"U-slope-n{n}") and not options.quick:
            yield _slope(n, seeds)


def world(seed: int, n: int) -> tuple[Floats, Floats]:
    """Two tables [x1, x2, y] of n rows with norms of at most 5."""
    from sklearn.datasets import make_spd_matrix

    rng = np.random.default_rng(50_000 + seed)
    covariance = make_spd_matrix(3, random_state=int(rng.integers(2**31)))
    mean = rng.uniform(-1, 1, 3)
    drawn = np.zeros((0, 3))
    while len(drawn) < 2 * n:
        more = rng.multivariate_normal(mean, covariance, 2 * n)
        drawn = np.concatenate([drawn, more[np.linalg.norm(more, axis=1) <= BOUND]])
    return drawn[:n], drawn[n : 2 * n]


def _ours(tables: tuple[Floats, Floats], epsilon: str, adjacency: Adjacency) -> Floats:
    # Half a declared range is 5, and no record is longer than that.
    made = planned(("x1", "x2", "y"), epsilon=epsilon, adjacency=adjacency, norm_cut=1.0)
    one, other = (compute_totals(released(made, table / BOUND)) for table in tables)
    found = fit_noisy_moments(one + other, np.random.default_rng(0))
    return np.append(found.values, found.intercept * BOUND)


def _distance(found: Floats | None, truth: Floats) -> float:
    return math.inf if found is None else float(np.linalg.norm(found - truth))


def _row(name: str, n: int, epsilon: str, adjacency: Adjacency, seeds: int) -> Row:
    ours, figures, e = [], dict[str, list[float]](), float(epsilon)
    for seed in range(seeds):
        tables = world(seed, n)
        rng = np.random.default_rng(seed)
        exact = [paper.sums_of(table) for table in tables]
        truth = paper.least_squares(exact[0] + exact[1])
        assert truth is not None
        ours.append(_distance(_ours(tables, epsilon, adjacency), truth))
        figures.setdefault("zero model", []).append(float(np.linalg.norm(truth)))
        for mechanism, run in _mechanisms(e).items():
            figures.setdefault(mechanism, []).append(_distance(run(exact[0], exact[1], rng), truth))
    words = "; ".join(f"{mechanism} {_words(found)}" for mechanism, found in figures.items())
    return Row(
        name,
        ours=float(np.median(ours)),
        peer=float(np.median(figures["FPM"])),
        goal=GOALS.get((n, adjacency)) if epsilon == "1" else None,
        unit="median beta error",
        how=f"{seeds} seeds, 2 tables of {n:,}, B 5, delta 1e-6; quartiles {np.quantile(ours, 0.25):.3g} to "
        f"{np.quantile(ours, 0.75):.3g}, failures {np.mean(~np.isfinite(ours)):.1%}; peer: FPM; {words}",
    )


def _words(found: list[float]) -> str:
    return f"{np.median(found):.3g} ({np.mean(~np.isfinite(found)):.1%} fail)"


def _mechanisms(epsilon: float) -> dict[str, Callable[[Moments, Moments, np.random.Generator], Floats | None]]:
    """The paper's, each from two exact tables to a model; APM for one query."""
    given = {"epsilon": epsilon, "delta": DELTA}

    def both(
        one: Moments, other: Moments, rng: np.random.Generator, run: Callable[..., Moments], **more: float
    ) -> Floats | None:
        return paper.least_squares(run(one, BOUND, rng, **given, **more) + run(other, BOUND, rng, **given, **more))

    return {
        "FPM": lambda a, b, rng: both(a, b, rng, paper.fpm),
        "APM": lambda a, b, rng: paper.least_squares(paper.fpm(a + b, BOUND, rng, **given)),
        "TPM": lambda a, b, rng: both(a, b, rng, paper.tpm),
        "SF-1": lambda a, b, rng: both(a, b, rng, paper.shuffled, among=a.count),
        "SF-2": lambda a, b, rng: both(a, b, rng, paper.shuffled, among=a.count + b.count),
        "pure FPM": lambda a, b, rng: paper.least_squares(
            paper.pure_fpm(a, BOUND, rng, epsilon=epsilon) + paper.pure_fpm(b, BOUND, rng, epsilon=epsilon)
        ),
    }


def _coverage(n: int, seeds: int) -> Row:
    """How often the 95 % interval of a slope holds the slope that the rows were drawn with."""
    made = planned(("x1", "x2", "y"), epsilon="1", norm_cut=1.0)
    hits = []
    for seed in range(seeds):
        rng = np.random.default_rng(80_000 + seed)
        slopes = rng.uniform(-0.7, 0.7, 2)
        x = np.clip(rng.normal(0, 1.2, (2 * n, 2)), -3, 3)
        y = np.clip(x @ slopes + rng.normal(0, 0.7, 2 * n), -4, 4)
        table = np.column_stack([x, y]) / BOUND
        one, other = (compute_totals(released(made, part)) for part in (table[:n], table[n:]))
        found = fit_noisy_moments(one + other, rng)
        hits += ((found.low <= slopes) & (slopes <= found.high)).tolist()
    return Row(
        f"U-cover-n{n}",
        ours=float(np.mean(hits)),
        goal=0.90,
        better="higher",
        unit="of slopes",
        how=f"{seeds} worlds, 2 tables of {n:,}, eps 1 add-remove; nominal .95, goal .90 to .98",
    )


def _shared(options: Options) -> Iterator[Row]:
    """One release for many requests, or beside many tables; the paper's rivals divide their budget by them."""
    names = {f"U-{what}-{many}": many for what in ("requests", "corpus") for many in (1, 5, 10, 50, 100)}
    wanted = {name: many for name, many in names.items() if options.wants(name)}
    ours, rivals = [], {name: {"APM": list[float](), "SF-2": list[float]()} for name in wanted}
    for seed in range(100 if wanted else 0):
        tables = world(seed, 1_000)
        one, other = (paper.sums_of(table) for table in tables)
        truth = paper.least_squares(one + other)
        assert truth is not None
        ours.append(_distance(_ours(tables, "1", "replace-one"), truth))
        for name, many in wanted.items():
            # A request is answered for each table but one's own; combinations of several would be 2^(tables - 1) - 1.
            parts = many if "requests" in name else max(many - 1, 1)
            given = {"epsilon": 1 / parts, "delta": DELTA / parts}
            rng, rows_ = np.random.default_rng(seed), one.count + other.count
            found = paper.fpm(one + other, BOUND, rng, **given)
            rivals[name]["APM"].append(_distance(paper.least_squares(found), truth))
            both = [paper.shuffled(table, BOUND, rng, among=rows_, **given) for table in (one, other)]
            rivals[name]["SF-2"].append(_distance(paper.least_squares(both[0] + both[1]), truth))
    for name, figures in rivals.items():
        apm = [value for value in figures["APM"] if math.isfinite(value)]
        words = "; ".join(f"{mechanism} {_words(values)}" for mechanism, values in figures.items())
        yield Row(
            name,
            ours=float(np.median(ours)),
            peer=float(np.median(apm)) if apm else None,
            unit="median beta error",
            how=f"100 seeds, n 1,000, eps 1 for all together, replace-one; peer: APM where it does not fail; {words}",
        )


def _slope(n: int, seeds: int) -> Row:
    """One feature, of which the slope alone is wanted: the paper's union polynomials beside its monomials."""
    figures: dict[str, list[float]] = {"ours": [], "FPM": [], "FPM-OPT": [], "zero model": []}
    made = planned(("x", "y"), epsilon="1", adjacency="replace-one", norm_cut=1.0)
    given = {"epsilon": 1.0, "delta": DELTA}
    for seed in range(seeds):
        tables = [table[:, [0, 2]] for table in world(seed, n)]
        rng = np.random.default_rng(seed)
        exact = [paper.sums_of(table) for table in tables]
        truth = paper.least_squares(exact[0] + exact[1])
        assert truth is not None
        one, other = (compute_totals(released(made, table / BOUND)) for table in tables)
        figures["ours"].append(abs(float(fit_noisy_moments(one + other, rng).values[0] - truth[0])))
        found = paper.least_squares(paper.fpm(exact[0], BOUND, rng, **given) + paper.fpm(exact[1], BOUND, rng, **given))
        figures["FPM"].append(math.inf if found is None else abs(float(found[0] - truth[0])))
        halves = [paper.fpm_opt_slope(table, BOUND, rng, **given) for table in tables]
        variance, covariance = halves[0] + halves[1]
        figures["FPM-OPT"].append(math.inf if variance <= 0 else abs(float(covariance / variance - truth[0])))
        figures["zero model"].append(abs(float(truth[0])))
    words = "; ".join(f"{mechanism} {_words(values)}" for mechanism, values in figures.items())
    return Row(
        f"U-slope-n{n}",
        ours=float(np.median(figures["ours"])),
        peer=float(np.median([value for value in figures["FPM-OPT"] if math.isfinite(value)] or [1e9])),
        unit="median slope error",
        how=f"{seeds} seeds, 2 tables of {n:,} rows [x, y], eps 1, replace-one; peer: FPM-OPT where it does not fail; "
        f"{words}",
    )
