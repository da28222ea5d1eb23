"""E1 for the paper's own method: PFDS as published, without its optimisation, with own trees alone, and our variant.

Beside them DP-Pred: committees of private predictors. E3 and E4: how many rows a tree says there are, and its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.functional import functional_mechanism
from benchmarks.baselines.learners import objective_perturbation
from benchmarks.row import Options, Row
from benchmarks.share_errors import EPSILONS, PRINTED, error_of
from benchmarks.sharing_tables import Set, load
from siloquent.privacy.prices import Budget
from siloquent.share import ShareRelease, ShareSpec, TreeSpec, plan
from siloquent.share.estimate.stack import Fit, fit_alone
from siloquent.share.estimate.vote import Grown, filled, grown_from, label_places, majority
from siloquent.share.measure.tree import grown_on
from siloquent.share.plan import SharePlan
from siloquent.share.task import release_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FITTED, ASKED = 8_000, 3
"""Synthetic rows that a model is fitted on, and agents whose own rows join them."""
PRINTED_ALONE = {"adult": (0.266, 0.301, 0.336)}
PRINTED_DP = {"adult": (0.232, 0.245, 0.293), "bike": (0.270, 0.281, 0.296)}


def rows(options: Options) -> Iterator[Row]:
    """PFDS in four ways, DP-Pred, sizes and times."""
    if options.quick:
        return
    for name in ("adult", "bike"):
        yield from _pfds(options, name)
        yield from _committees(options, name)
    yield from _sizes(options)


def planned(found: Set, epsilon: str, tree: TreeSpec, seed: int) -> SharePlan:
    """One agent's tree."""
    spec = ShareSpec("t", found.source.label, found.features, Budget(epsilon=epsilon), method="tree", tree=tree)
    return plan(spec, found.schema("pure", found.source.agents), seed=seed)


def quick_noise(random: np.random.Generator) -> tuple[Callable[..., Integers], Callable[..., Integers]]:
    """Selection and noise of the same laws from a seeded generator: right for errors, not for privacy."""

    def select(utilities: Integers, rate: Fraction) -> Integers:
        return np.asarray((float(rate) * utilities + random.gumbel(size=utilities.shape)).argmax(axis=1))

    def add(counts: Integers, scale: Fraction) -> Integers:
        p = -np.expm1(-1 / float(scale))
        return counts + random.geometric(p, counts.shape) - random.geometric(p, counts.shape)

    return select, add


def trees_of(found: Set, epsilon: str, tree: TreeSpec, train: Integers, who: Integers) -> list[ShareRelease]:
    """Every agent's release."""
    made = []
    for agent in range(found.source.agents):
        chosen = planned(found, epsilon, tree, agent)
        assert chosen.tree is not None
        select, add = quick_noise(np.random.default_rng(agent))
        values = grown_on(chosen.encoding, chosen.tree, found.places[train[who == agent]], select=select, add=add)
        made.append(release_of(chosen, values))
    return made


def _pfds(options: Options, name: str) -> Iterator[Row]:
    for i, epsilon in enumerate(EPSILONS):
        for variant in ("aamas-2019", "ours"):
            label = "pfds" if variant == "aamas-2019" else "pfds-ours"
            wanted = [kind for kind in ("all", "minus", "own") if options.wants(f"{name}-{label}-{kind}-eps{epsilon}")]
            if not wanted:
                continue
            found = load(options.data, name)
            figures = _errors(found, epsilon, TreeSpec(variant=variant), wanted)
            for kind, errors in figures.items():
                paper = PRINTED_ALONE.get(name, (None,) * 3)[i] if kind == "own" else PRINTED[name][i]
                yield Row(
                    f"{name}-{label}-{kind}-eps{epsilon}",
                    ours=float(np.mean(errors)),
                    paper=None if kind == "minus" else paper,
                    unit="MSE" if found.source.number else "error",
                    how=f"{variant}, h 8, t 10, p 4, {found.source.agents} agents, fold 1, {ASKED} agents' models on "
                    f"own and {FITTED:,} drawn rows; all: all trees vote, minus: no consistency, own: own labels",
                )


def _errors(found: Set, epsilon: str, tree: TreeSpec, wanted: list[str]) -> dict[str, list[float]]:
    train, test = next(found.folds(1))
    who = found.partition(train, found.source.agents, np.random.default_rng(900))
    releases = trees_of(found, epsilon, tree, train, who)
    chosen = planned(found, epsilon, tree, 0)
    made: dict[str, list[float]] = {}
    for kind in wanted:
        grown = [grown_from(one, chosen.encoding, optimise=kind != "minus") for one in releases]
        rows_ = _synthetic(chosen, grown, kind, np.random.default_rng(0))
        made[kind] = []
        for agent in range(ASKED):
            both = np.vstack([rows_, found.places[train[who == agent]]])
            scores = fit_alone(chosen.encoding, both, Fit("linear" if found.source.number else "logistic", folds=2))
            made[kind].append(error_of(scores, chosen, found.places[test]))
    return made


