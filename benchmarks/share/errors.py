"""E1: errors of what silos learn together, beside the constant, alone, pooled rows and the printed figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.sharing_printed import printed
from benchmarks.datasets.sharing_tables import SETS, Account, Set, load
from benchmarks.row import Options, Row
from siloquent.privacy.budget import Budget
from siloquent.share import ShareSpec, plan
from siloquent.share.estimate import Fit, Pool, advise, fit_alone, fit_shared_scores, fit_stacked
from siloquent.share.estimate.stack import fit_constant_scores
from siloquent.share.linear_score import LinearScore, decide_classes
from siloquent.share.measure.counting import add_count_noise, count_exactly
from siloquent.share.plan import SharePlan, compute_noise_variance

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
EPSILONS = ("1", "0.5", "0.1")
STACKERS = 4
"""Agents of a fold whose stacked model is fitted."""
WORTH = 0.01
"""A fall of the error that advice should not miss."""
ADVISED: dict[str, tuple[tuple[str, Account], tuple[str, Account]]] = {
    "local": (("marginals", "pure"), ("moments", "zcdp")),
    "sum": (("gram", "zcdp"), ("moments", "zcdp")),
}
"""By whose noise: the method for classes, and for numbers."""
GOALS: dict[str, tuple[float, float, float]] = {
    "adult-stacked-local": (0.165, 0.172, 0.177),
    "adult-shared-local": (0.18, 0.19, 0.23),
    "adult-shared-sum": (0.150, 0.152, 0.172),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row's method: which statistic, in which account, with whose noise, shared or stacked."""

    method: str
    account: Account
    trust: str
    stacked: bool
    model: Literal["logistic", "svm"] = "logistic"

    @property
    def how(self) -> str:
        """The method in words."""
        what = "own rows stacked on" if self.stacked else "releases alone:"
        noise = "each full noise" if self.trust == "local" else "one noise in all"
        return f"{what} {self.method}, {self.account}, {noise}" + (", SVM" if self.model == "svm" else "")


CASES = {
    "adult": {
        "stacked-local": Case("marginals", "pure", "local", True),
        "shared-local": Case("marginals", "pure", "local", False),
        "shared-sum": Case("gram", "zcdp", "sum", False),
        "stacked-sum": Case("gram", "zcdp", "sum", True),
        "svm-stacked-local": Case("marginals", "pure", "local", True, "svm"),
    },
    "credit": {
        "stacked-local": Case("marginals", "pure", "local", True),
        "shared-sum": Case("moments", "zcdp", "sum", False),
    },
    "bank": {
        "stacked-local": Case("marginals", "pure", "local", True),
        "shared-sum": Case("moments", "zcdp", "sum", False),
    },
    "debrecen": {
        "stacked-local": Case("marginals", "pure", "local", True),
        "shared-sum": Case("moments", "zcdp", "sum", False),
    },
    "bike": {
        "shared-local": Case("moments", "zcdp", "local", False),
        "shared-sum": Case("moments", "zcdp", "sum", False),
        "stacked-sum": Case("moments", "zcdp", "sum", True),
    },
    "news": {"shared-sum": Case("moments", "zcdp", "sum", False)},
}


def rows(options: Options) -> Iterator[Row]:
    """Constant, alone and pooled of each set, then each method at each epsilon; what advice says."""
    for name in SETS:
        if options.quick and name != "adult":
            continue
        yield from _of_set(options, name)
    yield from _equal_bins(options)
    if not options.quick:
        yield from _advice(options)


def _of_set(options: Options, name: str) -> Iterator[Row]:
    folds = 1 if options.quick else 10
    if options.wants(f"{name}-baselines"):
        yield from _baselines(options, name, folds)
    for label, case in CASES[name].items():
        yield from _rows_of(options, name, label, case, folds)


