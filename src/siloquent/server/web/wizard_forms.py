"""Form fields of the declaration's pages, and the short texts that ``siloquent declare`` takes, one from the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from siloquent.errors import RequestError
from siloquent.schema.declaring import ColumnHeader, DeclarationQuestion, TableDraft, parse_meaning
from siloquent.schema.declaring.draft import say_columns
from siloquent.schema.declaring.names import HINTS, find_topic
from siloquent.schema.declaring.statements import format_subject
from siloquent.schema.files.toml import quote_text
from siloquent.schema.meaning import Meaning

KINDS = {
    "": "choose",
    "integer": "whole numbers",
    "real": "numbers with decimals",
    "category": "a list of values",
    "codes": "codes, such as 1..7 or 1 = female",
    "boolean": "yes or no",
    "date": "days",
    "datetime": "moments",
    "id": "ids: whose row it is",
    "text": "free text",
    "skip": "leave it out",
}
"""The kinds of a column in the form, in words."""
PARTS = ("kind", "lo", "hi", "step", "by", "values")
COLUMNS_A_PAGE = 20
MAX_EMPTY = 200
"""Of more columns the meaning of empty cells is asked in one text."""
SETTINGS = ("encoding", "delimiter", "quote", "decimal", "thousands", "date_format", "datetime_format", "time_zone")
LISTS = ("missing", "true", "false", "names")
_RANGES = ("integer", "real", "date", "datetime")


def compose_meaning(fields: Mapping[str, str], place: int) -> str:
    """Return what the form says of the column at ``place``, as it may be typed at the command line.

    >>> compose_meaning({"kind-0": "integer", "lo-0": "0", "hi-0": "120", "by-0": "10"}, 0)
    'integer 0..120 by 10'
    >>> compose_meaning({"kind-0": "category", "values-0": "F\\r\\nM"}, 0)
    '"F", "M"'
    """
    kind, lo, hi, step, by, listed = (fields.get(f"{part}-{place}", "").strip() for part in PARTS)
    if kind in _RANGES:
        if not (lo and hi):
            return kind
        return f"{kind} {lo}..{hi}{f' step {step}' if step else ''}{f' by {by}' if by else ''}"
    if kind == "text":
        return f"text {hi}".strip()
    values = [line.strip() for line in listed.splitlines() if line.strip()]
    if kind == "codes":
        return f"codes {', '.join(values)}"
    if kind == "category":
        return _compose_list(values)
    return {"boolean": "yes/no"}.get(kind, kind)


def _compose_list(values: list[str]) -> str:
    if not values:
        return "category"
    if len(values) == 1 and values[0][0] in "@=":
        return values[0]  # a built-in list, a file of the workspace, or a column that is declared
    quoted = ", ".join('"' + value.replace('"', '""') + '"' for value in values)
    return f"{quoted}," if len(values) == 1 else f"values {quoted}" if ".." in quoted else quoted


def list_fields(meaning: Meaning, place: int, copied: str = "") -> dict[str, str]:
    """Return the form's fields of a column, from its meaning; ``copied``: the list that it names."""
    kind = meaning.type or "skip"
    by = re.fullmatch(r"\{ width = (\S+) \}", meaning.bins)
    found = {"kind": "codes" if meaning.labels else kind, "lo": meaning.lo, "hi": meaning.hi}
    found |= {
        "step": meaning.grid.strip('"'),
        "by": by[1] if by else "",
        "values": copied if kind == "category" else "",
    }
    if kind == "text":
        found["hi"] = str(meaning.max_bytes)
    if kind == "category" and not copied:
        labels = dict(meaning.labels)
        lines = (f"{value} = {labels[value]}" if value in labels else value for value in meaning.values)
        found["values"] = "\n".join(lines)
    return {f"{key}-{place}": value for key, value in found.items() if value}


def propose_fields(draft: TableDraft, columns: tuple[ColumnHeader, ...]) -> dict[str, str]:
    """Return the fields of ``columns``: their meanings so far, otherwise what their names and types suggest."""
    fields: dict[str, str] = {}
    for place, column in enumerate(columns):
        proposal = draft.proposals.get(column.name)
        if column.name in draft.meanings:
            fields |= list_fields(draft.meanings[column.name], place)
        elif proposal is not None and draft.answers.accept is not False:
            copied = proposal.meaning if proposal.meaning[:1] in ("@", "=") else ""
            fields |= list_fields(parse_meaning(proposal.meaning, column, draft.find_list), place, copied)
    return fields


