"""Changes between two declarations, each with its class."""

from __future__ import annotations

import hashlib

import pytest

from siloquent.ledger.chain import format_canonical_json
from siloquent.schema import changes
from siloquent.schema.build import parse_schema
from siloquent.schema.changes import changes_rows, compare_declarations, describe_declaration

TEXT = """
format = 1
attribute = [
  { name = "who", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop", bins = { width = 10 } },
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
]
[table]
name = "visits"
source = "csv:rows.csv"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
analysts = { ana = "0.5" }
"""
USER = TEXT.replace('{ kind = "row" }', '{ kind = "user", column = "who", max_rows = 2 }')
KEY = "[table]\n"
RULE = 'constraint = [{ kind = "key", columns = ["who", "age"] }]\n[table]\n'
LINES = TEXT.splitlines(keepends=True)
EDITS = [
    ("width = 10", "width = 20", "free", "free"),
    (KEY, RULE, "free", "free"),
    ('name = "visits"', 'name = "visits"\nsize_hint = 9', "free", "free"),
    ('epsilon = "1"', 'epsilon = "1"\nreuse = "none"', "free", "free"),
    ('epsilon = "1"', 'epsilon = "1"\nsharing = "own"', "free", "free"),
    ('outside = "clamp"', 'outside = "drop"', "free", "new version"),
    ('["A", "B"]', '["B", "A"]', "free", "new version"),
    ('["A", "B"]', '["A", "B", "C"]', "free", "new version"),
    (LINES[5], "", "free", "new version"),
    (LINES[4], LINES[4] + '  { name = "new", type = "boolean", null = "drop" },\n', "free", "new version"),
    (LINES[4] + LINES[5], LINES[5] + LINES[4], "free", "new version"),
    ("csv:rows.csv", "csv:others.csv", "new version", "new version"),
    ('name = "visits"', 'name = "visits"\nversion = 2', "new version", "new version"),
    ('epsilon = "1"', 'epsilon = "2"', "budget", "budget"),
    ('delta = "1e-6"', 'delta = "1e-7"', "budget", "budget"),
    ('ana = "0.5"', 'ana = "0.4"', "budget", "budget"),
    ('ana = "0.5"', 'ana = "0.5", bo = "0.1"', "budget", "budget"),
    ('"add-remove"', '"replace-one"', "new epoch", "new epoch"),
    ('epsilon = "1"', 'epsilon = "1"\ndisclosures = true', "new epoch", "new epoch"),
]


def describe(text: str) -> dict[str, object]:
    return describe_declaration(parse_schema(text))


@pytest.mark.parametrize("user", [False, True], ids=["rows", "users"])
@pytest.mark.parametrize("edit", EDITS, ids=lambda one: one[1].strip()[:30] or "removed")
def test_each_change_has_one_class(edit: tuple[str, str, str, str], user: bool) -> None:
    text = USER if user else TEXT
    assert edit[0] in text
    before, after = describe(text), describe(text.replace(edit[0], edit[1], 1))
    found = compare_declarations(before, after)
    assert [one.effect for one in found] == [edit[3] if user else edit[2]], found
    assert compare_declarations(after, after) == ()
    back = compare_declarations(after, before)
    assert [one.effect for one in back] == [one.effect for one in found], "undoing has the same class"
    assert "  " not in str(found[0])
    marked = found[0].subject in ("the source", "version")
    assert changes_rows(found) == (found[0].effect == "new version" and not marked)


def test_the_unit_is_told_in_words() -> None:
    (change,) = [one for one in compare_declarations(describe(TEXT), describe(USER)) if one.effect == "new epoch"]
    assert str(change) == "the unit was one row and is all rows of one who (at most 2 count) (new epoch)"


def test_long_lists_are_recorded_by_digest_and_told_apart() -> None:
    many = ", ".join(f'"v{i}"' for i in range(5_000))
    before, after = (describe(TEXT.replace('"A", "B"', text)) for text in (many, many.replace("v77", "w77")))
    assert len(format_canonical_json(before)) < 2_000
    (change,) = compare_declarations(before, after)
    assert change.subject == "values of column 'ward'"


def test_long_lists_are_told_apart_whatever_their_values_hold() -> None:
    many = [f"v{i}" for i in range(200)]
    lists = [[*many, "a\x1fb", "c"], [*many, "a", "b\x1fc"], [*many, "a", "b", "c"]]
    assert len({str(changes._digest_long(one)) for one in lists}) == 3
    assert changes._digest_long(many)[1].endswith(hashlib.sha256("\x1f".join(many).encode()).hexdigest()[:32]), (
        "recorded digests stay valid"
    )


def test_a_recorded_declaration_without_a_newer_fact_is_compared_in_the_others() -> None:
    before = describe(TEXT)
    before.pop("reuse")
    assert compare_declarations(before, describe(TEXT)) == ()
