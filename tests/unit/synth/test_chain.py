"""Engine chain from plan to rows, on a small table: order of columns, price, restarts, constraints, weights."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

import siloquent
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.documents.prices.plans import synth_plan_document as plan_document
from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.privacy import Cost, SampledGaussian
from siloquent.privacy.budget import Budget
from siloquent.privacy.sampling import compute_steps_epsilon
from siloquent.schema import TableSchema, Unit
from siloquent.schema.build import parse_schema
from siloquent.session import WorkspaceSession
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.chain.weights import fit_weights
from siloquent.synth.estimate.enforce.constraints import count_violations, find_broken_hard
from siloquent.synth.measure.chain import train
from siloquent.synth.plan.chain import ChainPlan, plan_chain
from siloquent.synth.release import load_model
from siloquent.synth.spec.chain import PAPER, SEARCHED, ChainSpec, parse_chain_spec
from siloquent.synth.spec.network import build_blank_network, draw_first_embeddings
from siloquent.synth.spec.spec import SynthSpec, parse_spec

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
SPEC = SynthSpec("visits", Budget(rho="8"), engine="chain", seed=3, chain=CHAIN, report=0)


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
def session(tmp_path: Path) -> WorkspaceSession:
    siloquent.create_workspace(str(tmp_path / "w"))
    opened = siloquent.open(str(tmp_path / "w"))
    opened.add_frame(SCHEMA, table())
    return opened


@pytest.fixture
def model(session: WorkspaceSession) -> ChainModel:
    made: ChainModel = session.synth.synthesize(SPEC).model
    return made


def test_sides_of_dependencies_come_first_then_small_domains() -> None:
    plan = plan_chain(SPEC, SCHEMA)
    assert [plan.first.names[place] for place in plan.sequence] == ["ward", "again", "days", "age"]
    assert "floor" not in plan.first.names


def test_the_event_is_counts_and_sampled_steps_within_the_price() -> None:
    plan = plan_chain(SPEC, SCHEMA)
    sampled = plan.sampled
    assert isinstance(sampled, SampledGaussian)
    assert sampled.steps == 6 * 3
    assert sampled.rate == Fraction(2**64 * 140 // 2_000, 2**64)
    assert sampled.delta == Fraction("5e-7")
    stated = compute_steps_epsilon(rate=0.07, multiplier=float(sampled.multiplier), steps=18, delta=5e-7)
    assert sampled.epsilon == stated
    assert plan.price <= 8
    assert plan.price >= Fraction(79, 10)
    assert "engine 'tree' buys far more" in plan.advice


@pytest.mark.parametrize(("adjacency", "moved", "more"), [("add-remove", 1, 0), ("replace-one", 2, 8)])
def test_the_noise_of_a_step_is_what_it_must_hide_and_no_more(
    adjacency: Literal["add-remove", "replace-one"], moved: int, more: int
) -> None:
    """A replaced row moves a sum twice as far; whole numbers of two gradients need a little more than their reals."""
    training = plan_chain(SPEC, replace(SCHEMA, adjacency=adjacency)).training
    assert training is not None
    assert training.variance == math.ceil((moved * training.scale * training.multiplier) ** 2) + more


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size_hint": None}, "public number of rows"),
        ({"budget": replace(SCHEMA.budget, delta_events=Fraction(0))}, "reserves no delta"),
        ({"unit": Unit("user", "ward", 2)}, "protects single rows"),
    ],
)
def test_what_the_chain_needs_is_asked_for_before_anything_is_spent(changes: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_chain(SPEC, replace(SCHEMA, **changes))  # type: ignore[arg-type]


def test_steps_that_no_noise_makes_cheap_enough_are_refused() -> None:
    with pytest.raises(AccuracyUnreachable, match="at any noise level"):
        plan_chain(replace(SPEC, budget=Budget(rho="0.02"), chain=ChainSpec(steps=10**6)), SCHEMA)


@pytest.mark.parametrize("columns", [("again",), ("again", "floor"), None])
def test_no_plan_costs_more_than_its_budget(columns: tuple[str, ...] | None) -> None:
    def planned(counts: str) -> ChainPlan:
        chain = ChainSpec(steps=6, width=4, counts=counts, hyper=1 if columns is None else 1_024)
        return plan_chain(replace(SPEC, columns=columns, report="0.3", chain=chain), SCHEMA)

    made = planned("0.3")
    assert made.price <= made.first.amount
    with pytest.raises(RequestError, match="whole budget"):
        planned("0.9")


def test_accept_reject_is_refused_where_it_might_never_end() -> None:
    with pytest.raises(RequestError, match="may never finish"):
        plan_chain(replace(SPEC, chain=ChainSpec(sampler="accept-reject")), SCHEMA)


def test_rows_keep_hard_constraints_and_the_source_s_types(model: ChainModel) -> None:
    cells = model.draw_cells(500, seed=1)
    assert not find_broken_hard(cells, model.frame.compiled)
    drawn = model.draw(500, seed=1)
    assert drawn.schema.types == [pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.bool_()]
    assert model.draw(500, seed=1).equals(drawn)
    assert not model.draw(500, seed=2).equals(drawn)


def test_the_same_key_gives_the_same_model_and_a_killed_run_goes_on(session: WorkspaceSession) -> None:
    class Killed(Exception):
        pass

    def kill(step: int) -> None:
        if step == 4:
            raise Killed

    runs = Path(session.workspace.folder) / "runs"
    with pytest.raises(Killed):
        session.synth.synthesize(SPEC, key="k", progress=kill)
    kept = {file.name: file.read_bytes() for file in runs.glob("*/step-*.npz")}
    assert len(kept) == 4
    session.synth.synthesize(replace(SPEC, columns=("age",)), key="another")
    assert kept == {file.name: file.read_bytes() for file in runs.glob("*/step-*.npz")}
    spent = session.get_remaining("visits").amount
    done: list[int] = []
    first = session.synth.synthesize(SPEC, key="k", progress=done.append)
    assert done == list(range(1, plan_chain(SPEC, SCHEMA).steps + 1))
    again = session.synth.synthesize(SPEC, key="k")
    assert session.get_remaining("visits").amount == spent
    assert first.rows.equals(again.rows)
    assert first.measurements.to_bytes() == again.measurements.to_bytes()


def test_a_saved_model_makes_the_same_rows_and_the_release_is_verified(session: WorkspaceSession) -> None:
    spec = replace(SPEC, rates={"2": "0.01"}, targets=("again",), report="0.02", rows=400)
    made = session.synth.synthesize(spec)
    folder = session.synth.save(made)
    assert session.verify(folder).ok
    loaded = load_model(folder)
    assert loaded.draw(300, seed=5).equals(made.model.draw(300, seed=5))
    where = loaded.draw(50, where="ward = 'A' and age < 50", seed=2)
    assert set(where.column("ward").to_pylist()) == {"A"}
    assert max(where.column("age").to_pylist()) < 50
    names = [paid.name for paid in made.report.paid]
    assert names[2:] == [f"right about again: {of}" for of in ("logistic regression", "random forest", "boosted trees")]
    assert loaded.compute_marginal(("ward", "again")).sum() == pytest.approx(loaded.rows)


def test_weights_bring_the_rates_where_they_are_wanted(model: ChainModel) -> None:
    before = count_violations(model.draw_cells(5_000, seed=0), model.frame.compiled, one_way=False)
    wanted = {2: 0.7 * before[2].rate, 3: 0.7 * before[3].rate}
    fitted = fit_weights(model, wanted)
    after = count_violations(fitted.draw_cells(5_000, seed=0), model.frame.compiled, one_way=False)
    for number, rate in wanted.items():
        assert abs(after[number].rate / rate - 1) < 0.05


def test_a_single_column_is_its_counts_alone(session: WorkspaceSession) -> None:
    made = session.synth.synthesize(replace(SPEC, columns=("age",))).model
    assert made.plan.sampled is None
    assert made.draw_cells(50).shape == (50, 1)


def test_small_neighbours_are_learned_as_one(session: WorkspaceSession) -> None:
    spec = replace(SPEC, chain=replace(CHAIN, hyper=8))
    plan = plan_chain(spec, SCHEMA)
    assert isinstance(plan, ChainPlan)
    assert [[plan.names[place] for place in block] for block in plan.blocks] == [["ward", "again"], ["days"], ["age"]]
    assert plan.joint is not None
    assert plan.price <= 8
    assert len(plan.event.parts) == len(plan_chain(SPEC, SCHEMA).event.parts) + 1  # type: ignore[union-attr]
    made = session.synth.synthesize(replace(spec, rows=4_000))
    # The first block has its own histogram, so its joint is nearly the true one: the last two fifths come again.
    again = np.array(made.rows.column("again").to_pylist())
    assert abs(again.mean() - 0.39) < 0.08
    assert made.report.broken == 0


def test_without_tables_the_first_value_drawn_holds_for_all_rows_of_a_left_side(session: WorkspaceSession) -> None:
    spec = replace(SPEC, chain=replace(CHAIN, fast_fd=False))
    plan = plan_chain(spec, SCHEMA)
    assert [plan.names[place] for place in plan.sequence] == ["ward", "floor", "again", "days", "age"]
    assert not plan.compiled.needs
    model = session.synth.synthesize(spec).model
    raw = model.draw_cells(2_000, seed=1, kept=False)
    pairs = {(ward, floor) for ward, floor in raw[:, :2].tolist()}
    assert len(pairs) == len({ward for ward, _ in pairs}) == 4
    assert not find_broken_hard(model.draw_cells(2_000, seed=1), model.frame.compiled)


def test_the_search_ends_at_any_price_and_keeps_to_it() -> None:
    for rho in ("39", "8", "0.5", "0.05"):
        spec = replace(SPEC, budget=Budget(rho=rho), chain=replace(SEARCHED, width=4))
        plan = plan_chain(spec, SCHEMA)
        assert plan.price <= Fraction(rho)
        assert plan.training is not None
        assert plan.training.steps >= 50


def test_an_unknown_preset_or_setting_is_named() -> None:
    with pytest.raises(RequestError, match="Preset 'best' does not exist"):
        parse_chain_spec({"preset": "best"})
    with pytest.raises(RequestError, match="chain has no 'epochs'"):
        parse_chain_spec({"epochs": 3})
    assert parse_chain_spec({"preset": "paper", "steps": 7}) == replace(PAPER, steps=7)
    with pytest.raises(RequestError, match="settings of engine 'chain'"):
        replace(SPEC, engine="tree")


def test_a_request_for_a_chain_is_read_back_as_it_was() -> None:
    spec = replace(SPEC, weights={"2": "0.5"})
    assert parse_spec(spec.to_dict()).canonical() == spec.canonical()


def test_the_plan_of_a_chain_is_a_document_like_any_plan() -> None:
    plan = plan_chain(SPEC, SCHEMA)
    document = plan_document(plan, Cost(0))
    assert list(faults(document, json_schema("synth-plan"))) == []
    assert document["model"] == "4 columns, 3 models of 6 noisy steps each"
    assert [step["step"] for step in document["steps"]][-1] == "18 steps of training"
    assert abs(sum(step["price"] for step in document["steps"]) - float(plan.price)) < 1e-6


def test_the_first_step_is_as_long_as_the_rate_and_the_last_one_hardly_moves() -> None:
    plan = plan_chain(SPEC, SCHEMA)
    assert plan.training is not None
    random, sizes = np.random.default_rng(0), (3, 4, 5)
    model = build_blank_network((0, 1), 2, sizes, draw_first_embeddings(sizes, 4, seed=1))
    table_rows = random.integers(0, sizes, (30, 3))
    lines = []
    for steps in (1, 6):
        plan_of = replace(plan, training=replace(plan.training, steps=steps))
        lines.append(train(model, table_rows, plan_of).flatten() - model.flatten())
    rate = plan.chain.rate
    assert np.abs(lines[0]).max() == pytest.approx(rate, rel=1e-3)  # one step: the cosine is 1
    assert np.abs(lines[1]).max() < 6 * rate