def _synthetic(chosen: SharePlan, grown: list[Grown], kind: str, random: np.random.Generator) -> Integers:
    """Labelled rows of all agents, a part of them where there are many."""
    encoding, parts = chosen.encoding, []
    each = max(1, FITTED // len(grown))
    for tree in grown:
        features = filled(replace(tree, rows=tree.rows * min(1.0, each / max(tree.rows.sum(), 1))), None, random)
        labels = majority([tree] if kind == "own" else grown, features, encoding.classes)
        parts.append(np.column_stack([features, label_places(encoding, labels, random)]))
    return np.vstack(parts)


def _committees(options: Options, name: str) -> Iterator[Row]:
    """DP-Pred: each agent's private predictor; classes by majority, numbers by the mean."""
    for i, epsilon in enumerate(EPSILONS):
        row = f"{name}-dp-pred-eps{epsilon}"
        if not options.wants(row):
            continue
        found = load(options.data, name)
        spec = ShareSpec("t", found.source.label, found.features, Budget(epsilon=epsilon))
        chosen = plan(spec, found.schema("pure", found.source.agents))
        train, test = next(found.folds(1))
        who = found.partition(train, found.source.agents, np.random.default_rng(900))
        X = _in_ball(chosen, found.places)
        said: list[NDArray[Any]] = []
        for agent in range(found.source.agents):
            rows_, random = train[who == agent], np.random.default_rng(agent)
            if found.source.number:
                y = chosen.encoding.target(found.places[rows_, -1])
                said.append(X[test] @ functional_mechanism(X[rows_], y, epsilon=float(epsilon), random=random))
            else:
                sign = 2.0 * found.places[rows_, -1] - 1
                w = objective_perturbation(X[rows_], sign, epsilon=float(epsilon), random=random, penalty=1e-2)
                said.append(X[test] @ w > 0)
        votes: Any = np.mean(said, axis=0)
        if found.source.number:
            error = float(np.mean((np.clip(votes, -1, 1) - chosen.encoding.target(found.places[test, -1])) ** 2))
        else:
            error = float(np.mean((votes > 0.5) != found.places[test, -1]))
        yield Row(
            row,
            ours=error,
            paper=PRINTED_DP[name][i],
            unit="MSE" if found.source.number else "error",
            how="functional mechanism, mean" if found.source.number else "objective perturbation, majority; C .01",
        )


def _in_ball(chosen: SharePlan, places: Integers) -> Floats:
    """Designs with a constant, divided by the public length that none exceeds."""
    design = chosen.encoding.design(places[:, :-1])
    longest = np.sqrt(len(chosen.encoding.features) + len(chosen.encoding.numeric) + 1)
    return np.asarray(np.hstack([design, np.ones((len(places), 1))]) / longest)


def _sizes(options: Options) -> Iterator[Row]:
    """E3: |rows released - rows| of an agent, as published and without the optimisation; E4: seconds an agent."""
    if not options.wants("tree-sizes"):
        return
    found = load(options.data, "adult")
    train, _ = next(found.folds(1))
    who = found.partition(train, found.source.agents, np.random.default_rng(900))
    for h in (4, 6, 8):
        tree = TreeSpec(h=h, variant="aamas-2019")
        apart: dict[bool, list[float]] = {True: [], False: []}
        started = time.process_time()
        for agent in range(6):
            chosen = planned(found, "1", tree, agent)
            assert chosen.tree is not None
            select, add = quick_noise(np.random.default_rng(agent))
            own = found.places[train[who == agent]]
            made = release_of(chosen, grown_on(chosen.encoding, chosen.tree, own, select=select, add=add))
            for optimise in apart:
                grown = grown_from(made, chosen.encoding, optimise=optimise)
                apart[optimise].append(abs(float(grown.rows.sum()) - len(own)))
        seconds = (time.process_time() - started) / 6
        yield Row(
            f"tree-sizes-h{h}",
            ours=float(np.mean(apart[True])),
            peer=float(np.mean(apart[False])),
            unit="rows",
            how="|rows released - rows|, eps 1, as published; peer: without the optimisation; "
            f"{seconds:.2f} CPU s an agent",
        )
