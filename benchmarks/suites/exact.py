"""DuckDB's own answer to a question, and what an answer of ours must agree with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from benchmarks.suites.questions import Question

RANKS = 0.02
"""How far, as a share of the rows, a quantile may be off."""
_SHARES = (
    re.compile(r"(?P<head>\b(?:APPROX_QUANTILE|QUANTILE(?:_CONT|_DISC)?)\([^()]*, )(?P<share>[\d.]+)", re.IGNORECASE),
    re.compile(r"(?P<head>\bPERCENTILE_(?:CONT|DISC)\()(?P<share>[\d.]+)", re.IGNORECASE),
)
_MEDIAN = re.compile(r"\bMEDIAN\(([^()]*)\)", re.IGNORECASE)

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Exact:
    """A question's exact answers, each computed when it is asked for."""

    engine: duckdb.DuckDBPyConnection
    question: Question

    @cached_property
    def tree(self) -> exp.Expr:
        """The question's syntax in DuckDB's dialect, without the names of schemas."""
        tree = sqlglot.parse_one(self.question.text, read=self.question.dialect)
        for table in tree.find_all(exp.Table):
            table.set("db", None)
            table.set("catalog", None)
        return tree

    @cached_property
    def text(self) -> str:
        """The question as DuckDB takes it: as it was typed, if it can be."""
        has_schema = re.search(r"\bFROM [\w.]+\.\w+", self.question.text)
        if self.question.dialect == "duckdb" and not has_schema:
            return self.question.text.rstrip("; \n")
        return self.tree.sql("duckdb")

    @cached_property
    def typed(self) -> Rows:
        """The rows that DuckDB returns."""
        return self._fetch(self.text)

    @cached_property
    def whole(self) -> Rows:
        """The rows without the outermost choice of groups by HAVING and LIMIT."""
        return self._fetch(self._render_whole(self.tree))

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column[0] for column in self.engine.execute(self.text).description or ()]

    @property
    def is_ordered(self) -> bool:
        """Whether the rows have an order."""
        return self.tree.args.get("order") is not None

    def is_total(self, place: int) -> bool:
        """Whether a column is a count or a sum, so that it is 0 for a group without rows."""
        one = self.tree.selects[place] if isinstance(self.tree, exp.Select) else None
        return one is not None and isinstance(one.unalias(), (exp.Count, exp.Sum, exp.CountIf))

    def count_quantiles(self) -> int:
        """Count the columns that are quantiles."""
        selected = self.tree.selects if isinstance(self.tree, exp.Select) else []
        return sum(self.move_ranks(one.sql("duckdb"), 0.0) is not None for one in selected)

    def bound_quantiles(self) -> tuple[Rows, Rows]:
        """Return ``whole`` with each quantile RANKS lower, and RANKS higher."""
        text = self._render_whole(self.tree)
        low, high = (self.move_ranks(text, by) or text for by in (-RANKS, RANKS))
        return self._fetch(low), self._fetch(high)

    def _fetch(self, text: str) -> Rows:
        return list(self.engine.execute(text).fetchall())

    @staticmethod
    def move_ranks(text: str, by: float) -> str | None:
        """Return ``text`` with the shares of its quantiles moved; None if it has none."""
        asked = _MEDIAN.sub(r"QUANTILE(\1, 0.5)", text)
        move: Callable[[re.Match[str]], str] = lambda found: f"{found['head']}{float(found['share']) + by}"  # noqa: E731
        found = any(pattern.search(asked) for pattern in _SHARES)
        for pattern in _SHARES:
            asked = pattern.sub(move, asked)
        return asked if found else None

    @staticmethod
    def _render_whole(tree: exp.Expr) -> str:
        whole = tree.copy()
        for clause in ("limit", "offset", "fetch", "having", "order"):
            if isinstance(whole, exp.Select) and not (clause == "having" and not whole.args.get("group")):
                whole.set(clause, None)
        return whole.sql("duckdb")
