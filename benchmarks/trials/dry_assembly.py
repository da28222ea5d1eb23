"""Declarations and questions of every sort, asked through a session: after a charge there is an answer.

The generator crosses null, outside, types, aggregates, groups, WHERE, HAVING, ORDER BY, LIMIT, accounts, units and
adjacencies. Many questions are refused, which is as good as an answer if it is free and says so with a stable code.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import siloquent as sq
from siloquent import errors
from siloquent.api import Session
from siloquent.errors import SiloquentError
from siloquent.explore import Answer

EACH, TABLES = 8, 25
"""Questions to one declaration, declarations to one workspace."""
NULLS = ('"drop"', '"cell"', "{ value = 1 }")
OUTSIDE = ('"clamp"', '"drop"')
BUDGETS = (
    'accountant = "pure"\nepsilon = "900"', 'accountant = "zcdp"\nrho = "900"\ndelta = "1e-6"',
    'accountant = "pure"\nepsilon = "3"', 'accountant = "zcdp"\nepsilon = "3"\ndelta = "1e-6"',
)  # fmt: skip
UNITS = ('{ kind = "row" }', '{ kind = "user", column = "who", max_rows = 3 }')
REUSES = ("any", "fresh-or-simultaneous", "none")
YEARS = 'type = "integer", lo = 2023, hi = 2025, outside = "clamp"'
NUMBERS = (
    'type = "integer", lo = 0, hi = 10', 'type = "integer", lo = -7, hi = 35, grid = 7',
    'type = "integer", lo = 0, hi = 10, bins = { width = 5 }', 'type = "real", lo = -1, hi = 2, grid = 0.1',
    'type = "real", lo = 0, hi = 1000000, grid = 0.01',
    'type = "real", lo = 0, hi = 4, grid = 0.5, bins = { width = 1 }',
    'type = "integer", lo = 1, hi = 1',
)  # fmt: skip
AGGREGATES = (
    ("COUNT(*)",), ("COUNT(*)",), ("SUM(m)",), ("AVG(m)",), ("VAR(m)",), ("STDDEV(n)",), ("MEDIAN(m)",), ("AVG(n)",),
    ("QUANTILE(n, 0.9)",), ("COUNT(*)", "AVG(m)"), ("SUM(m)", "MEDIAN(m)"), ("AVG(m)", "VAR(m)"), ("SUM(m)", "SUM(n)"),
    ("AVG(m)", "AVG(n)", "COUNT(*)"), ("MEDIAN(d)",), ("QUANTILE(m, 0.25)", "MEDIAN(m)"), ("COUNT(*)", "SUM(y)"),
    ("SUM(ward)",), ("AVG(d)",), ("SUM(nothing)",),
)  # fmt: skip
CHOSEN = ("COUNT(*)", "SUM(m)", "SUM(n)", "AVG(m)", "MEDIAN(m)")
THRESHOLDS = ("> 10", ">= 1000000", "> 3", "> -1e9", "> -5", "> 2.5")
LIMITS = ("DESC LIMIT 2", "LIMIT 1", "DESC LIMIT 3", "ASC LIMIT 1", "DESC LIMIT 100000")
WHERES = (
    "ward = 'A'", "m > 3", "m > 10", "m <= 4 AND ill", "FALSE", "m IS NULL", "NOT ill", "n BETWEEN 0.1 AND 0.7",
    "m % 2 = 0",
    "ward IN ('A', 'Z')", "d >= DATE '2024-02-01'", "ward = 'A' OR n < 1", "n * 2 >= m", "ward IS NULL", "m = m",
    "nothing = 1",
    "year(d) = 2024", "ward LIKE 'A%'",
)  # fmt: skip
GROUPS = ("ward", "ill", "ward, ill", "m", "n", "m // 3", "d", "month(d)", "ward, m % 2", "y", "who")
BINS = (
    "PREFIX(m, 0, 10, 1)", "HISTOGRAM(n, -1, 2, 0.5)", "CUBE(ward, ill)", "{m < 3, m < 7, ill}", "{ward = 'A', FALSE}",
    "PREFIX(n, 0, 1, 0.01)", "HISTOGRAM(ward, 0, 1, 1)", "CUBE(m)", "{m > 1, m > 2} AND ill",
)  # fmt: skip
ENDS = (
    " CONFIDENCE 0.9", " FOR AT LEAST 2 ROWS", " FOR AT LEAST 40 ROWS", " REUSE NONE", " REUSE SIMULTANEOUS",
    " REUSE ANY",
    " CONFIDENCE 0.99 JOINT", " PREFER OPTIMISTIC", " FOR AT LEAST 100000 ROWS",
)  # fmt: skip
ERRORS = ("5", "20", "400", "0.5", "3 PERCENT", "1e9", "0.001")
SPENDS = ("0.1 EPSILON", "2 EPSILON", "0.05 RHO", "1e-9 EPSILON", "1 EPSILON DELTA 1e-7")
CODES = frozenset(
    one.code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SiloquentError)
) - {"internal"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question: ``fault`` says what is wrong, if anything; ``status`` what it ended with."""

    text: str
    status: str
    fault: str = ""


