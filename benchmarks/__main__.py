"""``python -m benchmarks TASK``: see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.row import Broken, Options, Row
from benchmarks.runner import HERE, measure, modules, table, tasks, verdict, write_json

DATA = HERE.parent.parent / "shared" / "data"


def parser() -> argparse.ArgumentParser:
    """The command line; the reference page is made from it."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description="Our figures beside the published ones.")
    made.add_argument("task", metavar="TASK", choices=tasks(), help=f"which task: {', '.join(tasks())}")
    made.add_argument("--only", metavar="ROW", help="one row, or all rows whose names begin with ROW-")
    made.add_argument("--quick", action="store_true", help="only the rows that take under a minute together")
    made.add_argument(
        "--json", metavar="FILE", help="write the rows as JSON too; - is standard output, without the table"
    )
    made.add_argument("--data", metavar="DIR", type=Path, default=DATA, help="folder of the data sets (../shared/data)")
    return made


def told(row: Row | Broken) -> str:
    """One line for a row that was just taken."""
    figures = row.document()
    return f"{figures['row']}: {figures['ours']} {figures['unit']}; {figures['how']}"


def main(arguments: list[str] | None = None) -> int:
    """Measure, show, judge."""
    asked = parser().parse_args(arguments)
    options = Options(data=asked.data, quick=asked.quick, only=asked.only)
    results = []
    for row in measure(list(modules(asked.task)), options):
        results.append(row)
        print(told(row), file=sys.stderr, flush=True)  # an hour of rows says how far it is, and keeps what it has
    if asked.json:
        write_json(results, asked.json)
    if asked.json != "-":
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(results, title=f"{asked.task}{' (quick)' if asked.quick else ''}"))
    if not results:
        where = f"--only {asked.only!r}" if asked.only else f"{asked.task} with --quick"
        Console(stderr=True).print(f"no row matches {where}: run without it to see the names", style="red")
    return verdict(results)


if __name__ == "__main__":
    sys.exit(main())
