"""What may be declared, and how a document travels."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from siloquent.collect import (
    Client,
    ReportStore,
    check,
    design,
    estimate,
    parse_spec,
    perturb_all,
    predict,
    read_collection,
)
from siloquent.collect.spec.role import compute_point_places
from siloquent.errors import SchemaError, SiloquentError, UnknownName
from unit.collect.shops import FINE, ORDERS, PROFILE, WIDE, collection, shoppers, text

REFUSED: dict[str, tuple[str, str]] = {
    "no epsilon": (text(PROFILE).replace('epsilon = "4"', ""), "needs 'epsilon'"),
    "epsilon 0": (text(PROFILE, epsilon="0"), "epsilon must be above 0"),
    "epsilon that is no number": (text(PROFILE, epsilon="much"), "epsilon must be a number"),
    "epsilon above 20": (text(PROFILE, epsilon="21"), "at most 20"),
    "too many rows a user": (text(ORDERS.replace("per_user = 3", "per_user = 1001")), "between 1 and 1,000"),
    "an unknown key": (text(PROFILE, clients="separate"), "Did you mean 'client'"),
    "an unknown key of a service": (text(ORDERS.replace("per_user", "per_users")), "Did you mean 'per_user'"),
    "an unknown key of an attribute": (text(PROFILE.replace("other =", "others =")), "Unknown key 'others'"),
    "a text attribute": (
        text(
            PROFILE.replace(
                'type = "category", values = ["a", "b", "c"], other = "cell", null = "cell"',
                'type = "text", max_bytes = 9',
            )
        ),
        "is of type text",
    ),
    "a sum of a category": (text(PROFILE.replace('null = "cell" }', 'null = "cell", use = "measure" }')), "has no sum"),
    "everyone with dropped rows": (text(PROFILE.replace('null = "cell"', 'null = "drop"')), "are dropped"),
    "everyone with several rows": (
        text(PROFILE.replace("everyone = true", "everyone = true\nper_user = 2")),
        "one row",
    ),
    "public without everyone": (
        text(ORDERS.replace('null = "drop" },\n]', 'null = "drop", sensitive = false },\n]')),
        "reveal whether a user has a row",
    ),
    "two services of one name": (text(PROFILE, PROFILE), "the same name"),
    "no service": (text(), "needs 'service'"),
    "no format": (text(PROFILE).replace("format = 1\n", ""), "begin with its format"),
    "an unknown client": (text(PROFILE, client="together"), "separate or coordinated"),
    "a client of two services with several rows": (
        text(ORDERS, ORDERS.replace('"orders"', '"returns"'), client="coordinated"),
        "at most one service",
    ),
    "a public value beside a joined row that may be missing": (
        text(PROFILE.replace('null = "cell" }', 'null = "cell", sensitive = false }'), ORDERS, client="coordinated"),
        "whether a user has a row in 'orders' would show",
    ),
    "a value alone that is none": (
        text(PROFILE.replace("value = 0 }", "value = 0 }, alone = [99]")),
        "among its values",
    ),
    "a value alone twice": (text(PROFILE.replace("value = 0 }", "value = 0 }, alone = [9, 9.0]")), "named once"),
    "a category alone": (text(PROFILE.replace('null = "cell" }', 'null = "cell", alone = ["a"] }')), "none is alone"),
    "values alone that are no list": (text(PROFILE.replace("value = 0 }", "value = 0 }, alone = 9")), "are a list"),
    "too few bins for values alone": (
        text(PROFILE.replace("value = 0 }", "value = 0 }, resolution = 4, alone = [0, 9, 24]")),
        "too few for 3 values alone",
    ),
    "no TOML": ("format = ", "not valid TOML"),
}


@pytest.mark.parametrize(("declared", "said"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_declaration_is_refused_with_its_reason(declared: str, said: str) -> None:
    with pytest.raises(SiloquentError, match=said) as refused:
        design(parse_spec(declared))
    assert isinstance(refused.value, SchemaError)


def test_a_joint_table_that_is_too_large_is_refused_before_anybody_reports() -> None:
    wide = WIDE.replace("hi = 24", "hi = 9999").replace("resolution = 5", "resolution = 9999")
    with pytest.raises(SchemaError, match="cells; the limit for reports is 1,048,576"):
        design(parse_spec(text(wide)))


@pytest.mark.parametrize(
    "services", [(PROFILE,), (PROFILE, ORDERS), (WIDE,), (FINE,)], ids=["one", "two", "wide", "fine"]
)
def test_a_document_reads_back_as_itself_and_a_changed_one_does_not(services: tuple[str, ...]) -> None:
    made = collection(*services)
    assert read_collection(made.to_json()) == made
    plain = json.loads(made.to_json())
    plain["channels"][0]["layers"][0]["truth"] = str(int(plain["channels"][0]["layers"][0]["truth"]) + 2**40)
    with pytest.raises(SchemaError, match="was changed"):
        read_collection(json.dumps(plain))


@pytest.mark.parametrize("garbage", ["", "[]", "{}", '{"format": 1}', "[" * 100_000, '{"digest": 3, "format": 1}'])
def test_what_is_no_document_is_refused(garbage: str) -> None:
    with pytest.raises(SchemaError):
        read_collection(garbage)


ALONE = PROFILE.replace("value = 0 }", "value = 0 }, resolution = 10, alone = [24, 0]")


def test_values_alone_are_bins_of_the_document_and_its_clients() -> None:
    made = collection(ALONE)
    (channel,) = made.channels
    assert channel.trees[0].alone == (0, 24)
    assert read_collection(made.to_json()) == made
    plain = json.loads(made.to_json())["channels"][0]
    assert plain["starts"] == [list(channel.trees[0].starts), []]
    client = Client(json.loads(made.to_json()))
    assert client._channels[0]._bins[0] == channel.trees[0].map_to_bins().tolist()
    assert "starts" not in json.loads(collection(PROFILE).to_json())["channels"][0]


def test_null_has_a_bin_of_its_own() -> None:
    made = collection(PROFILE.replace("null = { value = 0 }", 'null = "cell", resolution = 10'))
    bins = made.channels[0].trees[0].map_to_bins()
    assert (bins[:25] < bins[25]).all()


def test_each_service_has_its_share_and_a_coordinated_client_all_of_it() -> None:
    assert [one.epsilon for one in collection(PROFILE, ORDERS).channels] == [Fraction(2), Fraction(2)]
    assert [one.epsilon for one in collection(PROFILE, ORDERS, client="coordinated").channels] == [Fraction(4)]


def test_the_shares_of_layers_add_up_and_every_layer_is_used() -> None:
    made = collection(PROFILE, ORDERS)
    assert sum(one.words for one in made.assignments) == 2**32
    for number, channel in enumerate(made.channels):
        assert {one.layers[number] for one in made.assignments} == set(range(len(channel.layers)))


def test_pairs_cover_every_two_attributes() -> None:
    sets = collection(WIDE).channels[0].sets
    assert sets == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert collection(WIDE, scope="full").channels[0].sets == [(0, 1, 2, 3)]


def test_predicted_errors_fall_with_the_root_of_users() -> None:
    made = collection(PROFILE, ORDERS)
    few, many = predict(made, 10_000), predict(made, 1_000_000)
    assert len(few) > 5
    for one, other in zip(few, many, strict=True):
        assert one.relative == pytest.approx(10 * other.relative)


def test_questions_to_joined_services_are_predicted_as_they_turn_out() -> None:
    made = collection(PROFILE, ORDERS, epsilon="6", min_reports=2)
    predicted = {one.question: one for one in predict(made, 20_000) if len(one.services) == 2}
    assert {"COUNT by age and amount", "SUM(amount) by age", "COUNT by region and gift"} <= set(predicted)
    with ReportStore(made) as store:
        store.add(perturb_all(made, shoppers(20_000, seed=3)))
        both = "age BETWEEN {0} AND {1} AND amount BETWEEN {0} AND {1}"
        sql = f"SELECT COUNT(*) FROM orders JOIN profile USING (user) WHERE {both}"
        asked = [estimate(store, sql.format(low, low + 4)).estimate.standard_error for low in (0, 4, 9, 14, 19)]
    # Conditions of one fifth each, of the planned .05, .15 and .4: as large, within a factor.
    ratio = np.mean(asked) / 20_000 / predicted["COUNT by age and amount"].relative
    assert 0.5 < ratio < 1.5, ratio


def test_three_services_have_layers_in_common() -> None:
    made = design(parse_spec(text(PROFILE, ORDERS, WIDE)))
    assert all(one.holds for one in check(made))
    assert sum(one.words for one in made.assignments) == 2**32


def test_an_unknown_service_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'orders'"):
        collection(PROFILE, ORDERS).spec.get_service("order")


def test_two_measures_are_asked_for_together_and_three_in_pairs_with_what_filters() -> None:
    measures = """