def declaration(chance: random.Random, name: str) -> str:
    """A table file whose types and policies are drawn."""

    def policy() -> str:
        return f"outside = {chance.choice(OUTSIDE)}, null = {chance.choice(NULLS)}"

    def null() -> str:
        return chance.choice(NULLS[:2])

    outside = chance.choice(OUTSIDE)
    size = chance.choice(("size_hint = 40\n", "size_hint = 40\n", "size_hint = 3\n", ""))
    return f"""
format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "B"], other = {chance.choice(NULLS[:2])}, null = {null()} }},
  {{ name = "m", {chance.choice(NUMBERS)}, {policy()} }},
  {{ name = "n", {chance.choice(NUMBERS)}, {policy()} }},
  {{ name = "ill", type = "boolean", null = {chance.choice(('"drop"', '"cell"', "{ value = true }"))} }},
  {{ name = "d", type = "date", lo = 2024-01-01, hi = 2024-12-31, outside = {outside}, null = {null()} }},
]
derived = [
  {{ name = "y", from = ["d"], function = "year", {YEARS}, null = {null()}, bins = {{ width = 1 }} }},
]
[table]
name = "{name}"
adjacency = "{chance.choice(["add-remove", "replace-one"])}"
{size}unit = {chance.choice(UNITS)}
[budget]
reuse = "{chance.choice(REUSES)}"
{chance.choice(BUDGETS)}
"""


def drawn_rows(chance: random.Random) -> pa.Table:
    """A few rows, or none: declared values, others and NULL."""
    count = chance.choice((0, 1, 36, 36, 200))
    first = date(2023, 12, 1)

    def column(*values: object) -> list[object]:
        return [chance.choice(values) for _ in range(count)]

    return pa.table(
        {
            "who": pa.array(column("p1", "p2", "p3", "p4", None), pa.string()),
            "ward": pa.array(column("A", "A", "B", "Z", None), pa.string()),
            "m": pa.array(column(0, 1, 3, 7, 10, -5, 99, None), pa.int64()),
            "n": pa.array(column(0.0, 0.3, 1.5, -9.0, float("nan"), 1e300, None), pa.float64()),
            "ill": pa.array(column(True, False, None), pa.bool_()),
            "d": pa.array(column(*(first + timedelta(days=40 * i) for i in range(12)), None), pa.date32()),
        }
    )


def question(chance: random.Random, table: str) -> str:
    """A question of crossed parts; most are put together with care, since refused ones show less."""
    careful = chance.random() < 0.85
    where = f" WHERE {chance.choice(WHERES)}" if chance.random() < 0.5 else ""
    items = list(chance.choice(AGGREGATES[: -3 if careful else None]))
    if chance.random() < 0.2:
        of = items[0]
        picked, _ = _choice(chance, [of], grouped=True, careful=careful)
        return f"BIN {table} ON {of} WHERE W = {chance.choice(BINS)}{picked}{_tail(chance, [of], careful=careful)}"
    group = chance.choice(GROUPS[: -1 if careful else None]) if chance.random() < 0.7 else ""
    choice, also = _choice(chance, items, grouped=bool(group), careful=careful)
    only_names = bool(choice) and bool(group) and chance.random() < 0.2
    named = [group] if only_names else [group, *items] if group else items
    bounds = [also or items[0]] if only_names else [*items, *([also] if also else [])]
    grouped = f" GROUP BY {group}" if group else ""
    tail = _tail(chance, bounds, careful=careful)
    return f"SELECT {', '.join(named)} FROM {table}{where}{grouped}{choice}{tail}"


