"""Table files: what they declare, and every refusal with the line that mends it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from siloquent.errors import SchemaError, SiloquentError, UnknownName
from siloquent.schema import (
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    TableBudget,
    Unit,
)
from siloquent.schema.build import parse_schema
from siloquent.schema.files.toml import build_json_schema
from unit.schema.declared import AGE, WHOLE, schema, table_file


def test_everything_that_is_written_is_declared() -> None:
    visits = parse_schema(WHOLE)
    domain = visits.domain
    assert domain.names == ("patient", "age", "weight", "ward", "smoker", "day", "at", "note", "size")
    assert domain["age"].edges == (Decimal(0), Decimal(50), Decimal(100), Decimal(120))
    assert domain["weight"].edges == (Decimal(0), Decimal(50), Decimal("80.5"), Decimal(300))
    assert (domain["weight"].grid, domain["weight"].size) == (Decimal("0.1"), 3_001)
    assert (domain["ward"].other, domain["ward"].null, domain["ward"].size) == ("cell", "cell", 5)
    assert (domain["smoker"].null, domain["smoker"].null_value, domain["smoker"].null_index) == ("value", False, 0)
    assert (domain["day"].lo, domain["day"].size) == (datetime(2024, 1, 1), 366)
    assert domain["at"].size == 25
    assert (domain["size"].function, domain["size"].argument) == ("length", "note")
    assert domain["note"].max_bytes == 4_000
    assert [type(c) for c in visits.constraints] == [FunctionalDependency, DenialConstraint, Key, ForeignKey]
    fd = visits.constraints[0]
    assert isinstance(fd, FunctionalDependency)
    assert (fd.hard, fd.weight, [str(c) for c in fd.when]) == (False, Fraction(5, 2), ["t1.age >= 18"])
    assert visits.unit == Unit("user", "patient", 8)
    assert visits.unit.code == "user:patient:8"
    assert visits.budget == TableBudget(
        "zcdp", Fraction(1), None, Fraction(1, 10**6), epoch=2, shares=(("ana", Fraction(1, 4)), ("bo", Fraction(1, 2)))
    )
    assert (visits.account, visits.replace_one, visits.version, visits.size_hint) == ("visits@2", True, 3, 120_000)


DROP = 'outside = "drop", null = "drop"'
DAY = f'name = "d", type = "date", lo = 2024-01-01, hi = 2024-01-02, {DROP}'
FOUR = f'name = "a", type = "integer", lo = 0, hi = 4, {DROP}'
LENGTH = 'function = "length", type = "integer", lo = 0, hi = 1, outside = "clamp", null = "drop"'


def attribute(text: str) -> str:
    return table_file(f"{{ {text} }}")


def table(unit: str, *, name: str = "v", more: str = "") -> str:
    return table_file(table=f'name = "{name}"\n{more}\nadjacency = "add-remove"\nunit = {{ {unit} }}')


def derived(text: str) -> str:
    return table_file(more=f"derived = [{{ {text}, {LENGTH} }}]")


def constraint(text: str) -> str:
    return table_file(more=f"constraint = [{{ {text} }}]")


REFUSED = {
    "not TOML": ("format = = 1", "not valid TOML", ""),
    "another format": (table_file().replace("format = 1", "format = 2"), "'format'", ""),
    "an unknown key": (attribute('name = "age", typ = "integer"'), "Did you mean 'type'", ""),
    "an unknown key of the table": (table('kind = "row"', more="sise_hint = 5"), "Did you mean 'size_hint'", ""),
    "a missing table": ("format = 1\nattribute = []\n[budget]\naccountant = 'pure'", "Missing 'table'", ""),
    "a missing unit": (table_file(table='name = "v"\nadjacency = "add-remove"'), "Missing 'unit'", ""),
    "no bounds": (attribute(f'name = "age", type = "integer", {DROP}'), "has no bounds", "lo = 0, hi = 100"),
    "no grid": (attribute(f'name = "w", type = "real", lo = 0, hi = 1, {DROP}'), "has no grid", "grid = 0.01"),
    "no word on what lies outside": (
        attribute('name = "age", type = "integer", lo = 0, hi = 1, null = "drop"'),
        "outside its bounds",
        'outside = "clamp"',
    ),
    "no word on NULL": (
        attribute('name = "age", type = "integer", lo = 0, hi = 1, outside = "drop"'),
        "how to treat NULL",
        'null = "drop"',
    ),
    "no values": (
        attribute('name = "w", type = "category", null = "drop"'),
        "has no values",
        '{ name = "w", type = "text", max_bytes = 1000 }',
    ),
    "a key of another type": (attribute('name = "p", type = "id", lo = 0'), "'lo' does not belong to type 'id'", ""),
    "dates as bounds of a number": (
        attribute(f'name = "a", type = "integer", lo = 2024-01-01, hi = 2, {DROP}'),
        "bounds of a integer must be numbers",
        "",
    ),
    "numbers as bounds of a date": (
        attribute(f'name = "d", type = "date", lo = 1, hi = 2, {DROP}'),
        "dates, such as",
        "",
    ),
    "hours of a date": (attribute(f'{DAY}, grid = "hour"'), "shorter than a day", 'grid = "day"'),
    "a number as grid of a date": (attribute(f"{DAY}, grid = 5"), "must be a word", 'grid = "day"'),
    "an infinite bound": (
        attribute(f'name = "w", type = "real", lo = -inf, hi = 1, grid = 1, {DROP}'),
        "out of range",
        "",
    ),
    "bins of both kinds": (attribute(f"{FOUR}, bins = {{ width = 2, edges = [0, 4] }}"), "either a width or edges", ""),
    "bins without width": (attribute(f"{FOUR}, bins = {{ width = 0 }}"), "a width above 0", ""),
    "an attribute twice": (table_file(f"{AGE}, {AGE.replace('age', 'AGE')}"), "declared twice", ""),
    "a function of another type": (derived('name = "l", from = ["age"]'), "takes a text or category", ""),
    "a function of what is not declared": (derived('name = "l", from = ["agee"]'), "Did you mean 'age'", ""),
    "a constraint on what is not declared": (constraint('kind = "key", columns = ["agee"]'), "Did you mean 'age'", ""),
    "a unit that is not declared": (table('kind = "user", column = "patient"'), "No attribute named 'patient'", ""),
    "a user unit without a column": (table('kind = "user"'), "needs the column", ""),
    "a user unit of no rows": (table('kind = "user", column = "age", max_rows = 0'), "max_rows", ""),
    "a row unit of two rows": (table('kind = "row", max_rows = 2'), "max_rows must be 1 for row units", ""),
    "a source of no kind": (
        table('kind = "row"', more='source = "excel:x"'),
        "begin with one of csv:, csv-records:, xlsx:, parquet:",
        "",
    ),
    "a table's name": (table('kind = "row"', name="my table"), "letters, digits and _", ""),
    "no budget": (table_file(budget='accountant = "pure"'), "either epsilon or rho", 'epsilon = "1"'),
    "a budget of nothing": (table_file(budget='accountant = "pure"\nepsilon = "0"'), "above 0", 'epsilon = "1"'),
    "answers of one's own without analysts": (
        table_file(budget='accountant = "pure"\nepsilon = "1"\nsharing = "own"'),
        "requires analysts",
        'epsilon = "1"',
    ),
    "an infinite budget": (table_file(budget='accountant = "pure"\nepsilon = "inf"'), "not a finite number", ""),
    "a budget as a float": (table_file(budget='accountant = "pure"\nepsilon = 0.1'), "epsilon", ""),
    "a pure budget with delta": (
        table_file(budget='accountant = "pure"\nepsilon = "1"\ndelta = "1e-6"'),
        "only epsilon",
        'accountant = "zcdp"',
    ),
    "a zcdp budget without delta": (
        table_file(budget='accountant = "zcdp"\nepsilon = "1"'),
        "needs a delta",
        'delta = "1e-6"',
    ),
    "a share above the whole": (
        table_file(budget='accountant = "pure"\nepsilon = "1"\nanalysts = { ana = "1.5" }'),
        "above 0 and at most 1",
        'analysts = { ana = "1" }',
    ),
    "a constraint without its parts": (constraint('kind = "fd", lhs = ["age"]'), "needs 'rhs'", ""),
    "a constraint with foreign parts": (
        constraint('kind = "key", columns = ["age"], rhs = "age"'),
        "does not take 'rhs'",
        "",
    ),
    "a hard constraint with a weight": (
        constraint('kind = "denial", not = "age < 0", weight = 1'),
        "cannot have a weight",
        "hard = false",
    ),
    "a reference that is none": (
        constraint('kind = "foreign_key", columns = ["age"], references = "ages"'),
        "TABLE(COLUMN, ...)",
        'references = "ages(age)"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_file_is_refused_with_what_is_wrong_and_how_to_mend_it(case: str) -> None:
    text, what, fix = REFUSED[case]
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert what in str(caught.value)
    assert fix in caught.value.fix
    assert caught.value.spent == "nothing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "[" * 5_000,
        "a = 1e99999999",
        "format = 1\n" * 2,
        "x" * (5 * 2**20),
        "a = " + "[" * 2_000 + "]" * 2_000,
    ],
)
def test_hostile_text_is_a_schema_error(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_problems_name_the_attribute_they_are_in() -> None:
    with pytest.raises(SchemaError, match="in \\[attribute 'age'\\]"):
        parse_schema(
            attribute('name = "age", type = "integer", lo = 0, hi = 1, hihi = 2, outside = "drop", null = "drop"')
        )


def test_derived_attributes_cannot_be_the_unit() -> None:
    more = (
        'derived = [{ name = "l", from = ["w"], function = "length", type = "integer", lo = 0, hi = 9, '
        'outside = "clamp", null = "drop" }]'
    )
    ward = '{ name = "w", type = "category", values = ["A"], null = "drop" }'
    with pytest.raises(SchemaError, match="must be in the source"):
        schema(ward, more=more, table='name = "v"\nadjacency = "add-remove"\nunit = { kind = "user", column = "l" }')


def test_names_are_found_exactly_or_else_ignoring_case() -> None:
    domain = schema().domain
    assert domain["AGE"] is domain["age"]
    with pytest.raises(UnknownName, match="Did you mean 'age'"):
        domain["agee"]


def test_the_json_schema_knows_every_key_of_a_file() -> None:
    text = str(build_json_schema())
    for key in ("attribute", "outside", "max_rows", "epoch", "references", "not", "from", "bins", "size_hint"):
        assert f"'{key}'" in text


def test_every_refusal_is_one_of_ours() -> None:
    assert issubclass(SchemaError, SiloquentError)
    assert (SchemaError.exit_status, SchemaError.http_status, SchemaError.code) == (2, 422, "schema_invalid")


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (table_file(AGE) + "x" + ".a" * 20_000 + " = 1", "nested too deeply"),
        (table_file(AGE) + "x" + '."a"' * 20_000 + " = 1", "nested too deeply"),
        (table_file(AGE) + "[x" + ".a" * 20 + "]", "nested too deeply"),
        (table_file(AGE) + "x = " + "[" * 20 + "]" * 20, "nested too deeply"),
        (table_file(AGE) + "x = " + "[" * 20_000, "nested too deeply"),
        (table_file(AGE) + "x = 0x" + "f" * 9_999, "out of range"),
        (table_file(AGE) + "x = " + DIGITS, "out of range"),
        (table_file(AGE) + f"x = 0.{DIGITS}", "out of range"),
        (table_file(AGE.replace("hi = 120", f"hi = 120, bins = {{ width = '1e-{DIGITS}' }}")), "is not a number"),
        (table_file(AGE.replace("hi = 120", "hi = 120, bins = { width = '1e-999999999' }")), "finite numbers"),
        (table_file('{ name = "b", type = "boolean", null = { value = { a = 1 } } }'), "value = ... }"),
        (table_file('{ name = "b", type = "boolean", null = { value = [[[1]]] } }'), "value = ... }"),
        (table_file("{}," * 3_000), "at most 2,000 attributes"),
        (table_file(AGE) + "\n" * 300_000, "at most 200,000 lines"),
        (table_file('{ name = "t", type = "datetime", lo = 0001-01-01T00:00:00+09:00, hi = 2024-01-01, '
                    'outside = "drop", null = "drop", grid = "day" }'), "within the years 1 to 9999"),
    ],
)  # fmt: skip
def test_what_would_take_for_ever_or_cannot_be_written_down_is_refused_at_once(text: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        parse_schema(text)


@pytest.mark.parametrize(
    "text",
    [
        table_file(AGE) + "x" * 9_000 + " = 1",
        table_file(AGE.replace('"integer"', f'"{"x" * 9_000}"')),
        table_file(AGE.replace('"age"', f'"{"x" * 9_000}"').replace('"integer"', '"int"')),
        table_file(f'{{ name = "b", type = "boolean", null = {{ value = "{"x" * 9_000}" }} }}'),
        'constraint = [{ kind = "key", columns = ["' + "x" * 9_000 + '"] }]\n' + table_file(AGE),
    ],
)
def test_a_refusal_shows_the_beginning_of_what_is_long(text: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema(text)
    assert len(str(refused.value)) < 600


def test_bounds_with_a_zone_are_those_moments_in_utc() -> None:
    at = '{ name = "at", type = "datetime", lo = 2024-01-01T02:00:00+02:00, hi = 2024-01-02T00:00:00Z, grid = "hour", '
    declared = parse_schema(table_file(at + 'outside = "drop", null = "drop" }')).domain["at"]
    assert (declared.lo, declared.hi) == (datetime(2024, 1, 1), datetime(2024, 1, 2))


def test_dotted_keys_of_ordinary_depth_and_dots_in_texts_are_read() -> None:
    text = table_file(AGE).replace("[budget]", "[budget]\nanalysts.ana = '0.5'\nanalysts.'b.o' = '0.5'")
    assert [name for name, _ in parse_schema(text + "# " + "a." * 9).budget.shares] == ["ana", "b.o"]


@pytest.mark.parametrize("path", ["schemas/visits.toml", Path("schemas/visits.toml")])
def test_a_path_instead_of_a_text_is_told_how_to_be_read(path: object) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema(path)  # type: ignore[arg-type]
    assert "read_text" in refused.value.fix
