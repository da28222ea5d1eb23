"""HAVING of SELECT: one threshold that chooses groups, or any conditions on measured values, which are free."""

from __future__ import annotations

from typing import Literal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import Kept, Measured, Number, ShownCondition
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.ordering import SelectList
from siloquent.explore.spec.language.refusals import Refusal
from siloquent.explore.spec.query import Having

_KEYS = Refusal(
    "Groups keep declared order; only an aggregate can sort or filter them.",
    "ORDER BY COUNT(*) DESC LIMIT 3, or put conditions on rows into WHERE",
)
_SINGLE = Refusal(
    "HAVING takes a single threshold, unless an aggregate is selected.",
    "select the aggregate, and filter the answer at no cost",
)


def read_select_having(
    cursor: Cursor, selected: SelectList
) -> tuple[tuple[Aggregate, Having] | None, tuple[Kept, ...]]:
    """Parse HAVING: the threshold with its aggregate, or the conditions on values; these may add to the measured."""
    if not cursor.take("HAVING"):
        return None, ()
    start = cursor.token.start
    reader = selected.build_reader(cursor, _KEYS)
    conditions = reader.read_conditions()
    (first, *more) = conditions
    if not more and isinstance(first, ShownCondition) and _is_threshold(first):
        assert isinstance(first.left, Measured)
        assert isinstance(first.right, Number)
        of = reader.measured[first.left.place]
        op: Literal[">", ">="] = ">" if first.op == ">" else ">="
        return (of, Having(op, first.right.number, of if selected.values else None)), ()
    if selected.values:
        selected.measured[:] = reader.measured
        return None, tuple(conditions)
    if more or not isinstance(first, ShownCondition):
        raise cursor.build_refusal(_SINGLE)
    raise SyntaxProblem(
        "HAVING can only report parts above a threshold",
        position=start,
        expected="> or >=",
        fix="HAVING COUNT(*) > 100, or select the aggregate: any condition on it is then free",
    )


def _is_threshold(one: ShownCondition) -> bool:
    return isinstance(one.left, Measured) and isinstance(one.right, Number) and one.op in (">", ">=")
