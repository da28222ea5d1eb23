"""Engine chain from plan to rows, on a small table: order of columns, price, restarts, constraints, weights."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent
from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.privacy import SampledGaussian
from siloquent.privacy.prices import Budget
from siloquent.privacy.sampling import epsilon_of_steps
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema
from siloquent.session import Session
from siloquent.synth.chain import learn_chain
from siloquent.synth.estimate.chain import ChainModel
from siloquent.synth.estimate.chain_weights import fit_weights
from siloquent.synth.estimate.keep import broken_hard, violations
from siloquent.synth.plan.chain import plan_chain
from siloquent.synth.spec.chain import ChainSpec
from siloquent.synth.spec.spec import SynthSpec

FILE = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B", "C", "D"], null = "drop" },
  { name = "floor", type = "integer", lo = 0, hi = 5, outside = "clamp", null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
  { name = "days", type = "integer", lo = 0, hi = 30, outside = "clamp", null = "drop" },
  { name = "again", type = "boolean", null = "drop" },
]
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "floor" },
  { kind = "denial", not = "t1.ward = t2.ward and t1.age > t2.age and t1.days < t2.days", hard = false },
  { kind = "denial", not = "t1.again != t2.again and t1.days <= t2.days and t1.age >= t2.age", hard = false },
]
[table]
name = "visits"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 2000
[budget]
accountant = "zcdp"
rho = "40"
delta = "1e-6"
delta_events = "5e-7"
"""
SCHEMA: TableSchema = parse_schema(FILE)
CHAIN = ChainSpec(steps=6, width=4)
SPEC = SynthSpec("visits", Budget(rho="8"), engine="chain", seed=3)


def table(rows: int = 2_000) -> pa.Table:
    random = np.random.default_rng(0)
    ward = random.integers(0, 4, rows)
    age = random.integers(0, 100, rows)
    return pa.table(
        {
            "ward": [("A", "B", "C", "D")[w] for w in ward],
            "floor": ward + 1,
            "age": age,
            "days": np.clip(age // 4 + random.integers(-2, 3, rows), 0, 30),
            "again": age > 60,
        }
    )


@pytest.fixture
def session(tmp_path: Path) -> Session:
    siloquent.create_workspace(str(tmp_path / "w"))
    opened = siloquent.open(str(tmp_path / "w"))
    opened.add_frame(SCHEMA, table())
    return opened


@pytest.fixture
def model(session: Session) -> ChainModel:
    return learn_chain(session, SPEC, CHAIN)


def test_sides_of_dependencies_come_first_then_small_domains() -> None:
    plan = plan_chain(SPEC, SCHEMA, CHAIN)
    assert [plan.first.names[place] for place in plan.sequence] == ["ward", "again", "days", "age"]
    assert "floor" not in plan.first.names


def test_the_event_is_counts_and_sampled_steps_within_the_price() -> None:
    plan = plan_chain(SPEC, SCHEMA, CHAIN)
    sampled = plan.sampled
    assert isinstance(sampled, SampledGaussian)
    assert sampled.steps == 6 * 3
    assert sampled.rate == Fraction(2**64 * 140 // 2_000, 2**64)
    assert sampled.delta == Fraction("5e-7")
    stated = epsilon_of_steps(rate=0.07, multiplier=float(sampled.multiplier), steps=18, delta=5e-7)
    assert sampled.epsilon == stated
    assert plan.price <= 8
    assert plan.price >= Fraction(79, 10)
    assert "engine 'tree' buys far more" in plan.advice


def test_replaced_rows_double_what_a_step_must_hide() -> None:
    plan = plan_chain(SPEC, replace(SCHEMA, adjacency="replace-one"), CHAIN)
    training = plan.training
    assert training is not None
    assert training.variance == np.ceil(float((2 * training.scale * training.multiplier) ** 2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size_hint": None}, "public number of rows"),
        ({"budget": replace(SCHEMA.budget, delta_events=Fraction(0))}, "keeps no delta"),
    ],
)
def test_what_the_chain_needs_is_asked_for_before_anything_is_spent(changes: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_chain(SPEC, replace(SCHEMA, **changes), CHAIN)  # type: ignore[arg-type]


def test_steps_that_no_noise_makes_cheap_enough_are_refused() -> None:
    with pytest.raises(AccuracyUnreachable, match="do not fit"):
        plan_chain(replace(SPEC, budget=Budget(rho="0.02")), SCHEMA, ChainSpec(steps=10**6))


def test_accept_reject_is_refused_where_it_might_never_end() -> None:
    with pytest.raises(RequestError, match="may refuse for ever"):
        plan_chain(SPEC, SCHEMA, ChainSpec(sampler="accept-reject"))


def test_rows_keep_hard_constraints_and_the_source_s_types(model: ChainModel) -> None:
    cells = model.cells(500, seed=1)
    assert not broken_hard(cells, model.frame.compiled)
    drawn = model.draw(500, seed=1)
    assert drawn.schema.types == [pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.bool_()]
    assert model.draw(500, seed=1).equals(drawn)
    assert not model.draw(500, seed=2).equals(drawn)


def test_the_same_key_gives_the_same_model_and_a_killed_run_goes_on(session: Session, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(step: int) -> None:
        if step == 4:
            raise Killed

    folder = tmp_path / "steps"
    with pytest.raises(Killed):
        learn_chain(session, SPEC, CHAIN, key="k", folder=folder, progress=kill)
    spent = session.left("visits").amount
    kept = {file.name: file.read_bytes() for file in folder.glob("*/step-*.npz")}
    assert len(kept) == 4
    learn_chain(session, replace(SPEC, columns=("age",)), CHAIN, key="another", folder=folder)
    assert kept == {file.name: file.read_bytes() for file in folder.glob("*/step-*.npz")}
    spent = session.left("visits").amount
    done: list[int] = []
    first = learn_chain(session, SPEC, CHAIN, key="k", folder=folder, progress=done.append)
    assert session.left("visits").amount == spent
    again = learn_chain(session, SPEC, CHAIN, key="k")
    assert session.left("visits").amount == spent
    assert all((a.flat() == b.flat()).all() for a, b in zip(first.networks, again.networks, strict=True))
    assert (first.cells(100, seed=5) == again.cells(100, seed=5)).all()


def test_weights_bring_the_rates_where_they_are_wanted(model: ChainModel) -> None:
    before = violations(model.cells(5_000, seed=0), model.frame.compiled, one_way=False)
    wanted = {2: 0.7 * before[2].rate, 3: 0.7 * before[3].rate}
    fitted = fit_weights(model, wanted)
    after = violations(fitted.cells(5_000, seed=0), model.frame.compiled, one_way=False)
    for number, rate in wanted.items():
        assert abs(after[number].rate / rate - 1) < 0.05


def test_a_single_column_is_its_counts_alone(session: Session) -> None:
    made = learn_chain(session, replace(SPEC, columns=("age",)), CHAIN)
    assert made.plan.sampled is None
    assert made.cells(50).shape == (50, 1)
