"""Pairs of neighbouring tables, nasty on purpose: where they differ is what could make an error differ, too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

Row = tuple[Any, ...]
Layout = Literal["texts", "typed", "csv", "parquet"]

COLUMNS = ("patient", "age", "ward", "cost", "big", "smoker", "day", "note")
LAYOUTS: tuple[Layout, ...] = ("texts", "typed", "csv", "parquet")
"""How rows are held: an Arrow table of texts or of types, a CSV or a Parquet file."""
LARGEST = 2**40 - 1
TABLE = """\
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop", bins = {{ width = 20 }} }},
  {{ name = "ward", type = "category", values = ["A", "B", "=1+1"], other = "cell", null = "cell" }},
  {{ name = "cost", type = "real", lo = -100, hi = 1000, grid = 0.5, outside = "drop", null = {{ value = 0 }} }},
  {{ name = "big", type = "integer", lo = 0, hi = 1099511627775, outside = "clamp", null = "drop" }},
  {{ name = "smoker", type = "boolean", null = "cell" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, grid = "day", outside = "drop", null = "drop" }},
  {{ name = "note", type = "text", max_bytes = 100 }},
]
derived = [
  {{ name = "length", from = ["note"], function = "length", type = "integer", lo = 0, hi = 40, outside = "clamp", null = "drop" }},
]
[table]
name = "visits"
{source}
adjacency = "{adjacency}"
size_hint = 50
unit = {unit}
[budget]
accountant = "{accountant}"
{budget}
analysts = {{ ana = "0.9", bo = "0.00000001" }}
"""  # noqa: E501
UNITS = {"row": '{ kind = "row" }', "user": '{ kind = "user", column = "patient", max_rows = 2 }'}
BUDGETS = {"pure": 'epsilon = "100000"', "zcdp": 'rho = "100000"\ndelta = "1e-6"'}
USUAL: Row = (34, "A", 20.5, 1_000, True, "2024-03-01", "seen")


def _with(**other: Any) -> Row:
    """The usual row with other values in some columns."""
    return tuple(other.get(column, value) for column, value in zip(COLUMNS[1:], USUAL, strict=True))


NASTY: dict[str, Row] = {
    "the usual": USUAL,
    "NULL everywhere": (None,) * 7,
    "NaN": _with(age=math.nan, cost=math.nan),
    "infinity": _with(age=math.inf, cost=math.inf),
    "minus infinity": _with(age=-math.inf, cost=-math.inf),
    "below all bounds": _with(age=-1, cost=-100.01, big=-1, day="2023-12-31"),
    "above all bounds": _with(age=100, cost=1000.01, big=2**40, day="2025-01-01"),
    "huge numbers": _with(age=1e308, cost=-1e308, big=2**63 - 1),
    "tiny numbers": _with(age=5e-324, cost=-0.0, big=-(2**63)),
    "the largest that is summed": _with(age=99, cost=1000, big=LARGEST),
    "between two steps": _with(age=19.5, cost=0.25),
    "an unlisted category": _with(ward="Z"),
    "an empty category": _with(ward="", note=""),
    "a category with a line's end": _with(ward="A\n", note="\n\r\n"),
    "a NUL character": _with(ward="A\0", note="\0"),
    "quotes and commas": _with(ward="\"A\",'B'", note='a "b", c'),
    "a formula": _with(ward="=1+1", note="=cmd()"),
    "letters of all kinds": _with(ward="\u00e9\U0001f92f\u202e", note="\U0001f92f" * 25),
    "a day that does not exist": _with(day="2024-13-45"),
    "a day of no calendar": _with(day="infinity"),
    "a day too late for timestamps": _with(day="294248-01-01"),
    "a day that is empty": _with(day=""),
    "no truth value": _with(smoker="maybe"),
    "a number in words": _with(age="1e400", cost="12abc", big="0x10"),
    "a long text": _with(note="x" * 60_000),
}
"""One row each, without its patient."""
BASES: dict[str, tuple[Row, ...]] = {
    "no rows": (),
    "one row": (USUAL,),
    "five rows": (
        USUAL,
        _with(age=71, ward="B"),
        _with(age=5, cost=-50, smoker=False),
        NASTY["NULL everywhere"],
        _with(ward="=1+1"),
    ),
    "sixty rows": tuple(
        _with(age=i, ward="AB"[i % 3 == 0], cost=i * 10, day=f"2024-{1 + i % 12:02}-01") for i in range(60)
    ),
    "twenty rows alike": (_with(big=LARGEST),) * 20,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """How a table is accounted for, and how its rows are held."""

    accountant: Literal["pure", "zcdp"]
    unit: Literal["row", "user"]
    adjacency: Literal["add-remove", "replace-one"]
    layout: Layout

    @property
    def in_a_file(self) -> bool:
        """Whether the rows are in a file, and not handed over as a frame."""
        return self.layout in ("csv", "parquet")

    def declaration(self) -> str:
        """The table file."""
        source = f'source = "{self.layout}:data/visits.{self.layout}"' if self.in_a_file else ""
        return TABLE.format(
            source=source,
            adjacency=self.adjacency,
            unit=UNITS[self.unit],
            accountant=self.accountant,
            budget=BUDGETS[self.accountant],
        )


SETTINGS = tuple(
    Setting(accountant, unit, adjacency, layout)  # type: ignore[arg-type]
    for accountant, unit, adjacency, layout in product(BUDGETS, UNITS, ("add-remove", "replace-one"), LAYOUTS)
)
"""Every accountant, unit, adjacency and layout."""
SOME_SETTINGS = SETTINGS[::5]
"""Seven of them, with every value of every part."""


@dataclass(frozen=True, slots=True)
class Side:
    """One table of a pair."""

    setting: Setting
    rows: tuple[Row, ...]

    def frame(self) -> pa.Table:
        """The rows as an Arrow table: typed as well as they can be, or as texts."""
        columns = dict(zip(COLUMNS, zip(*self.rows, strict=True) if self.rows else ((),) * len(COLUMNS), strict=True))
        typed = self.setting.layout in ("typed", "parquet")
        return pa.table({name: _column(name, values, typed) for name, values in columns.items()})

    def write(self, folder: Path) -> None:
        """Declare the table in the workspace ``folder`` and write its rows there, if they are in a file."""
        for inner in ("schemas", "data"):
            (folder / inner).mkdir(exist_ok=True)
        if not self.setting.in_a_file:
            return
        (folder / "schemas" / "visits.toml").write_text(self.setting.declaration(), encoding="utf-8")
        if self.setting.layout == "csv":
            import csv

            with open(folder / "data" / "visits.csv", "w", encoding="utf-8", newline="") as file:
                texts = [[_text(value) for value in row] for row in self.rows]
                csv.writer(file).writerows([COLUMNS, *texts])
        else:
            import pyarrow.parquet

            pyarrow.parquet.write_table(self.frame(), folder / "data" / "visits.parquet")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables that differ in one unit: ``name`` says in which."""

    name: str
    one: Side
    other: Side


