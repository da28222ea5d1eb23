"""A declaration in Python and its table file are the same: written and read again, nothing is lost or added."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.schema.strategies import attributes
from siloquent.errors import SchemaError
from siloquent.schema import (
    Attribute,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    TableBudget,
    Unit,
    parse_comparisons,
)
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring import Declaration
from unit.schema.declared import WHOLE, table_file

amounts = st.decimals("0.000001", "100", places=6).map(Fraction)
shares = st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), amounts.map(lambda one: one / 100), max_size=3)
soft = st.booleans()
weights = st.none() | amounts


@st.composite
def budgets(draw: st.DrawFn) -> TableBudget:
    given_shares = tuple(draw(shares).items())
    common: dict[str, Any] = {
        "epoch": draw(st.integers(1, 9)),
        "shares": given_shares,
        "sharing": draw(st.sampled_from(["pool", "own"])) if given_shares else "pool",
        "reuse": draw(st.sampled_from(["fresh-or-simultaneous", "any", "none"])),
        "disclosures": draw(st.booleans()),
    }
    if draw(st.booleans()):
        return TableBudget("pure", epsilon=draw(amounts), **common)
    delta = draw(st.sampled_from([Fraction(1, 10**6), Fraction(3, 10**7)]))
    spent_in = draw(st.sampled_from(["epsilon", "rho"]))
    common |= {spent_in: draw(amounts), "delta": delta, "delta_events": draw(st.sampled_from([Fraction(0), delta / 2]))}
    return TableBudget("zcdp", **common)


@st.composite
def constraints(draw: st.DrawFn, names: list[str]) -> Any:
    one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    hard = draw(soft)
    weight = None if hard else draw(weights)
    tests = parse_comparisons(f't1."{one}" = \'it\'\'s "so"\' and t1."{other}" != 3', default_row=1)
    return draw(
        st.sampled_from(
            [
                FunctionalDependency((one,), other, draw(st.sampled_from([(), tests])), hard, weight, draw(st.text())),
                DenialConstraint(tests, hard, weight),
                Key((one, other), hard),
                ForeignKey((one,), "wards", ("ward", "floor")),
            ]
        )
    )


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    columns = draw(st.lists(attributes, min_size=1, max_size=4, unique_by=lambda one: one.name.casefold()))
    names = {one.name for one in columns} - {"who_key", "note_key", "day_key", "year_key"}
    columns = [one for one in columns if one.name in names]
    columns.append(Attribute("note_key", "text", max_bytes=draw(st.integers(0, 9_999))))
    columns.append(Attribute("who_key", "id"))
    day = {"lo": datetime(2024, 1, 1), "hi": datetime(2025, 1, 1), "grid": Decimal(86_400)}
    columns.append(Attribute("day_key", "date", **day))  # type: ignore[arg-type]
    columns.append(
        Attribute("year_key", "integer", Decimal(2024), Decimal(2025), Decimal(1), function="year", argument="day_key")
    )
    return Declaration(
        draw(st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)),
        draw(st.permutations(columns)),
        unit=draw(st.sampled_from([Unit(), Unit.person("who_key", max_rows=3)])),
        budget=draw(budgets()),
        source=draw(st.sampled_from(["", "csv:data/visits.csv"])),
        rows=draw(st.none() | st.integers(1, 10**9)),
        adjacency=draw(st.sampled_from(["add-remove", "replace-one"])),
        version=draw(st.integers(1, 99)),
        constraints=draw(st.lists(constraints([one.name for one in columns]), max_size=3)),
    )


@settings(deadline=None)
@given(declaration=declarations())
def test_to_toml_and_back_is_the_identity(declaration: Declaration) -> None:
    text = declaration.to_toml()
    again = Declaration.from_toml(text)
    assert again == declaration
    assert again.to_toml() == text
    assert parse_schema(text).digest == again.to_schema().digest
    assert Declaration.from_schema(declaration.to_schema()) == declaration


LABELS = """{ name = "sex", type = "category", values = ["1", "2"], null = "drop", labels = { 1 = "male" } },
  { name = "stage", type = "integer", lo = 1, hi = 3, outside = "drop", null = "drop", labels = { 1 = "early" } },
  { name = "alive", type = "boolean", null = "drop", labels = { true = "yes" } }"""


@pytest.mark.parametrize("text", [WHOLE, table_file(LABELS)], ids=["all kinds", "labels"])
def test_a_whole_table_file_is_read_into_classes_and_written_again(text: str) -> None:
    schema, again = parse_schema(text), Declaration.from_toml(text).to_schema()
    assert again == schema
    assert [one.labels for one in again.domain] == [one.labels for one in schema.domain]


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("day", "datetime", datetime(2024, 1, 1), datetime(2024, 1, 2), Decimal(7_200)),
        Attribute("ok", "boolean", outside="clamp"),
    ],
)
def test_what_no_table_file_can_say_is_refused(attribute: Attribute) -> None:
    with pytest.raises(SchemaError, match=f"attributes: no table file can say '{attribute.name}'"):
        Declaration("visits", [attribute])