def _choice(chance: random.Random, items: list[str], *, grouped: bool, careful: bool) -> tuple[str, str]:
    """A HAVING or ORDER BY, or neither, and its aggregate where it is not among ``items``."""
    kind = chance.random()
    if not grouped or kind < 0.55:
        return "", ""
    of = chance.choice(items) if careful and chance.random() < 0.6 else chance.choice(CHOSEN)
    also = "" if of in items else of
    if kind < 0.8:
        return f" HAVING {of} {chance.choice(THRESHOLDS)}", also
    return f" ORDER BY {of} {chance.choice(LIMITS)}", also


def _tail(chance: random.Random, bounded: list[str], *, careful: bool) -> str:
    """ERROR or BUDGET with what may follow: a bound for each of ``bounded``."""
    sized = any(one.startswith(("AVG", "VAR", "STDDEV")) for one in bounded)
    spends = chance.random() < 0.2
    ends = [one for one in ENDS if not careful or not one.startswith(" FOR") or (sized and not spends)]
    end = "".join(chance.sample(ends, chance.choice((0, 0, 1, 1, 2 - careful))))
    if careful and sized and not spends and " FOR" not in end and chance.random() < 0.7:
        end += chance.choice([one for one in ENDS if one.startswith(" FOR")])
    if spends:
        return f" BUDGET {chance.choice(SPENDS)}{end}"
    count = len(bounded) if careful else max(len(bounded) + chance.choice((-1, 0, 1)), 1)
    errors = ERRORS if chance.random() < 0.2 else ERRORS[:4]
    return f" ERROR {', '.join(chance.choice(errors) for _ in range(count))}{end}"


def ask(session: Session, text: str) -> Outcome:
    """Ask ``text``, and look at the answer or the refusal, and at what was charged for it."""
    after = last_entry(session)
    try:
        answer = session.ask(text)
        _show(answer)
    except SiloquentError as refused:
        return Outcome(text, refused.code, _fault(refused, reservations(session, after)))
    except Exception as problem:  # allowed: what is no refusal is what is looked for
        spent = reservations(session, after)
        return Outcome(text, "internal", f"{type(problem).__name__}: {problem} after {spent} charges")
    return Outcome(text, "answered")


def _show(answer: Answer) -> None:
    str(answer)
    answer._repr_html_()
    answer.to_json()
    _ = answer.table


def _fault(refused: SiloquentError, charges: int) -> str:
    if charges:
        return f"refused after {charges} charges: {refused}"
    return "" if refused.code in CODES else f"no stable code: {refused.code}"


def last_entry(session: Session) -> int:
    """The number of the ledger's last entry."""
    return int(session.ledger.read_head().seq)


def reservations(session: Session, after: int) -> int:
    """How many reservations the ledger took since entry ``after``."""
    return sum(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=after))


def asked(seeds: Iterable[int]) -> Iterator[Outcome]:
    """One workspace a seed: ``TABLES`` declarations, ``EACH`` questions to each."""
    for seed in seeds:
        chance = random.Random(seed)
        with TemporaryDirectory(prefix="siloquent-dry-") as folder:
            sq.create_workspace(Path(folder) / "w")
            with sq.open(Path(folder) / "w") as session:
                yield from _asked_in(session, chance)


def _asked_in(session: Session, chance: random.Random) -> Iterator[Outcome]:
    for number in range(TABLES):
        name = f"t{number}"
        text = declaration(chance, name)
        try:
            session.add_frame(sq.read_schema(text), drawn_rows(chance))
        except SiloquentError as refused:
            yield Outcome(text, refused.code, "" if refused.code in CODES else f"no stable code: {refused.code}")
            continue
        for _ in range(EACH):
            yield ask(session, question(chance, name))
