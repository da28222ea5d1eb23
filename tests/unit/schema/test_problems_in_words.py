"""A value of the wrong type is one problem in plain words, with the key, the place and what to write."""

from __future__ import annotations

import pytest

from siloquent.errors import SchemaError
from siloquent.schema.build import parse_schema

TABLE = """
format = 1
attribute = [
  { name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop" },
  { name = "size", type = "real", lo = 0, hi = 3, grid = 0.5, outside = "drop", null = "drop" },
]
[table]
name = "people"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('epsilon = "1"', "epsilon = 0.1", "'epsilon' in [budget] is an amount as text, such as \"0.1\", not 0.1."),
        ("lo = 0, hi = 120", 'lo = "a", hi = 120', "'lo' in [attribute 'age'] is a number, or a date"),
        ("grid = 0.5", 'grid = "x"', "'grid' in [attribute 'size'] is a number, or \"day\""),
        ('null = "drop" },\n  {', "null = 3 },\n  {", "'null' in [attribute 'age'] is \"drop\", \"cell\""),
    ],
)
def test_one_sentence_says_what_to_write(right: str, wrong: str, words: str) -> None:
    assert right in TABLE
    with pytest.raises(SchemaError) as refused:
        parse_schema(TABLE.replace(right, wrong, 1))
    assert refused.value.detail.startswith(words)
    assert refused.value.detail.count(" in [") == 1
