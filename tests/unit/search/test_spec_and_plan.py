"""Offers and requests check themselves; plans price them from declarations alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import siloquent as sq
from siloquent.errors import RequestError, SchemaError, SiloquentError, UnknownName
from siloquent.privacy import get_accountant
from siloquent.schema import TableSchema
from siloquent.search import Budget, KeyOf, OfferAccuracy, OfferSpec, RequestSpec, parse_request, parse_spec, plan
from siloquent.search.plan.columns import build_join_key
from siloquent.search.plan.discovery import compute_signature, find_matching_keys
from unit.search.tables import PURE, ROW, TOML, USER, ZCDP, schema, spec

WRONG_OFFERS: dict[str, tuple[dict[str, object], str]] = {
    "no features": ({"features": ()}, "1 to 500 distinct features"),
    "a feature twice": ({"features": ("x", "x")}, "distinct features"),
    "a key that is a feature": ({"features": ("town",)}, "key and a feature"),
    "no price": ({"budget": None}, "either a budget or an accuracy"),
    "another mechanism": ({"mechanism": "apm"}, "mechanism must be one of"),
    "shares below 0": ({"shares": ("-1", "1", "0")}, "Shares are"),
    "no share for counts": ({"shares": ("0", "1", "0")}, "counts need a share"),
    "a share for what is not released": ({"shares": ("1", "1", "1")}, "must be 0 if none are released"),
    "a cut of 0": ({"norm_cut": 0.0}, "norm_cut"),
    "second moments per several keys": (
        {"second_moments": "per-key", "keys": (KeyOf("town"), KeyOf("year"))},
        "need exactly one key",
    ),
    "an indicator of nothing": ({"indicators": ("y",)}, "Indicators must name"),
    "a higher order by key": ({"order": 3}, "without keys"),
    "an order of 5": ({"order": 5, "keys": ()}, "without keys"),
    "shares for another order": ({"order": 4, "keys": (), "shares": ("0.1", "0.2", "0.7")}, "Shares are 5"),
    "no share for a higher order": ({"order": 3, "keys": (), "shares": ("0.1", "0.2", "0.7", "0")}, "Shares are 4"),
}


@pytest.mark.parametrize(("changed", "said"), WRONG_OFFERS.values(), ids=WRONG_OFFERS)
def test_an_offer_that_makes_no_sense_cannot_be_written(changed: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        spec(**changed)


WRONG_REQUESTS: dict[str, tuple[dict[str, object], str]] = {
    "the target as a feature": ({"features": ("y",)}, "distinct attributes"),
    "platform without a budget": ({"scoring": "platform"}, "needs a budget"),
    "local with a budget": ({"budget": Budget(epsilon="1")}, "is free"),
    "a join without a key": ({"keys": ()}, "Joins need a key"),
    "another kind": ({"kinds": ("cross",)}, "kinds must be"),
    "another model": ({"model": "tree"}, "model must be"),
    "a higher order of a join": ({"model": "logistic", "order": 4}, "of unions"),
    "a higher order of a linear model": ({"kinds": ("union",), "order": 4}, "of unions"),
    "too many": ({"max_augmentations": 51}, "between 1 and 50"),
    "all rows to test on": ({"test_share": 1.0}, "below 1"),
}


@pytest.mark.parametrize(("changed", "said"), WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
def test_a_request_that_makes_no_sense_cannot_be_written(changed: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        RequestSpec(**{"table": "places", "target": "y", "features": ("x",), "keys": ("town",), **changed})  # type: ignore[arg-type]


WRONG_PLANS: dict[str, tuple[dict[str, object], type[SiloquentError], str]] = {
    "an unknown feature": ({"features": ("z",)}, UnknownName, "No attribute"),
    "a text": ({"features": ("line",)}, SchemaError, "is of type text"),
    "one value only": ({"features": ("one",)}, SchemaError, "one declared value"),
    "a key without a domain": ({"keys": (KeyOf("person"),)}, SchemaError, "not declared"),
    "a parent of a number": ({"keys": (KeyOf("year", parent=2),)}, SchemaError, "must be a category"),
    "too small a price": ({"budget": Budget(rho="0.0000000000001")}, RequestError, "below rho"),
}


@pytest.mark.parametrize(("changed", "kind", "said"), WRONG_PLANS.values(), ids=WRONG_PLANS)
def test_what_cannot_be_offered_is_refused_from_the_declaration(
    changed: dict[str, object], kind: type[SiloquentError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        plan(spec(**changed), schema())


PLANS: dict[str, dict[str, object]] = {
    "for joins": {},
    "for unions": {"keys": (), "features": ("x", "y")},
    "with second moments": {"second_moments": "total", "features": ("x", "kind", "wet")},
    "per key": {"second_moments": "per-key"},
    "by two keys": {"keys": (KeyOf("town"), KeyOf("year"))},
    "by both keys together": {"keys": (KeyOf("town", "year"),)},
    "cut": {"norm_cut": 0.5},
    "of order 3": {"keys": (), "order": 3},
    "of order 4": {"keys": (), "features": ("x", "kind"), "order": 4},
    "fpm": {"mechanism": "fpm", "second_moments": "total"},
    "fpm-opt": {"mechanism": "fpm-opt", "second_moments": "total"},
    "with an indicator": {"features": ("x", "y"), "indicators": ("y",)},
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("changed", PLANS.values(), ids=PLANS)
def test_a_plan_costs_what_was_allowed_and_hardly_less(changed: dict[str, object], adjacency: str) -> None:
    made = plan(spec(**changed, budget=Budget(rho="0.05")), schema(adjacency=adjacency))
    # The worst neighbours of separate orders differ, so priced together FPM-OPT costs less than its parts.
    least = "0.04" if changed.get("mechanism") == "fpm-opt" else "0.0499"
    assert Fraction(least) < made.price <= Fraction("0.05")


def test_one_joint_release_is_less_noisy_than_the_papers() -> None:
    given = {"second_moments": "total", "features": ("x", "y"), "budget": Budget(rho="0.05")}
    ours, fpm, opt = (plan(spec(**given, mechanism=name), schema()) for name in ("joint", "fpm", "fpm-opt"))
    assert ours.parameters[1] is not None
    assert fpm.parameters[1] is not None
    assert opt.parameters[1] is not None
    assert ours.parameters[1] < opt.parameters[1] < fpm.parameters[1]


def test_a_pure_account_gets_laplace_noise_for_all_of_its_epsilon() -> None:
    made = plan(spec(budget=Budget(epsilon="1")), schema(budget=PURE))
    assert made.noise == "laplace"
    assert Fraction("0.99") < made.price <= 1
    with pytest.raises(RequestError, match="Gaussian"):
        plan(spec(budget=Budget(epsilon="1"), mechanism="fpm", second_moments="total"), schema(budget=PURE))


def test_higher_orders_need_gaussian_noise_and_few_columns() -> None:
    with pytest.raises(RequestError, match="Gaussian"):
        plan(spec(keys=(), order=3, budget=Budget(epsilon="1")), schema(budget=PURE))
    text = TOML.replace('["p", "q", "r"]', str([f"v{i}" for i in range(41)]).replace("'", '"'))
    wide = sq.read_schema(text.format(name="places", budget=ZCDP, unit=ROW, adjacency="add-remove", size=10))
    with pytest.raises(RequestError, match="41 columns"):
        plan(spec(keys=(), features=("kind",), order=4), wide)


def test_a_user_of_three_rows_needs_three_times_the_deviation() -> None:
    row, user = (plan(spec(budget=Budget(rho="0.05")), schema(unit=unit)) for unit in ('{ kind = "row" }', USER))
    assert row.parameters[1] is not None
    assert user.parameters[1] is not None
    assert math.sqrt(user.parameters[1] / row.parameters[1]) == pytest.approx(3 * user.steps / row.steps, rel=0.01)


def test_replaced_rows_without_a_key_are_counted_exactly() -> None:
    given = {"keys": (), "features": ("y",)}
    assert plan(spec(**given), schema(adjacency="replace-one")).parameters[0] is None
    # A row may come to count where NULL drops it, and a user may have any number of rows.
    assert plan(spec(**{**given, "features": ("x", "y")}), schema(adjacency="replace-one")).parameters[0] is not None
    assert plan(spec(**given), schema(adjacency="replace-one", unit=USER)).parameters[0] is not None
    assert plan(spec(**given), schema()).parameters[0] is not None


def test_an_accuracy_is_kept_and_costs_less_where_keys_have_more_rows() -> None:
    dear, cheap = (plan(spec(budget=None, accuracy=OfferAccuracy(0.01, rows)), schema()) for rows in (100, 1_000))
    assert dear.compute_mean_error(100) == pytest.approx(0.02, rel=0.01)
    assert dear.price == pytest.approx(100 * cheap.price, rel=0.01)


def test_what_noise_will_hide_is_said_before_anything_is_spent() -> None:
    notes = plan(spec(keys=(KeyOf("town", "year"),), budget=Budget(rho="0.0001")), schema(size=100)).notes
    assert len(notes) == 1
    assert "about 6.25 rows a value" in notes[0] or "about 6.3 rows a value" in notes[0]
    assert plan(spec(), schema()).notes == ()


UNION: dict[str, object] = {"keys": (), "features": ("x", "y", "wet")}
SMALL: dict[str, tuple[dict[str, object], int, str]] = {
    "a handful of rows a key": ({"budget": Budget(epsilon="1")}, 40, "hides what tells them apart"),
    "some rows a key": ({"budget": Budget(epsilon="1")}, 80, "only large differences"),
    "a tiny epsilon": ({"budget": Budget(epsilon="0.03")}, 800, "hides what tells them apart"),
    "a union of a hundred rows": ({**UNION, "budget": Budget(epsilon="1")}, 100, "hides linear relations"),
    "a union at a tiny epsilon": ({**UNION, "budget": Budget(epsilon="0.1")}, 1_000, "hides linear relations"),
}


@pytest.mark.parametrize(("given", "size", "said"), SMALL.values(), ids=SMALL)
def test_where_it_cannot_work_the_plan_says_so_from_public_facts(
    given: dict[str, object], size: int, said: str
) -> None:
    assert said in " ".join(plan(spec(**given), schema(size=size)).notes)
    assert plan(spec(**{**given, "budget": Budget(epsilon="1")}), schema(size=100_000)).notes == ()


def test_a_table_that_does_not_say_its_size_is_told_that_it_matters() -> None:
    text = TOML.format(name="places", budget=ZCDP, unit=ROW, adjacency="add-remove", size=10)
    unsized = sq.read_schema(text.replace("size_hint = 10\n", ""))
    assert "no size_hint" in plan(spec(), unsized).notes[0]


def test_a_release_that_is_too_large_is_refused() -> None:
    text = TOML.format(name="places", budget=ZCDP, unit=ROW, adjacency="add-remove", size=10)
    wide = sq.read_schema(text.replace("hi = 10, grid = 0.01", "hi = 99999, grid = 0.1"))
    with pytest.raises(RequestError, match="would hold"):
        plan(spec(keys=(KeyOf("x"),), features=("town", "kind", "wet", "y", "year")), wide)
    with pytest.raises(SchemaError, match="has 3,999,964 values"):
        plan(spec(keys=(KeyOf("x", "town"),), features=("y",)), wide)


def test_specs_are_read_from_plain_words_and_unknown_ones_are_named() -> None:
    read = parse_spec(
        {"table": "places", "features": ["x"], "keys": ["town", ["town", "year"]], "budget": {"rho": "10"}}
    )
    assert read == spec(keys=(KeyOf("town"), KeyOf("town", "year")))
    request = parse_request(
        {"table": "t", "target": "y", "keys": [{"attributes": ["dbn"], "parent": 2}], "kinds": ["join", "union"]}
    )
    assert request.keys == (KeyOf("dbn", parent=2),)
    with pytest.raises(RequestError, match="An offer has no 'feature'"):
        parse_spec({"table": "t", "feature": ["x"]})
    with pytest.raises(RequestError, match="is invalid"):
        parse_request({"table": "t"})


def test_equal_specs_have_equal_texts_and_others_do_not() -> None:
    assert spec(budget=Budget(rho="10")).canonical() == spec(budget=Budget(rho="10.0")).canonical()
    texts = {plan(spec(**changed), schema()).spec.canonical() for changed in PLANS.values()}
    assert len(texts) == len(PLANS)


def test_signatures_find_keys_that_share_values() -> None:
    town, year, both = plan(spec(keys=(KeyOf("town"), KeyOf("year"), KeyOf("town", "year"))), schema()).keys
    assert [i for i, _ in find_matching_keys(town, [year, town, both])] == [1]
    assert np.array_equal(compute_signature(town), compute_signature(town))
    assert find_matching_keys(town, []) == []


def test_the_accounts_own_price_is_the_events() -> None:
    made = plan(spec(), schema())
    assert made.price == Fraction(get_accountant("zcdp").compute_cost(made.event).amount, get_accountant("zcdp").scale)


@pytest.mark.parametrize("budget", ["", PURE])
def test_the_number_of_rows_is_released_without_noise_only_where_it_is_no_secret(budget: str) -> None:
    declared = schema(budget=budget) if budget else schema()
    with pytest.raises(RequestError, match="the number of rows of this table is private"):
        plan(spec(keys=(), shares=("0", "0.2", "0.8"), second_moments="total", budget=Budget(epsilon="0.5")), declared)


def declaration(toml: str) -> TableSchema:
    return sq.read_schema(toml.format(name="t", adjacency="add-remove", size=100, unit=ROW, budget=ZCDP))


def test_days_are_no_features_though_they_can_be_counted() -> None:
    day = 'type = "date", lo = 2024-01-01, hi = 2024-01-31, grid = "day", outside = "drop", null = "drop"'
    declared = declaration(TOML.replace('{{ name = "kind",', f'{{{{ name = "day", {day} }}}},\n  {{{{ name = "kind",'))
    with pytest.raises(SchemaError, match="is of type date; features are numbers"):
        plan(OfferSpec("t", ("day",), (), budget=Budget(rho="1")), declared)
    assert plan(OfferSpec("t", ("x",), (KeyOf("day"),), budget=Budget(rho="1")), declared).keys[0].cells == 31


@pytest.mark.parametrize(("more", "cells"), [("", 4), (', other = "cell"', 5)])
@pytest.mark.parametrize("null", ["drop", "cell"])
def test_a_key_has_a_cell_for_each_declared_value_and_for_what_is_counted_beside_them(
    more: str, cells: int, null: str
) -> None:
    declared = declaration(TOML.replace('"bb"], null = "drop"', f'"bb"]{more}, null = "{null}"'))
    assert build_join_key(KeyOf("town"), declared).cells == cells + (null == "cell")


def test_keys_are_proposed_by_the_share_of_values_most_first() -> None:
    own = build_join_key(KeyOf("town"), schema())
    other = replace(own, parts=(replace(own.parts[0], values=("aa", "ab", "ba", "zz")),))
    found = find_matching_keys(own, [other, own])
    assert [place for place, _ in found] == [1, 0]
    assert found[0][1] > found[1][1]


def test_a_budget_that_selects_no_range_is_refused_with_a_way_out() -> None:
    with pytest.raises(RequestError, match="too small to estimate ranges") as refused:
        plan(
            spec(range="quantiles", features=("x",), keys=(), budget=Budget(epsilon="1e-9")),
            schema(budget=PURE, unit=USER),
        )
    assert refused.value.fix == 'range="declared"'
