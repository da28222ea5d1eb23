"""A secure sum of 100 silos as 100 parties in one process: exact, and one noise in all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.sharing_tables import load
from benchmarks.row import Options, Row
from benchmarks.share.errors import error_of, pool_of
from siloquent.federation.channel import Member, Members, MemoryNetwork
from siloquent.federation.channel.memory import run_all
from siloquent.federation.sums import SumResult, SumSpec, add_shares, contribute_vector, gather_sum
from siloquent.privacy.budget import Budget
from siloquent.share import ShareSpec, plan
from siloquent.share.estimate import fit_shared_scores
from siloquent.share.federated import build_sum_spec
from siloquent.share.measure.counting import add_noise_shares, count_exactly
from siloquent.share.plan import compute_noise_variance

SILOS, HONEST = 100, 80


def rows(options: Options) -> Iterator[Row]:
    """The error of the model of the sum, and how far the sum is from the parties' own vectors."""
    if options.quick or not options.wants("silos-100"):
        return
    found = load(options.data, "adult")
    spec = ShareSpec(
        "t",
        found.source.label,
        found.features,
        Budget(epsilon="1"),
        method="gram",
        trust="sum",
        agents=SILOS,
        honest=HONEST,
    )
    chosen = plan(spec, found.schema("zcdp", SILOS))
    assert chosen.layout is not None
    train, test = next(found.folds(1))
    who = found.partition(train, SILOS, np.random.default_rng(900))
    vectors = [
        add_noise_shares(chosen, count_exactly(chosen.layout, found.places[train[who == i]])) for i in range(SILOS)
    ]
    parties = [Member(f"p{i}", "party") for i in range(SILOS)]
    roles = (*parties, Member("w1", "worker"), Member("w2", "worker"), Member("office", "moderator"))
    told, network = build_sum_spec(chosen), MemoryNetwork(Members(roles))
    parts: dict[str, Callable[[Any], Any]] = {f"p{i}": _giving(told, vector) for i, vector in enumerate(vectors)}
    parts |= {worker: (lambda channel: add_shares(channel, told)) for worker in ("w1", "w2")}
    parts["office"] = lambda channel: gather_sum(channel, told)
    started = time.process_time()
    total = run_all(network, parts)["office"].total
    seconds = time.process_time() - started
    yield Row(
        "silos-100-exact",
        ours=float(abs(total - sum(vectors)).max()),
        goal=0.0,
        unit="counts",
        how=f"{SILOS} parties, 2 workers in one process, {chosen.layout.length:,} counters, {seconds:.1f} CPU s: the "
        "sum less the parties' vectors, the largest difference",
    )
    pooled = pool_of(chosen, total.astype(float), 1, len(train))
    spread = float(compute_noise_variance(chosen.noise, chosen.runs[0].parameter)) ** 0.5
    yield Row(
        "silos-100-error",
        ours=error_of(fit_shared_scores(pooled), chosen, found.places[test]),
        goal=0.155,
        unit="error",
        how=f"Adult, gram, eps 1 (delta 1e-6), shares for {HONEST} honest of {SILOS}: noise {spread:.0f} and "
        f"{SILOS / HONEST:.2f} times its variance",
    )


def _giving(told: SumSpec, vector: NDArray[np.int64]) -> Callable[[Any], SumResult]:
    """A party's part with that vector."""
    return lambda channel: contribute_vector(channel, told, lambda: vector)
