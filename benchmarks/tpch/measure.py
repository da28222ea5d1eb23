"""TPC-H with the customer as the person: what is answered, CPU seconds beside plain DuckDB's, and of keeping rows."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp, parse_one

import siloquent as sq
from benchmarks.row import Options, Row, of_full_size
from benchmarks.tpch.questions import Template, list_templates
from benchmarks.tpch.workspace import build_workspace, connect, open_data
from siloquent.data.grouped_counts import KEPT, GroupedCount, build_group_query
from siloquent.errors import SiloquentError
from siloquent.schema import Block

ACCURACY = sq.AccuracyDefaults("1 PERCENT", confidence="0.95", max_share="1")
TIMES = 2.0
"""So many times the CPU of the same question in plain DuckDB."""
ROUNDS = 5


@of_full_size
def measure_warehouse(options: Options) -> Iterator[Row]:
    """The rows at scale 1; with --quick at scale .01, and only if they are asked for: they need tpchgen-cli."""
    if options.quick and options.only is None:
        return
    if options.wants("tpch-many-users"):
        yield measure_many_users(200_000 if options.quick else 10**7)
    wanted = ("tpch-answered", "tpch-kept", "tpch-who-counts", "tpch-warm-sum", "tpch-cpu")
    if not any(map(options.wants, wanted)):
        return
    scale = 0.01 if options.quick else 1
    with open_data(scale) as data, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "w"
        build_workspace(folder, data, scale)
        with sq.open(folder, defaults=ACCURACY) as session, connect(data) as plain:
            session.explain("SELECT COUNT(*) FROM customer")  # imports, and the rows of public tables
            session.ask("SELECT COUNT(*) FROM customer")
            yield from _measure_keeping(session, plain, scale)
            yield from _measure_templates(session, plain, scale)


def _measure_keeping(session: sq.Session, plain: duckdb.DuckDBPyConnection, scale: float) -> Iterator[Row]:
    count, total = "SELECT COUNT(*) FROM lineitem", "SELECT SUM(l_extendedprice) FROM lineitem"
    (lines,) = plain.execute(count).fetchall()[0]
    counted = f"SELECT COUNT(*) FROM lineitem, 160 rows of a customer count of {lines:,}, scale {scale:g}, Parquet"
    yield Row("tpch-kept", ours=_spend(lambda: session.ask(count)), goal=5, unit="CPU s", how=f"the first {counted}")
    yield Row("tpch-who-counts", ours=_count_owners(session), goal=1, unit="CPU s",
              how="the customers with more than 160 lines, from keys alone")  # fmt: skip
    ours, theirs = _spend_warm(lambda: session.ask(total)), _spend_warm(lambda: _sum_kept(session))
    yield Row("tpch-warm-sum", ours=ours - theirs, goal=0.01, unit="CPU s",
              how=f"{total}, warm, less {theirs:.4f} of the engine for the same sum")  # fmt: skip


def _measure_templates(session: sq.Session, plain: duckdb.DuckDBPyConnection, scale: float) -> Iterator[Row]:
    answered, refused, within = [], [], 0
    for template in list_templates():
        problem = _try(session, template)
        if problem:
            refused.append(f"Q{template.number} ({template.what}): {problem}")
            continue
        answered.append(f"Q{template.number}")
        ours = _spend_warm(lambda text=template.text: session.ask(text))  # type: ignore[misc]
        theirs = _spend_warm(lambda text=template.text: plain.execute(text).fetchall())  # type: ignore[misc]
        within += ours <= TIMES * theirs
        how = f"{template.what}: {ours:.3f} CPU s, plain DuckDB {theirs:.3f}, warm, rows in memory, scale {scale:g}"
        yield Row(f"tpch-cpu-q{template.number:02}", ours=ours / theirs, goal=TIMES, unit="times", how=how)
    yield Row("tpch-cpu-within", ours=within, goal=17, better="higher", unit="templates",
              how=f"at most {TIMES:g} times the CPU of plain DuckDB, all in")  # fmt: skip
    told = "; ".join(refused)
    yield Row("tpch-answered", ours=len(answered), goal=19, better="higher", unit="of 22 templates",
              how=f"{', '.join(answered)}. Refused: {told}")  # fmt: skip


def _try(session: sq.Session, template: Template) -> str:
    """Ask a template twice, so that its rows are kept; return why it is refused, "" if it is answered."""
    try:
        for _ in range(2):
            session.ask(template.text)
    except SiloquentError as refused:
        return refused.detail
    return ""


def measure_many_users(rows: int) -> Row:
    """The CPU seconds of the first question about ``rows`` rows, five for each user on average."""
    draw = np.random.default_rng(20261130)
    wards = pa.array(["a", "b", "c", "d", "e"]).take(pa.array(draw.integers(0, 5, rows)))
    table = pa.table(
        {
            "person": draw.integers(0, rows // 5, rows),
            "ward": wards,
            "age": draw.integers(0, 100, rows),
            "cost": draw.integers(0, 100_000, rows) / 100,
            "day": np.datetime64("2020-01-01") + draw.integers(0, 1_000, rows),
        }
    )
    question = "SELECT ward, COUNT(*) FROM {} GROUP BY ward ERROR 10000"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "w"
        sq.create_workspace(folder)
        for name, taken in (("few", table.slice(0, 1_000)), ("many", table)):
            pq.write_table(taken, folder / f"{name}.parquet")
            (folder / "schemas").mkdir(exist_ok=True)
            (folder / "schemas" / f"{name}.toml").write_text(_USERS.format(name=name))
        del table
        with sq.open(folder) as session:
            session.ask(question.format("few"))  # imports
            spent = _spend(lambda: session.ask(question.format("many")))
            again = _spend(lambda: session.ask(question.format("many")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    how = f"COUNT by 5 groups, Parquet, at most 16 rows of a user count; again {again:.3f}, peak {peak:,.0f} MB"
    return Row("tpch-many-users", ours=spent, goal=3, unit="CPU s",
               how=f"first question over {rows:,} rows of {rows // 5:,} users, {how}")  # fmt: skip


_USERS = """format = 1
attribute = [
  {{ name = "person", type = "id" }},
  {{ name = "ward", type = "category", values = ["a", "b", "c", "d", "e"], null = "drop" }},
  {{ name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop" }},
  {{ name = "cost", type = "real", lo = 0, hi = 1000, grid = 0.01, outside = "clamp", null = "drop" }},
  {{ name = "day", type = "date", lo = 2020-01-01, hi = 2023-12-31, outside = "drop", null = "drop" }},
]
[table]
name = "{name}"
source = "parquet:{name}.parquet"
adjacency = "add-remove"
unit = {{ kind = "user", column = "person", max_rows = 16 }}
[budget]
accountant = "zcdp"
epsilon = "1000"
delta = "1e-6"
reuse = "none"
"""


def _count_owners(session: sq.Session) -> float:
    """The CPU seconds of counting, from keys alone, which customers have more lines than count, once they are open."""
    engine = session.table("lineitem").open_for_owner()[0]
    text = 'SELECT "customer", COUNT(*) AS n FROM source GROUP BY 1 HAVING n > 160'
    query = parse_one(text, dialect="duckdb", into=exp.Select)
    return min(_spend(lambda: engine.aggregate(query)) for _ in range(3))


def _sum_kept(session: sq.Session) -> Any:
    """The engine's part of a warm sum: over the kept rows, as the question's."""
    table = session.table("lineitem")
    engine, columns, _ = table.open_for_owner()
    summed = next(one for one in columns if one.attribute.name == "l_extendedprice")
    return engine.aggregate(build_group_query([GroupedCount(Block((), ()), ())], summed, exp.to_table(KEPT)))


def _spend(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _spend_warm(run: Callable[[], Any]) -> float:
    run()
    return median(_spend(run) for _ in range(ROUNDS))
