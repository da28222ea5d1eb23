"""The declaration of the hostile rows' table, and releases of every task on it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.replay.audit import Release
from benchmarks.replay.declarations import BUDGET
from benchmarks.replay.explored import ask
from benchmarks.replay.released import RULES, kinds
from siloquent.api import Session
from siloquent.privacy.budget import Budget
from siloquent.sketch import Jaccard, SketchSpec
from siloquent.synth import SynthSpec

DECLARATION = """
format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], other = "cell", null = "cell" }},
  {{ name = "age", type = "integer", lo = 0, hi = 4, outside = "clamp", null = "drop", bins = {{ width = 2 }} }},
  {{ name = "ill", type = "boolean", null = "cell" }},
  {{ name = "told", type = "boolean", null = "drop" }},
  {{ name = "cost", type = "integer", lo = -5, hi = 5, outside = "clamp", null = "drop" }},
  {{ name = "dose", type = "real", lo = -1, hi = 3, grid = 0.5, outside = "drop", null = "drop" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-06, grid = "day", outside = "clamp", null = "cell" }},
  {{ name = "seen", type = "datetime", {hours}, outside = "drop", null = "drop" }},
  {{ name = "code", type = "category", values = ["1", "2", "3"], other = "drop", null = "drop" }},
  {{ name = "note", type = "text", max_bytes = 60 }},
  {{ name = "memo", type = "text" }},
]
{rules}
[table]
name = "visits"
size_hint = 2000
adjacency = "{adjacency}"
unit = {unit}
[budget]
accountant = "{accountant}"
{budget}
"""
HOURS = 'lo = 2024-01-01T00:00:00, hi = 2024-01-05T23:00:00, grid = "hour"'
QUESTIONS = {
    "counts": "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 30 REUSE NONE",
    "counts of two": "SELECT code, told, COUNT(*) FROM visits GROUP BY code, told ERROR 30 REUSE NONE",
    "counts of moments": "SELECT day, COUNT(*) FROM visits WHERE seen >= TIMESTAMP '2024-01-02 00:00:00' "
    "GROUP BY day ERROR 30 REUSE NONE",
    "sums": "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 900 REUSE NONE",
    "sum": "SELECT SUM(dose) FROM visits WHERE ill ERROR 100 REUSE NONE",
    "average": "SELECT AVG(dose) FROM visits BUDGET 30 EPSILON",
    "median": "SELECT MEDIAN(age) FROM visits ERROR 15",
    "quantile": "SELECT QUANTILE(cost, 0.9) FROM visits ERROR 15",
    "users": "SELECT ward, COUNT(DISTINCT who) FROM visits GROUP BY ward ERROR 30 REUSE NONE AT MOST 2 GROUPS EACH",
    "values": "SELECT told, COUNT(DISTINCT code), COUNT(DISTINCT day) FROM visits GROUP BY told BUDGET 9 EPSILON",
    "top": "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1 ERROR 90 REUSE NONE",
    "many": "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 5 ERROR 30 REUSE NONE",
}
Seen = Counter[tuple[Any, ...]]


def declaration(accountant: str, adjacency: str, most: int) -> str:
    """The table file in one setting; ``most`` 0: the unit is a row."""
    unit = f'{{ kind = "user", column = "who", max_rows = {most} }}' if most else '{ kind = "row" }'
    return DECLARATION.format(
        hours=HOURS,
        rules=RULES,
        adjacency=adjacency,
        unit=unit,
        accountant=accountant,
        budget=BUDGET[accountant],
    )


def releases() -> dict[str, Release]:
    """Every release that is compared, by name."""
    budget = Budget(epsilon="2")
    found = {name: ask(text) for name, text in QUESTIONS.items()}
    found |= {name: kind.release for name, kind in kinds(budget).items()}
    found["synth day"] = _synth(("day", "code", "told"))
    found["sketch words label"] = _words("ill")
    found["sketch words category"] = _words("ward")
    found["profile"] = lambda session: str(session.profile.local("visits", max_lhs=1).columns)
    return found


def _synth(columns: tuple[str, ...]) -> Release:
    spec = SynthSpec(table="visits", budget=Budget(epsilon="2"), quality="fast", columns=columns, seed=3)
    return lambda session: session.synth.synthesize(spec, key="d") and None


def _words(label: str) -> Release:
    spec = SketchSpec("visits", ("note",), Jaccard(), budget=Budget(epsilon="2"), rows=32, label=label)

    def release(session: Session) -> object:
        made = session.sketch.build(spec, key=label)
        return made.counters.tobytes() if hasattr(made, "counters") else None

    return release


def seen(session: Session) -> Seen:
    """All rows that count, as the data room has them: places of countable columns, texts and ids as read."""
    table = session.table("visits")
    engine, columns, _ = table.open_for_owner()
    names = [column.index_name if column.attribute.is_countable else column.read_name for column in columns]
    found: Seen = Counter()
    for batch in engine.read_batches(table._select_bounded(columns)):
        found.update(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    return found
