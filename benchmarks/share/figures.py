"""The sharing paper's figures: E2, errors against the number of sharers; E3, fidelity; E4, time, both against depth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.diffgen import diffgen
from benchmarks.datasets.sharing_tables import Set, load
from benchmarks.datasets.sharing_taxonomy import columns_of
from benchmarks.row import Options, Row
from benchmarks.share.committees import silo_plan, voted_error, votes_of
from benchmarks.share.errors import CASES, error_of, planned, pool_of
from benchmarks.share.trees import drawn_from, labelled, tree_of
from siloquent.share import TreeSpec
from siloquent.share.estimate import Fit, fit_alone, fit_shared_scores, fit_stacked
from siloquent.share.estimate.vote import GrownTree, rebuild_tree
from siloquent.share.measure.counting import add_count_noise, count_exactly

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SHARERS, DEPTHS = tuple(range(10, 101, 10)), tuple(range(2, 11))
OURS = {"adult": "stacked-local", "news": "shared-sum"}
FITTED, ASKED, AGENTS, PARTITIONS, SPLITS = 8_000, 4, 10, 50, 5
PUBLISHED: Literal["aamas-2019"] = "aamas-2019"


def rows(options: Options) -> Iterator[Row]:
    """Figure 4 on Adult and news, figure 3 on Adult; epsilon 1."""
    if options.quick:
        return
    for name in OURS:
        if any(options.wants(f"sharers-{name}-{count}") for count in SHARERS):
            yield from _sharers(load(options.data, name))
    for depth in DEPTHS:
        if (
            options.wants(f"fidelity-h{depth}")
            or options.wants(f"distance-h{depth}")
            or options.wants(f"time-h{depth}")
        ):
            yield from _depth(load(options.data, "adult"), depth)


def _sharers(found: Set) -> Iterator[Row]:
    """Ours, PFDS rebuilt and DP-Pred, of the first 10 to 100 sharers of fold 1."""
    train, test = next(found.folds(1))
    who = found.partition(train, found.source.agents, np.random.default_rng(900))
    owns = [found.places[train[who == agent]] for agent in range(found.source.agents)]
    model: Literal["linear", "logistic"] = "linear" if found.source.number else "logistic"
    votes = votes_of(found, silo_plan(found, "1"), (0, train, test), model, 1.0)
    trees, drawn, random = list[GrownTree](), list[Integers](), np.random.default_rng(0)
    for agent, own in enumerate(owns):
        chosen, made = tree_of(found, "1", TreeSpec(variant=PUBLISHED), own, agent)
        trees.append(rebuild_tree(made, chosen.encoding))
        drawn.append(drawn_from(trees[-1], FITTED // len(owns), random))
        trees[-1].skeleton.leaves.forget_boxes()
    ours = _of_sums(found, owns, test)
    for count in SHARERS:
        whole = labelled(chosen, trees[:count], drawn[:count], "all")
        fits = [fit_alone(chosen.encoding, np.vstack([whole, own]), Fit(model, folds=2)) for own in owns[:2]]
        pfds = float(np.mean([error_of(scores, chosen, found.places[test]) for scores in fits]))
        committee = voted_error(found, chosen, votes[:count].mean(axis=0), test)
        yield Row(
            f"sharers-{found.name}-{count}",
            ours=ours[count],
            peer=pfds,
            unit="MSE" if found.source.number else "error",
            how=f"eps 1, fold 1, {CASES[found.name][OURS[found.name]].how}; peer: PFDS; DP-Pred {committee:.4f}; "
            f"alone {ours[0]:.4f}",
        )


def _of_sums(found: Set, owns: list[Integers], test: Integers) -> dict[int, float]:
    """Our error by the number of sharers, whose sums are released; 0: the mean of agents that stay alone."""
    case = CASES[found.name][OURS[found.name]]
    chosen = planned(found, case.method, case.account, "1")
    assert chosen.layout is not None
    how = Fit("linear" if found.source.number else "logistic")
    exact = [count_exactly(chosen.layout, own) for own in owns]
    noise = [add_count_noise(chosen, np.zeros_like(exact[0])) for _ in owns]
    alone = [error_of(fit_alone(chosen.encoding, own, how), chosen, found.places[test]) for own in owns[:ASKED]]
    errors, rows_ = {0: float(np.mean(alone))}, sum(len(own) for own in owns)
    for count in SHARERS:
        noises = count if case.trust == "local" else 1
        total = sum(exact[:count]) + sum(noise[:noises])
        if not case.stacked:
            scores = fit_shared_scores(pool_of(chosen, np.asarray(total, dtype=float), noises, rows_))
            errors[count] = error_of(scores, chosen, found.places[test])
            continue
        made = []
        for agent in range(ASKED):
            others = np.asarray(total - exact[agent] - noise[agent], dtype=float)
            scores = fit_shared_scores(pool_of(chosen, others, noises - 1, rows_))
            made.append(error_of(fit_stacked(chosen.encoding, owns[agent], scores, how), chosen, found.places[test]))
        errors[count] = float(np.mean(made))
    return errors


def _depth(found: Set, depth: int) -> Iterator[Row]:
    """Sizes, distances and seconds of agents' trees of one depth, or of as many specialisations."""
    train, _ = next(found.folds(1))
    who = found.partition(train, found.source.agents, np.random.default_rng(900))
    apart: dict[str, list[float]] = {name: [] for name in ("pfds", "minus", "ours", "diffgen")}
    far: dict[str, list[float]] = {name: [] for name in apart}
    seconds = dict.fromkeys(("pfds", "ours", "diffgen"), 0.0)
    columns = columns_of(found)
    for agent in range(AGENTS):
        own, random = found.places[train[who == agent]], np.random.default_rng(agent)
        made = {}
        for name, variant in (("pfds", PUBLISHED), ("ours", "ours")):
            started = time.process_time()
            tree = TreeSpec(h=depth, p=min(4, depth), variant=variant)  # type: ignore[arg-type]
            chosen, release = tree_of(found, "1", tree, own, agent)
            grown = rebuild_tree(release, chosen.encoding)
            made[name] = (float(grown.rows.sum()), drawn_from(grown, len(own), random))
            seconds[name] += (time.process_time() - started) / AGENTS
            if name == "pfds":
                raw = rebuild_tree(release, chosen.encoding, optimise=False)
                made["minus"] = (float(raw.rows.sum()), drawn_from(raw, len(own), random))
        started = time.process_time()
        cut = diffgen(columns, own, classes=2, steps=depth, epsilon=1.0, random=random)
        made["diffgen"] = (float(cut.rows), cut.drawn(len(own), random)[:, :-1])
        seconds["diffgen"] += (time.process_time() - started) / AGENTS
        for name, (size, rows_) in made.items():
            apart[name].append(abs(size - len(own)))
            far[name].append(distance(own[:, :-1], rows_, [c.size for c in columns], agent))
    means = {name: float(np.mean(figures)) for name, figures in apart.items()}
    others = f"without the optimisation {means['minus']:,.0f}, DiffGen {means['diffgen']:,.0f}"
    yield Row(f"fidelity-h{depth}", ours=means["ours"], peer=means["pfds"], unit="rows",
              how=f"|rows released - rows|, eps 1, {AGENTS} agents; peer: PFDS; {others}")  # fmt: skip
    means = {name: float(np.mean(figures)) for name, figures in far.items()}
    others = f"without the optimisation {means['minus']:.3f}, DiffGen {means['diffgen']:.3f}"
    yield Row(f"distance-h{depth}", ours=means["ours"], peer=means["pfds"], unit="share of rows",
              how=f"earth mover's distance in {PARTITIONS} random partitions, eps 1, {AGENTS} agents; peer: PFDS; "
              f"{others}")  # fmt: skip
    yield Row(f"time-h{depth}", ours=seconds["ours"], peer=seconds["pfds"], unit="CPU s",
              how=f"an agent's tree and rows; peer: PFDS; DiffGen {seconds['diffgen']:.3f}")  # fmt: skip


def distance(rows_: Integers, made: Integers, sizes: list[int], seed: int) -> float:
    """How far two tables lie apart in random partitions of the domain, none of rows to all of them.

    A partition cuts a line of 2^SPLITS cells: each bit is the side of a random place of a random attribute, the first
    cut the highest. The distance is the share of rows times the cells that they must be moved, over all cells.
    """
    random, found = np.random.default_rng(seed), []
    for _ in range(PARTITIONS):
        at = random.integers(len(sizes), size=SPLITS)
        cuts = random.integers(1, np.maximum(np.array(sizes)[at], 2))
        shares = [_shares((part[:, at] >= cuts) @ (2 ** np.arange(SPLITS)[::-1])) for part in (rows_, made)]
        found.append(float(np.abs(np.cumsum(shares[0] - shares[1])).mean()))
    return float(np.mean(found))


def _shares(cells: Integers) -> Floats:
    return np.bincount(cells, minlength=2**SPLITS) / max(len(cells), 1)
