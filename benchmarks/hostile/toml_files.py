"""Workspace and table files that nobody should write: honest ones, damaged where a parser or a rule might give way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

PASSWORD = "canary-of-the-database"
"""Stands in workspace files where a password must not; no message may show it."""

WORKSPACE = """\
format = 1

[ledger]
url = "ledger.sqlite"

[postgres]
clinic = { dsn_env = "PATH" }
archive = { dsn_file = "dsn.secret" }

[spark]
master = "local[2]"
"""
TABLE = """\
format = 1
attribute = [
  { name = "patient", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop", bins = { width = 5 } },
  { name = "weight", type = "real", lo = 0, hi = 300, grid = 0.1, outside = "drop", null = "cell" },
  { name = "ward", type = "category", values = ["A", "B", "it's; \\"C\\""], other = "cell", null = "cell" },
  { name = "smoker", type = "boolean", null = { value = false } },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, grid = "day", outside = "drop", null = "drop" },
  { name = "at", type = "datetime", lo = 2024-01-01T00:00:00, hi = 2024-01-02T00:00:00Z, grid = "hour", outside = "drop", null = "drop" },
  { name = "note", type = "text", max_bytes = 4000 },
]
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "smoker", when = "age >= 18", hard = false, weight = 2.5 },
  { kind = "denial", not = "t1.age > t2.age and t1.weight < t2.weight", hard = true },
  { kind = "key", columns = ["patient", "day"] },
  { kind = "foreign_key", columns = ["ward"], references = "wards(ward)" },
]
[[derived]]
name = "note_len"
from = ["note"]
function = "length"
type = "integer"
lo = 0
hi = 4000
outside = "clamp"
null = "drop"
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
version = 1
size_hint = 120000
unit = { kind = "user", column = "patient", max_rows = 8 }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
delta_events = "0"
epoch = 1
analysts = { ana = "0.5", bo = "0.5" }
"""  # noqa: E501
_NUMBERS = (
    "0", "-1", "1", "0.1", "1e-7", "9" * 30, "9" * 5_000, "0x" + "f" * 5_000, "1e400", "1e-400", "1e999999999", "inf",
    "-inf", "nan", "-0.0", "0.1" + "0" * 500 + "1", "9223372036854775808", "1_000", "0b" + "1" * 99,
    "4611686018427387904",
)  # fmt: skip
_TEXTS = (
    "", " ", "drop", "cell", "clamp", "pure", "zcdp", "user", "row", "age", "AGE", "agee", "note_len", "day", "second",
    "\\u0000", "\\u001b[31m", "\\u202e", "\\u200b", "\\ufeff", "\\U0010ffff", "\\u017f", "e\\u0301", "../../etc/passwd",
    "csv:", "spark:a.b.c.d", "duckdb:f", "postgres:private#x", "x" * 200, "x" * 5_000, "a' or '1'='1", "1e-9999999999",
    "1e99999", "1/0", "nan", "Infinity", "t1.age", "wards(", "a(b,c,)", "age = 5 and", "age == 'x' and not_there > 1",
    " and ".join(["age > 1"] * 40), "((((", "'" * 99, "1" * 4_000, "2024-02-30",
)  # fmt: skip
_OTHERS = (
    "true", "false", "[]", "{}", "[[[[[[[[[[1]]]]]]]]]]", "[" * 400 + "]" * 400, "[" * 3_000,
    "{ a = " * 200 + "1" + " }" * 200,
    "2024-01-31", "0001-01-01", "9999-12-31", "9999-12-31T23:59:59.999999-18:00", "0001-01-01T00:00:00+18:00",
    "07:32:00",
    "2024-02-30", '"""\n\n"""', "'''", '["a", 1]', "[0, 5, 5]", '{ value = { a = 1 } }', "{ edges = [0, 120] }",
    '{ width = "1e-400" }', '{ width = "1e-99999999" }', "{ width = 0 }", '{ edges = ["0", "1e-99999999", 120] }',
    "{ value.a.a.a = 1 }", "{ value" + ".a" * 900 + " = 1 }", "1 2", "=", "\x00", "\ud800", "\r", "# no value",
)  # fmt: skip
_LINES = (
    "a" + ".a" * 3_000 + " = 1", "[a" + ".a" * 500 + "]", "[[table]]", "[table]", "[budget]", "format = 2", "x = 1",
    "[attribute.name]", "'' = 1", '"\\u0000" = 1', "\ufeff", "# " + "\u202e" * 20, "[" * 99, '"a"."b" = 1', "\x1b[2J",
    "attribute = []", "[ledger]\nurl = 'postgresql://ana:" + PASSWORD + "@db/x'", "constraint = 5", "[analysts]",
    "[postgres]\nclinic = '" + PASSWORD + "'", "[postgres.x]\ndsn_file = 'host=db password=" + PASSWORD + "'",
    "[ledger]\nurl = 'POSTGRESQL://ana:" + PASSWORD + "@db/x'",
    "[ledger]\nurl = 'postgresql://db/x?password=" + PASSWORD + "'",
    "[postgres.y]\ndsn_env = 'postgresql://ana:" + PASSWORD + "@db'",
)  # fmt: skip
_BYTES = (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b"'", b"[", b"]", b"{", b"}")


def fuzzed(rng: np.random.Generator, honest: str) -> bytes:
    """``honest`` with one or a few of its lines, values or bytes spoiled."""
    lines = honest.split("\n")
    for _ in range(1 + int(rng.exponential(0.7))):
        _SPOILERS[rng.integers(len(_SPOILERS))](rng, lines)
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return damaged(rng, data, _BYTES) if rng.random() < 0.15 else data


def damaged(rng: np.random.Generator, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
    """``data`` with bits flipped, a part cut out, doubled or cut off, or one of ``pieces`` put in."""
    place, length = int(rng.integers(len(data) + 1)), int(rng.integers(1, 40))
    match rng.integers(6):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + data[place + length :]
        case 2:
            return data[:place] + data[place : place + length] * 2 + data[place + length :]
        case 3:
            return data[:place] + pieces[rng.integers(len(pieces))] + data[place:]
        case 4:
            flips = np.frombuffer(data, dtype=np.uint8).copy()
            if len(flips):
                flips[rng.integers(0, len(flips), rng.integers(1, 6))] ^= np.uint8(1 << rng.integers(8))
            return flips.tobytes()
        case _:
            return data[:place] + pieces[rng.integers(len(pieces))] + data[place + 1 :]


def _spoil_value(rng: np.random.Generator, lines: list[str]) -> None:
    """Another value behind one of the equals signs."""
    number = int(rng.integers(len(lines)))
    parts = lines[number].split(" = ")
    if len(parts) < 2:
        return
    place = int(rng.integers(1, len(parts)))
    _, comma, rest = parts[place].partition(",")
    parts[place] = _value(rng) + comma + rest
    lines[number] = " = ".join(parts)


def _value(rng: np.random.Generator) -> str:
    match rng.integers(3):
        case 0:
            number = _NUMBERS[rng.integers(len(_NUMBERS))]
            return f'"{number}"' if rng.random() < 0.4 else number
        case 1:
            return f'"{_TEXTS[rng.integers(len(_TEXTS))]}"'
        case _:
            return _OTHERS[rng.integers(len(_OTHERS))]


def _spoil_key(rng: np.random.Generator, lines: list[str]) -> None:
    """A key misspelled, doubled, or taken away."""
    number = int(rng.integers(len(lines)))
    words = lines[number].split(" ")
    places = [i for i, word in enumerate(words[:-1]) if words[i + 1] == "="]
    if not places:
        return
    place = places[rng.integers(len(places))]
    words[place] = (words[place][1:], words[place] * 2, "name", "lo", "x" * 3_000, '"\\u202e"', "", "a.b")[
        rng.integers(8)
    ]
    lines[number] = " ".join(words)


def _add_line(rng: np.random.Generator, lines: list[str]) -> None:
    lines.insert(int(rng.integers(len(lines) + 1)), _LINES[rng.integers(len(_LINES))])


def _move_line(rng: np.random.Generator, lines: list[str]) -> None:
    lines.insert(int(rng.integers(len(lines) + 1)), lines[rng.integers(len(lines))])


def _drop_line(rng: np.random.Generator, lines: list[str]) -> None:
    if lines:
        del lines[rng.integers(len(lines))]
    if not lines:
        lines.append("")


_Spoiler = Callable[[np.random.Generator, list[str]], None]
_SPOILERS: tuple[_Spoiler, ...] = (
    _spoil_value, _spoil_value, _spoil_value, _spoil_value, _spoil_key, _add_line, _move_line, _drop_line,
)  # fmt: skip


_REST = TABLE[TABLE.index("[table]") :]
_ONE = 'attribute = [ { name = "v", null = "drop", '
_BOOLEAN = _ONE + 'type = "boolean" } ]\n'
_WORST = (
    ("keys", "", "k@=1\n", ""),
    ("tables", "", "[k@]\n", ""),
    ("arrays of tables", "", "[[k]]\n", ""),
    ("inline keys", "x = {", "k@=1,", "k=1}"),
    ("dotted keys", "x", ".a", " = 1"),
    ("quoted dotted keys", "x", '."a"', " = 1"),
    ("a dotted table", "[x", ".a", "]"),
    ("short dotted keys", "", "a.b.c.d.e.f.g.h.k@.i.j=1\n", ""),
    ("open brackets", "x = ", "[", ""),
    ("open braces", "x = ", "{a=", ""),
    ("quotes", "", '"', ""),
    ("backslashes", 'x = "', "\\\\", '"'),
    ("escaped quotes", 'x = "', '\\"', '"'),
    ("digits", "x = ", "7", ""),
    ("a long hexadecimal number", "x = 0x", "f", ""),
    ("one key", "", "k", " = 1"),
    ("bare words", "", "k ", ""),
    ("comments", "", "#\n", ""),
    ("numbers", "x = [", "0.5,", "]"),
    ("attributes", "attribute = [", '{name="a@",type="boolean",null="drop"},', "]\n" + _REST),
    ("attributes without a type", "attribute = [", '{name="a@"},', "]\n" + _REST),
    ("attributes of nothing", "attribute = [", "{},", "]\n" + _REST),
    ("categories", _ONE + 'type = "category", values = [', '"@",', "] } ]\n" + _REST),
    ("edges", _ONE + 'type = "integer", lo = 0, hi = 9999999, outside = "drop", bins = { edges = [', "@,",
     "9999999] } } ]\n" + _REST),
    ("constraints", "constraint = [", "{kind='denial',not='v'},", "]\n" + _BOOLEAN + _REST),
    ("constraints that hold", "constraint = [", "{kind='key',columns=['v']},", "]\n" + _BOOLEAN + _REST),
    ("comparisons", "constraint = [{kind='denial',not='", "v=5 and ", "v=5'}]\n" + _BOOLEAN + _REST),
    ("analysts", _BOOLEAN + _REST.rpartition("analysts")[0] + "analysts = {", 'a@="1",', 'ana="1" }\n'),
)  # fmt: skip


def worst(most: int) -> Iterator[tuple[str, str]]:
    """Table files of ``most`` bytes, each the slowest of its kind: wide, deep, long or repeated, with its name."""
    for name, before, unit, after in _WORST:
        count = (most - len(before) - len(after) - 11) // len(unit.replace("@", "9999999"))
        yield name, f"format = 1\n{before}{''.join(unit.replace('@', str(i)) for i in range(count))}{after}"
