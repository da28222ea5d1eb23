"""One silo's part in a secure sum, replayed on neighbours: its share of noise, by what the others may know of theirs.

The sum itself is protected by the federation's protocol; here it is handed back as if all silos had been in it. What is
audited is what one silo puts into it: the sum hides its rows by the shares of the silos that surely keep theirs to
themselves, which are the least number of silos of a sum less those that may pool what they know.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.replay.audit import Found, audit
from benchmarks.replay.declarations import SETTINGS, apart, declared, extremes, neighbours
from benchmarks.replay.tape import sum_terms
from benchmarks.replay.worst import most_of_sketch, worst_pair
from siloquent.api import Session
from siloquent.federation import sums
from siloquent.federation.channel import Member, Members
from siloquent.federation.sums import SumResult, SumSpec
from siloquent.privacy.budget import Budget
from siloquent.share import ShareSpec, agreement_check
from siloquent.sketch import PStable, SketchSpec
from siloquent.sketch.federated import build_sum
from siloquent.sketch.task import explain

NAMES = ("north", "river", "hill", "lake")
MEMBERS = Members((*(Member(name, "party") for name in NAMES), Member("w1", "worker"), Member("office", "moderator")))


@dataclass(frozen=True, slots=True)
class Line:
    """As much of a channel as a silo looks at before it gives its vector."""

    me: str = NAMES[0]
    session: bytes = bytes(range(32))
    members: Members = MEMBERS


@contextmanager
def alone() -> Iterator[None]:
    """A silo's vector is the sum: the others' are known, so they are left out."""

    def give(channel: Any, spec: SumSpec, noisy: Any) -> SumResult:
        sum_terms(spec.min_parties - spec.colluding)
        return SumResult(np.asarray(noisy()), tuple(channel.members.parties[: spec.min_parties]))

    with ExitStack() as stack:
        stack.enter_context(patch.object(sums, "contribute_vector", give))
        stack.enter_context(patch.object(agreement_check, "join_sum", lambda *_: True))
        yield


def shared(session: Session, spec: ShareSpec) -> object:
    """A share of marginals, pairs or moments."""
    with alone():
        return session.share.release_sum(spec, Line()).counts.tobytes()  # type: ignore[arg-type]


def sketched(session: Session, spec: SketchSpec, honest: int) -> object:
    """A share of a sketch, by the hash plan that all silos have."""
    with alone(), TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        with patch("siloquent.sketch.task.draw_public_seed", lambda: 7):
            path.write_text(explain(session, spec).hash_plan.to_json())
        asked = replace(spec, plan_file=path)
        made = build_sum(session, asked, Line(), min_parties=honest + 1, colluding=1)  # type: ignore[arg-type]
        return made.counters.tobytes()


def in_sums(seeds: range) -> Iterator[Found]:
    """One silo's part in one kind of sum for each seed, with two or three silos that keep their noise to themselves."""
    kinds = [*(f"sum of {method}" for method in ("marginals", "gram", "moments")), "sum of sketches"]
    for seed in seeds:
        chance = random.Random(f"in sums {seed}")
        yield part_of_sum(kinds[seed % 4], SETTINGS[seed // 4 % len(SETTINGS)], chance, worst=seed % 3 == 0)


def part_of_sum(name: str, setting: tuple[str, str, int], chance: random.Random, *, worst: bool = True) -> Found:
    """One silo's part in a sum."""
    schema, bounds = declared(chance, *setting, size=2_000, bounds=(-5, 5))
    honest, budget = chance.choice([2, 3]), Budget(epsilon="2")
    sides = extremes(schema, bounds) if worst else neighbours(chance, schema, bounds, others=6)
    if name == "sum of sketches":
        asked = SketchSpec("visits", ("age", "dose"), PStable(2, 0.02), budget=budget, scale="range", rows=32)
        (found,) = audit(schema, *sides, [(name, lambda session: sketched(session, asked, honest), 1)])
        # Apart from the noise's law, which is that of the sum, this is the sketch of one table.
        return (
            replace(found, most=most_of_sketch(asked, schema, honest=honest) / float(found.charge)) if worst else found
        )
    spec = ShareSpec(
        table="visits",
        label="ill",
        features=("age", "ward", "dose"),
        method=name.rpartition(" ")[2],  # type: ignore[arg-type]
        budget=budget,
        trust="sum",
        agents=4,
        honest=honest,
    )
    pair = worst_pair(spec, schema) if worst and name == "sum of moments" and setting[0] == "zcdp" else None
    if pair is not None:  # the noise of whole steps of a pure account cannot be shared out
        sides = apart(schema, pair.one, pair.other)
    (found,) = audit(schema, *sides, [(name, lambda session: shared(session, spec), 1)])
    return found if pair is None else replace(found, most=pair.loss / float(found.charge))
