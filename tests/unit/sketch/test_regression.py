"""Linear models from one release of moments."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siloquent.errors import KeyReused, RequestError, SchemaError
from siloquent.maths.models.moments import (
    QUANTA,
    Moments,
    build_joint_release,
    compute_moments,
    fit_linear_model,
    round_into_ball,
)
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace
from siloquent.sketch import (
    Anomaly,
    Budget,
    Density,
    Difference,
    Modes,
    MomentsSpec,
    Regress,
    Sample,
    Sketch,
    Surrogate,
    ask,
    load_sketch,
    plan,
    regress,
)
from siloquent.sketch.estimate.moments import build_linear_model, build_stored_model
from siloquent.sketch.measure import count_places, moments
from siloquent.sketch.plan.moments import FINEST, plan_moments
from unit.sketch.tables import PURE, ZCDP, schema, session, spec


def lines(count: int = 20_000) -> pa.Table:
    """y = 20 + 5 x, and noise."""
    random = np.random.default_rng(3)
    x = random.uniform(0, 10, count).round(2)
    y = np.clip(20 + 5 * x + random.normal(0, 3, count), 0, 100).round().astype(int)
    empty = np.zeros(count, dtype=int)
    return pa.table(
        {"person": [f"p{i}" for i in range(count)], "x": x, "y": y, "kind": ["a"] * count, "wet": empty == 0}
        | {"item": empty, "line": [""] * count}
    )


def wanted(**changed: object) -> MomentsSpec:
    given = {"table": "points", "features": ("x",), "target": "y", "budget": Budget(epsilon="2")}
    return MomentsSpec(**{**given, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("account", ["zcdp", "pure"])
def test_the_line_is_found_in_its_own_units(tmp_path: Path, account: str) -> None:
    opened = session(tmp_path, lines(), **({"budget": PURE} if account == "pure" else {}))
    model = regress(opened, wanted(), key="line")
    assert model.weights[0] == pytest.approx(5, abs=0.3)
    assert model.intercept == pytest.approx(20, abs=2)
    assert model.predict([[4.0], [99.0]]) == pytest.approx([40, 100], abs=2)
    spent = opened.get_account("points").spent
    assert regress(opened, wanted(), key="line").intercept == model.intercept
    assert opened.get_account("points").spent == spent
    with pytest.raises(KeyReused):
        regress(opened, wanted(features=("wet",)), key="line")


def test_moments_add_up_and_multiply() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 9, (7, 2)), random.integers(-9, 9, (5, 3))

    def of(records: np.ndarray) -> Moments:
        count, sums, second = compute_moments(records)
        return Moments(count, sums.astype(float), second.astype(float))

    pairs = np.array([[*x, *y] for x in a for y in b])
    product = of(a) * of(b)
    assert (product.count, product.sums.tolist()) == (35, pairs.sum(axis=0).tolist())
    assert np.array_equal(product.second, pairs.T @ pairs)
    both = of(a) + of(a[:3])
    assert np.array_equal(both.second, a.T @ a + a[:3].T @ a[:3])


@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0])
def test_no_record_leaves_the_ball(radius: float) -> None:
    scaled = np.random.default_rng(1).uniform(-1, 1, (5_000, 6))
    lengths = (round_into_ball(scaled, radius).astype(np.int64) ** 2).sum(axis=1)
    assert lengths.max() <= QUANTA**2


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_no_pair_of_neighbours_is_further_apart_than_the_release_says(
    records: int, replaced: bool, radius: float
) -> None:
    random = np.random.default_rng(records)
    release = build_joint_release(3, radius, records=records, replaced=replaced)
    shares, upper = (Fraction(2), Fraction(18), Fraction(80)), np.triu_indices(3)
    scales, variances = release.split_scales(shares, Fraction(1)), release.split_variances(shares, Fraction(1, 2))
    nearest = [0.0, 0.0]
    for _ in range(1_500):
        scaled = random.uniform(-1, 1, (2, records, 3))
        if random.random() < 0.8:
            scaled[:, :] = np.sign(random.normal(0, 1, (2, 1, 3)))
        if random.random() < 0.3:
            scaled[1] = -scaled[0] * random.random()
        one, other = (round_into_ball(part, radius) for part in scaled)
        n1, s1, q1 = compute_moments(one)
        n2, s2, q2 = compute_moments(other) if replaced else (0, 0 * s1, 0 * q1)
        parts = [abs(n1 - n2), np.abs(s1 - s2).sum(), np.abs((q1 - q2)[upper]).sum()]
        squares = [(n1 - n2) ** 2, ((s1 - s2) ** 2).sum(), ((q1 - q2) ** 2).sum()]
        found = [sum(float(x) / float(s or 1) for x, s in zip(parts, scales, strict=True))]
        found.append(sum(float(x) / float(s or 1) for x, s in zip(squares, variances, strict=True)))
        nearest = [max(pair) for pair in zip(nearest, found, strict=True)]
    assert max(nearest) <= 1 + 1e-9
    assert min(nearest) > (0.6 if replaced and radius < 1 else 0.9)  # no looser than it must be


def surrogate_of(records: pa.Table, *, bits: int = 4) -> Sketch:
    """A sketch without noise, its hash functions from a fixed seed: what the method itself can do."""
    made = plan(spec(kernel=Surrogate(bits), rows=4_096), schema(), seed=1)
    places = np.stack([np.rint(records["x"].to_numpy() * 100), records["y"].to_numpy()], axis=1).astype(np.int64)
    counters, sizes = count_places(made, places, None)
    one = Fraction(1)
    return Sketch(made.hash_plan, counters, sizes, made.noise, one, one, one, made.hits, made.event)


def test_the_papers_surrogate_loss_is_least_near_the_line() -> None:
    sketch = surrogate_of(lines(2_000))
    model = ask(sketch, Regress("y"))
    assert (model.features, model.target) == (("x",), "y")
    assert model.predict([[2.0], [8.0]]) == pytest.approx([30, 60], abs=10)
    back = ask(sketch, Regress("x", reach=3))  # twice as steep where both are on -1..1: beyond a reach of 1
    assert back.predict([[30.0], [60.0]]) == pytest.approx([2, 8], abs=1.5)


def test_a_surrogate_sketch_is_built_kept_and_asked_for_its_model_alone(tmp_path: Path) -> None:
    opened = session(tmp_path, lines(500))
    made = opened.sketch.build(spec(kernel=Surrogate(2)))
    assert made.plan.shape == (1, 256, 4)
    assert made.counters.sum() / 256 == pytest.approx(500, abs=60)
    again = load_sketch(opened.sketch.save(made))
    assert ask(again, Regress("y")).weights == ask(made, Regress("y")).weights
    one = [[1, 2]]
    for question in (Density(one), Modes(2), Sample(3), Anomaly(one, share=0.1), Difference(one, one)):
        with pytest.raises(RequestError, match="answers only Regress"):
            ask(made, question)
    with pytest.raises(RequestError, match="no feature 'kind'"):
        ask(made, Regress("kind"))
    with pytest.raises(RequestError, match="no surrogate loss"):
        ask(opened.sketch.build(spec()), Regress("y"))
    with pytest.raises(RequestError, match="two features"):
        opened.sketch.explain(spec(kernel=Surrogate(2), features=("x",)))
    with pytest.raises(RequestError, match="reach"):
        Regress("y", reach=0)


def test_noise_alone_gives_small_weights() -> None:
    random = np.random.default_rng(2)
    noise = random.normal(0, 1_000, (5, 5))
    weights, _ = fit_linear_model(Moments(10, np.zeros(5), noise + noise.T), deviation=1_000)
    assert np.abs(weights).max() < 2


def test_what_is_no_regression_is_refused(tmp_path: Path) -> None:
    opened = session(tmp_path)
    with pytest.raises(SchemaError, match="'kind' is of type category"):
        regress(opened, wanted(features=("kind",)))
    for wrong in ({"features": ()}, {"target": "x"}, {"radius": 0.0}, {"radius": float("nan")}):
        with pytest.raises(RequestError):
            wanted(**wrong)
    assert opened.get_account("points").spent.amount == 0


@pytest.mark.parametrize("account", [PURE, ZCDP])
@pytest.mark.parametrize("quanta", FINEST)
@pytest.mark.parametrize(("rows", "turn"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_moments_that_an_earlier_revision_stored_mean_what_they_meant(
    account: str, quanta: int, rows: int, turn: int
) -> None:
    """Format 1 held neither steps nor noise: both followed from a plan that priced each order for itself."""
    chosen = plan_moments(MomentsSpec("visits", ("x",), "y", Budget(epsilon="2")), schema(budget=account))
    noises = (Fraction(3), Fraction(50), Fraction(7_000))
    if account == PURE:
        lengths = (rows, turn * rows * (math.isqrt(2 * quanta**2) + 1), turn * rows * 3 * quanta**2)
        parts: list[Any] = [DiscreteLaplace(noise, l1) for noise, l1 in zip(noises, lengths, strict=True)]
    else:
        squares = (rows**2, turn**2 * rows**2 * quanta**2, turn * rows**2 * quanta**4)
        parts = [DiscreteGaussian(noise, l2) for noise, l2 in zip(noises, squares, strict=True)]
    count, sums, second = np.array([90]), np.array([300, -100]), np.array([[90_000, 2_000], [2_000, 80_000]])
    plain = {"format": 1, "count": count.tolist(), "sums": sums.tolist(), "second": second.tolist()}
    found = build_stored_model(chosen, json.dumps(plain).encode(), Composed(tuple(parts)))
    then = replace(chosen, quanta=quanta, parameters=noises)
    wanted = build_linear_model(then, count, sums, second)
    assert (found.intercept, found.weights.tolist()) == (wanted.intercept, wanted.weights.tolist())


def test_a_row_without_one_of_its_numbers_counts_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """x is dropped where it is NULL, and y has a cell for it: neither is a place in the ball."""
    frame = lines(500)
    for name, empty in (("x", range(100)), ("y", range(50, 180))):
        values = [None if i in empty else value for i, value in enumerate(frame[name].to_pylist())]
        frame = frame.set_column(frame.column_names.index(name), name, pa.array(values, frame.schema.field(name).type))
    seen, real = [], moments.add_moment_noise
    monkeypatch.setattr(moments, "add_moment_noise", lambda plan, *exact: (seen.append(exact), real(plan, *exact))[1])
    regress(session(tmp_path, frame), wanted())
    ((count, sums, second),) = seen
    kept = frame.slice(180)
    assert count == kept.num_rows == 320
    x = np.rint(kept["x"].to_numpy() * 100)
    assert sums.shape == (2,)
    assert np.sign(sums[0]) == np.sign((2 * x / 1_000 - 1).sum())
    assert second.shape == (2, 2)