[[service]]
name = "paid"
everyone = true
attribute = [
  { name = "a", type = "integer", lo = 0, hi = 9, outside = "clamp", null = { value = 0 }, use = "measure" },
  { name = "b", type = "integer", lo = 0, hi = 9, outside = "clamp", null = { value = 0 }, use = "measure" },
MORE
]
"""
    two = collection(measures.replace("MORE", ""), scope="pairs")
    assert {layer.attributes for layer in two.channels[0].layers} == {(0, 1)}
    third = '  { name = "c", type = "category", values = ["x", "y"], other = "cell", null = "cell" },'
    three = collection(measures.replace("MORE", third), scope="pairs")
    assert {layer.attributes for layer in three.channels[0].layers} == {(0, 2), (1, 2)}


@pytest.mark.parametrize(("size", "points"), [(2, 2), (10, 2), (10, 4), (25, 7), (1_000, 33)])
def test_points_are_the_first_place_the_last_and_others_evenly_between(size: int, points: int) -> None:
    places = compute_point_places(size, points).tolist()
    assert (places[0], places[-1], len(places)) == (0, size - 1, points)
    gaps = [high - low for low, high in pairwise(places)]
    assert max(gaps) - min(gaps) <= 1


def test_a_service_whose_attributes_have_one_value_each_has_nothing_to_report() -> None:
    one = """
[[service]]
name = "one"
everyone = true
attribute = [ { name = "a", type = "integer", lo = 3, hi = 3, outside = "clamp", null = { value = 3 } } ]
"""
    with pytest.raises(SchemaError, match="no attribute with two values"):
        collection(one)
