"""Releases of synth, sketch, search and share through the Session's own doors, on neighbours."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.replay.audit import Found, Release, audit
from benchmarks.replay.declarations import SETTINGS, apart, declared, extremes, framed, neighbours
from benchmarks.replay.worst import balanced, most_of_sketch, worst_pair
from siloquent.door import Session
from siloquent.errors import SiloquentError
from siloquent.privacy.prices import Budget
from siloquent.schema import TableSchema
from siloquent.search import KeyOf, OfferSpec
from siloquent.share import ShareSpec, TreeSpec
from siloquent.sketch import Jaccard, PStable, SketchSpec
from siloquent.sketch.regression import MomentsSpec
from siloquent.synth import SynthSpec
from siloquent.synth.spec.chain import ChainSpec

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
    if not math.isclose(loss, float(found.loss), rel_tol=1e-9):
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


def synthesis(**given: Any) -> Kind:
    """A synthesis with other settings than those of ``kinds``."""
    return _synth(seed=3, **given)


def breaking_all(setting: tuple[str, str, int], count: int = 300) -> Found:
    """Bought rates of two constraints where one row more breaks both with every other row."""
    other = {"ward": "A", "age": 0, "ill": True, "cost": 0, "dose": 3, "day": "2024-01-01", "note": ""}
    schema, _ = declared(random.Random(0), *setting, size=count, rules=RULES, bounds=(-5, 5))
    base = [{"who": f"p{i}", **other} for i in range(count)]
    sides = framed(base), framed([*base, {"who": "q", **other, "age": 4, "dose": -1, "ill": False}])
    release = synthesis(budget=Budget(epsilon="20"), columns=COLUMNS, report="0", measure_rates="0.5")
    (found,) = audit(schema, *sides, [("synth rates", release.release, 1)])
    return found
