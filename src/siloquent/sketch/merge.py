"""The sum of several silos' sketches with the same hash plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from siloquent.errors import RequestError
from siloquent.fixes import build_fix, run
from siloquent.releases.provenance import Provenance
from siloquent.sketch.sketch import Sketch


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """Add sketches to that of all silos' records: counters, numbers of records and noise variances are added.

    Raises:
        RequestError: Plans, noise, units or adjacencies differ (the message says which), or records would count
            twice.
    Privacy:
        Post-processing of releases: each part is protected only by its own noise, since a holder of other parts of a
        sum can subtract them. A person in one silo has that silo's guarantee; in several, their sum.
    """
    if not sketches:
        raise RequestError("Merging needs at least one sketch.", fix=run("sketch merge", "a", "b", "-o", "all"))
    first = sketches[0]
    for other in sketches[1:]:
        for name, mine, theirs in _list_compared(first, other):
            if mine != theirs:
                raise RequestError(
                    f"Sketches with different {name} cannot be added: {mine} and {theirs}.",
                    fix=build_fix(
                        "build all of them from one plan file: ", run("sketch plan", "...", "-o", "plan.json")
                    ),
                )
    parts = tuple(part for sketch in sketches for part in sketch.parts)
    _require_apart(sketches, parts)
    sizes = [sketch.sizes for sketch in sketches if sketch.sizes is not None]
    return replace(
        first,
        counters=np.sum([sketch.counters for sketch in sketches], axis=0),
        sizes=np.sum(sizes, axis=0) if sizes else None,
        variance=sum((sketch.variance for sketch in sketches), start=first.variance * 0),
        size_variance=sum((sketch.size_variance for sketch in sketches), start=first.size_variance * 0),
        parts=parts,
        notes=tuple(dict.fromkeys(note for sketch in sketches for note in sketch.notes)),
    )


def _require_apart(sketches: Sequence[Sketch], parts: Sequence[Provenance]) -> None:
    """Check that no records count twice: by one release, one sum kept by several silos, or two sketches of a table."""
    places, accounts = ([key(part) for part in parts] for key in (_get_ledger_entry, _get_account))
    copies = any(np.array_equal(a.counters, b.counters) for a, b in combinations(sketches, 2))
    if len(set(places)) < len(places) or copies:
        raise RequestError("One release is named twice: its records would count twice.", fix="name each sketch once")
    twice = next((account for i, account in enumerate(accounts) if account in accounts[:i]), None)
    if twice is not None:
        raise RequestError(
            f"Two of these sketches are of one table, {twice[1]}: its records would count twice.",
            fix="merge one sketch of each silo",
        )


def _get_ledger_entry(part: Provenance) -> tuple[str, int]:
    return part.ledger, part.seq


def _get_account(part: Provenance) -> tuple[str, str]:
    """Return the table and epoch whose records a part holds, whichever analyst was charged."""
    return part.ledger, part.account.partition("/")[0]


def _list_compared(one: Sketch, other: Sketch) -> list[tuple[str, object, object]]:
    mine, theirs = (sorted({(part.unit, part.adjacency) for part in sketch.parts}) for sketch in (one, other))
    return [
        ("hash plans", one.plan.digest[:12], other.plan.digest[:12]),
        ("noise", one.noise, other.noise),
        ("hits", one.hits, other.hits),
        ("numbers of records", one.sizes is None, other.sizes is None),
        ("units", mine, theirs),
    ]
