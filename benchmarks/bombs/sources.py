"""Databases and folders that would fill a machine, and who reads them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np


def database(*statements: str) -> Callable[[Path], None]:
    """A DuckDB file that these statements make."""

    def write(path: Path) -> None:
        import duckdb

        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)

    return write


def cut_database(path: Path) -> None:
    """A DuckDB file whose second half is missing."""
    database("CREATE TABLE visits AS SELECT (i % 5)::INTEGER AS x, '' AS note FROM range(200000) r(i)")(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def noise(path: Path) -> None:
    """A DuckDB file of random bytes."""
    path.write_bytes(bytes(8) + b"DUCK" + np.random.default_rng(0).bytes(2**22))


DUCKDB: Mapping[str, Callable[[Path], None]] = {
    "a view of 10^12 rows": database("CREATE VIEW visits AS SELECT 1 AS x, '' AS note FROM range(1000000000000)"),
    "a view without end": database(
        "CREATE VIEW visits AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x FROM r) SELECT x, '' AS note FROM r"
    ),
    "a view of another file": database("CREATE VIEW visits AS SELECT 1 AS x, content AS note FROM read_text('/etc/*')"),
    "texts of 20 MB": database("CREATE TABLE visits AS SELECT 1 AS x, repeat('x', 20000000) AS note FROM range(4)"),
    "one number, 2 10^7 times": database("CREATE TABLE visits AS SELECT 1 AS x, '' AS note FROM range(20000000)"),
    "a computed column": database(
        "CREATE TABLE visits (x INTEGER, note VARCHAR AS (repeat('x', x * 1000000)))",
        "INSERT INTO visits (x) SELECT 3 FROM range(10)",
    ),
    "5,000 columns": database(
        "CREATE TABLE visits AS SELECT " + ", ".join(f"1 AS c{i}" for i in range(5_000)) + ", 1 AS x, '' AS note"
    ),
    "cut": cut_database,
    "noise": noise,
}
"""Files with a relation ``visits`` of x and note."""
_SOURCE = """
format = 1
attribute = [
  {{ name = "x", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }},
  {{ name = "note", type = "text", max_bytes = 60 }},
]
[table]
name = "visits"
source = "{source}"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "100"
"""


def as_source(path: Path) -> None:
    """Open a DuckDB file as a table and ask it; an answer is as good as a refusal, if it costs as little."""
    _ask(f"duckdb:{path}#visits")


def as_workbook(path: Path) -> None:
    """Open a workbook as a table and ask it; an answer is as good as a refusal, if it costs as little."""
    _ask(f"xlsx:{path}")


def _ask(source: str) -> None:
    import siloquent

    with tempfile.TemporaryDirectory() as folder:
        workspace = siloquent.create_workspace(Path(folder) / "w")
        (workspace.schemas / "visits.toml").write_text(_SOURCE.format(source=source))
        with siloquent.open(workspace.folder) as session:
            session.ask("SELECT COUNT(*) FROM visits WHERE x > 0 ERROR 10")
    raise ValueError("it was read")


def very_many(path: Path) -> None:
    """A folder of 10^5 empty folders."""
    path.mkdir()
    for number in range(100_000):
        (path / str(number)).mkdir()


def pipes(path: Path) -> None:
    """A release whose files are pipes that nobody writes to, links to endless devices, and links in a circle."""
    (path / "r-1").mkdir(parents=True)
    os.mkfifo(path / "manifest.json")
    os.mkfifo(path / "r-1" / "manifest.json")
    for number, target in enumerate(("/dev/zero", "manifest.json", ".")):
        (path / f"r-{number + 2}").mkdir()
        (path / f"r-{number + 2}" / "manifest.json").symlink_to(target)


def endless(path: Path) -> None:
    """A release whose manifest is 8 GiB of nothing."""
    path.mkdir()
    with (path / "manifest.json").open("wb") as file:
        file.truncate(2**33)


FOLDERS: Mapping[str, Callable[[Path], None]] = {"10^5 entries": very_many, "pipes and links": pipes, "8 GiB": endless}


def as_catalogue(path: Path) -> None:
    """Read a folder of offers; an empty one is as good as a refusal."""
    from siloquent.search.catalogue import open_catalogue

    if not open_catalogue(path).offers:
        raise ValueError("there is no offer")
