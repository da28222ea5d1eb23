"""A data scientist declares frames without TOML: names and types are read, never a value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.errors import RequestError, SchemaError, SiloquentError
from siloquent.schema import Attribute
from siloquent.session import create_workspace

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "arrow": pa.table,
    "arrow reader": lambda rows: pa.table(rows).to_reader(),
}
ROWS = {"patient": ["p1", "p2"], "age": [33, 58], "ward": ["A", "B"], "cost": [1.5, 2.25], "ok": [True, False]}
OTHERS = {"patient": ["x", ""], "age": [-1, 10**9], "ward": ["cellar", "?"], "cost": [1e300, -0.0], "ok": [True, True]}
SAID: dict[str, Any] = {"ward": ["A", "B"], "cost": "0..500"}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_declared_by_its_names_and_types(kind: str) -> None:
    first, second = (
        sq.declare(FRAMES[kind](rows), SAID, name="visits", accept=True, max_rows=4) for rows in (ROWS, OTHERS)
    )
    assert first.to_toml() == second.to_toml()
    assert repr(first) == repr(second)
    schema = first.to_schema()
    assert [one.kind for one in schema.domain] == ["id", "integer", "category", "real", "boolean"]
    assert schema.unit.code == "user:patient:4"


def test_a_column_of_objects_is_not_looked_into() -> None:
    class Secret:
        def __str__(self) -> str:
            raise AssertionError("a value was looked at")

        __repr__ = __len__ = __iter__ = __eq__ = __hash__ = __str__  # type: ignore[assignment]

    frame = pd.DataFrame({"age": [1], "odd": pd.Series([Secret()], dtype=object)})
    declaration = sq.declare(frame, {"odd": "skip"}, accept=True, name="t")
    assert declaration.to_schema().domain.names == ("age",)


def test_what_is_open_is_shown_and_said(tmp_path: Path) -> None:
    frame = pa.table(ROWS)
    declaration = sq.declare(frame, name="visits")
    shown = repr(declaration)
    for part in (
        "ward: ?  (string)",
        "age: 0..120 by 10  (proposed from its name)",
        "Open: What values are possible in cost",
        "Next: ",
    ):
        assert part in shown
    with pytest.raises(RequestError, match="Questions are open"):
        declaration.to_toml()
    with pytest.raises(RequestError) as refused:
        declaration.say({"wrad": "A, B", "age": "int"}, epsilon="2,0")
    for part in ("Did you mean 'ward'", "'age': a number needs", "Did you mean 2.0?"):
        assert part in refused.value.detail
    assert repr(declaration) == shown
    declaration = declaration.say(SAID, accept=True, person="none", rows=2)
    create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        session.add_frame(declaration, frame)
        assert session.check("visits").findings == ()
        answer = session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 100")
        assert len(answer.rows) == 4
    assert "<pre>" in declaration._repr_html_()


def test_a_file_is_declared_as_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient,age,ward\np1,33,A\n")
    Path("rows.csv").write_text("p1,33,A\np2,34,1\n1,2,3\n")
    schema = sq.declare("visits.csv", {"ward": "A, B"}, accept=True, max_rows=2).to_schema()
    assert (schema.name, schema.source) == ("visits", "csv:visits.csv")
    Path("rows.csv").write_text("4711,33,A\n")
    with pytest.raises(sq.SiloquentError, match="somebody's row") as refused:
        sq.declare(Path("rows.csv"))
    assert "4711" not in str(refused.value)
    with pytest.raises(SchemaError, match="neither a file's name nor a frame"):
        sq.declare(7)


def test_classes_declare_a_table_and_are_readable() -> None:
    attributes = [
        sq.declare_attribute("patient", "id"),
        sq.declare_attribute("age", "0..120 by 10", null="cell"),
        sq.declare_attribute("ward", "A, B", null="A"),
        sq.declare_attribute("day", "2024-01-01..2024-12-31"),
    ]
    declaration = sq.Declaration(
        "visits", attributes, unit=sq.Unit.person("patient", max_rows=4), budget=sq.TableBudget.of("0.5", delta="1e-6")
    )
    schema = declaration.to_schema()
    assert list(schema.domain) == attributes
    assert (schema.unit, schema.budget) == (declaration.unit, declaration.budget)
    assert repr(declaration) == str(schema)
    assert str(attributes[1]) == "age: 0..120 by 10; values beyond count as the bound; empty cells are a group"
    assert str(schema.unit) == "all rows of one patient (at most 4 count)"
    assert str(schema.budget) == "epsilon 0.5 at delta 0.000001"
    assert repr(schema) == str(schema)
    for shown in (declaration, *attributes, schema.unit, schema.budget, schema):
        assert shown._repr_html_().startswith(("<pre>", "<code>"))
    for wrong in ("2,0", 0.1, "much"):
        with pytest.raises(SchemaError):
            sq.TableBudget.of(wrong)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"Did you mean '2[.]0'"):
        sq.TableBudget.of("2,0")
    with pytest.raises(SchemaError, match="rounded or clamped"):
        sq.Declaration("visits", attributes, unit=sq.Unit.person("age", max_rows=1))


def test_unit_and_budget_are_given_as_values() -> None:
    shares = sq.TableBudget("pure", epsilon=Fraction(2), shares=(("ana", Fraction(1, 2)),))
    given: dict[str, Any] = {"accept": True, "name": "visits"}
    by_values = sq.declare(pa.table(ROWS), SAID, unit=sq.Unit.person("patient", max_rows=4), budget=shares, **given)
    schema = by_values.to_schema()
    assert (schema.unit, schema.budget) == (sq.Unit.person("patient", max_rows=4), shares)
    assert "Budget: epsilon 2 (accountant pure)." in repr(by_values)
    rows = sq.declare(pa.table(ROWS), SAID, unit=sq.Unit(), budget=sq.TableBudget.of("0.5", delta="1e-6"), **given)
    assert rows.to_schema().unit == sq.Unit()
    typed = sq.declare(pa.table(ROWS), SAID, person="none", epsilon=0.5, delta=1e-6, delta_events="no", **given)
    assert rows.to_schema() == typed.to_schema()


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("columns", {"columns": ["age"]}),
    ("columns: The meaning of 'age'", {"columns": {"age": 5}}),
    ("columns: The meaning of 'age'", {"columns": {"age": None}}),
    ("columns: The values of 'age'", {"columns": {"age": ["a", 1]}}),
    ("columns: A column's name", {"columns": {5: "0..9"}}),
    ("accept", {"accept": "yes"}),
    ("name", {"name": 7}),
    ("name", {"name": "my table"}),
    ("person", {"person": 5}),
    ("max_rows", {"max_rows": 0}),
    ("max_rows", {"max_rows": True, "person": "patient"}),
    ("rows", {"rows": "many"}),
    ("epsilon", {"epsilon": "2,0"}),
    ("delta", {"delta": -1}),
    ("unit", {"unit": "patient"}),
    ("unit", {"unit": sq.Unit(), "person": "patient"}),
    ("budget", {"budget": 1}),
    ("budget", {"budget": sq.TableBudget.of("1"), "epsilon": "1"}),
]


@pytest.mark.parametrize(("argument", "given"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_argument_is_named(argument: str, given: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refused:
        sq.declare(pa.table(ROWS), **given)
    assert refused.value.detail.startswith(f"{argument}{'' if ':' in argument else ':'}")
    assert refused.value.fix


BUILT: list[tuple[str, Callable[[], object]]] = [
    ("name", lambda: sq.declare_attribute(5, "0..9")),  # type: ignore[arg-type]
    ("meaning", lambda: sq.declare_attribute("age", 5)),  # type: ignore[arg-type]
    ("each value of meaning", lambda: sq.declare_attribute("age", ["a", 1])),  # type: ignore[list-item]
    ("null", lambda: sq.declare_attribute("age", "0..9", null=None)),  # type: ignore[arg-type]
    ("attributes", lambda: sq.Declaration("visits", "age")),  # type: ignore[arg-type]
    ("each of attributes", lambda: sq.Declaration("visits", ["age"])),  # type: ignore[list-item]
    ("unit", lambda: sq.Declaration("visits", [], unit="row")),  # type: ignore[arg-type]
    ("budget", lambda: sq.Declaration("visits", [], budget="1")),  # type: ignore[arg-type]
    ("rows", lambda: sq.Declaration("visits", [], rows="many")),  # type: ignore[arg-type]
    ("each of constraints", lambda: sq.Declaration("visits", [], constraints=["a"])),  # type: ignore[list-item]
    ("A unit's kind", lambda: sq.Unit("person")),  # type: ignore[arg-type]
    ("max_rows", lambda: sq.Unit.person("patient", max_rows="4")),  # type: ignore[arg-type]
    ("delta", lambda: sq.TableBudget.of("1", delta="3")),
    ("attributes", lambda: sq.Declaration("visits", [Attribute("a", "boolean", outside="clamp")])),
]


@pytest.mark.parametrize(("argument", "build"), BUILT, ids=lambda one: one if isinstance(one, str) else "")
def test_a_wrong_argument_of_a_class_is_named(argument: str, build: Callable[[], object]) -> None:
    with pytest.raises(SiloquentError) as refused:
        build()
    assert argument in refused.value.detail


def test_an_attribute_says_what_lies_beyond() -> None:
    ward = sq.declare_attribute("ward", ["A", "B, C", '"D"'], other="drop")
    assert (ward.values, ward.other) == (("A", "B, C", '"D"'), "drop")
    assert sq.declare_attribute("age", "0..120", outside="drop").outside == "drop"
    assert sq.declare_attribute("day", "2024-01-01..2024-12-31", outside="clamp").outside == "clamp"
