"""A declared format in SQL rewrites every text as the definition in Python does, and each text by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.sql.formats import select_rewritten
from siloquent.data.sql.indices import SourceColumn
from siloquent.schema import Attribute
from siloquent.schema.build import parse_attribute
from siloquent.schema.files.coercion import read_datetime, read_number
from siloquent.schema.formats.value_formats import Family, ValueFormat, list_candidates

ATTRIBUTES: dict[Family, Attribute] = {
    "number": parse_attribute(
        {"name": "x", "type": "real", "lo": 0, "hi": 9, "grid": 1, "outside": "drop", "null": "drop"}
    ),
    "date": parse_attribute({"name": "x", "type": "text"}),
    "datetime": parse_attribute({"name": "x", "type": "text"}),
    "boolean": parse_attribute({"name": "x", "type": "boolean", "null": "drop"}),
    "text": parse_attribute({"name": "x", "type": "id"}),
}  # fmt: skip
MISSING = ("NA", "-", "-9", "1.1.1900", "1900-01-01", "9999-12-31 00:00")
FORMS = [
    *(("number", form) for form in list_candidates("number")),
    *(("date", form) for form in list(list_candidates("date"))[:14]),
    *(("datetime", form) for form in list(list_candidates("datetime"))[15::13]),
    ("number", ValueFormat(decimal=",", thousands=".", missing=MISSING)),
    ("number", ValueFormat(missing=MISSING)),
    ("date", ValueFormat(date="%d.%m.%Y", missing=MISSING)),
    ("datetime", ValueFormat(datetime="%d.%m.%Y %H:%M%z", time_zone="Europe/Berlin", missing=MISSING)),
    ("datetime", ValueFormat(time_zone="America/New_York")),
    ("datetime", ValueFormat(datetime="%d.%m.%y %H:%M:%S.%f")),
    ("boolean", ValueFormat(true=("ja", " WAHR "), false=("nein",), missing=MISSING)),
    ("text", ValueFormat(missing=MISSING)),
]
NUMBERS = st.from_regex(r"\A ?[+-]?[0-9]{0,4}([.,' \u00a0\u202f\u2019_][0-9]{1,4}){0,3}([eE][+-]?[0-9])? ?\Z")
DATES = st.from_regex(
    r"\A ?[0-9]{1,4}[./-]?([0-9]{1,2}|[A-Z][a-z]{2,6}|JAN|DEC)[./-]?[0-9]{1,4}"
    r"([ T][0-9]{1,2}[:.][0-9]{1,2}(:[0-9]{2}([.][0-9]{1,7})?)?( ?[AaPp]M)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)? ?\Z"
)
WORDS = st.sampled_from(
    ["ja", "JA ", "Nein", "x", "-", "true", "1", "0", "n", "NA", " NA", "na", "", "oui", "-9", "-9,0"]
)
TEXTS = st.one_of(NUMBERS, DATES, WORDS, st.text(max_size=12))


def in_sql(texts: Sequence[str], forms: Sequence[tuple[Family, ValueFormat]]) -> list[list[tuple[object, bool]]]:
    """For each format, each text as it is read then, and whether it is missing."""
    columns = [
        SourceColumn(ATTRIBUTES[family], i, f"x{i}", "text", form, family) for i, (family, form) in enumerate(forms)
    ]
    engine = DuckDBEngine(arrow=pa.table({column.source: pa.array(texts, pa.string()) for column in columns}))
    try:
        query = select_rewritten(columns, raw=True)
        rows = [row for batch in engine.read_batches(query) for row in batch.to_pylist()]
    finally:
        engine.close()
    return [[(value(row[c.source], c.family), row[c.raw_name] is None) for row in rows] for c in columns]


def value(text: str | None, family: Family) -> object:
    """The number or moment that a text is, since it can be written with more and fewer digits; others as they are."""
    if family == "number":
        return read_number(text)
    return read_datetime(text) if family in ("date", "datetime") else text


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
@example(texts=["1.234,50", "1.5", "1,5", "31.12.2024", "29.02.2023", "12/31/24 12:00 AM", "31-Dec-2024", "01JAN2024"])
@example(texts=["1.1.1900", "2024-07-01 10:00Z", "2024-07-01T10:00:00.5-0530", "0001-01-01 00:00+14", "Ja", "NEIN"])
def test_sql_rewrites_as_python_does(texts: list[str]) -> None:
    texts = [text.replace("\0", "") for text in texts]
    for (family, form), found in zip(FORMS, in_sql(texts, FORMS), strict=True):
        expected = [(value(form.rewrite(text, family), family), form.is_missing(text, family)) for text in texts]
        assert found == expected, (family, form)


def test_a_text_is_rewritten_whatever_stands_beside_it() -> None:
    texts = ["1.234,5", "1,234.5", "31.12.2024", "12/31/2024", "ja", "nein", "NA", "x" * 70_000, "\u0661"]
    alone = [in_sql([text], FORMS) for text in texts]
    for number, found in enumerate(in_sql(texts, FORMS)):
        assert found == [one[number][0] for one in alone], FORMS[number]