def _rows_of(options: Options, name: str, label: str, case: Case, folds: int, *, equal: bool = False) -> Iterator[Row]:
    for i, epsilon in enumerate(EPSILONS):
        row = f"{name}-{label}-eps{epsilon}"
        if options.wants(row):
            found = load(options.data, name.removesuffix("-equal"), equal_bins=equal)
            errors, alone = _errors(found, case, epsilon, folds)
            goals = GOALS.get(f"{name}-{label}")
            yield Row(
                row,
                ours=float(np.mean(errors)),
                paper=None
                if name == "adult-equal"
                else printed(name, "linear" if found.source.number else case.model, "all", i),
                peer=float(np.mean(alone)) if alone else None,
                goal=goals[i] if goals else None,
                unit="MSE" if found.source.number else "error",
                how=f"{case.how}; {found.source.agents} agents, {folds} folds of 10, spread {np.std(errors):.4f}"
                + ("; peer: alone" if alone else ""),
            )


def _equal_bins(options: Options) -> Iterator[Row]:
    """Adult with 16 equal bins of each declared range: what bins that know nothing of the set give."""
    folds = 1
    for label in ("stacked-local", "shared-sum"):
        yield from _rows_of(options, "adult-equal", label, CASES["adult"][label], folds, equal=True)


def planned(found: Set, method: Any, account: Account, epsilon: str) -> SharePlan:
    """The plan of one agent."""
    spec = ShareSpec("t", found.source.label, found.features, Budget(epsilon=epsilon), method=method)
    return plan(spec, found.schema(account, found.source.agents))


def pool_of(chosen: SharePlan, counts: Floats, noises: int, rows_: int) -> Pool:
    """Counts with so many noises in them as the estimate room gets them."""
    assert chosen.layout is not None
    deviations = np.repeat(
        [float(noises * compute_noise_variance(chosen.noise, run.parameter)) ** 0.5 for run in chosen.runs],
        [run.length for run in chosen.runs],
    )
    return Pool(chosen.agreement, chosen.encoding, chosen.layout, counts, deviations, noises, 10 * rows_)


def error_of(scores: LinearScore, chosen: SharePlan, test: Integers) -> float:
    """The share of wrong labels, or the mean squared error over the declared range as -1..1."""
    values = scores.compute_scores(chosen.encoding, test[:, :-1])
    if chosen.encoding.is_regression:
        target = chosen.encoding.compute_target(test[:, -1])
        return float(np.mean((np.clip(values[:, 0], -1, 1) - target) ** 2))
    return float(np.mean(decide_classes(values) != test[:, -1]))


def _errors(found: Set, case: Case, epsilon: str, folds: int) -> tuple[list[float], list[float]]:
    chosen = planned(found, case.method, case.account, epsilon)
    assert chosen.layout is not None
    errors, alone = [], []
    for fold, (train, test) in enumerate(found.folds(folds)):
        agents = found.source.agents
        who = found.partition(train, agents, np.random.default_rng(900 + fold))
        noises = agents if case.trust == "local" else 1
        exact = count_exactly(chosen.layout, found.places[train])
        parts = [add_count_noise(chosen, np.zeros_like(exact)) for _ in range(noises)]
        total = exact + sum(parts)
        if not case.stacked:
            scores = fit_shared_scores(pool_of(chosen, total.astype(float), noises, len(train)))
            errors.append(error_of(scores, chosen, found.places[test]))
            continue
        for agent in range(min(STACKERS, agents)):
            own = found.places[train[who == agent]]
            # An agent leaves its own release out: it would have seen the rows that it is to be judged on.
            others = total - count_exactly(chosen.layout, own) - parts[agent] if noises > 1 else total
            left = noises - 1 if noises > 1 else 1
            scores = fit_shared_scores(pool_of(chosen, others.astype(float), left, len(train)))
            how = Fit("linear" if chosen.encoding.is_regression else case.model)
            errors.append(error_of(fit_stacked(chosen.encoding, own, scores, how), chosen, found.places[test]))
            alone.append(error_of(fit_alone(chosen.encoding, own, how), chosen, found.places[test]))
    return errors, alone


