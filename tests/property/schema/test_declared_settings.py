"""What is decided without a question: by default or as it was said, it stands in the summary and in the table file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import siloquent as sq
from siloquent.errors import RequestError
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring import (
    GivenAnswers,
    RawSource,
    TableDraft,
    compose_table_file,
    read_answers,
    start_draft,
    write_answers,
)
from siloquent.schema.declaring.answers import KeptDeclaration
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.declaring.draft import apply_answers, say_correction
from siloquent.schema.declaring.questions import decide_defaults
from siloquent.schema.declaring.summary import describe_table

SOURCE = RawSource("csv:t.csv", tuple(map(ColumnHeader, ("who", "age", "cost", "day", "sex"))))
SAID = ("who = id", "age = 0..99", "cost = 0.00..9.99", "day = 2024-01-01..2024-12-31", "sex = F, M")
FRAME = pa.table({"who": ["p"], "age": [1], "cost": [1.0], "sex": ["F"]})
outsides = st.sampled_from([None, "clamp", "drop", "age = drop; rest = clamp", "day = clamp", "rest = drop"])
given_settings = st.fixed_dictionaries(
    {
        "outside": outsides,
        "adjacency": st.sampled_from([None, "add-remove", "replace-one"]),
        "accountant": st.sampled_from([None, "zcdp", "pure"]),
        "delta": st.sampled_from([None, "1e-7", "1e-5"]),
        "delta_events": st.sampled_from([None, "yes", "no", "1e-8"]),
        "person": st.sampled_from(["who", "none"]),
        "max_rows": st.just("3"),
    }
)


def build_draft(**settings: Any) -> TableDraft:
    draft, faults = apply_answers(start_draft(SOURCE, name="t"), GivenAnswers(SAID, **settings))
    assert faults == []
    return decide_defaults(draft)


def find_outside(said: str | None, name: str) -> str:
    usual = "drop" if name == "day" else "clamp"
    parts = dict(one.split(" = ") for one in said.split("; ")) if said and "=" in said else {"rest": said or usual}
    return parts.get(name) or parts.get("rest", usual)


@given(given_settings)
def test_settings_stand_in_the_file_and_in_the_summary(settings: dict[str, Any]) -> None:
    draft = build_draft(**settings)
    is_pure = settings["accountant"] == "pure"
    if is_pure and (settings["delta"] or settings["delta_events"] == "1e-8"):
        with pytest.raises(RequestError, match="no delta"):
            compose_table_file(draft, origin="t.csv")
        return
    schema = parse_schema(compose_table_file(draft, origin="t.csv"))
    assert schema.adjacency == (settings["adjacency"] or "add-remove")
    assert schema.budget.accountant == (settings["accountant"] or "zcdp")
    if not is_pure:
        assert float(schema.budget.delta) == float(settings["delta"] or "1e-6")
    for name in ("age", "cost", "day"):
        assert schema.domain[name].outside == find_outside(settings["outside"], name)
    hidden, budget, bounds = describe_table(draft)
    assert f"(adjacency {schema.adjacency})" in hidden
    assert f"(accountant {schema.budget.accountant})" in budget
    assert is_pure or f"at delta {float(schema.budget.delta):.0e}".replace("e-0", "e-") in budget
    clamped, _, dropped = bounds.partition("(outside clamp)")
    for name in ("age", "cost", "day"):
        part = clamped if schema.domain[name].outside == "clamp" else dropped or bounds
        assert name in part


@given(given_settings)
def test_settings_outlive_an_interruption(settings: dict[str, Any]) -> None:
    draft = build_draft(**settings)
    kept = write_answers(KeptDeclaration("csv:t.csv", draft.answers))
    again, faults = apply_answers(start_draft(SOURCE, name="t"), read_answers(kept))
    assert faults == []
    assert describe_table(again) == describe_table(draft)


@given(given_settings)
def test_a_correction_says_what_an_answer_says(settings: dict[str, Any]) -> None:
    draft = build_draft(person="none")
    said = {key: value for key, value in settings.items() if value and ";" not in value and key != "max_rows"}
    told = "; ".join(f"{key} = {value}" for key, value in said.items() if "=" not in value)
    corrected = say_correction(draft, told)
    for key, value in said.items():
        if "=" not in value:
            assert getattr(corrected.answers, key) == value


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("adjacency = replace", "replace-one"),
        ("accountant = zCDP1", "zcdp"),
        ("outside = keep", "clamp, or drop"),
        ("outside = sex = drop", "clamp, or drop"),
        ("delta = 0.1", "1e-6"),
    ],
)
def test_a_setting_that_is_not_understood_is_refused_with_one_that_is(said: str, fix: str) -> None:
    with pytest.raises(RequestError) as refused:
        say_correction(build_draft(person="none"), said)
    assert refused.value.fix == fix


def test_a_column_of_the_same_name_is_meant_before_the_setting() -> None:
    source = RawSource("csv:t.csv", (ColumnHeader("delta"),))
    draft, _ = apply_answers(start_draft(source, name="t"), GivenAnswers(("delta = 0..9",), person="none"))
    assert say_correction(draft, "delta = 0..5").meanings["delta"].hi == "5"


def test_python_says_them_too() -> None:
    columns = {"who": "id", "age": "0..99", "cost": "0.00..9.99", "sex": ["F", "M"]}
    draft = sq.declare(
        FRAME, columns, name="t", person="none", outside="age = drop", adjacency="replace-one", accountant="pure"
    )
    schema = draft.to_schema()
    assert (schema.adjacency, schema.budget.accountant, schema.domain["age"].outside) == (
        "replace-one", "pure", "drop"
    )  # fmt: skip
    assert "Values beyond the bounds count: cost as the bound (outside clamp); age not at all (outside drop)." in str(
        draft
    )
