"""E1's rivals: DP-Pred, committees of private predictors, on every set; DiffGen, for which Adult has a taxonomy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.diffgen import diffgen
from benchmarks.baselines.functional import functional_mechanism
from benchmarks.baselines.learners import objective_perturbation
from benchmarks.datasets.sharing_printed import printed
from benchmarks.datasets.sharing_tables import SETS, Set, load
from benchmarks.datasets.sharing_taxonomy import columns_of
from benchmarks.row import Options, Row
from benchmarks.share.errors import EPSILONS, error_of
from siloquent.privacy.budget import Budget
from siloquent.share import ShareSpec, plan
from siloquent.share.estimate.stack import Fit, fit_alone
from siloquent.share.plan import SharePlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
PENALTY, HUBER, STEPS, FITTED, ASKED = 1e-2, 0.5, 8, 8_000, 3
FOLDS = 3
MODELS = {"logistic": "objective perturbation", "svm": "objective perturbation, Huber hinge of .5",
          "linear": "functional mechanism"}  # fmt: skip


def rows(options: Options) -> Iterator[Row]:
    """Committees by set and model, then DiffGen."""
    if options.quick:
        return
    for name in SETS:
        for model in ("linear",) if SETS[name].number else ("logistic", "svm"):
            for i, epsilon in enumerate(EPSILONS):
                row = f"{name}-dp-pred-{model}-eps{epsilon}"
                if options.wants(row):
                    yield _committee(load(options.data, name), row, model, i)
    for epsilon in EPSILONS:
        row = f"adult-diffgen-eps{epsilon}"
        if options.wants(row):
            yield _generalised(load(options.data, "adult"), row, epsilon)


def silo_plan(found: Set, epsilon: str) -> SharePlan:
    """The encoding that all methods share."""
    spec = ShareSpec("t", found.source.label, found.features, Budget(epsilon=epsilon))
    return plan(spec, found.schema("pure", found.source.agents))


def _committee(found: Set, row: str, model: str, place: int) -> Row:
    epsilon, chosen, errors = float(EPSILONS[place]), silo_plan(found, EPSILONS[place]), []
    for fold, (train, test) in enumerate(found.folds(FOLDS)):
        said = votes_of(found, chosen, (fold, train, test), model, epsilon)
        errors.append(voted_error(found, chosen, said.mean(axis=0), test))
    how = f"{MODELS[model]}, C {PENALTY}; majority" if not found.source.number else f"{MODELS[model]}; mean"
    return Row(
        row,
        ours=float(np.mean(errors)),
        paper=printed(found.name, model, "dp-pred", place),
        unit="MSE" if found.source.number else "error",
        how=f"{how} of {found.source.agents} agents, {FOLDS} folds of 10, spread {np.std(errors):.4f}",
    )


def votes_of(found: Set, chosen: SharePlan, split: Any, model: str, epsilon: float) -> NDArray[Any]:
    """What each agent's private predictor says of the test rows, shape (agents, rows)."""
    fold, train, test = split
    who = found.partition(train, found.source.agents, np.random.default_rng(900 + fold))
    X, y = _in_ball(chosen, found.places), found.places[:, -1]
    said: list[NDArray[Any]] = []
    for agent in range(found.source.agents):
        own, random = train[who == agent], np.random.default_rng([fold, agent])
        if found.source.number:
            target = chosen.encoding.compute_target(y[own])
            said.append(X[test] @ functional_mechanism(X[own], target, epsilon=epsilon, random=random))
            continue
        huber = HUBER if model == "svm" else None
        sign = 2.0 * y[own] - 1
        w = objective_perturbation(X[own], sign, epsilon=epsilon, random=random, penalty=PENALTY, huber=huber)
        said.append(X[test] @ w > 0)
    return np.array(said)


def voted_error(found: Set, chosen: SharePlan, mean: Floats, test: Integers) -> float:
    """The error of the committee whose members say ``mean`` on average."""
    y = found.places[test, -1]
    if found.source.number:
        return float(np.mean((np.clip(mean, -1, 1) - chosen.encoding.compute_target(y)) ** 2))
    return float(np.mean((mean > 0.5) != y))


def _in_ball(chosen: SharePlan, places: Integers) -> Floats:
    """Designs with a constant, divided by the public length that none exceeds."""
    design = chosen.encoding.build_design(places[:, :-1])
    longest = np.sqrt(len(chosen.encoding.features) + len(chosen.encoding.numeric) + 1)
    return np.asarray(np.hstack([design, np.ones((len(places), 1))]) / longest)


def _generalised(found: Set, row: str, epsilon: str) -> Row:
    """Every agent's DiffGen rows together, and a model of those and own rows."""
    chosen, columns, errors = silo_plan(found, epsilon), columns_of(found), []
    for fold, (train, test) in enumerate(found.folds(FOLDS)):
        who = found.partition(train, found.source.agents, np.random.default_rng(900 + fold))
        owns = [found.places[train[who == agent]] for agent in range(found.source.agents)]
        drawn = []
        for agent, own in enumerate(owns):
            random = np.random.default_rng([fold, agent])
            made = diffgen(columns, own, classes=2, steps=STEPS, epsilon=float(epsilon), random=random)
            drawn.append(made.drawn(min(FITTED // len(owns), made.rows), random))
        for own in owns[:ASKED]:
            scores = fit_alone(chosen.encoding, np.vstack([*drawn, own]), Fit("logistic", folds=2))
            errors.append(error_of(scores, chosen, found.places[test]))
    return Row(
        row,
        ours=float(np.mean(errors)),
        unit="error",
        how=f"DiffGen, {STEPS} specialisations, Max utility, two-level taxonomy; logistic models of {ASKED} agents on "
        f"own and {FITTED:,} drawn rows; {FOLDS} folds of 10, spread {np.std(errors):.4f}",
    )
