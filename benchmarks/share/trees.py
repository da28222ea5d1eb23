"""E1 for the paper's own method: PFDS as published, without its optimisation, with own labels, and our variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.sharing_printed import printed
from benchmarks.datasets.sharing_tables import SETS, Set, load
from benchmarks.row import Options, Row
from benchmarks.share.errors import EPSILONS, error_of
from siloquent.privacy.budget import Budget
from siloquent.share import ShareRelease, ShareSpec, TreeSpec, plan
from siloquent.share.estimate.stack import Fit, fit_alone
from siloquent.share.estimate.vote import GrownTree, compute_majority, draw_label_indices, fill_leaves, rebuild_tree
from siloquent.share.measure.tree import grow_on_rows
from siloquent.share.plan import SharePlan
from siloquent.share.task import build_release

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FITTED, ASKED = 8_000, 2
"""Synthetic rows that a model is fitted on, and agents whose own rows join them."""
FOLDS = {"bike": 3, "debrecen": 3}
"""Of ten; one where nothing is said: a hundred trees and their models take a CPU minute."""
VARIANTS = {"pfds": "aamas-2019", "pfds-ours": "ours"}
KINDS = {"all": "all trees vote", "minus": "no optimisation", "own": "own labels"}
Errors = dict[tuple[str, str], list[float]]


def rows(options: Options) -> Iterator[Row]:
    """PFDS in four ways, for each model of the paper's table."""
    if options.quick:
        return
    for name in SETS:
        for i in range(len(EPSILONS)):
            for label in VARIANTS:
                yield from _of_trees(options, name, label, i)


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


def tree_of(found: Set, epsilon: str, tree: TreeSpec, own: Integers, agent: int) -> tuple[SharePlan, ShareRelease]:
    """An agent's plan and release, from its rows of places."""
    chosen = planned(found, epsilon, tree, agent)
    assert chosen.tree is not None
    select, add = quick_noise(np.random.default_rng(agent))
    return chosen, build_release(chosen, grow_on_rows(chosen.encoding, chosen.tree, own, select=select, add=add))


def _of_trees(options: Options, name: str, label: str, place: int) -> Iterator[Row]:
    models = ("linear",) if SETS[name].number else ("logistic", "svm")
    names = {(kind, m): f"{name}-{label}-{kind}-{m}-eps{EPSILONS[place]}" for kind in KINDS for m in models}
    wanted = [pair for pair, row in names.items() if options.wants(row)]
    if not wanted:
        return
    found, folds = load(options.data, name), FOLDS.get(name, 1)
    tree, figures = TreeSpec(variant=VARIANTS[label]), dict[tuple[str, str], list[float]]()  # type: ignore[arg-type]
    for fold, (train, test) in enumerate(found.folds(folds)):
        for pair, errors in _errors(found, EPSILONS[place], tree, (fold, train, test), wanted).items():
            figures.setdefault(pair, []).append(float(np.mean(errors)))
    for (kind, model), means in figures.items():
        yield Row(
            names[kind, model],
            ours=float(np.mean(means)),
            paper=None if kind == "minus" else printed(name, model, kind, place),
            unit="MSE" if found.source.number else "error",
            how=f"{tree.variant}, h 8, t 10, p 4, {KINDS[kind]}; {found.source.agents} agents, {folds} folds of 10, "
            f"spread {np.std(means):.4f}; {model} models of {ASKED} agents on own and {FITTED:,} drawn rows",
        )


def _errors(found: Set, epsilon: str, tree: TreeSpec, split: Any, wanted: list[tuple[str, str]]) -> Errors:
    fold, train, test = split
    who = found.partition(train, found.source.agents, np.random.default_rng(900 + fold))
    owns = [found.places[train[who == agent]] for agent in range(found.source.agents)]
    drawn: dict[str, list[Integers]] = {"all": [], "minus": []}
    trees: list[GrownTree] = []
    random = np.random.default_rng(fold)
    for agent, own in enumerate(owns):
        chosen, made = tree_of(found, epsilon, tree, own, agent)
        grown = rebuild_tree(made, chosen.encoding)
        for kind, one in (("all", grown), ("minus", rebuild_tree(made, chosen.encoding, optimise=False))):
            drawn[kind].append(drawn_from(one, FITTED // len(owns), random))
        grown.skeleton.leaves.forget_boxes()
        trees.append(grown)
    whole = {kind: labelled(chosen, trees, drawn["minus" if kind == "minus" else "all"], kind) for kind in KINDS}
    errors: Errors = {}
    for kind, model in wanted:
        how = Fit(model, folds=2)  # type: ignore[arg-type]
        for own in owns[:ASKED]:
            scores = fit_alone(chosen.encoding, np.vstack([whole[kind], own]), how)
            errors.setdefault((kind, model), []).append(error_of(scores, chosen, found.places[test]))
    return errors


def drawn_from(tree: GrownTree, rows_: int, random: np.random.Generator) -> Integers:
    """Rows of a tree's boxes, as many as it counts or, in the same proportions, ``rows_``."""
    share = min(1.0, rows_ / max(tree.rows.sum(), 1))
    return fill_leaves(replace(tree, rows=tree.rows * share), None, random)


def labelled(chosen: SharePlan, trees: list[GrownTree], drawn: list[Integers], kind: str) -> Integers:
    """All agents' rows with the label of all trees, or of the tree that they were drawn from."""
    encoding, random = chosen.encoding, np.random.default_rng(0)
    if kind == "own":
        votes = np.concatenate([tree.predict_labels(part) for tree, part in zip(trees, drawn, strict=True)])
    else:
        votes = compute_majority(trees, np.concatenate(drawn), encoding.classes, random)
    return np.column_stack([np.concatenate(drawn), draw_label_indices(encoding, votes, random)])
