"""A spec goes to a server as plain values and is the same spec there."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from siloquent import search, share, sketch, synth
from siloquent.errors import RequestError
from siloquent.maths.lsh import Jaccard, Laplacian, Power, Product, PStable
from siloquent.privacy.budget import Budget
from siloquent.remote.specs import dump_spec
from siloquent.synth.spec.chain import PAPER

EXACT = {"shares", "budget", "weights", "chain"}
"""Fields of exact numbers, which are equal as amounts: "1/3" and Fraction(1, 3)."""
POOR, RICH = Budget(epsilon="0.5"), Budget(rho=Fraction(1, 3))
SPECS: list[tuple[Any, Callable[[dict[str, Any]], Any]]] = [
    (sketch.SketchSpec("t", ("a", "b"), PStable(2, 0.3), budget=POOR), sketch.parse_spec),
    (sketch.SketchSpec("t", ("a",), Power(Laplacian(2.0), 3), budget=RICH, scale=(2.0,)), sketch.parse_spec),
    (
        sketch.SketchSpec("t", ("a", "b"), Product((Laplacian(1.0), Laplacian(2.0))), budget=POOR),
        sketch.parse_spec,
    ),
    (
        sketch.SketchSpec("t", ("a",), Jaccard(), accuracy=sketch.SketchAccuracy(0.1, 0.01), label="c", rows=64),
        sketch.parse_spec,
    ),
    (search.OfferSpec("t", ("a",), keys=(search.KeyOf("k", parent=2),), budget=POOR), search.parse_spec),
    (search.OfferSpec("t", ("a",), keys=(search.KeyOf("k", "l"),), budget=RICH), search.parse_spec),
    (
        search.OfferSpec("t", ("a",), budget=POOR, shares=("0.5", Decimal("0.25"), Fraction(1, 4)), owner="North"),
        search.parse_spec,
    ),
    (
        search.RequestSpec("t", "y", ("a",), keys=(search.KeyOf("k"),), scoring="platform", budget=POOR),
        search.parse_request,
    ),
    (synth.SynthSpec("t", POOR, rows=100, targets=("a",), rates={"1": "0.1"}), synth.parse_spec),
    (synth.SynthSpec("t", RICH, engine="chain", chain=PAPER, weights={"2": Fraction(1, 3)}), synth.parse_spec),
    (share.ShareSpec("t", "y", ("a", "b"), budget=POOR), share.parse_spec),
    (share.ShareSpec("t", "y", ("a",), RICH, method="tree", tree=share.TreeSpec(h=5)), share.parse_spec),
]


@pytest.mark.parametrize(("spec", "read"), SPECS)
def test_a_spec_is_the_same_after_its_way(spec: Any, read: Callable[[dict[str, Any]], Any]) -> None:
    told = json.loads(json.dumps(dump_spec(spec), allow_nan=False))
    again = read(told)
    assert dump_spec(again) == dump_spec(spec)
    for name in set(again.__dataclass_fields__) - EXACT:
        assert getattr(again, name) == getattr(spec, name)


def test_plain_values_go_as_they_are() -> None:
    assert dump_spec({"table": "t", "x": [1]}) == {"table": "t", "x": [1]}


@pytest.mark.parametrize(
    "wrong",
    [
        sketch.SketchSpec("t", ("a",), Laplacian(1.0), budget=POOR, plan_file=Path("plan.npz")),
        synth.SynthSpec("t", POOR, references={"a_b": "a_b.csv"}),
        "visits",
        None,
        sketch.SketchSpec,
    ],
)
def test_what_names_a_file_here_or_is_no_spec_is_refused(wrong: Any) -> None:
    with pytest.raises(RequestError, match=r"files of this machine|Expected a spec"):
        dump_spec(wrong)
