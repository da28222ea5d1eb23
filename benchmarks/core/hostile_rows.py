"""Hostile rows in every source, against every release: one more of them changes nothing but what it may.

A release is drawn on a table and played again with the same noise on the table with the hostile row. Other rows count
as before, the loss is paid for, and all that is public is the same bit by bit.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.hostile import frames
from benchmarks.hostile.kinds import kinds
from benchmarks.hostile.sources import (
    Arrow,
    Csv,
    DuckDB,
    Gzipped,
    Pandas,
    Parquet,
    Polars,
    Postgres,
    Source,
    Spark,
    Xlsx,
)
from benchmarks.hostile.trial import SETTINGS, Compared, compare, disagreements
from benchmarks.row import Options, Row
from scripts.postgres import throwaway_postgres

FILES = (Csv, Gzipped, Xlsx, Parquet, DuckDB, Arrow, Pandas, Polars)
SOURCES = (*(kind.name for kind in FILES), Postgres.name, Spark.name)
REPOSITORY = Path(__file__).resolve().parents[2]


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("frame-rows"):
        yield frame_rows(options)
    yield from hostile_rows(options)


def frame_rows(options: Options) -> Row:
    """Columns of pandas of every type, and one value more in every way."""
    read = dict(frames.neighbours(97 if options.quick else 1))
    found = [f"{name}: {fault}" for name, fault in read.items() if fault]
    how = f"{len(read):,} columns of pandas, each with one value more that may change its type; first: {found[:3]}"
    return Row("frame-rows", ours=len(found), goal=0, unit="differences", how=how)


def hostile_rows(options: Options) -> Iterator[Row]:
    """Every kind of row, on every source, against every release; a row of figures for each source."""
    found, every, names = Compared(), list(kinds()), [name for name in SOURCES if options.wants(f"hostile-rows-{name}")]
    with ExitStack() as stack:
        for source in sources(names, Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve(), stack):
            begun, count, faults = time.process_time(), found.count, len(found.faults)
            # Each kind in two settings: in a row of its own or in another's place, of a row's table or of a user's. A
            # replay takes a second on Spark, so there every other kind is in one setting.
            step, each = (16, 1) if options.quick else (2, 1) if source.name == "spark" else (1, 2)
            for number, setting in enumerate(SETTINGS):
                chosen = [kind for place, kind in enumerate(every[::step]) if (place + number) % 4 < each]
                compare(source, setting, chosen, found)
            own = [(kind, release) for kind, name, release in found.combinations if name == source.name]
            how = (
                f"{len({kind for kind, _ in own})} kinds of rows x {len({release for _, release in own})} releases: "
                f"{len(own):,} combinations, {found.count - count:,} replays in four settings, "
                f"{time.process_time() - begun:.0f} CPU s; first: {found.faults[faults : faults + 3]}"
            )
            ours = len(found.faults) - faults
            yield Row(f"hostile-rows-{source.name}", ours=ours, goal=0, unit="differences", how=how)
    if len(names) > 1:
        differ = list(disagreements(found))
        how = f"values that {', '.join(names)} can hold, and of which two make different rows; first: {differ[:3]}"
        yield Row("hostile-rows-alike", ours=len(differ), goal=0, unit="kinds and settings", how=how)


def sources(names: Sequence[str], folder: Path, stack: ExitStack) -> Iterator[Source]:
    """Those of ``names``, each with a folder of its own; servers start when it is their turn."""
    for name in names:
        (own := folder / name).mkdir()
        if name == Postgres.name:
            yield Postgres(own, stack.enter_context(throwaway_postgres()))
        elif name == Spark.name:
            yield Spark(own, spark_session(own, stack))
        else:
            yield next(kind for kind in FILES if kind.name == name)(own)


def spark_session(folder: Path, stack: ExitStack) -> object:
    """A local Spark whose workers can import this package."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    builder = SparkSession.builder.master("local[1]").appName("hostile rows")
    for name, value in {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Dlog4j2.level=error",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    stack.callback(session.stop)
    return session
