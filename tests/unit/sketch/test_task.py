"""Building, replaying, saving and asking, through the task's own doors."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from siloquent import create_workspace, read_schema
from siloquent import open as open_workspace
from siloquent.errors import BudgetExceeded, KeyReused, RequestError
from siloquent.maths.lsh.families import compute_similarity
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace
from siloquent.releases import read_release, verify_release
from siloquent.sketch import (
    Anomaly,
    Budget,
    Classify,
    Density,
    Difference,
    Jaccard,
    Laplacian,
    Modes,
    Power,
    PStable,
    Sample,
    Sketch,
    SketchAccuracy,
    ask,
    build,
    compute_paper_mean,
    load_sketch,
    median_of_means,
)
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.sketch.sketch import decode_sketch
from unit.sketch.tables import PURE, ROW, TOML, USER, ZCDP, rows, session, spec

FALSE_ALARM = 1e-9
POINTS = np.array([[2.5, 30], [7.0, 65], [5.0, 48], [9.9, 2]])


def truth(kernel: PStable | Laplacian, points: np.ndarray = POINTS) -> np.ndarray:
    data = rows()
    scaled = np.stack([data["x"].to_numpy() / 10, data["y"].to_numpy() / 100], axis=1)
    return compute_similarity(kernel, scaled, points / [10, 100]).sum(axis=0)


def near(sketch: Sketch, expected: np.ndarray, points: np.ndarray = POINTS) -> None:
    found = ask(sketch, Density(points))
    assert (np.abs(found.values - expected) < 6 * found.errors + 1).all(), (found.values, expected, found.errors)


def test_a_dense_gaussian_sketch_answers_kernel_sums_with_intervals(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(rows=1024))
    near(made, truth(PStable(2, 0.3)))
    assert made.noise == "gaussian"
    assert isinstance(made.event, Composed)
    assert [type(part) for part in made.event.parts] == [DiscreteGaussian] * 2
    assert abs(int(made.sizes[0]) - 2_000) < 200  # type: ignore[index]
    normal = ask(made, Density(POINTS, normalise=True))
    assert normal.values[1] == pytest.approx(ask(made, Density(POINTS)).values[1] / made.estimate_class_sizes()[0])


@pytest.mark.parametrize("hits", [1, 4])
def test_a_sparse_sketch_in_a_pure_account_answers_the_same_sums(tmp_path: Path, hits: int) -> None:
    made = build(session(tmp_path, budget=PURE), spec(mode="sparse", hits=hits, budget=Budget(epsilon="5")))
    near(made, truth(PStable(2, 0.3)))
    assert made.hits == hits
    assert isinstance(made.event, Composed)
    first = made.event.parts[0]
    assert isinstance(first, DiscreteLaplace)
    assert first.l1 == hits


def test_hashed_cells_are_corrected_for_what_shares_them(tmp_path: Path) -> None:
    near(build(session(tmp_path), spec(rows=1024, width=16)), truth(PStable(2, 0.3)))
    (tmp_path / "b").mkdir()
    hashed = build(session(tmp_path / "b"), spec(rows=1024, width=64, kernel=Laplacian(0.2)))
    near(hashed, truth(Laplacian(0.2)))


def test_the_papers_method_has_its_own_noise_and_its_own_estimates(tmp_path: Path) -> None:
    made = build(session(tmp_path, budget=PURE), spec(mechanism="race-2021", rows=1_000, budget=Budget(epsilon="200")))
    assert made.event == DiscreteLaplace(scale=made.parameter, l1=1_000)
    assert made.parameter == 5
    assert made.sizes is None
    expected = truth(PStable(2, 0.3))  # hashes and noise move these estimates by 3 % at most
    assert compute_paper_mean(made, POINTS)[:3] == pytest.approx(expected[:3] / 2_000, rel=0.3)
    assert median_of_means(made, POINTS, delta=0.3)[:3] == pytest.approx(expected[:3], rel=0.3)


def test_the_same_key_gives_the_same_sketch_for_nothing(tmp_path: Path) -> None:
    opened = session(tmp_path)
    first = build(opened, spec(), key="map")
    spent = opened.get_account("points").spent
    again = build(opened, spec(), key="map")
    assert np.array_equal(first.counters, again.counters)
    assert opened.get_account("points").spent == spent
    with pytest.raises(KeyReused, match="another sketch"):
        build(opened, spec(kernel=PStable(2, 0.5)), key="map")
    assert opened.get_account("points").spent == spent


def test_a_charge_without_an_answer_is_measured_again_under_the_same_permit(tmp_path: Path) -> None:
    from siloquent.sketch import task

    opened = session(tmp_path)
    real = task.measure
    task.measure = lambda *_: (_ for _ in ()).throw(RuntimeError("power cut"))  # type: ignore[assignment]
    try:
        with pytest.raises(RuntimeError):
            build(opened, spec(), key="map")
    finally:
        task.measure = real
    spent = opened.get_account("points").spent
    assert spent.amount > 0
    build(opened, spec(), key="map")
    assert opened.get_account("points").spent == spent


def test_the_price_is_what_was_explained_and_is_refused_beforehand(tmp_path: Path) -> None:
    opened = session(tmp_path)
    explained = opened.sketch.explain(spec())
    assert opened.get_account("points").spent.amount == 0
    with pytest.raises(RequestError, match="more than"):
        build(opened, spec(), max_cost="0.000001")
    build(opened, spec())
    assert opened.get_account("points").spent.amount == int(np.ceil(float(explained.price * 10**12)))


def test_a_budget_that_is_gone_refuses_before_a_row_is_read(tmp_path: Path) -> None:
    opened = session(tmp_path, budget='accountant = "zcdp"\nepsilon = "1"\ndelta = "1e-6"')
    with pytest.raises(BudgetExceeded) as refused:
        build(opened, spec())
    assert opened.get_account("points").spent.amount == 0
    payable = refused.value.fix.removeprefix('budget=Budget(rho="').partition('"')[0]
    build(opened, spec(budget=Budget(rho=payable)))


def test_classes_are_told_apart_and_doubt_is_said(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(label="kind"))
    assert made.plan.shape[0] == 2
    found = ask(made, Classify(POINTS))
    assert found.labels[:2] == ("a", "b")
    assert found.decided[:2].all()
    surely = ask(made, Classify(POINTS, beta=FALSE_ALARM))
    assert surely.decided[:2].all()
    assert not surely.decided[3]
    by_prior = ask(made, Classify(POINTS, rule="prior", priors=(0.999999, 0.000001)))
    assert by_prior.labels[2] == "a"
    assert ask(made, Density(POINTS, label="b")).values[1] > 3 * ask(made, Density(POINTS, label="a")).values[1]


@pytest.mark.parametrize("label", ["wet", "kind"])
@pytest.mark.parametrize("features", [("line",), ("wet", "kind")], ids=["words", "flags"])
def test_rows_whose_label_is_null_count_nowhere_and_change_nothing(
    tmp_path: Path, label: str, features: tuple[str, ...]
) -> None:
    names = tuple(name for name in features if name != label)
    asked = spec(features=names, label=label, kernel=Jaccard(), scale="raw", rows=64, budget=Budget(rho="900"))
    frame = rows(200)
    nothing = pa.table({field.name: pa.nulls(40, field.type) for field in frame.schema})
    nothing = nothing.set_column(6, "line", pa.array(["disk full on node"] * 40))
    folders = [tmp_path / name for name in ("without", "with", "only")]
    for folder in folders:
        folder.mkdir()
    built = [
        build(session(folder, data), asked)
        for folder, data in zip(folders, (frame, pa.concat_tables([frame, nothing]), nothing), strict=True)
    ]
    assert {made.counters.shape for made in built} == {built[0].plan.shape}
    # An empty set counts nowhere either: that of a record which is not wet, and has no word or kind.
    counted = frame.filter(pc.equal(frame["wet"], True)) if names == ("wet",) else frame
    truth = [counted[label].to_pylist().count(value) for value in built[0].plan.labels]
    # rho 900 with a fifth for sizes: a standard deviation below 0.1, so 12 stands for a false alarm far below 1e-9.
    for made, expected in zip(built, (truth, truth, [0, 0]), strict=True):
        assert np.abs(made.estimate_class_sizes() - expected).max() < 12


def test_unusual_points_are_flagged_and_usual_ones_are_not(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(rows=1024))
    found = ask(made, Anomaly(POINTS, share=0.02))
    assert found.flagged.tolist() == [False, False, False, True]
    assert ask(made, Anomaly(POINTS, threshold=1e-9)).flagged.sum() == 0


def test_the_two_clouds_are_the_two_modes(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(rows=1024, kernel=PStable(2, 0.15)))
    peaks = ask(made, Modes(2))
    assert sorted(peaks.points[:, 0].round().tolist()) in ([2.0, 7.0], [3.0, 7.0])
    assert (peaks.heights.values > 100).all()


def test_drawn_points_have_the_tables_shape_and_stay_on_the_grid(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(rows=1024, kernel=PStable(2, 0.1)))
    drawn = ask(made, Sample(500, seed=1)).points
    assert np.array_equal(drawn, ask(made, Sample(500, seed=1)).points)
    assert abs((drawn[:, 0] < 5).mean() - 0.4) < 0.12
    assert np.allclose(drawn[:, 1], drawn[:, 1].round())
    assert ((drawn >= 0) & (drawn <= [10, 100])).all()


def test_two_near_points_are_compared_more_sharply_than_their_intervals(tmp_path: Path) -> None:
    made = build(session(tmp_path), spec(rows=1024))
    pair = ask(made, Difference([[2.5, 30]], [[2.6, 31]]))
    assert pair.errors[0] < 0.7 * np.hypot(*ask(made, Density([[2.5, 30], [2.6, 31]])).errors)
    assert ask(made, Difference([[2.5, 30]], [[2.5, 30]])).errors[0] == 0


@pytest.mark.parametrize(
    ("features", "points", "similar"),
    [
        (("line",), ["disk full on node", "disk full on fire", "never seen words"], (800, 480, 0)),
        (("wet", "kind"), [(True, "a"), (False, "b"), (True, "b")], None),
    ],
)
def test_sets_of_words_and_of_flags_are_compared_by_jaccard(
    tmp_path: Path, features: tuple[str, ...], points: list[object], similar: tuple[int, ...] | None
) -> None:
    made = build(session(tmp_path), spec(features=features, kernel=Jaccard(), scale="raw", rows=1024))
    found = ask(made, Density(points))
    if similar is None:
        data = rows()
        records = zip(data["wet"].to_pylist(), data["kind"].to_pylist(), strict=True)
        sets = [{k, "wet"} if w else {k} for w, k in records]
        asked = [{k, "wet"} if w else {k} for w, k in points]  # type: ignore[misc]
        similar = tuple(round(sum(len(s & q) / len(s | q) for s in sets)) for q in asked)
    assert (np.abs(found.values - similar) < 6 * found.errors + 30).all(), (found.values, similar)


def test_all_rows_of_a_user_make_one_set(tmp_path: Path) -> None:
    made = build(
        session(tmp_path, unit=USER, budget=PURE),
        spec(
            features=("item",), group="person", kernel=Power(Jaccard(), 1), scale="raw", rows=1024,
            budget=Budget(epsilon="100"),
        ),
    )  # fmt: skip
    assert isinstance(made.event, Composed)
    assert made.event.parts[0].l1 == 1024  # type: ignore[union-attr]
    people = len(set(rows()["person"].to_pylist()))
    assert abs(int(made.sizes[0]) - people) < 20  # type: ignore[index]
    assert "that others list it is not hidden" in made.notes[0]


def test_rows_outside_or_null_count_nowhere_and_clamped_ones_at_the_edge(tmp_path: Path) -> None:
    import pyarrow as pa

    frame = rows(4).set_column(1, "x", pa.array([float("nan"), None, 99.0, 10.0]))
    frame = frame.set_column(2, "y", pa.array([1, 1, 500, None]))
    wide = build(session(tmp_path, frame, budget=PURE), spec(budget=Budget(epsilon="900"), rows=64))
    assert wide.sizes is not None
    assert abs(int(wide.sizes[0])) <= 3  # x = 99 is dropped, y = NULL has a cell of its own that is no number
    (tmp_path / "c").mkdir()
    clamped = build(
        session(tmp_path / "c", frame, budget=PURE, outside="clamp"), spec(budget=Budget(epsilon="900"), rows=64)
    )
    assert ask(clamped, Density([[10, 100]])).values[0] == pytest.approx(1, abs=3)


def test_counters_that_the_ledger_does_not_keep_are_found(tmp_path: Path) -> None:
    opened = session(tmp_path)
    made = build(opened, spec(label="kind"), key="map")
    forged = opened.sketch.save(replace(made, counters=made.counters + 1))
    assert verify_release(forged, opened.ledger).ok
    assert opened.verify(forged).problems == ("sketch.npz does not hold what the ledger keeps.",)


def test_a_release_is_written_once_verified_and_read_back(tmp_path: Path) -> None:
    opened = session(tmp_path)
    made = build(opened, spec(label="kind"), key="map")
    folder = opened.sketch.save(made)
    assert opened.sketch.save(made) == folder
    assert verify_release(folder, opened.ledger, schema=opened.schema("points").digest).ok
    verdict = opened.verify(folder)
    assert (verdict.problems, verdict.compared) == ((), True)
    assert read_release(folder)["class"].to_pylist() == ["a", "b"]
    back = load_sketch(folder)
    assert np.array_equal(back.counters, made.counters)
    assert back.plan.digest == made.plan.digest
    assert back.describe_guarantee() == made.describe_guarantee()
    assert back.to_bytes() == made.to_bytes()


@pytest.mark.parametrize("planning", ["typical", "guaranteed"])
def test_an_accuracy_is_priced_and_kept(tmp_path: Path, planning: str) -> None:
    goal = SketchAccuracy(relative=0.2, at_density=0.05, beta=0.05, planning=planning)  # type: ignore[arg-type]
    opened = session(tmp_path)
    plan = opened.sketch.explain(spec(budget=None, accuracy=goal, rows="auto"))
    made = build(opened, spec(budget=None, accuracy=goal, rows="auto"))
    found, expected = ask(made, Density(POINTS)), truth(PStable(2, 0.3))
    assert np.abs(found.values - expected)[:2].max() < 3 * 0.2 * 0.05 * 2_000
    assert plan.price > 0
    assert ("typical" in " ".join(plan.notes)) is (planning == "typical")


@pytest.mark.parametrize("verb", ["build", "regress"])
def test_a_table_declared_anew_after_the_charge_is_measured_as_it_was_planned(tmp_path: Path, verb: str) -> None:
    with session(tmp_path) as opened:
        schema = opened.schema("points")
        reserve = opened.ledger.reserve

        def meanwhile(*given: Any, **named: Any) -> Any:
            permit = reserve(*given, **named)
            opened._frames["points"] = (replace(schema, version=2), opened._frames["points"][1])
            return permit

        opened.ledger.reserve = meanwhile  # type: ignore[method-assign]
        moments = MomentsSpec("points", ("x",), "y", Budget(epsilon="2"))
        asked = {"build": lambda: opened.sketch.build(spec()), "regress": lambda: opened.sketch.regress(moments)}
        assert asked[verb]()
        (kept,) = opened.ledger.iter_answers(schema.account)
        assert kept.spent_after.amount > kept.spent_before.amount


def test_a_moments_key_that_holds_another_charge_is_not_measured_at_its_price(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        reserve = opened.ledger.reserve
        cheap = DiscreteGaussian(variance=Fraction(10**9), l2_squared=1)
        opened.ledger.reserve = lambda account, event, **named: reserve(account, cheap, **named)  # type: ignore[method-assign]
        with pytest.raises(RequestError, match="for a different plan"):
            opened.sketch.regress(MomentsSpec("points", ("x",), "y", Budget(epsilon="2")), key="k")


@pytest.mark.parametrize(
    ("account", "mode", "budget"),
    [(ZCDP, {}, Budget(rho="400")), (PURE, {"mode": "sparse", "hits": 4}, Budget(epsilon="400"))],
    ids=["dense", "sparse"],
)
def test_a_row_without_a_number_or_a_class_counts_nowhere_also_where_null_is_a_cell(
    tmp_path: Path, account: str, mode: dict[str, Any], budget: Budget
) -> None:
    """100 of 600 rows have no y, whose NULL is a cell of its own, and 50 others no kind; noise is far below one row."""
    frame = rows(600)
    for name, empty in (("y", range(100)), ("kind", range(100, 150))):
        values = [None if i in empty else value for i, value in enumerate(frame[name].to_pylist())]
        frame = frame.set_column(frame.column_names.index(name), name, pa.array(values, frame.schema.field(name).type))
    declared = TOML.replace('values = ["a", "b"], null = "drop"', 'values = ["a", "b"], null = "cell"')
    text = declared.format(budget=account, unit=ROW, adjacency="add-remove", size="size_hint = 600", outside="drop")
    create_workspace(tmp_path / "w")
    opened = open_workspace(tmp_path / "w")
    opened.add_frame(read_schema(text), frame)
    kinds = frame["kind"].to_pylist()[100:]
    labelled = build(opened, spec(rows=64, label="kind", budget=budget, **mode))
    assert labelled.estimate_class_sizes().tolist() == pytest.approx([kinds.count("a"), kinds.count("b")], abs=2)
    plain = build(opened, spec(rows=64, budget=budget, **mode))
    assert plain.estimate_class_sizes()[0] == pytest.approx(500, abs=2)


def test_a_set_holds_no_value_where_there_is_none(tmp_path: Path) -> None:
    """Without a number made of what is no number, which is another one on another processor."""
    frame = rows(600)
    items = [None if i % 2 else 5 for i in range(600)]
    frame = frame.set_column(frame.column_names.index("item"), "item", pa.array(items, pa.int64()))
    opened = session(tmp_path, frame, unit=USER)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        made = build(
            opened, spec(features=("item",), kernel=Jaccard(), group="person", rows=256, budget=Budget(rho="400"))
        )
    people = len({person for person, item in zip(frame["person"].to_pylist(), items, strict=True) if item is not None})
    assert made.estimate_class_sizes()[0] == pytest.approx(people, abs=people / 10)


@pytest.mark.parametrize("epsilon", ["0.01", "50", "900"])
@pytest.mark.parametrize("mode", [{}, {"mode": "sparse", "hits": 1}], ids=["dense", "sparse"])
def test_every_budget_of_a_pure_account_gives_a_sketch_that_can_be_read(
    tmp_path: Path, epsilon: str, mode: dict[str, Any]
) -> None:
    made = build(session(tmp_path, rows(100), budget=PURE), spec(rows=16, budget=Budget(epsilon=epsilon), **mode))
    assert ask(made, Density(POINTS)).values.shape == (4,)
    assert decode_sketch(replace(made, variance=Fraction(0)).to_bytes()).variance > 0  # as it once was written


@pytest.mark.parametrize(
    ("features", "given"), [(("line",), {}), (("item",), {"group": "person"})], ids=["words", "group"]
)
def test_sets_may_count_in_a_few_rows_of_the_sketch_each(
    tmp_path: Path, features: tuple[str, ...], given: dict[str, Any]
) -> None:
    opened = session(tmp_path, budget=PURE, **({"unit": USER} if given else {}))
    asked = spec(kernel=Jaccard(), features=features, mode="sparse", hits=2, budget=Budget(epsilon="300"), **given)
    made = build(opened, asked)
    people = len(set(rows()["person"].to_pylist()))
    assert made.hits == 2
    assert made.estimate_class_sizes()[0] == pytest.approx(people if given else 2_000, abs=5)
