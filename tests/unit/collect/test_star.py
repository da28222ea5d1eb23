"""Public tables beside rows: declared, joined on the device, named in SQL; private ones are refused."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from siloquent.collect import (
    Client,
    Device,
    ReportStore,
    design,
    estimate,
    join_dimensions,
    parse_query,
    parse_spec,
    perturb,
    read_collection,
)
from siloquent.collect.measure import star_join
from siloquent.errors import RequestError, SchemaError, UnknownName
from unit.collect.shops import PROFILE, text

PRODUCTS = """
[[dimension]]
name = "products"
key = "product"
public = true
"""
SALES = """
[[service]]
name = "sales"
per_user = 2
attribute = [
  { name = "amount", type = "integer", lo = 0, hi = 24, outside = "clamp", null = "drop", use = "both" },
  { name = "country", type = "category", values = ["IT", "DE"], other = "cell", null = "cell", dimension = "products" },
]
"""
SPEC = parse_spec(text(PRODUCTS, PROFILE, SALES, epsilon="8", min_reports=2))
MADE = design(SPEC)
DOCUMENT = json.loads(MADE.to_json())
TABLES = {"products": {"p1": {"product": "p1", "country": "IT"}, "p2": {"product": "p2", "country": "DE"}}}
KEY = bytes(32)


def test_rows_have_what_their_public_table_says_and_null_where_it_says_nothing() -> None:
    rows = [{"amount": 3, "product": "p2"}, {"amount": 4, "product": "px"}, {"amount": 5, "product": []}, {}]
    full = join_dimensions(DOCUMENT, "sales", rows, TABLES)
    assert [row["country"] for row in full] == ["DE", None, None, None]  # type: ignore[index]
    assert join_dimensions(DOCUMENT, "profile", [{"age": 3}], {}) == [{"age": 3}]
    by_service = join_dimensions(DOCUMENT, "sales", {"sales": rows[:1], "profile": []}, TABLES)
    assert by_service == {"sales": [{"amount": 3, "product": "p2", "country": "DE"}], "profile": []}
    with pytest.raises(ValueError, match="lacks the public table products"):
        join_dimensions(DOCUMENT, "sales", rows, {})


@pytest.mark.parametrize("client", ["separate", "coordinated"])
def test_a_table_that_is_not_there_is_missed_whether_the_user_has_rows_or_not(client: str) -> None:
    together = design(parse_spec(text(PRODUCTS, PROFILE, SALES, epsilon="8", client=client)))
    document = json.loads(together.to_json())
    for rows in ({}, {"sales": []}, {"sales": [{"amount": 3}]}, {"sales": [{"amount": 3}], "profile": [{"age": 3}]}):
        with pytest.raises(ValueError, match="lacks the public table products"):
            join_dimensions(document, "sales", rows, {})


def test_it_needs_nothing_but_python() -> None:
    tree = ast.parse(Path(star_join.__file__).read_text("utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {str(name).split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_reports_have_one_length_whatever_a_row_points_at() -> None:
    client = Client(DOCUMENT)
    for number, product in enumerate(["p1", "px", None, 7]):
        rows = join_dimensions(DOCUMENT, "sales", [{"amount": 3, "product": product}], TABLES)
        assert len(client.report("sales", rows, Device(f"u{number}", KEY, {}))) == 40


def test_a_document_keeps_its_dimensions() -> None:
    assert read_collection(MADE.to_json()) == MADE
    assert DOCUMENT["dimensions"] == [{"name": "products", "key": "product"}]


def test_sums_by_what_a_public_table_says_are_near_the_truth() -> None:
    random = np.random.default_rng(1)
    truth, reports = 0, []
    for user in range(4_000):
        rows = [{"amount": int(random.integers(0, 25)), "product": f"p{random.integers(1, 3)}"} for _ in range(2)]
        truth += sum(row["amount"] for row in rows if row["product"] == "p1")
        reports.append(perturb(MADE, "sales", rows, Device(f"u{user}", KEY, {}), tables=TABLES))
    with ReportStore(MADE) as store:
        store.ingest(b"".join(reports))
        asked = "SELECT SUM(amount) FROM sales JOIN products USING (product) WHERE products.country = 'IT'"
        found = estimate(store, asked).estimate
    # Six standard errors: a right estimate is farther off once in 5 x 10^8 runs.
    assert abs(found.value - truth) < 6 * found.standard_error
    assert found.standard_error < truth / 4


REFUSED = {
    "JOIN products USING (user)": "USING .product.",
    "JOIN profile USING (user) JOIN products USING (age)": "only be joined on its key",
}


@pytest.mark.parametrize(("join", "said"), REFUSED.items())
def test_a_public_table_is_joined_on_its_key_alone(join: str, said: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_query(f"SELECT COUNT(*) FROM sales {join}", SPEC)
    assert "only be joined on its key" in str(refused.value) or said in str(refused.value)


def test_what_no_service_points_at_is_not_joined_and_unknown_values_are_named() -> None:
    with pytest.raises(RequestError, match="No service in the query"):
        parse_query("SELECT COUNT(*) FROM profile JOIN products USING (product)", SPEC)
    with pytest.raises(UnknownName, match="Did you mean 'country'"):
        parse_query("SELECT COUNT(*) FROM sales WHERE products.contry = 'IT'", SPEC)


BROKEN = {
    "a private table": (PRODUCTS.replace("true", "false"), SALES, "is not public"),
    "a table that nobody called public": (PRODUCTS.replace("public = true", ""), SALES, "is not public"),
    "a table without a key": (PRODUCTS.replace('key = "product"', ""), SALES, "a name and a key"),
    "an unknown table": (PRODUCTS, SALES.replace('dimension = "products"', 'dimension = "product"'), "Did you mean"),
    "the name of a service": (PRODUCTS.replace('"products"', '"sales"'), SALES, "has the same name as another"),
    "values in clear": (
        PRODUCTS,
        SALES.replace('"products" }', '"products", sensitive = false }'),
        "so it is sensitive",
    ),
}


@pytest.mark.parametrize(("dimension", "sales", "said"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_star_is_refused_with_its_reason(dimension: str, sales: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parse_spec(text(dimension, sales))


def test_the_front_door_says_which_table_is_missing() -> None:
    with pytest.raises(RequestError, match="lacks the public table products"):
        perturb(MADE, "sales", [{"amount": 3}], Device("u", KEY, {}))
