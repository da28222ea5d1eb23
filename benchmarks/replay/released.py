"""Releases of synth, sketch, search and share through the Session's own doors, on neighbours."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.audit import Found, Release, audit
from benchmarks.replay.declarations import SETTINGS, apart, declared, extremes, neighbours
from benchmarks.replay.worst import balanced, most_of_sketch, worst_pair
from siloquent.api import Session
from siloquent.discover import BoundsSpec
from siloquent.errors import SiloquentError
from siloquent.privacy.budget import Budget
from siloquent.schema import TableSchema
from siloquent.search import KeyOf, OfferSpec
from siloquent.share import ShareSpec, TreeSpec
from siloquent.sketch import Jaccard, PStable, SketchSpec
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.synth import SynthSpec
from siloquent.synth.measure import chain as measured_chain
from siloquent.synth.measure.gradients import Quanta
from siloquent.synth.spec.chain import ChainSpec
from siloquent.synth.spec.network import Network

RULES = """
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "ill", hard = false },
  { kind = "denial", not = "t1.age > t2.age and t1.dose < t2.dose", hard = false },
  { kind = "denial", not = "t1.ward = t2.ward and t1.ill != t2.ill", hard = false },
]
"""
COLUMNS = ("ward", "age", "ill", "dose")


@dataclass(frozen=True, slots=True)
class Kind:
    """A request and how it is made of a session."""

    spec: Any
    release: Release
    bounds: tuple[int, int] = (-5, 5)


def _key(spec: object) -> str:
    """The same for the same request, and another one for each: several may share a ledger."""
    return hashlib.sha256(repr(spec).encode()).hexdigest()[:16]


def _synth(**given: Any) -> Kind:
    spec = SynthSpec(**{"table": "visits", "budget": Budget(epsilon="2"), "quality": "fast", **given})
    return Kind(spec, lambda session: session.synth.synthesize(spec, key=_key(spec)) and None)


def _sketch(kernel: Any, features: Sequence[str], **given: Any) -> Kind:
    spec = SketchSpec("visits", tuple(features), kernel, **{"budget": Budget(epsilon="2"), **given})

    def release(session: Session) -> object:
        made = session.sketch.build(spec, key=_key(spec))
        return made.counters.tobytes() if hasattr(made, "counters") else None

    return Kind(spec, release)


def _share(bounds: tuple[int, int] = (-5, 5), **given: Any) -> Kind:
    spec = ShareSpec(**{"table": "visits", "label": "ill", "features": ("age", "ward", "dose"), **given})
    return Kind(spec, lambda session: session.share.release(spec, key=_key(spec)) and None, bounds)


def _moments(**given: Any) -> Kind:
    spec = MomentsSpec("visits", ("age",), "dose", Budget(epsilon="2"), **given)
    return Kind(spec, lambda session: str(session.sketch.regress(spec, key=_key(spec))))


def _offer(features: Sequence[str], keys: Sequence[KeyOf] = (), **given: Any) -> Kind:
    spec = OfferSpec("visits", tuple(features), tuple(keys), budget=Budget(epsilon="2"), **given)
    return Kind(spec, lambda session: session.search.offer(spec, key=_key(spec)) and None)


def kinds(budget: Budget) -> dict[str, Kind]:
    """Every kind of release, by name."""
    share: dict[str, Any] = {"budget": budget}
    chain = ChainSpec(steps=3, width=2)
    found = {
        "synth tree": _synth(budget=budget, columns=COLUMNS, report="0.1", measure_rates="0.1", seed=3),
        "synth tree target": _synth(budget=budget, columns=COLUMNS, report="0.1", targets=("ill",), seed=3),
        "synth chain": _synth(
            budget=budget, columns=COLUMNS, engine="chain", chain=chain, report="0.1", measure_rates="0.1", seed=3
        ),
        # So narrow that far values share a cell in no row of the sketch.
        "sketch dense": _sketch(PStable(2, 0.02), ("age", "dose"), scale="range", rows=32),
        "sketch label": _sketch(PStable(1, 0.02), ("age", "dose"), scale="range", rows=32, label="ward"),
        "sketch sparse": _sketch(PStable(2, 0.02), ("age", "dose"), scale="range", rows=32, mode="sparse", hits=2),
        "sketch words": _sketch(Jaccard(), ("note",), rows=32),
        "sketch group": _sketch(Jaccard(), ("age",), rows=32, group="who"),
        "moments": _moments(),
        "moments near": _moments(radius=0.7),
        "offer": _offer(("dose",)),
        "offer cut": _offer(("dose", "age"), norm_cut=0.7),
        "offer key": _offer(("dose", "ill"), (KeyOf("ward"),)),
        "offer keys": _offer(("dose",), (KeyOf("ward"), KeyOf("age"))),
        "offer total": _offer(("dose", "ill", "age"), second_moments="total"),
        "offer per key": _offer(("dose", "age"), (KeyOf("ward"),), second_moments="per-key"),
        "discover bounds": Kind(
            BoundsSpec("visits", "cost", budget),
            lambda session: str(session.discover("visits", "cost", epsilon=budget.epsilon, key="bounds")),
            (-5, 5),
        ),
        "share tree": _share(method="tree", features=("cost",), tree=TreeSpec(h=5), bounds=(0, 123_456), **share),
    }
    for method in ("marginals", "gram", "moments"):
        found[f"share {method}"] = _share(method=method, **share)
    return found


def released(seeds: range) -> Iterator[Found]:
    """One release of one kind for each seed, every third on the worst neighbours that there can be."""
    names = list(kinds(Budget(epsilon="2")))
    for seed in seeds:
        chance = random.Random(f"released {seed}")
        name = names[seed % len(names)]
        setting = SETTINGS[seed // len(names) % len(SETTINGS)]
        rules = RULES if name.startswith("synth") else ""
        kind = kinds(Budget(epsilon="2"))[name]
        schema, bounds = declared(chance, *setting, size=2_000, rules=rules, bounds=kind.bounds)
        if seed % 3 == 0:
            yield worst_release(name, schema, kind)
        else:
            sides = neighbours(chance, schema, bounds, others=6)
            yield from audit(schema, *sides, [(name, kind.release, 1)])


def worst_release(name: str, schema: TableSchema, kind: Kind) -> Found:
    """The release on neighbours as far apart as its declaration allows, and how far that is."""
    spec, loss = kind.spec, None
    sides = extremes(schema, kind.bounds)
    try:
        worst = worst_pair(spec, schema)
        if worst is not None:
            sides, loss = apart(schema, worst.one, worst.other), worst.loss
        elif isinstance(spec, SketchSpec):
            loss = most_of_sketch(spec, schema)
        elif isinstance(spec, ShareSpec) and spec.method == "tree":
            rows, one, other = balanced(schema, spec.features[0], spec.label)
            sides = apart(schema, one, other, more=rows, alike=0)
    except SiloquentError:  # refused in planning: the release will be, too
        pass
    (found,) = audit(schema, *sides, [(name, kind.release, 1)])
    if loss is None or not found.charge:
        return found
    faults = found.faults
    # Hashes are drawn anew for each sketch: now and then two far records share a cell of one of its rows.
    is_hashed = isinstance(spec, SketchSpec) and found.loss < loss
    if not is_hashed and not math.isclose(loss, float(found.loss), rel_tol=1e-9):
        faults = (*faults, f"neighbours lost {float(found.loss)}; by trying all pairs, the worst lose {loss}")
    return replace(found, faults=faults, most=loss / float(found.charge))


def one_release(
    name: str, setting: tuple[str, str, int], *, bounds: tuple[int, int] | None = None, kind: Kind | None = None
) -> Found:
    """The release ``name`` on neighbours as far apart as can be."""
    rules = RULES if name.startswith("synth") else ""
    kind = kind or kinds(Budget(epsilon="2"))[name]
    schema, ends = declared(random.Random(0), *setting, size=2_000, rules=rules, bounds=bounds or kind.bounds)
    return worst_release(name, schema, replace(kind, bounds=ends))


def leaving(name: str, setting: tuple[str, str, int]) -> Iterator[Found]:
    """The release ``name`` on neighbours of which one has a user less, where others take users' places, too."""
    kind = kinds(Budget(epsilon="2"))[name]
    schema, _ = declared(random.Random(0), *setting, size=2_000, bounds=kind.bounds)
    yield from audit(schema, *apart(schema, {"age": 0, "dose": -1}, None), [(name, kind.release, 1)])


