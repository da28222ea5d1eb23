"""Expressions and conditions as programs over cells, with bounds by interval arithmetic. No data.

Proofs: docs/explanation/computed-columns.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.classes import build_runs
from siloquent.explore.plan.cells.functions import TEXTS, cut_text
from siloquent.explore.plan.cells.numbers import MAX_PLACES
from siloquent.explore.plan.cells.predicate_evaluation import match_pattern
from siloquent.explore.plan.computed.arithmetic import (
    DAY_SECONDS,
    MayBeZero,
    bound_value,
    choose_value,
    join_values,
    plan_absolute,
    plan_constant,
    plan_division,
    plan_rounded,
    plan_sign,
    subtract_days,
)
from siloquent.explore.plan.computed.columns import plan_column, plan_table
from siloquent.explore.plan.computed.narrowing import Cells
from siloquent.explore.plan.computed.plainness import find_plain_attribute, is_plain
from siloquent.explore.plan.computed.values import (
    PlannedValue,
    compute_common_step,
    join_texts,
    map_texts,
    plan_comparison,
    plan_number,
    plan_text,
    require_fits,
    rescale,
    unify,
)
from siloquent.explore.plan.limits import passes
from siloquent.explore.spec.language.render_conditions import render_expression, render_predicate
from siloquent.explore.spec.predicate import (
    JOIN,
    And,
    Arithmetic,
    Call,
    Case,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
    find_truth,
    name_type,
)
from siloquent.explore.spec.rewriting.normal_form import FLIPPED, iter_expressions, list_attributes
from siloquent.schema import Domain
from siloquent.schema.computed import (
    KNOWN,
    NULL,
    UNKNOWN,
    CellNode,
    Combine,
    FirstKnown,
    Fixed,
    Joined,
    Lookup,
    NullTest,
    Opposite,
    Recode,
    Round,
    RowExtreme,
    TruthValue,
    share,
)

_UNITS: dict[str, int] = {"day": DAY_SECONDS, "hour": 3_600, "minute": 60, "second": 1}
"""The seconds of units of differences. Engines count weeks in several ways."""
MAX_LOOKED_UP = 4_000_000
"""The most entries of all lookups of a question, of 17 bytes each."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler for the rows of ``domain`` whose cells lie in ``cells``; ``inputs`` collects the attributes used.

    ``tables``: the lookups made, each once.
    """

    domain: Domain
    cells: Cells
    inputs: dict[str, None] = field(default_factory=dict)
    tables: dict[object, PlannedValue] = field(default_factory=dict)

    def plan_value(self, expression: Expression) -> PlannedValue:
        """Plan the value of ``expression``.

        Raises:
            UnknownName: an attribute or value is not declared.
            RequestError: kinds do not fit, or numbers may exceed 64 bits.
        """
        if isinstance(expression, Value):
            return plan_constant(expression)
        if isinstance(expression, Arithmetic):
            return self._plan_arithmetic(expression)
        if isinstance(expression, Case):
            return self._plan_case(expression)
        if isinstance(expression, Call) and expression.function in _CHOICES:
            return _CHOICES[expression.function](self, expression)
        if isinstance(expression, Call) and expression.function in _OF_NUMBERS:
            return self._plan_number(expression)
        if isinstance(expression, Call) and not is_plain(expression):
            return self._plan_call(expression)
        return self._plan_plain(expression)

    def _plan_number(self, call: Call) -> PlannedValue:
        inner, text = self.plan_value(call.argument), render_expression(call)
        if call.function == "round" and inner.kind == "truth":  # a cast: TRUE is 1
            return replace(inner, kind="number")
        if inner.kind != "number":
            raise RequestError(f"{call.function} takes a number, not {name_type(inner.kind)}.")
        if call.more:
            (places,) = call.more
            if not isinstance(places, Value) or not isinstance(places.value, int) or abs(places.value) > MAX_PLACES:
                raise RequestError(f"Numbers are rounded to at most {MAX_PLACES} places.", fix="round(cost, 2)")
            return plan_rounded(inner, text, "nearest", Fraction(10) ** -places.value)
        return _OF_NUMBERS[call.function](inner, text)

    def _plan_call(self, call: Call) -> PlannedValue:
        """Plan a function of a text that has several attributes."""
        values = [self.plan_value(one) for one in (call.argument, *call.more)]
        text = render_expression(call)
        if call.function == JOIN and all(value.kind == "text" for value in values):
            return join_texts(values[0], values[1], text)
        first, parameters = values[0], [one.value for one in call.more if isinstance(one, Value)]
        if first.kind == "text" and call.function in TEXTS:
            return map_texts(first, TEXTS[call.function])
        if first.kind == "text" and call.function == "length":
            sizes = np.array([len(one) for one in first.texts], dtype=np.int64)
            bounds = (int(sizes.min()), int(sizes.max()))
            return PlannedValue(Recode(first.node, sizes), "number", *bounds, is_nullable=first.is_nullable)
        if first.kind == "text" and call.function == "substring":
            start, *lengths = (int(one) for one in parameters)  # type: ignore[arg-type]
            length = lengths[0] if lengths else None
            return map_texts(first, lambda one: cut_text(one, start, length))
        raise RequestError(
            f"{text[:200]} takes one attribute, of another type.", fix="apply it to each attribute by itself"
        )

    def _plan_plain(self, expression: Expression) -> PlannedValue:
        """Plan an attribute, or a function that is looked up for each of its cells."""
        if not is_plain(expression):
            raise RequestError(
                f"{render_expression(expression)[:200]} takes one attribute.", fix="apply it to each attribute"
            )
        (name,) = list_attributes(expression)
        attribute = self.domain[name]
        self.inputs[attribute.name] = None
        cells = self.cells.get(attribute.name, (0, attribute.steps - 1))
        if isinstance(expression, Column):
            return plan_column(attribute, cells)
        return self._make_once(expression, lambda: plan_table(expression, attribute, cells))

    def _make_once(self, what: object, make: Callable[[], PlannedValue]) -> PlannedValue:
        """Return what was made of ``what`` before, or make it and refuse a question whose tables are too large.

        Raises:
            RequestError: all tables together have more than ``MAX_LOOKED_UP`` entries.
        """
        if what not in self.tables:
            self.tables[what] = make()
            nodes = (one.node for one in self.tables.values())
            total = sum(len(node.starts) for node in nodes if isinstance(node, Lookup))
            if passes(total, MAX_LOOKED_UP):
                raise RequestError(
                    f"The question looks up {len(self.tables):,} conditions and functions of single attributes, with "
                    f"{total:,} values in all; the limit is {MAX_LOOKED_UP:,}.",
                    fix="compare attributes directly with constants, use fewer conditions, or declare a coarser grid",
                )
        return self.tables[what]

    def _plan_arithmetic(self, expression: Arithmetic) -> PlannedValue:
        left, right = self.plan_value(expression.left), self.plan_value(expression.right)
        text = render_expression(expression)
        if (left.kind, expression.op, right.kind) == ("day", "-", "day"):
            return subtract_days(left, right)
        if (left.kind, right.kind) != ("number", "number"):
            raise RequestError(
                f"{expression.op} takes numbers, not {name_type(left.kind)} and {name_type(right.kind)}."
            )
        is_nullable = left.is_nullable or right.is_nullable
        if expression.op == "/":
            try:
                return plan_division(left, right, text)
            except MayBeZero as refused:
                refused.divisor = expression.right
                raise
        if expression.op == "*":
            corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            low, high, step = min(corners), max(corners), left.step * right.step
        else:
            step = compute_common_step([left.step, right.step])
            left, right = rescale(left, step, text), rescale(right, step, text)
            low, high, step, is_nullable = bound_value(expression.op, left, right, step, is_nullable)
        require_fits(low, high, text)
        node = Combine(left.node, expression.op, right.node)
        if isinstance(left.constant, Fraction) and isinstance(right.constant, Fraction) and low == high:
            return replace(plan_number(low * step), is_nullable=is_nullable)
        return PlannedValue(node, "number", low, high, step, is_nullable=is_nullable)

    def _plan_case(self, expression: Case) -> PlannedValue:
        if (test := find_truth(expression)) is not None:
            sides = [self.plan_value(one) for one in _iter_unknown(test)]
            node = TruthValue(self.plan_test(test), tuple(side.node for side in sides))
            return PlannedValue(node, "truth", 0, 1, is_nullable=any(side.is_nullable for side in sides))
        tests = [self.plan_test(branch.test) for branch in expression.branches]
        values = [self.plan_value(branch.value) for branch in expression.branches]
        return choose_value(tests, [*values, self.plan_value(expression.otherwise)], render_expression(expression))

    def _concat(self, call: Call) -> PlannedValue:
        """Plan texts one after another, where NULL is an empty text."""
        text = render_expression(call)
        values = [self.plan_value(one) for one in (call.argument, *call.more)]
        if wrong := [value.kind for value in values if value.kind not in ("text", "null")]:
            raise RequestError(f"concat takes text, not {name_type(wrong[0])}.", fix="concat(ward, '-', sex)")
        found = plan_text("")
        for value in values:
            if value.is_nullable:
                value = replace(join_values(unify([value, plan_text("")], text), FirstKnown), is_nullable=False)
            found = join_texts(found, value, text)
        return found

    def _date_diff(self, call: Call) -> PlannedValue:
        """Plan the number of beginnings of days, hours, minutes or seconds between two moments."""
        other, unit = call.more
        first, last = self.plan_value(call.argument), self.plan_value(other)
        size = _UNITS.get(str(unit.value) if isinstance(unit, Value) else "", 0)
        if not size or not {first.kind, last.kind} <= {"day", "moment"}:
            raise RequestError(
                f"{render_expression(call)[:200]} takes two dates and a unit: year, quarter, month, day, hour, minute "
                "or second.",
                fix="date_diff('day', arrived, departed)",
            )
        begun, ended = (
            replace(
                one,
                node=Round(one.node, 1, size, "floor"),
                low=one.low // size,
                high=one.high // size,
            )
            for one in (first, last)
        )
        node = Combine(ended.node, "-", begun.node)
        is_nullable = first.is_nullable or last.is_nullable
        return PlannedValue(node, "number", ended.low - begun.high, ended.high - begun.low, is_nullable=is_nullable)

    def _plan_arguments(self, call: Call) -> list[PlannedValue]:
        text = render_expression(call)
        return unify([self.plan_value(one) for one in (call.argument, *call.more)], text)

    def _coalesce(self, call: Call) -> PlannedValue:
        for argument in (call.argument, *call.more[:-1]):
            self._require_nulls(argument)
        values = self._plan_arguments(call)
        return replace(join_values(values, FirstKnown), is_nullable=all(value.is_nullable for value in values))

    def _require_nulls(self, argument: Expression) -> None:
        """Refuse to replace the NULLs of an attribute whose rows without a value are left out."""
        left_out = [name for name in list_attributes(argument) if self.domain[name].null == "drop"]
        if left_out and isinstance(argument, Column):
            raise RequestError(
                f"{argument.name!r} is never NULL here: rows without it are left out, as it is declared.",
                fix=f"write {render_expression(argument)} by itself",
            )

    def _nullif(self, call: Call) -> PlannedValue:
        first, other = self._plan_arguments(call)
        first = replace(first, node=share(first.node))
        test = plan_comparison(first, "=", other, render_expression(call))
        return choose_value(
            [test], [PlannedValue(Fixed(0, NULL), "null", is_nullable=True), first], render_expression(call)
        )

    def _extreme(self, call: Call) -> PlannedValue:
        values = self._plan_arguments(call)
        if values[0].kind == "truth":
            raise RequestError(f"{call.function} takes numbers, dates or texts.")
        largest = call.function == "greatest"
        return join_values(values, lambda nodes: RowExtreme(nodes, largest))

    def plan_test(self, predicate: Predicate, *, negated: bool = False) -> CellNode:
        """Plan the truth of ``predicate``: 0 or 1, not known where it is UNKNOWN.

        Raises:
            UnknownName, RequestError: as for ``plan_value``.
        """
        if isinstance(predicate, Not):
            return Opposite(self.plan_test(predicate.part, negated=not negated))
        if isinstance(predicate, (And, Or)):
            if not predicate.parts:
                return Fixed(int(isinstance(predicate, And)))
            parts = tuple(self.plan_test(part, negated=negated) for part in predicate.parts)
            return Joined(parts, any_of=isinstance(predicate, Or))
        if (known := self._find_looked_up(predicate)) is not None:
            return known
        if isinstance(predicate, Compare) and (product := multiply_out(predicate)) is not None:
            return self.plan_test(product, negated=negated)
        if isinstance(predicate, Compare):
            left, right = self.plan_value(predicate.left), self.plan_value(predicate.right)
            return plan_comparison(left, predicate.op, right, render_predicate(predicate))
        value = self.plan_value(predicate.expression)
        if isinstance(predicate, IsNull):
            return NullTest(value.node)
        if isinstance(predicate, Like):
            if value.kind != "text":
                raise RequestError("LIKE takes a text.", fix=render_expression(predicate.expression))
            return Recode(value.node, match_pattern(value.texts, predicate.pattern).astype(np.int64))
        constants = [plan_constant(Value(one)) for one in predicate.values]
        text = render_predicate(predicate)
        return Joined(tuple(plan_comparison(value, "=", one, text) for one in constants), any_of=True)

    def _find_looked_up(self, test: Compare | InList | Like | IsNull) -> CellNode | None:
        """Find the truth of a test of one attribute in a table of its values; None if it has to be computed."""
        name = find_plain_attribute(test, self.domain)
        if name is None or not self.domain[name].is_countable:
            return None
        try:
            return self._look_up(test, name)
        except RequestError:  # it changes too often to be looked up
            if not isinstance(test, Compare) or not self.domain[name].is_wide:
                raise
            return None

    def _look_up(self, test: Compare | InList | Like | IsNull, name: str) -> CellNode:
        attribute = self.domain[name]
        self.inputs[attribute.name] = None

        def make() -> PlannedValue:
            runs = build_runs(test, attribute)
            states = np.where(runs.values == 1, UNKNOWN, KNOWN).astype(np.int8)
            starts, data = runs.starts.astype(np.int64), (runs.values == 2).astype(np.int64)
            return PlannedValue(Lookup(attribute.name, attribute.size, starts, data, states), "truth", 0, 1)

        return self._make_once(test, make).node


_CHOICES: dict[str, Callable[[Compiler, Call], PlannedValue]] = {
    "coalesce": Compiler._coalesce,
    "nullif": Compiler._nullif,
    "greatest": Compiler._extreme,
    "least": Compiler._extreme,
    "concat": Compiler._concat,
    "date_diff": Compiler._date_diff,
}


def _iter_unknown(predicate: Predicate) -> Iterator[Expression]:
    """Yield the expressions whose NULLs make tests in ``predicate`` UNKNOWN."""
    if isinstance(predicate, (And, Or)):
        for part in predicate.parts:
            yield from _iter_unknown(part)
    elif isinstance(predicate, Not):
        yield from _iter_unknown(predicate.part)
    elif not isinstance(predicate, IsNull):
        yield from (one for one in iter_expressions(predicate) if list_attributes(one))


def multiply_out(test: Compare) -> Compare | None:
    """Return a comparison with a quotient by attributes as one of products; None for others.

    Both sides are multiplied by the divisor's distance from 0, so that one comparison stays one however many quotients
    are nested. A divisor of 0 is NULL, so the comparison is UNKNOWN there.
    """
    quotient, other, op = test.left, test.right, test.op
    if not _divides_by_attribute(quotient):
        quotient, other, op = other, quotient, FLIPPED[op]
    if not isinstance(quotient, Arithmetic) or not _divides_by_attribute(quotient):
        return None
    divisor = Call("nullif", quotient.right, (Value(0),))
    return Compare(_multiply(quotient.left, Call("sign", divisor)), op, _multiply(other, Call("abs", divisor)))


def _multiply(expression: Expression, factor: Expression) -> Arithmetic:
    """Return a product; that of a quotient by attributes is a quotient, which is multiplied out in its turn."""
    if isinstance(expression, Arithmetic) and _divides_by_attribute(expression):
        return Arithmetic(_multiply(expression.left, factor), "/", expression.right)
    return Arithmetic(expression, "*", factor)


def _divides_by_attribute(expression: Expression) -> bool:
    is_quotient = isinstance(expression, Arithmetic) and expression.op == "/"
    return is_quotient and bool(list_attributes(expression.right))  # type: ignore[union-attr]


_OF_NUMBERS: dict[str, Callable[[PlannedValue, str], PlannedValue]] = {
    "abs": plan_absolute,
    "sign": plan_sign,
    "round": lambda inner, text: plan_rounded(inner, text, "nearest"),
    "floor": lambda inner, text: plan_rounded(inner, text, "floor"),
    "ceil": lambda inner, text: plan_rounded(inner, text, "ceil"),
}
