"""Find a task's modules, measure their rows one after the other, show them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

from benchmarks.row import Broken, Options, Row

HERE = Path(__file__).resolve().parent
TASKS = ("core", "explore", "synth", "profile", "search", "sketch", "collect", "share", "doors")


def tasks() -> list[str]:
    """Return the core and those tasks that have at least one module in ``benchmarks/TASK/``."""
    return [task for task in TASKS if any(modules(task))]


def modules(task: str) -> Iterator[str]:
    """The dotted names of a task's modules, in alphabetical order."""
    for file in sorted((HERE / task).glob("*.py")):
        if file.stem != "__init__":
            yield f"benchmarks.{task}.{file.stem}"


def measure(names: Sequence[str], options: Options) -> Iterator[Row | Broken]:
    """Every row that ``options`` asks for, each measured as it is taken; a module that raises ends with a Broken."""
    for name in names:
        try:
            module: ModuleType = importlib.import_module(name)
            for row in module.rows(options):
                if options.wants(row.row):
                    yield row
        except Exception as problem:  # allowed: a broken row is shown and fails the run; the others still count
            yield Broken(name.removeprefix("benchmarks."), f"{type(problem).__name__}: {problem}")


def table(results: Sequence[Row | Broken], *, title: str) -> Table:
    """The figures side by side, as in the papers' tables."""
    shown = Table(title=title, title_justify="left", header_style="bold")
    for name in ("row", "ours", "paper", "peer", "goal", "unit", "", "how"):
        shown.add_column(
            name, justify="right" if name in ("ours", "paper", "peer", "goal") else "left", overflow="fold"
        )
    for result in results:
        if isinstance(result, Broken):
            shown.add_row(result.module, "", "", "", "", "", "FAILED", result.reason)
        else:
            figures = [_figure(value) for value in (result.ours, result.paper, result.peer)]
            shown.add_row(result.row, *figures, _goal(result), result.unit, _verdict(result), result.how)
    return shown


def verdict(results: Sequence[Row | Broken]) -> int:
    """0 if every goal is met, 1 if one is missed or a module broke, 2 if nothing was selected."""
    if not results:
        return 2
    return int(any(isinstance(result, Broken) or result.misses for result in results))


def write_json(results: Sequence[Row | Broken], target: str) -> None:
    """The rows as a JSON array to the file ``target``; ``-`` is standard output."""
    text = json.dumps([result.document() for result in results], indent=1, ensure_ascii=False, allow_nan=False)
    if target == "-":
        # Console would fold long lines, and a program reads this.
        Console(soft_wrap=True, highlight=False).print(text, markup=False)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _goal(row: Row) -> str:
    sign = "<=" if row.better == "lower" else ">="
    return "" if row.goal is None else f"{sign} {_figure(row.goal)}"


def _verdict(row: Row) -> str:
    if row.goal is None:
        return ""
    return "MISSED" if row.misses else "ok"
