"""One hostile row more, or in another's place, changes nothing else: each source by some kinds and releases.

The large version, every kind on every source with every release: ``python -m benchmarks core --only hostile-rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlglot import exp

from benchmarks.core.hostile_rows import FILES
from benchmarks.hostile.kinds import Kind, kinds
from benchmarks.hostile.sources import Arrow, Csv, Pandas, Postgres, Source, Spark
from benchmarks.hostile.trial import REPLACED, ROW, SETTINGS, USER, Compared, Setting, compare, disagreements
from siloquent.data.engines import spark
from siloquent.data.engines.base import SOURCE
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.sources import engine_factory, frames, pandas
from siloquent.data.sources.text import csv
from siloquent.data.units import contribution_bounding

KINDS = tuple(kinds())
RELEASES = ("counts", "sum", "median", "sketch words label", "offer", "offer key", "share gram")


def faults(source: Source, setting: Setting, chosen: Iterator[Kind] | tuple[Kind, ...], *only: str) -> list[str]:
    found = Compared()
    compare(source, setting, chosen, found, only=only or RELEASES)
    return found.faults


def named(*names: str) -> tuple[Kind, ...]:
    found = tuple(kind for kind in KINDS if kind.name in names)
    assert len(found) == len(names)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(FILES)), ids=[kind.name for kind in FILES])
def test_a_hostile_row_changes_nothing_else(place: int, tmp_path: Path) -> None:
    source = FILES[place](tmp_path)
    assert not faults(source, SETTINGS[place % 4], KINDS[place :: 5 * len(FILES)])
    assert not faults(source, SETTINGS[(place + 2) % 4], KINDS[place + len(FILES) :: 3 * len(FILES)], "counts")


@pytest.mark.slow
@pytest.mark.postgres
def test_a_hostile_row_of_postgres_changes_nothing_else(tmp_path: Path, postgres_dsn: str) -> None:
    source = Postgres(tmp_path, postgres_dsn)
    assert not faults(source, ROW, KINDS[::24], "counts", "offer")
    assert not faults(source, USER, KINDS[5::24], "counts")


@pytest.mark.slow
@pytest.mark.spark
def test_a_hostile_row_of_spark_changes_nothing_else(tmp_path: Path, spark_session: Any) -> None:
    source = Spark(tmp_path, spark_session)
    chosen = named("user case", "no UTF-8 in a category", "NULL everywhere", "NaN")
    assert not faults(source, USER, chosen, "counts")
    real = spark._compare_by_bytes
    with patch.object(
        spark, "_compare_by_bytes", lambda rows: real(rows).selectExpr("* EXCEPT (who)", "lower(who) AS who")
    ):
        assert faults(source, USER, named(*CASES), "counts")


@pytest.mark.slow
def test_every_source_makes_the_same_row_of_the_same_values(tmp_path: Path) -> None:
    chosen = named("user 70,000 characters", "category 70,000 characters", "number '999999999' of 70000", "NULL code")
    found = Compared()
    for kind in FILES:
        (own := tmp_path / kind.name).mkdir()
        compare(kind(own), ROW, chosen, found, only=["counts"])
    assert not list(disagreements(found))


# Planted faults in the product's own path


def lower_case(real: Any) -> Callable[..., Any]:
    """Users told apart without case, as by a collation."""

    def placed(columns: Any, *, user: Any = None) -> exp.Select:
        query: exp.Select = real(columns, user=user)
        shown = query.expressions[-1]
        if user is not None:
            shown.set("this", exp.Lower(this=shown.this))
        return query

    return placed


def by_duckdb(file: Any, limits: Any, columns: Any, **_: Any) -> Any:
    """The file by DuckDB's own reader, which changes its way by one line."""
    text = f"CREATE VIEW {SOURCE} AS SELECT * FROM read_csv('{file.path}', all_varchar = true, ignore_errors = true)"
    return DuckDBEngine(lambda connection: connection.execute(text) and None, files=[file.path], limits=limits)


def left_out(real: Any) -> Callable[..., Any]:
    """Lines that cannot be read are no rows, also where their number is public."""
    return lambda *given, **named: real(*given, **{**named, "keep_faulty": False})


def strict(texts: Any) -> Any:
    """A text that is not UTF-8 is refused, and with it all rows."""
    texts.validate(full=True)
    return texts


CASES = ("user case", "user upper i", "user case of sharp s")
PLANTED: dict[str, Any] = {
    "users without case": (
        Csv,
        USER,
        CASES,
        "counts",
        (contribution_bounding, "select_indexed", lower_case(contribution_bounding.select_indexed)),
    ),
    "ragged lines left out": (
        Csv,
        REPLACED,
        ("line: two cells",),
        "offer",
        (csv, "open_csv_rows", left_out(csv.open_csv_rows)),
    ),
    "texts refused": (Arrow, ROW, ("no UTF-8 in a category",), "counts", (frames, "keep_valid_texts", strict)),
    "types from values": (Pandas, ROW, ("NULL code",), "counts", (pandas, "_KEPT", {**pandas._KEPT, "category": "f"})),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name: str, tmp_path: Path) -> None:
    source, setting, kind, release, fault = PLANTED[name]
    assert not faults(source(tmp_path), setting, named(*kind), release)
    with patch.object(*fault):
        assert faults(source(tmp_path), setting, named(*kind), release)


def test_a_file_that_duckdb_reads_in_its_own_way_is_seen(tmp_path: Path) -> None:
    def engine(kind: str, where: str, schema: Any, workspace: Any, limits: Any, linked: Any) -> Any:
        from siloquent.data.sources.files import find_source_file

        return by_duckdb(find_source_file(where, workspace.folder, table="visits"), limits, ())

    with patch.object(engine_factory, "_open_file_engine", engine):
        assert faults(Csv(tmp_path), ROW, named("line: one cell more", "line: CR LF", "line: one quote"), "counts")
