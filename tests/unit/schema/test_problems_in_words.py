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
        (
            'epsilon = "1"',
            "epsilon = 0.1",
            "'epsilon' in [budget] must be an amount as text, such as \"0.1\", not 0.1.",
        ),
        ("lo = 0, hi = 120", 'lo = "a", hi = 120', "'lo' in [attribute 'age'] must be a number, or a date"),
        ("grid = 0.5", 'grid = "x"', "'grid' in [attribute 'size'] must be a number, or \"day\""),
        ('null = "drop" },\n  {', "null = 3 },\n  {", "'null' in [attribute 'age'] must be \"drop\", \"cell\""),
    ],
)
def test_one_sentence_says_what_to_write(right: str, wrong: str, words: str) -> None:
    assert right in TABLE
    with pytest.raises(SchemaError) as refused:
        parse_schema(TABLE.replace(right, wrong, 1))
    assert refused.value.detail.startswith(words)
    assert refused.value.detail.count(" in [") == 1


WORDS = [
    ('type = "integer"', 'type = "int"', "Did you mean 'integer'?"),
    ('type = "integer"', 'type = "BIGINT"', "Did you mean 'integer'?"),
    ('type = "integer"', 'type = "VARCHAR(20)"', "Did you mean 'category' or 'text'?"),
    ('type = "real"', 'type = "float"', "Did you mean 'real'?"),
    ('type = "real"', 'type = "boolaen"', "Did you mean 'boolean'?"),
    ("lo = 0, hi = 120", "min = 0, hi = 120", "Unknown key 'min' in [attribute 'age']. Did you mean 'lo'?"),
    ("lo = 0, hi = 120", "lo = 0, maximum = 120", "Did you mean 'hi'?"),
    ("lo = 0, hi = 120", 'lo = "0", hi = 120', "not '0'. Did you mean '0'?"),
    ("grid = 0.5", "step = 0.5", "Did you mean 'grid'?"),
    ('outside = "clamp"', 'outside = "clip"', "Did you mean 'clamp'?"),
    ('null = "drop" },\n]', 'null = "group" },\n]', "Did you mean 'cell'?"),
    ('adjacency = "add-remove"', 'adjacency = "unbounded"', "Did you mean 'add-remove'?"),
    ('kind = "row"', 'kind = "person"', "Did you mean 'user'?"),
    ('accountant = "pure"', 'accountant = "gaussian"', "Did you mean 'zcdp'?"),
    ('epsilon = "1"', 'epsilon = "2,0"', "'2,0' is not a finite number. Did you mean '2.0'?"),
    ('epsilon = "1"', 'eps = "1"', "Did you mean 'epsilon'?"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), WORDS, ids=[wrong for _, wrong, _ in WORDS])
def test_words_of_the_trade_are_understood(right: str, wrong: str, words: str) -> None:
    assert right in TABLE
    with pytest.raises(SchemaError) as refused:
        parse_schema(TABLE.replace(right, wrong, 1))
    assert words in refused.value.detail


def test_all_wrong_words_of_a_file_are_told_at_once_with_the_legal_values() -> None:
    text = TABLE.replace('"integer"', '"int"').replace("hi = 3", "max = 3").replace('"pure"', '"laplace"')
    with pytest.raises(SchemaError) as refused:
        parse_schema(text)
    for part in (
        "Did you mean 'integer'?",
        "'real', 'category'",
        "Did you mean 'hi'?",
        "'pure' or 'zcdp'",
        "Did you mean 'pure'?",
    ):
        assert part in refused.value.detail


def test_all_contradictions_of_a_file_are_told_at_once() -> None:
    text = TABLE.replace("lo = 0, hi = 120, outside", "outside").replace(
        'grid = 0.5, outside = "drop", ', "values = ['a'], "
    )
    with pytest.raises(SchemaError) as refused:
        parse_schema(text.replace('epsilon = "1"', 'epsilon = "-1"'))
    for part in (
        "'age': has no bounds",
        "'values' does not belong to type 'real'",
        "'size' does not declare how to treat",
        "above 0",
    ):
        assert part in refused.value.detail
    told = ('{ name = "age", type = "integer", lo = 0, hi = 100,', '{ name = "size", type = "real"', 'epsilon = "1"')
    assert all(part in refused.value.fix for part in told)


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("[table]", "[table]\nformat = 1", "Unknown key 'format' in [table]. It belongs at the top of the file"),
        ("[table]", '[table]\nepsilon = "1"', "Unknown key 'epsilon' in [table]. It belongs under [budget]."),
        ("[table]", '[table]\neps = "1"', "Did you mean 'epsilon'? It belongs under [budget]."),
        ("[budget]", "[budget]\nzzqx = 1", "Known there: accountant, epsilon, rho"),
        ('type = "integer"', 'type = "integer", encoding = "cp1252"', "It belongs under [reading]."),
    ],
)
def test_a_key_of_another_section_says_where_it_belongs(right: str, wrong: str, told: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema(TABLE.replace(right, wrong, 1))
    assert told in refused.value.detail


def test_several_faults_are_counted_and_numbered_contradictions_among_them() -> None:
    text = TABLE.replace('"pure"', '"laplace"').replace("hi = 3, grid = 0.5", "hi = 3, grid = 0.7")
    with pytest.raises(SchemaError) as refused:
        parse_schema(text)
    assert refused.value.detail.startswith("2 faults: (1) 'accountant' in [budget]")
    assert "(2) Attribute 'size'" in refused.value.detail