def _baselines(options: Options, name: str, folds: int) -> Iterator[Row]:
    """NP-Agt (alone), NP-Pred (all rows, no privacy) and the constant."""
    found = load(options.data, name)
    chosen = planned(found, "moments", "zcdp", "1")
    how = Fit("linear" if chosen.encoding.is_regression else "logistic")
    results: dict[str, list[float]] = {"constant": [], "alone": [], "pooled": []}
    for fold, (train, test) in enumerate(found.folds(folds)):
        who = found.partition(train, found.source.agents, np.random.default_rng(900 + fold))
        rows_ = found.places[train]
        scores = fit_constant_scores(chosen.encoding, rows_)
        results["constant"].append(error_of(scores, chosen, found.places[test]))
        for agent in range(min(STACKERS, found.source.agents)):
            scores = fit_alone(chosen.encoding, found.places[train[who == agent]], how)
            results["alone"].append(error_of(scores, chosen, found.places[test]))
        if fold == 0:
            some = rows_[np.random.default_rng(0).permutation(len(rows_))[:8_000]]
            results["pooled"].append(error_of(fit_alone(chosen.encoding, some, how), chosen, found.places[test]))
    for label, figures in results.items():
        yield Row(
            f"{name}-baselines-{label}",
            ours=float(np.mean(figures)),
            unit="MSE" if found.source.number else "error",
            how=f"no privacy; {folds} folds, spread {np.std(figures):.4f}"
            + (" (8,000 rows of all agents)" if label == "pooled" else ""),
        )


def _advice(options: Options) -> Iterator[Row]:
    """How often advice is wrong: yes where sharing makes the error on fresh rows worse, counted over agents."""
    for name in SETS:
        row = f"advice-{name}"
        if not options.wants(row):
            continue
        told = [one for trust in ADVISED for epsilon in ("1", "0.1") for one in _advised(options, name, trust, epsilon)]
        yes = [gain for is_yes, gain in told if is_yes]
        missed = sum(gain < -WORTH for is_yes, gain in told if not is_yes)
        yield Row(
            row,
            ours=sum(gain > 0 for gain in yes) / len(told),
            goal=0.05,
            unit="wrong yes",
            how=f"share of {len(told)} agents told yes whose error on fresh rows rose; told yes {len(yes)}, whose mean "
            f"change is {np.mean(yes) if yes else 0.0:+.4f}; told no though it fell by more than {WORTH}: {missed}; "
            "full noise and one noise in all, eps 1 and .1",
        )


def _advised(options: Options, name: str, trust: str, epsilon: str) -> Iterator[tuple[bool, float]]:
    """Whether an agent is told yes, and stacked less alone on the test rows."""
    found = load(options.data, name)
    method, account = ADVISED[trust][found.source.number]
    chosen = planned(found, method, account, epsilon)
    assert chosen.layout is not None
    how = Fit("linear" if chosen.encoding.is_regression else "logistic")
    train, test = next(found.folds(1))
    agents = found.source.agents
    who = found.partition(train, agents, np.random.default_rng(900))
    exact = count_exactly(chosen.layout, found.places[train])
    noises = agents - 1 if trust == "local" else 1
    total = exact + sum(add_count_noise(chosen, np.zeros_like(exact)) for _ in range(noises))
    for agent in range(STACKERS):
        own = found.places[train[who == agent]]
        others = (total - count_exactly(chosen.layout, own)).astype(float)
        scores = fit_shared_scores(pool_of(chosen, others, noises, len(train)))
        told = advise(chosen.encoding, own, scores, replace(how, folds=5))
        stacked = error_of(fit_stacked(chosen.encoding, own, scores, how), chosen, found.places[test])
        yield told.recommended, stacked - error_of(fit_alone(chosen.encoding, own, how), chosen, found.places[test])