def pairs(settings: tuple[Setting, ...] = SETTINGS, *, each: int | None = None) -> Iterator[Pair]:
    """Every base with every nasty unit in every setting; with ``each``, that many settings in turn for each of them."""
    for number, (base, nasty) in enumerate(product(BASES, NASTY)):
        chosen = settings if each is None else [settings[(number * each + i) % len(settings)] for i in range(each)]
        for setting in chosen:
            yield _pair(setting, base, nasty)


def _pair(setting: Setting, base: str, nasty: str) -> Pair:
    """``base``, and it with one unit more, or with its last unit replaced."""
    extra = _unit("q", [NASTY[nasty]] * (1 if setting.unit == "row" else 3), nasty)
    rows = _patients(setting, BASES[base])
    if setting.adjacency == "replace-one":
        rest = _without_last(setting, rows)
        # Where nobody can be replaced, somebody usual is.
        one = rows or _unit("q", [USUAL], "")
        other = (*rest, *extra)
    else:
        one, other = rows, (*rows, *extra)
    words = "with one replaced by" if setting.adjacency == "replace-one" else "and one more:"
    return Pair(f"{base}, {words} {nasty} ({setting})", Side(setting, one), Side(setting, other))


def _patients(setting: Setting, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """A patient for each row, or for every three where patients are the unit."""
    return tuple((f"p{i // 3 if setting.unit == 'user' else i}", *row) for i, row in enumerate(rows))


def _unit(patient: str, rows: list[Row], nasty: str) -> tuple[Row, ...]:
    """The rows of one patient; one who is nobody where everything is NULL."""
    return tuple((None if nasty == "NULL everywhere" else patient, *row) for row in rows)


def _without_last(setting: Setting, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    if setting.unit == "row":
        return rows[:-1]
    return tuple(row for row in rows if row[0] != rows[-1][0])


_TYPES = {"age": pa.float64(), "cost": pa.float64(), "big": pa.int64(), "smoker": pa.bool_()}


def _column(name: str, values: tuple[Any, ...], typed: bool) -> pa.Array:
    kind = _TYPES.get(name) if typed else None
    if kind is None:
        return pa.array([_text(value) for value in values], pa.string())
    return pa.array([None if isinstance(value, str) else value for value in values], kind)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)
