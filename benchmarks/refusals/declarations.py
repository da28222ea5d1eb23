"""Right table files, and mutations that make wrong ones of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.refusals.questions import LOANS, SMALL, VISITS


@dataclass(frozen=True, slots=True)
class WrongDeclaration:
    """A table file with a slip."""

    mutation: str
    text: str


SPREAD = """format = 1

# Written by hand.
[[attribute]]
name = "income"
type = "real"
lo = -1000
hi = 250000.5
grid = 0.5
outside = "clamp"
null = { value = 0 }
bins = { edges = [-1000, 0, 50000, 250000.5] }

[[attribute]]
name = "person"
type = "id"

[[attribute]]
name = "started"
type = "date"
lo = 2020-01-01
hi = 2024-12-31
grid = "day"
outside = "drop"
null = "cell"

[[derived]]
name = "start year"
from = ["started"]
function = "year"
type = "integer"
lo = 2020
hi = 2024
outside = "drop"
null = "drop"

[[constraint]]
kind = "fd"
lhs = ["person"]
rhs = "income"

[table]
name = "declared"
source = "csv:declared.csv"
adjacency = "add-remove"
version = 2
size_hint = 5000
unit = { kind = "user", column = "person", max_rows = 3 }

[budget]
accountant = "zcdp"
epsilon = "0.5"
delta = "1e-7"
analysts = { ana = "0.5", bo = "0.25" }
"""
RIGHT = (
    *(re.sub(r'name = "(visits|Loans|small)"', 'name = "declared"', one) for one in (VISITS, LOANS, SMALL)),
    SPREAD,
)
Mutation = Callable[[str, random.Random], str | None]


def _of(pattern: str, *wrong: str) -> Mutation:
    def mutate(text: str, draw: random.Random) -> str | None:
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if not found:
            return None
        one = draw.choice(found)
        return text[: one.start()] + one.expand(draw.choice(wrong)) + text[one.end() :]

    return mutate


def _misspell(kind: str) -> Mutation:
    """Swap or drop a letter of one key, or of one word in quotes after type, outside, null, adjacency or accountant."""
    pattern = {
        "key": r"\b(?P<word>[a-z_]{3,})(?= = )",
        "word": r'(?:type|outside|null|adjacency|accountant|kind|grid|function) = "(?P<word>[a-z-]{3,})"',
        "name": r'(?:column|rhs) = "(?P<word>\w+)"',
    }[kind]

    def mutate(text: str, draw: random.Random) -> str | None:
        found = list(re.finditer(pattern, text))
        if not found:
            return None
        one = draw.choice(found)
        word, at = one["word"], draw.randrange(1, len(one["word"]) - 1)
        wrong = draw.choice((word[:at] + word[at + 1 :], word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]))
        return text[: one.start("word")] + wrong + text[one.end("word") :]

    return mutate


def _drop_sign(text: str, draw: random.Random) -> str:
    places = [at for at, sign in enumerate(text) if sign in '"{}[],=']
    at = draw.choice(places)
    return text[:at] + text[at + 1 :]


MUTATIONS: dict[str, Mutation] = {
    "a type of databases": _of(r'type = "(integer|real|category|boolean|date|datetime|id|text)"', *(f'type = "{word}"' for word in ("int", "INTEGER", "bigint", "VARCHAR(20)", "varchar", "float64", "double", "bool", "timestamp", "string", "numeric(10,2)", "enum", "uuid", "number"))),
    "a key of other libraries": _of(r"\b(lo|hi|values|outside|null|type|epsilon|grid|max_rows|size_hint|attribute)(?= = )", "min", "max", "categories", "clip", "nulls", "dtype", "eps", "step", "lower", "upper", "rows", "columns"),
    "a misspelt key": _misspell("key"),
    "a misspelt word": _misspell("word"),
    "a misspelt name": _misspell("name"),
    "a word of other libraries": _of(r'(outside|null|adjacency|accountant|kind|grid) = "\w[\w-]*"', r'\1 = "clip"', r'\1 = "ignore"', r'\1 = "add/remove"', r'\1 = "gaussian"', r'\1 = "person"', r'\1 = "group"', r'\1 = "month"', r"\1 = true", r"\1 = 1"),
    "an amount in another form": _of(r'(epsilon|delta) = "[\d.e-]+"', r'\1 = "2,0"', r'\1 = "1_000"', r"\1 = 2.0", r'\1 = "one"', r'\1 = "0"', r'\1 = "-1"', r'\1 = ""', r'\1 = "1 %"', r"\1 = [1]", r'\1 = "0,5e-6"', r'\1 = "inf"'),
    "a bound in another form": _of(r"\b(lo|hi) = [\d.-]+(?=[,\n])", r'\1 = "17"', r'\1 = "1,5"', r"\1 = 1_000_000_000_000_000_000_000", r"\1 = inf", r"\1 = nan", r"\1 = 0.3", r"\1 = -5000", r"\1 = 1,000", r"\1 = true", r"\1 = 2024-01-31"),
    "a date in another form": _of(r"\b(lo|hi) = \d{4}-\d\d-\d\d", r'\1 = "2024-01-31"', r"\1 = 31.01.2024", r'\1 = "01/31/2024"', r"\1 = 2024-13-01", r"\1 = 20240131", r"\1 = 2024-1-1", r"\1 = 2019-01-01T10:00:00"),
    "a key left out": _of(r'(, )?\b(lo|hi|outside|null|type|values|grid|name|adjacency|accountant|epsilon|delta|unit|column|max_rows|rhs|lhs|function|format) = (\{[^}]*\}|\[[^\]]*\]|"[^"]*"|[\w.:-]+)(,(?= ))?', ""),
    "another grid": _of(r"grid = [\d.]+", "grid = 0", "grid = -1", "grid = 0.3", 'grid = "0.5"', "grid = 7", 'grid = "day"'),
    "other values": _of(r"values = \[[^\]]*\]", "values = []", 'values = ["a", "a"]', 'values = "a, b"', "values = [1.5]", 'values = ["(other)", "a"]', 'values = { from = "x" }', "values = [true]"),
    "other bins": _of(r"bins = \{[^}]*\}", "bins = { width = 0 }", "bins = { width = -5 }", "bins = 10", "bins = { edges = [5, 1] }", "bins = { edges = [0] }", "bins = { width = 5, edges = [0, 1] }", "bins = [0, 10]", 'bins = { width = "5,5" }', "bins = {}"),
    "another unit": _of(r"unit = \{[^}]*\}", 'unit = "row"', 'unit = { kind = "user" }', 'unit = { kind = "user", column = "nobody", max_rows = 2 }', 'unit = { kind = "user", column = "age", max_rows = 2 }', 'unit = { kind = "row", max_rows = 5 }', 'unit = { kind = "user", column = "person", max_rows = 0 }', 'unit = { kind = "user", column = "person", max_rows = "3" }'),
    "another number": _of(r"(version|size_hint|format) = \d+", r"\1 = 0", r"\1 = -3", r"\1 = 1.5", r'\1 = "1"', r"\1 = 2"),
    "another source": _of(r'source = "csv:\w+.csv"', 'source = "people.csv"', 'source = "xlsx:people.xlsx"', 'source = "CSV:people.csv"', "source = people.csv", 'source = ["csv:a.csv"]'),
    "another name": _of(r'name = "declared"', 'name = "my table"', 'name = ""', 'name = "9lives"', "name = declared", 'name = "a-b"'),
    "a name twice": _of(r'name = "(age|score|rate|income)"', 'name = "sex"', 'name = "kind"', 'name = "order"', 'name = "person"'),
    "an account that does not fit": _of(r'accountant = "\w+"', 'accountant = "pure"', 'accountant = "zcdp"', 'accountant = "laplace"'),
    "shares that do not fit": _of(r"analysts = \{[^}]*\}", 'analysts = { ana = "1.5" }', 'analysts = ["ana"]', 'analysts = { ana = "50%" }', 'analysts = { ana = "0,5" }', 'sharing = "own"', 'sharing = "all"'),
    "labels that do not fit": _of(r"labels = \{[^}]*\}", 'labels = { 3 = "x" }', 'labels = ["x", "y"]', 'labels = { 1 = "x", 2 = "x" }', 'labels = { one = "x" }', "labels = { 1 = 2 }"),
    "a constraint that does not fit": _of(r'kind = "fd"', 'kind = "key"', 'kind = "unique"', 'kind = "foreign_key"', 'kind = "fd"\nweight = 2', 'kind = "fd"\nwhen = "income >"'),
    "a sign left out": _drop_sign,
    "words of Python": _of(r"= (\"drop\"|\"clamp\"|true|false)", "= None", "= True", "= drop", "= 'drop"),
    "a colon for an equals sign": _of(r"^(\w+) = ", r"\1: ", r"\1 == ", r"\1 "),
    "a section that does not exist": _of(r"^\[(table|budget)\]$", r"[\1s]", r"[[\1]]", r"[\1", r"\1"),
}  # fmt: skip


def list_wrong_declarations(draw: random.Random, count: int) -> Iterator[WrongDeclaration]:
    """Yield ``count`` different table files with the name of their mutation; some may happen to be right."""
    seen: set[str] = set(RIGHT)
    names, tries = list(MUTATIONS), 0
    while len(seen) < count + len(RIGHT) and tries < 60 * count:
        name = names[tries % len(names)]
        tries += 1
        text = MUTATIONS[name](draw.choice(RIGHT), draw)
        if text is not None and draw.random() < 0.1:
            text = MUTATIONS[draw.choice(names)](text, draw) or text
        if text is not None and text not in seen:
            seen.add(text)
            yield WrongDeclaration(name, text)
