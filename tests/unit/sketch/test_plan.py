"""Sensitivities, noise and sizes follow from public facts; what does not fit is refused with what would."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from siloquent.errors import AccuracyUnreachable, RequestError, SchemaError, SiloquentError, UnknownName
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, convert_epsilon_to_rho, get_accountant
from siloquent.sketch import Budget, Hamming, Jaccard, Laplacian, PStable, SketchAccuracy, SketchPlan, plan
from siloquent.sketch.plan import compute_counter_sensitivity
from unit.sketch.tables import PURE, ROW, USER, ZCDP, schema, spec


def planned(
    account: str = ZCDP, *, unit: str = ROW, adjacency: str = "add-remove", size: int | None = 2_000, **given: object
) -> SketchPlan:
    return plan(spec(**given), schema(budget=account, unit=unit, adjacency=adjacency, size=size), seed=1)


@pytest.mark.parametrize(
    ("unit", "adjacency", "l1", "l2_squared", "size"),
    [
        (ROW, "add-remove", 256, 256, 1),
        (ROW, "replace-one", 512, 512, 1),
        (USER, "add-remove", 768, 2_304, 3),
        (USER, "replace-one", 1_536, 4_608, 3),
    ],
)
def test_sensitivity_follows_unit_and_adjacency(unit: str, adjacency: str, l1: int, l2_squared: int, size: int) -> None:
    found = compute_counter_sensitivity(schema(unit=unit, adjacency=adjacency), rows=256)
    assert (found.l1, found.l2_squared, found.size) == (l1, l2_squared, size)


@pytest.mark.parametrize(("unit", "records"), [(ROW, 1), (USER, 3)])
@pytest.mark.parametrize("account", [PURE, ZCDP])
def test_where_units_are_replaced_the_number_of_records_is_in_the_counters_price(
    account: str, unit: str, records: int
) -> None:
    made = planned(account, unit=unit, adjacency="replace-one", rows=256)
    price = get_accountant("pure" if account == PURE else "zcdp").compute_price(made.event).amount
    assert made.size_parameter is not None
    power = 1 if account == PURE else 2
    # Both, or one of the two, of two units with up to so many records each, in one cell a row or in two.
    losses = [
        (256 * (a**power + b**power) / made.parameter + abs(a - b) ** power / made.size_parameter) / power
        for a in range(records + 1)
        for b in range(records + 1)
    ]
    assert max(losses) == price
    labelled = planned(account, unit=unit, adjacency="replace-one", rows=256, label="kind")
    assert isinstance(labelled.event, Composed)
    assert compute_counter_sensitivity(labelled.schema, rows=256, classes=3).size == 2 * records


def test_the_price_of_a_zcdp_sketch_is_its_budget_and_never_more() -> None:
    made = planned()
    rho = convert_epsilon_to_rho(2.0, 1e-6)
    assert 0.999 * rho < float(made.price) <= rho
    assert isinstance(made.event, Composed)
    assert made.event.parts[0] == DiscreteGaussian(made.parameter, 256)
    assert made.noise_deviation == pytest.approx(math.sqrt(1 / (2 * 0.99 * rho)), rel=1e-3)


def test_noise_on_a_kernel_sum_does_not_depend_on_the_number_of_rows_in_a_zcdp_account() -> None:
    assert planned(rows=64).noise_deviation == pytest.approx(planned(rows=4096).noise_deviation, rel=1e-2)


def test_the_papers_scale_is_rows_over_epsilon_and_not_over_rows_of_the_table() -> None:
    made = planned(PURE, mechanism="race-2021", rows=200, budget=Budget(epsilon="0.5"))
    assert made.event == DiscreteLaplace(Fraction(400), 200)
    assert made.price == Fraction(1, 2)


def test_a_pure_account_chooses_rows_from_size_and_epsilon() -> None:
    rows = [
        planned(PURE, rows="auto", size=240_000, budget=Budget(epsilon=e)).hash_plan.hashes.rows
        for e in ("1", "0.1", "0.001")
    ]
    assert rows == [4_096, 512, 64]
    assert planned(PURE, rows="auto", size=None).hash_plan.hashes.rows == 1_024


def test_a_zcdp_account_takes_as_many_rows_as_counters_fit() -> None:
    made = planned(rows="auto")
    assert made.hash_plan.hashes.rows == 16_384
    hashed = planned(rows="auto", kernel=Laplacian(0.1))
    assert hashed.hash_plan.shape == (1, 4_096, 2_048)


def test_an_accuracy_becomes_rows_and_a_price() -> None:
    goal = SketchAccuracy(relative=0.1, at_density=0.05, planning="typical")
    made = planned(rows="auto", budget=None, accuracy=goal, size=100_000)
    allowed = (0.1 * 0.05 * 100_000 / 1.959964) ** 2
    spread = 0.06 * 100_000**2 * 0.05
    rows = made.hash_plan.hashes.rows
    assert rows >= 2 * spread / allowed
    assert spread / rows + made.noise_deviation**2 <= allowed * 1.0001


def test_the_same_seed_gives_the_same_plan_digest() -> None:
    assert planned().hash_plan.digest == planned().hash_plan.digest
    assert planned().hash_plan.digest != plan(spec(), schema(), seed=2).hash_plan.digest


def test_a_sketch_that_noise_would_drown_says_so_beforehand() -> None:
    assert "hides sums below" in " ".join(planned(rows=64, size=20).notes)  # type: ignore[arg-type]
    assert "hides" not in " ".join(planned(size=10_000_000).notes)


BAD: dict[str, tuple[dict[str, object], type[SiloquentError], str]] = {
    "an attribute that was never declared": ({"features": ("z",)}, UnknownName, "No attribute named 'z'"),
    "a text as a number": ({"features": ("x", "line")}, SchemaError, "of type text, which has no finite domain"),
    "an id as a number": ({"features": ("person",)}, SchemaError, "'person' is of type id"),
    "numbers as a set": ({"features": ("x",), "kernel": Jaccard()}, SchemaError, "of type real; sets are made of"),
    "a label without classes": ({"label": "item"}, SchemaError, "label 'item' is of type integer"),
    "a group that is no unit": (
        {"features": ("item",), "kernel": Jaccard(), "group": "kind"}, SchemaError, "column of the table's unit",
    ),
    "a group of numbers": ({"group": "person"}, RequestError, "Only kernels of sets take a group"),
    "too many counters": ({"rows": 65_536, "width": 4096}, RequestError, "the limit is 16,777,216"),
    "sparse in a zCDP account": ({"mode": "sparse"}, RequestError, "times the noise of a dense one"),
    "a codeless range": ({"kernel": Laplacian(1.0), "width": "range"}, RequestError, "give a width"),
    "an accuracy without a size": (
        {"budget": None, "accuracy": SketchAccuracy(0.1, 0.1), "rows": "auto"}, RequestError, "rough public size",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "error", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_planned_is_refused_with_a_way_out(
    given: dict[str, object], error: type[SiloquentError], words: str
) -> None:
    with pytest.raises(error, match=words) as refused:
        planned(size=None, **given)  # type: ignore[arg-type]
    assert refused.value.spent == "nothing"


def test_counters_that_do_not_fit_are_refused_with_the_largest_number_that_does() -> None:
    with pytest.raises(RequestError) as refused:
        planned(rows=65_536, width=4096)
    assert "rows=4096" in refused.value.fix


def test_an_accuracy_beyond_all_counters_names_the_best_one() -> None:
    with pytest.raises(AccuracyUnreachable) as refused:
        planned(rows="auto", budget=None, accuracy=SketchAccuracy(0.0001, 0.0001))
    assert refused.value.best_alpha is not None


def test_pure_money_cannot_be_given_with_a_delta_nor_rho() -> None:
    for budget in (Budget(rho="0.1"), Budget(epsilon="1", delta="1e-6")):
        with pytest.raises(RequestError, match="accepts only epsilon"):
            planned(PURE, budget=budget)


SPECS: dict[str, tuple[dict[str, object], str]] = {
    "no budget": ({"budget": None}, "either a budget or an accuracy"),
    "two of them": ({"accuracy": SketchAccuracy(0.1, 0.1)}, "either a budget or an accuracy"),
    "no features": ({"features": ()}, "1 to 4,096 distinct features"),
    "a feature twice": ({"features": ("x", "x")}, "distinct features"),
    "one row": ({"rows": 1}, "rows must be auto or between 2 and"),
    "rows that are no power of two": ({"rows": 100}, "power of two"),
    "more hits than rows": ({"rows": 64, "hits": 65}, "hits must be between 1 and"),
    "no hits": ({"hits": 0}, "hits must be between 1 and"),
    "an odd width": ({"width": 100}, "width must be a power of two"),
    "an unknown mode": ({"mode": "thick"}, "mode must be one of"),
    "an unknown scale": ({"scale": "log"}, "scale must be raw, range"),
    "a scale too few": ({"scale": (1.0,)}, "one number above 0 for each"),
    "a scale of nothing": ({"scale": (1.0, 0.0)}, "one number above 0 for each"),
    "all for the count": ({"count_share": 1}, "count_share must be between"),
    "a label that is a feature": ({"label": "x"}, "other than the features"),
}


@pytest.mark.parametrize(("given", "words"), SPECS.values(), ids=SPECS)
def test_a_spec_that_exists_is_consistent(given: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        spec(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": "0"},
        {"epsilon": "-1"},
        {"epsilon": "nan"},
        {"epsilon": 0.1},
        {},
        {"epsilon": "1", "rho": "1"},
        {"epsilon": "1", "delta": "2"},
    ],
)
def test_a_budget_is_exact_and_above_nothing(given: dict[str, object]) -> None:
    with pytest.raises(RequestError):
        Budget(**given)  # type: ignore[arg-type]


def test_hamming_takes_categories_as_they_are() -> None:
    made = planned(features=("kind", "wet", "item"), kernel=Hamming(2), scale="raw", rows=64)
    assert [feature.steps for feature in made.hash_plan.features] == [2, 2, 1_000]


def test_a_shared_plan_must_be_made_for_the_same_declaration(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(planned().hash_plan.to_json())
    assert planned(plan_file=file).hash_plan.digest == planned().hash_plan.digest
    with pytest.raises(RequestError, match="does not have the same kernel as this table"):
        planned(plan_file=file, kernel=PStable(2, 0.4))
    with pytest.raises(RequestError, match="does not have the same features as"):
        planned(plan_file=file, features=("x",))
    with pytest.raises(RequestError, match="not a readable hash plan"):
        planned(plan_file=tmp_path / "none.json")


def test_every_account_can_pay_what_was_planned() -> None:
    for budget, name in ((ZCDP, "zcdp"), (PURE, "pure")):
        assert get_accountant(name).compute_cost(planned(budget).event).amount > 0
