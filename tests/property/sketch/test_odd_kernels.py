"""A sketch is refused by its explanation, or is built, saved, read back and asked, whatever kernel and ranges."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent import sketch
from siloquent.errors import RequestError, SiloquentError
from siloquent.maths.lsh import Angular, Hamming, Kernel, Power
from siloquent.sketch.plan import planner

SCHEMA = """
format = 1
attribute = [
  { name = "bit", type = "integer", lo = 0, hi = 1, outside = "clamp", null = "drop" },
  { name = "wide", type = "integer", lo = 0, hi = 1000000000, outside = "clamp", null = "drop" },
  { name = "fine", type = "real", lo = 0, hi = 0.00001, grid = 0.000000001, outside = "clamp", null = "drop" },
  { name = "day", type = "date", lo = 0001-01-01, hi = 9999-12-31, outside = "clamp", null = "drop" },
]
[table]
name = "t"
adjacency = "add-remove"
size_hint = 200
unit = { kind = "row" }
[budget]
accountant = "zcdp"
rho = "1000000"
delta = "1e-5"
"""
WIDTHS = (1e-300, 1e-15, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e18, 1e300)
FEATURES = [("bit",), ("day",), ("wide", "fine"), ("bit", "day")]


def open_table(folder: Path) -> sq.Session:
    sq.create_workspace(folder / "w")
    session = sq.open(folder / "w")
    rows = pa.table({"bit": [0, 1] * 9, "wide": [7] * 18, "fine": [1e-9] * 18, "day": [date(2000, 1, 1)] * 18})
    session.add_frame(sq.read_schema(SCHEMA), rows)
    return session


def draw_kernel(chance: random.Random) -> Kernel:
    width = chance.choice(WIDTHS)
    simple: Kernel = chance.choice(
        [sketch.PStable(2, width), sketch.PStable(1, width), sketch.Laplacian(width), Angular(4), Hamming(3)]
    )
    return Power(simple, 2) if chance.random() < 0.2 else simple


@pytest.mark.parametrize("seed", range(3))
def test_what_is_explained_is_built_and_read_back(tmp_path: Path, seed: int) -> None:
    chance, built = random.Random(seed), 0
    with open_table(tmp_path) as session:
        for number in range(60):
            features = chance.choice(FEATURES)
            try:
                spec = sketch.SketchSpec(
                    table="t",
                    features=features,
                    kernel=draw_kernel(chance),
                    budget=sketch.Budget(rho="1"),
                    rows=chance.choice([2, 8]),
                    width=chance.choice(["auto", "auto", "range", 2, 64]),
                    scale=chance.choice(["raw", "range"]),
                )
                price = session.sketch.explain(spec).price
            except SiloquentError:
                continue
            left = session.get_remaining("t").amount
            made = session.sketch.build(spec, key=f"k{number}")
            assert left - session.get_remaining("t").amount == price * 10**12
            again = session.sketch.load(session.sketch.save(made))
            assert np.array_equal(again.counters, made.counters)
            sketch.ask(again, sketch.Density([[1.0] * len(features)]))
            built += 1
    assert built > 20


def test_a_bandwidth_wider_than_the_domain_has_one_code(tmp_path: Path) -> None:
    with open_table(tmp_path) as session:
        spec = sketch.SketchSpec("t", ("bit",), sketch.PStable(2, 1000.0), sketch.Budget(rho="1000"), rows=2)
        made = session.sketch.build(spec, key="once")
        (value,) = session.sketch.ask(made, sketch.Density([[1.0]])).values
        assert abs(value - 18) < 2
        left = session.get_remaining("t").amount
        assert np.array_equal(session.sketch.build(spec, key="once").counters, made.counters)
        assert session.get_remaining("t").amount == left


def test_more_projections_than_fit_are_refused_before_they_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MAX_NUMBERS", 1_000)
    with open_table(tmp_path) as session:
        spec = sketch.SketchSpec("t", ("wide", "fine"), sketch.PStable(2, 0.2), sketch.Budget(rho="1"), rows=512)
        with pytest.raises(RequestError, match="projections are too many") as refused:
            session.sketch.explain(spec)
        assert refused.value.fix == "rows=256"
