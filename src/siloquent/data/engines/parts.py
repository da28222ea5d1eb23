"""Queries over all users at once, or over parts of the users in turn if their rows do not fit into memory.

Each user's rows are ranked separately, so parts give the same rows as the whole. Neither the number of users nor the
length of their texts may decide whether there is an answer. DuckDB never writes rows to disk; Spark sorts on its own
local disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp

from siloquent.data.engines.base import IN_PART

R = TypeVar("R")
STREAMED = "streamed"
"""In the ``meta`` of a query: the same rows by a query that takes longer, and holds none but those that count."""
STEP = 4
MAX_PARTS = STEP**7


@dataclass(frozen=True, slots=True)
class Part:
    """The users whose hash has remainder ``number`` modulo ``count``."""

    number: int = 0
    count: int = 1

    def split(self) -> list[Part]:
        """Return parts that make up this one."""
        return [Part(self.number + i * self.count, self.count * STEP) for i in range(STEP)]

    def sql(self, query: exp.Query, views: Mapping[str, exp.Query]) -> str:
        """Return ``query`` over this part, as DuckDB's text; ``views`` replace their names."""

        def placed(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Table) and node.name in views:
                return self._choose_form(views[node.name]).subquery(node.name).transform(placed)
            if isinstance(node, exp.Anonymous) and node.name.upper() == IN_PART:
                hashed = exp.Anonymous(this="HASH", expressions=[node.expressions[0]])
                rest = exp.Mod(this=hashed, expression=exp.Literal.number(self.count))
                return exp.EQ(this=rest, expression=exp.Literal.number(self.number)) if self.count > 1 else exp.true()
            return _by_one_key(node) if isinstance(node, exp.Window) else node

        return self._choose_form(query).transform(placed).sql("duckdb", copy=False)

    def _choose_form(self, query: exp.Query) -> exp.Query:
        """Return the form of ``query`` that holds the fewest rows, if all users' did not fit into memory."""
        return query.meta.get(STREAMED, query) if self.count > 1 else query


def _by_one_key(window: exp.Window) -> exp.Window:
    """Return the same order by one key: then DuckDB holds only the rows of a user that count, not all of them."""
    keys = [ordered.this for ordered in window.args["order"].expressions]
    row = exp.Anonymous(this="ROW", expressions=keys)
    window.set("order", exp.Order(expressions=[exp.Ordered(this=row, nulls_first=False)]))
    return window


def run_in_parts(part: Part, run: Callable[[Part], R]) -> Iterator[R]:
    """Yield the results of ``run`` for ``part``, or for subparts that fit into memory.

    Raises:
        duckdb.OutOfMemoryException: a single user has more rows than fit.
    """
    import duckdb

    try:
        found = run(part)
    except duckdb.OutOfMemoryException:
        if part.count >= MAX_PARTS:
            raise
    else:
        yield found
        return
    for smaller in part.split():
        yield from run_in_parts(smaller, run)


def is_divisible(query: exp.Query, views: Mapping[str, exp.Query]) -> bool:
    """Return whether ``query`` ranks the rows of users, itself or in a view; the result is stored with it."""
    if "divisible" not in query.meta:
        in_view = any(node.name in views for node in query.find_all(exp.Table))
        query.meta["divisible"] = in_view or any(n.name.upper() == IN_PART for n in query.find_all(exp.Anonymous))
    return bool(query.meta["divisible"])