CHOSEN = {"ward": "A", "age": 0, "ill": True, "dose": 3}, {"ward": "A", "age": 4, "ill": True, "dose": -1}
"""Where ward says both age and dose: a row with the one but not the other, and one the other way round."""
RARE = {"ward": "B", "age": 1, "ill": True, "dose": 0}, {"ward": "B", "age": 3, "ill": False, "dose": 2}
"""Values that no other row has."""


def stepwise(setting: tuple[str, str, int]) -> Iterator[Found]:
    """Syntheses on neighbours that are the worst for one kind of step each, at little noise."""
    rich = Budget(epsilon="400")
    settings: dict[str, Any] = {"budget": rich, "columns": COLUMNS, "seed": 3}
    chain = ChainSpec(steps=3, width=2, clip=1)
    found = {
        "synth tree": _synth(**settings),
        "synth tree target": _synth(targets=("ill",), report="0.1", **settings),
        "synth tree report": _synth(**{**settings, "columns": ("age", "dose")}, report="0.1"),
        "synth chain": _synth(**settings, engine="chain", chain=chain, report="0.1"),
    }
    for name, kind in found.items():
        schema, _ = declared(random.Random(0), *setting, size=2_000, rules="", bounds=(-5, 5))
        for one, other in (CHOSEN, RARE):
            sides = apart(schema, one, other, alike=300)
            yield from audit(schema, *sides, [(name, kind.release, 1)])
    if setting[2] < 2:  # no m rows of a user break m times as many pairs with all others as one row does
        yield breaking_one(setting)
        yield furthest_gradients(setting)


