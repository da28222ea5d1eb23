"""Real servers for tests: a PostgreSQL cluster and a Spark session, started once a worker and stopped at the end.

Where the programs are missing, tests that need them are skipped with the reason; in continuous integration (CI=true)
they fail, so that a green run cannot hide a part that was never started.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import hypothesis
import pytest

from forked import read_cpu_seconds
from scripts.postgres import PostgresUnavailable, fresh_database, throwaway_postgres

OLDEST_JAVA = 17
MAX_QUICK_SECONDS = 10
LOOP_SECONDS = 0.045
"""Processor time of a loop of 10^6 steps on the machine for which ``MAX_QUICK_SECONDS`` is meant."""
# An example's wall time hangs on what else the machine does, so it fails no test.
hypothesis.settings.register_profile("steady", deadline=None)
hypothesis.settings.load_profile("steady")
# Where this is set, each process that a test starts compiles the whole library anew, for a quarter of its time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file to a worker, so that its servers start once; all Spark tests to one: a second Java machine costs more.

    Spark tests are known by their names, since the process that hands out work sees no marks; one that is marked and
    not so named starts a second machine, which is slow but not wrong.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if "spark" in nodeid.lower() else nodeid.split("::", 1)[0]

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """In continuous integration, fail a test that is not marked slow and is: processor time, whatever else runs.

    A child that an earlier test started may end during this one, with all its processor time; no test can take more
    than its own wall time on all processors. What the first use of a kernel takes to compile it is not the test's.
    """
    if not os.environ.get("CI"):
        yield
        return
    before, began, compiled = _cpu_seconds(), time.monotonic(), _compile_seconds()
    yield
    taken = min(_cpu_seconds() - before, (time.monotonic() - began) * (os.cpu_count() or 1))
    taken -= _compile_seconds() - compiled
    marked = any(item.get_closest_marker(name) for name in ("slow", "statistical", "spark", "web", "postgres"))
    if not marked and taken > MAX_QUICK_SECONDS:
        taken /= max(_time_loop() / LOOP_SECONDS, 1)
        if taken > MAX_QUICK_SECONDS:
            pytest.fail(f"It took {taken:.0f} CPU seconds: mark it slow, or make it smaller.")


@functools.cache
def _listen_to_compilation() -> Any:
    from numba.core import event

    listener = event.TimingListener()
    event.register("numba:compile", listener)
    return listener


def _compile_seconds() -> float:
    """How long this process has compiled kernels; those that a child compiles for itself are not seen."""
    listener = _listen_to_compilation()
    return float(listener.duration) if listener.done else 0.0


def _time_loop() -> float:
    """Return the median processor time of the loop, as the machine is now: slower ones, and shared cores, take more."""

    def run() -> float:
        began = time.process_time()
        sum(number * number for number in range(10**6))
        return time.process_time() - began

    return statistics.median(run() for _ in range(9))


def _cpu_seconds() -> float:
    """Of this process, of its children that have ended, and of the commands that were forked for it."""
    return sum(os.times()[:4]) + read_cpu_seconds()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The SQLAlchemy address of a PostgreSQL server that lives as long as the test session."""
    try:
        with throwaway_postgres() as address:
            yield address
    except PostgresUnavailable as reason:
        _unavailable(str(reason))


@pytest.fixture
def postgres_dsn(postgres_server: str) -> str:
    """The SQLAlchemy address of a database that no other test writes to."""
    return fresh_database(postgres_server)


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark session on two threads: no page, one time zone, Arrow on, quiet."""
    reason = _why_no_spark()
    if reason:
        _unavailable(reason)
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Dlog4j2.level=error",
    }
    builder = SparkSession.builder.master("local[2]").appName("siloquent-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _why_no_spark() -> str:
    """Empty if Spark can start here."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed. Fix: pip install 'siloquent[spark]'"
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    if not java or not os.path.exists(java):
        return f"Java {OLDEST_JAVA} or newer was not found. Fix: apt-get install openjdk-{OLDEST_JAVA}-jre-headless"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < OLDEST_JAVA:
        return f"Spark 4 needs Java {OLDEST_JAVA} or newer; {java} says: {said.strip()[:80]}"
    return ""


def _unavailable(reason: str) -> NoReturn:
    """Skip on a laptop, fail in continuous integration."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"needed in continuous integration: {reason}")
    pytest.skip(reason)
