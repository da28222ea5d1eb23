"""HAVING of SELECT: one threshold that chooses groups, or any conditions on selected values, which are free."""

from __future__ import annotations

from typing import Literal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import Measured, Number, ShownCondition
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.ordering import SelectList
from siloquent.explore.spec.language.refusals import Refusal
from siloquent.explore.spec.query import Having

_KEYS = Refusal(
    "Groups keep declared order; only an aggregate can sort or filter them.",
    "ORDER BY COUNT(*) DESC LIMIT 3, or put conditions on rows into WHERE",
)
_SINGLE = Refusal(
    "HAVING takes a single threshold, or conditions joined by AND on selected aggregates.",
    "query the counts and filter the answer at no cost",
)


def read_select_having(
    cursor: Cursor, selected: SelectList
) -> tuple[tuple[Aggregate, Having] | None, tuple[ShownCondition, ...]]:
    """Parse HAVING: the threshold with its aggregate, or the conditions on selected values."""
    if not cursor.take("HAVING"):
        return None, ()
    start = cursor.token.start
    reader = selected.build_reader(cursor, _KEYS)
    conditions = reader.read_condition()
    while cursor.take("AND"):
        conditions += reader.read_condition()
    if cursor.is_at("OR"):
        raise cursor.build_refusal(_SINGLE)
    (first, *more) = conditions
    if not more and isinstance(first.left, Measured) and isinstance(first.right, Number) and first.op in (">", ">="):
        of = reader.measured[first.left.place]
        op: Literal[">", ">="] = ">" if first.op == ">" else ">="
        return (of, Having(op, first.right.number, of if selected.values else None)), ()
    if selected.values and len(reader.measured) == len(selected.measured):
        return None, tuple(conditions)
    if more:
        raise cursor.build_refusal(_SINGLE)
    raise SyntaxProblem(
        "HAVING can only report parts above a threshold",
        position=start,
        expected="> or >=",
        fix="HAVING COUNT(*) > 100, or select the aggregate: any condition on it is then free",
    )
