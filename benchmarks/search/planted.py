"""P planted: 300 offers, three of which explain the target, found from releases or from one's own rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import search_mechanisms as paper
from benchmarks.baselines.search_tables import Adjacency, planned, released
from benchmarks.row import Options, Row, of_full_size
from siloquent.maths.models.partial_correlation import MomentsByKey, compute_exact_gains
from siloquent.search import Offer
from siloquent.search.estimate.joins import pool_candidates
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.plan import OfferPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
CANDIDATES, SEEDS, DRAWS, DELTA = 300, 20, 3, 1e-6


@dataclass(frozen=True, slots=True)
class Case:
    """One world and what is asked of it."""

    name: str
    n: int
    d: int
    epsilon: str
    zipf: bool = False
    adjacency: Adjacency = "add-remove"
    local: bool = False
    goal: float | None = None


RO: Adjacency = "replace-one"
CASES = (
    Case("P-n10000-d100-platform-ar", 10_000, 100, "1", goal=0.97),
    Case("P-n10000-d100-platform-ro", 10_000, 100, "1", adjacency=RO, goal=0.95),
    Case("P-n10000-d100-zipf-platform-ar", 10_000, 100, "1", zipf=True, goal=0.9),
    Case("P-n10000-d100-zipf-platform-ro", 10_000, 100, "1", zipf=True, adjacency=RO),
    Case("P-n10000-d100-local-ar", 10_000, 100, "1", local=True, goal=0.99),
    Case("P-n2000-d100-local-ar", 2_000, 100, "1", local=True, goal=0.9),
    Case("P-n2000-d100-local-ro", 2_000, 100, "1", adjacency=RO, local=True),
    Case("P-n2000-d100-platform-ar", 2_000, 100, "1"),
    Case("P-n10000-d100-eps0.25-local-ar", 10_000, 100, "0.25", local=True, goal=0.9),
    Case("P-n10000-d100-eps0.25-local-ro", 10_000, 100, "0.25", adjacency=RO, local=True),
    Case("P-n10000-d100-eps0.25-platform-ar", 10_000, 100, "0.25"),
    Case("P-n50000-d1000-platform-ar", 50_000, 1_000, "1"),
)


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """One row a case."""
    for case in CASES if not options.quick else CASES[:1]:
        if options.wants(case.name):
            big = case.n > 10_000
            seeds = 4 if options.quick else 4 if big else SEEDS
            yield _row(case, seeds, draws=1 if options.quick or big else DRAWS)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The request's rows [x, y] with keys, and each provider's rows with keys, all in -1..1."""

    own: Floats
    key: Integers
    providers: list[tuple[Integers, Floats]]


def world(seed: int, n: int, d: int, *, zipf: bool) -> World:
    """Six hidden numbers a key; the first three providers' features follow what the target follows."""
    rng = np.random.default_rng(90_000 + seed)
    u, w = rng.normal(size=(d, 6)), rng.normal(size=6)
    w /= np.linalg.norm(w)
    p = rng.permutation(np.arange(1, d + 1) ** -0.8) if zipf else np.ones(d)
    p = p / p.sum()
    key, x = rng.choice(d, n, p=p), rng.normal(size=n)
    y = 0.55 * (u @ w)[key] + 0.45 * x + 0.7 * rng.normal(size=n)
    a = rng.normal(size=(6, CANDIDATES)) * (rng.random((6, CANDIDATES)) < 0.35)
    q = rng.beta(1, 4, CANDIDATES)
    q[:3] = rng.uniform(0.6, 0.95, 3)
    a[:, :3] = w[:, None] + 0.2 * rng.normal(size=(6, 3))
    length = np.maximum(np.linalg.norm(a, axis=0), 1e-9)
    f = u @ (a / length) * np.sqrt(q) + rng.normal(size=(d, CANDIDATES)) * np.sqrt(1 - q)
    providers = []
    for i in range(CANDIDATES):
        k = rng.choice(d, n, p=p)
        values = np.sqrt(0.5) * f[k, i] + np.sqrt(0.5) * rng.normal(size=n)
        providers.append((k, _clipped(values)[:, None]))
    return World(np.column_stack([_clipped(x), _clipped(y)]), key, providers)


def _clipped(values: Floats) -> Floats:
    return np.clip(values / 3, -1, 1)


def _row(case: Case, seeds: int, *, draws: int) -> Row:
    provider = planned(("f",), epsilon=case.epsilon, keys=case.d, adjacency=case.adjacency)
    request = planned(("x", "y"), epsilon=case.epsilon, keys=case.d, adjacency=case.adjacency, second_moments="total")
    figures: dict[str, list[float]] = {}
    for seed in range(seeds):
        made = world(seed, case.n, case.d, zipf=case.zipf)
        exact = LocalRows(made.own, (made.key,), (case.d,)).compute_key_moments(0)
        values = np.stack([_exact_means(k, f, case.d) for k, f in made.providers])
        truth = compute_exact_gains(exact, values).gains
        for _ in range(draws):
            pool = pool_candidates(
                [released(provider, f, k) for k, f in made.providers], provider.keys, without=frozenset()
            )[0]
            z, table = pool.values, exact if case.local else _platform(request, made)
            picked = int(np.argmax(compute_exact_gains(table, z, unsure=pool.unsure).compute_expected()))
            figures.setdefault("found", []).append(float(truth[picked] / truth.max()))
            realised = compute_exact_gains(exact, z[[picked]]).gains[0]
            figures.setdefault("realised", []).append(float(realised / truth.max()))
        if not case.local and case.adjacency == RO and case.n <= 10_000:
            for name, share in _papers(made, case, truth, np.random.default_rng(seed)):
                figures.setdefault(name, []).append(share)
    means = {name: float(np.mean(found)) for name, found in figures.items()}
    words = "; ".join(f"{name} {value:.3f}" for name, value in means.items() if name != "found")
    return Row(
        case.name,
        ours=means["found"],
        peer=means.get("FPM"),
        goal=case.goal,
        better="higher",
        unit="of the best gain",
        how=f"{seeds} seeds, noise {draws} times, {CANDIDATES} candidates, n {case.n:,}, d {case.d:,}, "
        f"eps {case.epsilon}, delta 1e-6, {case.adjacency}; worst {min(figures['found']):.2f}; {words}",
    )


def _exact_means(k: Integers, f: Floats, d: int) -> Floats:
    counts = np.bincount(k, minlength=d)
    return np.where(counts > 0, np.bincount(k, weights=f[:, 0], minlength=d) / np.maximum(counts, 1), f.mean())


def _platform(request: OfferPlan, made: World) -> MomentsByKey:
    own: Offer = released(request, made.own, made.key)
    counts, sums = own.get_key_sums(0)
    second = own.compute_second_moments()
    assert second is not None
    return ReleasedSums((counts,), (sums,), second, own.deviations, own.is_halved).compute_key_moments(0)


def _papers(made: World, case: Case, truth: Floats, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """The paper's mechanisms on the same world, B = sqrt(m)."""
    given = {"epsilon": float(case.epsilon), "delta": DELTA}
    exact = paper.keyed_sums(made.own, made.key, case.d)
    offers = [paper.keyed_sums(f, k, case.d) for k, f in made.providers]
    for name, run in paper.BY_KEY.items():
        picked = paper.picked(exact, offers, run, (np.sqrt(2.0), 1.0), rng, **given)
        yield name, float(truth[picked] / truth.max())