def describe_columns(draft: TableDraft, columns: tuple[ColumnHeader, ...]) -> list[dict[str, str]]:
    """Return the columns of a page: name as shown, type, a hint, and where its proposal comes from."""
    return [
        {
            "name": column.shown,
            "holds": column.holds,
            "hint": HINTS.get(find_topic(column.name), ""),
            "reason": draft.proposals[column.name].reason if column.name in draft.proposals else "",
        }
        for column in columns
    ]


def say_fields(
    draft: TableDraft, columns: tuple[ColumnHeader, ...], fields: Mapping[str, str]
) -> tuple[TableDraft, dict[int, RequestError]]:
    """Take in what the form says of ``columns``; return the faults by place, whose columns stay as they were.

    A proposal that was left as it is stands whole, with what the form does not show of a declaration that it copies.
    """
    faults: dict[int, RequestError] = {}
    before = propose_fields(draft, columns)
    for place, column in enumerate(columns):
        proposal, said = draft.proposals.get(column.name), compose_meaning(fields, place)
        if said == compose_meaning(before, place) and column.name in draft.meanings:
            continue
        if said == compose_meaning(before, place) and proposal is not None:
            said = proposal.meaning
        try:
            parse_meaning(said, column, draft.find_list)
            draft = say_columns(draft, f"{quote_text(column.name)} = {said}")
        except RequestError as wrong:
            faults[place] = wrong
    return draft, faults


def compose_answer(question: DeclarationQuestion, draft: TableDraft, fields: Mapping[str, str]) -> str:
    """Return the answer to a question about the whole table, as it may be typed at the command line."""
    if question.key == "empty":
        said = [(one, fields.get(f"empty-{place}", "").strip()) for place, one in enumerate(list_counted(draft))]
        told = [f"{format_subject(one)} = {text}" for one, text in said if text]
        return "; ".join(told) if told else fields.get("answer", "")
    if question.key == "person":
        named = fields.get("answer", "")
        return quote_text(named.removeprefix("column ")) if named.startswith("column ") else named
    return fields.get("answer", "")


def list_counted(draft: TableDraft) -> list[ColumnHeader]:
    """Return the columns whose empty cells need a meaning."""
    return [one for one in draft.columns if one.name in draft.meanings and draft.meanings[one.name].has_cells]


def list_empty(draft: TableDraft) -> list[dict[str, str]]:
    """Return the columns whose empty cells need a meaning, each with the one that it has by default or was given."""
    counted = list_counted(draft)
    words = {'"cell"': "group", '"drop"': "drop"}
    return [
        {"name": one.shown, "said": words.get(null, re.sub(r'^\{ value = "?|"? \}$', "", null))}
        for one in counted[: MAX_EMPTY if len(counted) <= MAX_EMPTY else 0]
        for null in [draft.get_null(one.name)]
    ]


def compose_reading(fields: Mapping[str, str]) -> str:
    """Return the lines under ``[reading]`` that the form says; what is left empty is as everywhere.

    >>> print(compose_reading({"encoding": "cp1252", "missing": "NA\\n-", "skip": "2"}))
    encoding = "cp1252"
    missing = ["NA", "-"]
    skip = 2
    """
    lines = [f"{key} = {quote_text(said)}" for key in SETTINGS if (said := fields.get(key, "")) and said.strip(" ")]
    for key in LISTS:
        values = [line.strip() for line in fields.get(key, "").splitlines() if line.strip()]
        lines += [f"{key} = [{', '.join(map(quote_text, values))}]"] if values else []
    skip = fields.get("skip", "").strip()
    lines += [f"skip = {skip if skip.isascii() and skip.isdigit() else quote_text(skip)}"] if skip else []
    return "\n".join(lines)


def read_reading(text: str) -> dict[str, str]:
    """Return the form's fields for lines under ``[reading]``, as ``compose_reading`` writes them."""
    from siloquent.schema.files.toml import read_toml

    raw: Mapping[str, Any] = read_toml(text) if text else {}
    return {key: "\n".join(said) if isinstance(said, list) else str(said) for key, said in raw.items()}