def furthest_gradients(setting: tuple[str, str, int], *, batch: int = 2_000) -> Found:
    """Engine ``chain`` on rows whose gradients are as long as the clip lets them be, and opposite.

    The clip allows any gradient up to its length, and its proof asks no more of them; which ones rows have hangs on all
    that was learned before. All rows are in each sample where ``batch`` is the declared number of rows.
    """

    def clipped(network: Network, rows: NDArray[np.integer], quanta: Quanta) -> NDArray[np.int64]:
        found = np.zeros(network.flatten().size, dtype=np.int64)
        found[0] = quanta.scale * int(np.where(rows[:, network.target] > 0, 1, -1).sum())
        return found

    chain = ChainSpec(steps=3, width=2, batch=batch)
    kind = _synth(budget=Budget(epsilon="400"), columns=("ward", "ill"), engine="chain", chain=chain, seed=3)
    schema, _ = declared(random.Random(0), *setting, size=2_000, rules="", bounds=(-5, 5))
    sides = apart(schema, {"ward": "C", "ill": True}, {"ward": "A", "ill": True}, alike=300)
    with patch.object(measured_chain, "sum_clipped_gradients", clipped):
        (found,) = audit(schema, *sides, [("synth chain", kind.release, 1)])
    return found


ALIKE = {"ward": "A", "age": 0, "ill": True, "dose": 3, "note": ""}


def synthesis(**given: Any) -> Kind:
    """A synthesis with other settings than those of ``kinds``."""
    return _synth(seed=3, **given)


def breaking_all(setting: tuple[str, str, int], count: int = 300) -> Found:
    """Bought rates of two constraints where one row more breaks both with every other row."""
    schema, _ = declared(random.Random(0), *setting, size=count, rules=RULES, bounds=(-5, 5))
    sides = apart(schema, {"ward": "A", "age": 4, "ill": False, "dose": -1}, ALIKE, more=[ALIKE] * count, alike=0)
    release = synthesis(budget=Budget(epsilon="20"), columns=COLUMNS, report="0", measure_rates="0.5")
    (found,) = audit(schema, *sides, [("synth rates", release.release, 1)])
    return found


def breaking_one(setting: tuple[str, str, int], count: int = 2_000) -> Found:
    """The bought rate of one constraint at so little noise that the public number of rows is nearly that of the rows.

    Four pairs break it before, which is .8 of a step: with the row that breaks it with all others it is 400 steps.
    """
    rules = """constraint = [{ kind = "denial", not = "t1.age > t2.age and t1.dose < t2.dose", hard = false }]"""
    schema, _ = declared(random.Random(0), *setting, size=count, rules=rules, bounds=(-5, 5))
    few = [{**ALIKE, "age": 1, "dose": 0}] * 2 + [{**ALIKE, "age": 0, "dose": 0.5}] * 2
    middle = {**ALIKE, "age": 2, "dose": 1}
    other = [] if schema.replace_one else [middle]
    rows = [*few, *[middle] * (count - len(few) - 1), *other]
    sides = apart(schema, {**ALIKE, "age": 4, "dose": -1}, middle, more=rows, alike=0)
    release = synthesis(budget=Budget(epsilon="20000"), columns=("age", "dose"), report="0", measure_rates="0.5")
    (found,) = audit(schema, *sides, [("synth rates", release.release, 1)])
    return replace(found, steps={"rates": found.steps.get("others", found.steps.get("distances", 0.0))})
