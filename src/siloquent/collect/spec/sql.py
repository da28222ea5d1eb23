"""SQL over services: SELECT of COUNT(*), SUM and AVG, JOIN ... USING (user), WHERE, GROUP BY."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from siloquent.collect.spec.collection_spec import CollectionSpec
from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.query import (
    Aggregate,
    AggregateQuery,
    Box,
    Conjunction,
    Mask,
    ServiceColumn,
    build_boxes,
    combine_all,
    combine_any,
)
from siloquent.collect.spec.role import AttributeRole
from siloquent.errors import RequestError, SyntaxProblem, UnknownName

MAX_BYTES = 2**16
MAX_DEPTH = 64
EXAMPLE = "SELECT AVG(amount) FROM orders JOIN profile USING (user) WHERE age BETWEEN 20 AND 40"


def parse_query(text: str, spec: CollectionSpec) -> AggregateQuery:
    """Parse the question ``text``.

    Raises:
        SyntaxProblem: it is not valid SQL.
        UnknownName: a service or attribute is not declared (with suggestions).
        RequestError: no collection answers such SQL; nothing is read.
    """
    select = _parse_select(text)
    services = _parse_services(select, spec)
    names = _Names(spec, services)
    group_by = (
        tuple(names.find_column(one) for one in select.args["group"].expressions) if select.args.get("group") else ()
    )
    aggregates = []
    for one in select.expressions:
        plain = one.unalias()
        if isinstance(plain, exp.Column):
            if names.find_column(plain) not in group_by:
                raise RequestError(f"{plain.name!r} is selected but not in GROUP BY.", fix=f"GROUP BY {plain.name}")
        else:
            aggregates.append(_parse_aggregate(plain, names))
    if not aggregates:
        raise RequestError("The query must select a COUNT, SUM or AVG.", fix=EXAMPLE)
    where: tuple[Box, ...] = (Box({}),)
    if select.args.get("where"):
        where = build_boxes(_parse_terms(select.args["where"].this, names, False, 0))
    return AggregateQuery(services, tuple(aggregates), where, group_by, " ".join(text.split()))


_PARTS = {
    "kind",
    "expressions",
    "from_",
    "from",
    "joins",
    "where",
    "group",
    "hint",
    "distinct",
    "limit",
    "operation_modifiers",
}


def _parse_select(text: str) -> exp.Select:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SyntaxProblem("The query is too long: the limit is 64 kB")
    try:
        statements = parse(text, read="duckdb")
    except (SqlglotError, RecursionError) as wrong:
        place = getattr(wrong, "errors", None) or [{}]
        said = str(place[0].get("description") or "The query is not valid SQL.").rstrip(".")
        raise SyntaxProblem(f"{said}.", expected=EXAMPLE) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise RequestError("Expected a single SELECT statement.", fix=EXAMPLE)
    select = statements[0]
    for part, value in select.args.items():
        if value and part not in _PARTS - {"hint", "distinct", "limit"}:
            raise RequestError(f"A collection does not support {part.upper().rstrip('_')}.", fix=EXAMPLE)
    return select


def _parse_services(select: exp.Select, spec: CollectionSpec) -> tuple[str, ...]:
    source = select.args.get("from_") or select.args.get("from")
    if source is None or not isinstance(source.this, exp.Table):
        raise RequestError("FROM must name a service.", fix=EXAMPLE)
    names, public = [spec.get_service(source.this.name).name], []
    for join in select.args.get("joins") or []:
        using = [one.name.lower() for one in join.args.get("using") or []]
        plain = not any(join.args.get(key) for key in ("side", "on", "method")) and join.kind in ("", "INNER")
        dimension = spec.find_dimension(join.this.name) if isinstance(join.this, exp.Table) else None
        if plain and dimension is not None:
            public.append(_parse_joined(dimension, using))
            continue
        if not plain or using != ["user"] or not isinstance(join.this, exp.Table):
            raise RequestError("Services can only be joined on their user.", fix="JOIN profile USING (user)")
        names.append(spec.get_service(join.this.name).name)
    if len(set(names)) != len(names):
        raise RequestError(
            "A service cannot be joined with itself: this would reveal how many rows a user has.", fix=EXAMPLE
        )
    for name in public:
        if not any(role.dimension == name for service in names for role in spec.get_service(service).roles):
            raise RequestError(f"No service in the query has values from {name!r}.", fix="omit its JOIN")
    return tuple(names)


def _parse_joined(dimension: Dimension, using: list[str]) -> str:
    """Return the name of a joined public table, which devices have already joined by its key."""
    if using != [dimension.key.lower()]:
        raise RequestError(
            f"{dimension.name} can only be joined on its key.", fix=f"JOIN {dimension.name} USING ({dimension.key})"
        )
    return dimension.name


class _Names:
    """The attributes of the services that a question names."""

    def __init__(self, spec: CollectionSpec, services: tuple[str, ...]) -> None:
        self._spec, self._services = spec, services

    def find_column(self, node: exp.Expr) -> ServiceColumn:
        """Return the column named by ``node``, as attribute or service.attribute."""
        if not isinstance(node, exp.Column):
            raise RequestError(f"{node.sql()[:60]!r} is not an attribute.", fix="use declared attribute names")
        if node.name.lower() == "user":
            raise RequestError("The user cannot be selected or used in a condition.", fix="COUNT(*) counts rows")
        dimension = self._spec.find_dimension(node.table)
        if dimension is not None:
            return self._find_dimension_column(dimension.name, node)
        wanted = [self._spec.get_service(node.table).name] if node.table else list(self._services)
        if node.table and wanted[0] not in self._services:
            raise RequestError(f"{node.table!r} is not joined.", fix=f"JOIN {node.table} USING (user)")
        found = [
            ServiceColumn(name, role.attribute.name)
            for name in wanted
            for role in self._spec.get_service(name).roles
            if role.attribute.name.casefold() == node.name.casefold()
        ]
        known = [role.attribute.name for name in wanted for role in self._spec.get_service(name).roles]
        return _require_one(found, node, known)

    def _find_dimension_column(self, dimension: str, node: exp.Column) -> ServiceColumn:
        """Return the column of a joined service that a public table fills."""
        every = [
            ServiceColumn(name, role.attribute.name)
            for name in self._services
            for role in self._spec.get_service(name).roles
            if role.dimension == dimension
        ]
        found = [one for one in every if one.name.casefold() == node.name.casefold()]
        return _require_one(found, node, [one.name for one in every])

    def get_role(self, column: ServiceColumn) -> AttributeRole:
        """Return the declaration of ``column``."""
        return self._spec.get_service(column.service).get_role(column.name)


def _require_one(found: list[ServiceColumn], node: exp.Column, known: list[str]) -> ServiceColumn:
    if not found:
        raise UnknownName("attribute", node.name[:64], known, fix="name one of them")
    if len(found) > 1:
        raise RequestError(f"{node.name!r} is an attribute of two services.", fix=f"{found[0].service}.{node.name}")
    return found[0]


def _parse_aggregate(node: exp.Expr, names: _Names) -> Aggregate:
    if isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            raise RequestError("COUNT takes only *.", fix="COUNT(*)")
        return Aggregate("COUNT")
    if not isinstance(node, (exp.Sum, exp.Avg)):
        raise RequestError(f"{node.sql()[:60]!r} is not COUNT(*), SUM or AVG.", fix=EXAMPLE)
    column = names.find_column(node.this)
    role = names.get_role(column)
    if role.use == "filter":
        raise RequestError(
            f"{column.name!r} can be used in conditions, but not summed.", fix='use = "both" in the next design'
        )
    return Aggregate("SUM" if isinstance(node, exp.Sum) else "AVG", column)


def _parse_terms(node: exp.Expr, names: _Names, negated: bool, depth: int) -> list[Conjunction]:
    """Return the condition, or its negation, as conjunctions of masks; NULL makes neither true."""
    if depth > MAX_DEPTH:
        raise SyntaxProblem("The condition is nested too deeply.")
    if isinstance(node, exp.Paren):
        return _parse_terms(node.this, names, negated, depth + 1)
    if isinstance(node, exp.Not):
        return _parse_terms(node.this, names, not negated, depth + 1)
    if isinstance(node, (exp.And, exp.Or)):
        parts = [_parse_terms(one, names, negated, depth + 1) for one in (node.left, node.right)]
        return combine_all(parts) if isinstance(node, exp.And) != negated else combine_any(parts)
    column, mask, known = _parse_atom(node, names)
    return [{column: known & ~mask if negated else mask}]


def _parse_atom(node: exp.Expr, names: _Names) -> tuple[ServiceColumn, Mask, Mask]:
    """Parse a test of one attribute into the cells where it is true, and those where it is true or false."""
    if isinstance(node, exp.Column):
        node = exp.EQ(this=node, expression=exp.true())
    column = names.find_column(
        node.this if isinstance(node.this, exp.Column) else node.args.get("expression", node.this)
    )
    role = names.get_role(column)
    if role.use == "measure":
        raise RequestError(
            f"{column.name!r} can be summed, but not used in conditions.", fix='use = "both" in the next design'
        )
    cells = _Cells(role)
    if isinstance(node, exp.Is):
        if not isinstance(node.expression, exp.Null) or role.attribute.null != "cell":
            raise RequestError(f"{column.name!r} has no cell for NULL: rows where it is NULL do not count.")
        return column, cells.null, np.ones(role.attribute.size, dtype=np.bool_)
    return column, cells.evaluate_test(node), cells.values


class _Cells:
    """The cells of an attribute, and tests of them."""

    def __init__(self, role: AttributeRole) -> None:
        attribute = role.attribute
        self._attribute = attribute
        self.null = np.zeros(attribute.size, dtype=np.bool_)
        if attribute.null == "cell":
            self.null[-1] = True
        self.values = ~self.null
        self._points: Any = attribute.list_points()

    def evaluate_test(self, node: exp.Expr) -> Mask:
        """Return the cells where ``node`` is true."""
        if isinstance(node, exp.Between):
            low, high = self._parse_value(node.args["low"]), self._parse_value(node.args["high"])
            self._require_order("BETWEEN")
            if low > high:
                raise RequestError(f"BETWEEN {node.args['low'].sql()} AND {node.args['high'].sql()} holds nothing.")
            return self._select_where(lambda points: (points >= low) & (points <= high))
        if isinstance(node, exp.In) and not node.args.get("query"):
            parts = [self._select_equal(self._parse_value(one)) for one in node.expressions]
            found: Mask = np.logical_or.reduce(parts)
            return found
        tests: dict[type[exp.Expr], str] = {
            exp.EQ: "=",
            exp.NEQ: "<>",
            exp.LT: "<",
            exp.LTE: "<=",
            exp.GT: ">",
            exp.GTE: ">=",
        }
        symbol = tests.get(type(node))
        if symbol is None:
            raise RequestError(f"{node.sql()[:60]!r} is not a supported condition.", fix=EXAMPLE)
        left, right = node.this, node.args["expression"]
        if isinstance(right, exp.Column):
            left, right, symbol = right, left, symbol.translate(str.maketrans("<>", "><")) if symbol != "<>" else "<>"
        value = self._parse_value(right)
        if symbol in ("=", "<>"):
            equal = self._select_equal(value)
            return equal if symbol == "=" else self.values & ~equal
        self._require_order(symbol)
        return self._select_where(_ORDER[symbol](value))

    def _require_order(self, symbol: str) -> None:
        if self._attribute.kind in ("category", "boolean"):
            raise RequestError(f"{self._attribute.name!r} has no order, so {symbol} means nothing.", fix="= or IN")

    def _select_where(self, inside: Callable[[Any], Any]) -> Mask:
        found = np.zeros(self._attribute.size, dtype=np.bool_)
        found[: self._attribute.steps] = inside(self._points)
        return found

    def _select_equal(self, value: Any) -> Mask:
        found = self._select_where(lambda points: points == value)
        if not found.any() and self._attribute.kind == "category":
            raise UnknownName(f"value of {self._attribute.name}", str(value)[:64], self._attribute.values)
        return found

    def _parse_value(self, node: exp.Expr) -> Any:
        """Return the constant in ``node`` as a value of this attribute."""
        kind = self._attribute.kind
        if isinstance(node, exp.Cast):
            node = node.this
        sign = 1
        if isinstance(node, exp.Neg):
            node, sign = node.this, -1
        try:
            if kind == "boolean" and isinstance(node, exp.Boolean):
                return bool(node.this)
            if kind == "category" and isinstance(node, exp.Literal):
                return str(node.this)
            if kind == "date" and isinstance(node, exp.Literal) and node.is_string:
                return np.datetime64(date.fromisoformat(node.this), "D")
            if self._attribute.is_numeric and isinstance(node, exp.Literal) and not node.is_string:
                return sign * float(node.this)
        except ValueError:
            pass
        raise RequestError(f"{node.sql()[:60]} is not a value of {self._attribute.name!r}, which is of type {kind}.")


_ORDER: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "<": lambda value: lambda points: points < value,
    "<=": lambda value: lambda points: points <= value,
    ">": lambda value: lambda points: points > value,
    ">=": lambda value: lambda points: points >= value,
}
