"""Every spec that a caller builds refuses what has another type, by name and with a code: no TypeError leaves one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from siloquent.collect.spec.collection_spec import CollectionSpec, Service
from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.role import AttributeRole
from siloquent.errors import SiloquentError
from siloquent.privacy.budget import Budget
from siloquent.profile import ProfileSpec
from siloquent.schema import Attribute
from siloquent.search import KeyOf, OfferSpec, RequestSpec
from siloquent.search.spec import OfferAccuracy as MeanAccuracy
from siloquent.share import LearnSpec, ShareSpec, TreeSpec
from siloquent.sketch import (
    Anomaly,
    Classify,
    Density,
    Difference,
    Jaccard,
    Modes,
    MomentsSpec,
    PStable,
    Regress,
    Sample,
    SketchAccuracy,
    SketchSpec,
)
from siloquent.synth import SynthSpec
from siloquent.synth.spec.chain import ChainSpec

BUDGET = Budget(epsilon="1")
ROLE = AttributeRole(Attribute("ward", "category", values=("A", "B"), null="cell", other="cell"))
POINTS = [[1.0, 2.0]]
SPECS: dict[type, dict[str, Any]] = {
    Budget: {"epsilon": "1"},
    SynthSpec: {"table": "t", "budget": BUDGET},
    ChainSpec: {},
    SketchSpec: {"table": "t", "features": ("a",), "kernel": PStable(2, 0.3), "budget": BUDGET},
    SketchAccuracy: {"relative": 0.1, "at_density": 0.1},
    Density: {"points": POINTS},
    Difference: {"points": POINTS, "others": POINTS},
    Classify: {"points": POINTS},
    Anomaly: {"points": POINTS, "share": 0.1},
    Modes: {},
    Sample: {"count": 3},
    Regress: {"target": "a"},
    MomentsSpec: {"table": "t", "features": ("a",), "target": "b", "budget": BUDGET},
    OfferSpec: {"table": "t", "features": ("a",), "keys": (KeyOf("k"),), "budget": BUDGET},
    MeanAccuracy: {"mean_error": 0.1, "rows_per_key": 10},
    RequestSpec: {"table": "t", "target": "y", "features": ("a",), "keys": ("k",)},
    ShareSpec: {"table": "t", "label": "y", "features": ("a",), "budget": BUDGET},
    TreeSpec: {},
    LearnSpec: {"table": "t", "label": "y", "releases": ("theirs",)},
    ProfileSpec: {"table": "t", "columns": ("a", "b")},
    Service: {"name": "s", "roles": (ROLE,)},
    AttributeRole: {"attribute": ROLE.attribute},
    Dimension: {"name": "d", "key": "k", "public": True},
    CollectionSpec: {"name": "c", "services": (Service("s", (ROLE,)),), "epsilon": Fraction(2)},
}
WRONG: list[Any] = [
    None,
    True,
    0,
    3,
    -(10**30),
    2.5,
    float("nan"),
    float("inf"),
    "x",
    "0.5",
    "",
    b"x",
    (),
    [1],
    ["a", 2],
    (None,),
    ("a", "a"),
    {"a": 1},
    {"3": object()},
    {3: "0.5"},
    {"x"},
    object(),
    int,
    Fraction(1, 3),
    Decimal("NaN"),
    Decimal("0.5"),
    1j,
    np.float64(0.5),
    np.int64(3),
    np.array([1.0, 2.0]),
    Path("p"),
    BUDGET,
    KeyOf("k"),
    Jaccard(),
    lambda: 1,
]


def told(spec: Any) -> None:
    """What is done with a spec that exists: its one form, as JSON."""
    for name in ("canonical", "plain", "to_plain"):
        form = getattr(spec, name, None)
        if form is not None:
            json.dumps(form())
    hash(type(spec))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_a_spec_is_built_or_refused_whatever_its_fields_are_given(kind: type) -> None:
    given = SPECS[kind]
    told(kind(**given))
    refusals: list[tuple[int, bool]] = []
    for field in fields(kind):
        for value in WRONG:
            try:
                spec = kind(**{**given, field.name: value})
            except SiloquentError as error:
                refusals.append((error.exit_status, bool(error.detail)))
                continue
            told(spec)
    assert set(refusals) == {(2, True)}
    assert len(refusals) >= 8 * len(fields(kind)), "values that fit nowhere pass"


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: OfferSpec("t", ("a",), budget=BUDGET, norm_cut="0.5"), "norm_cut of OfferSpec is a number or None"),  # type: ignore[arg-type]
    (lambda: OfferSpec("t", "abc", budget=BUDGET), "features of OfferSpec is a tuple, each of text"),  # type: ignore[arg-type]
    (lambda: SynthSpec("t", {"epsilon": "1"}), "budget of SynthSpec is Budget, not dict"),  # type: ignore[arg-type]
    (lambda: ChainSpec(steps=True), "steps of ChainSpec is a whole number, not bool"),
    (lambda: Sample(count=2.5), "count of Sample is a whole number, not float"),  # type: ignore[arg-type]
    (lambda: KeyOf(3), "attributes of KeyOf is a tuple, each of text, not tuple"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "words"), CASES)
def test_a_refusal_names_the_field_what_it_takes_and_what_it_got(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(SiloquentError) as refused:
        make()
    assert words in refused.value.detail
    assert refused.value.fix


@pytest.mark.slow
def test_lists_and_numbers_of_arrays_are_what_they_stand_for() -> None:
    spec = OfferSpec("t", ["a", "b"], [KeyOf("k")], budget=BUDGET, norm_cut=np.float64(2.0), order=np.int64(2))  # type: ignore[arg-type]
    same = OfferSpec("t", ("a", "b"), (KeyOf("k"),), budget=BUDGET, norm_cut=2.0)
    assert spec == same
    assert spec.canonical() == same.canonical()
    assert type(spec.order) is int
