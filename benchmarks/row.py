"""What a benchmark says: one figure, the figures beside it, and how it was made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import Literal

NAME = re.compile(r"[A-Za-z0-9]+(?:[-.][A-Za-z0-9]+)*")
FIGURES = ("ours", "paper", "peer", "goal")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks of every module of a task."""

    data: Path  # the folder with the published data sets
    quick: bool = False  # only rows that take seconds
    only: str | None = None  # a row, or the beginning of several rows' names

    def wants(self, row: str) -> bool:
        """Whether ``row`` was asked for: its whole name, or a beginning that ends at a hyphen."""
        return self.only is None or row == self.only or row.startswith(f"{self.only.rstrip('-')}-")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours, the published one and a baseline's beside it, and the bar it must reach.

    Raises:
        ValueError: A figure is not finite, or the name is not letters and digits with hyphens.
    """

    row: str
    _: KW_ONLY
    ours: float
    paper: float | None = None
    peer: float | None = None
    goal: float | None = None
    better: Literal["lower", "higher"] = "lower"
    unit: str = ""
    how: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.row):
            raise ValueError(f"row {self.row!r}: write letters and digits with hyphens, as in 'draws-laplace'")
        if self.better not in ("lower", "higher"):
            raise ValueError(f"row {self.row!r}: better is 'lower' or 'higher', not {self.better!r}")
        for name in FIGURES:
            figure = getattr(self, name)
            if figure is None:
                continue
            if not math.isfinite(figure):
                raise ValueError(f"row {self.row!r}: {name} is {figure}")
            # numpy's scalars compare to numpy's booleans and are no JSON.
            object.__setattr__(self, name, int(figure) if isinstance(figure, Integral) else float(figure))

    @property
    def misses(self) -> bool:
        """Whether our figure is on the wrong side of the goal; false without one."""
        if self.goal is None:
            return False
        return self.ours > self.goal if self.better == "lower" else self.ours < self.goal

    def document(self) -> dict[str, str | float | None]:
        """The row as JSON takes it, in the order in which the fields are declared."""
        return asdict(self)


Rows = Callable[[Options], Iterator[Row]]


def of_full_size(rows: Rows) -> Rows:
    """Rows whose goals are for the whole number of seeds and rows: a quick run shows their figures and no goals."""

    @wraps(rows)
    def shown(options: Options) -> Iterator[Row]:
        for row in rows(options):
            yield replace(row, goal=None) if options.quick else row

    return shown


@dataclass(frozen=True, slots=True)
class Broken:
    """A module whose next row could not be measured, and why."""

    module: str
    reason: str

    def document(self) -> dict[str, str | float | None]:
        """The failure in the shape of a row, with the reason in ``how``."""
        empty = dict.fromkeys(FIGURES)
        return {"row": self.module, **empty, "better": "lower", "unit": "", "how": f"failed: {self.reason}"}
