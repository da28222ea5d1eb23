"""HAVING of SELECT: one threshold that chooses groups, or any conditions on measured values, which are free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import Kept, Measured, Number, ShownCondition
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import Refusal
from siloquent.explore.spec.language.select.ordering import SelectList
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
    if not more and (found := build_threshold(first, reader.measured, is_shown=bool(selected.values))) is not None:
        return found, ()
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


def build_threshold(
    one: Kept, measured: Sequence[Aggregate], *, is_shown: bool = True
) -> tuple[Aggregate, Having] | None:
    """Build the threshold of an aggregate that ``one`` is; None if it is another condition."""
    if not isinstance(one, ShownCondition) or one.op not in (">", ">="):
        return None
    if not isinstance(one.left, Measured) or not isinstance(one.right, Number):
        return None
    of = measured[one.left.place]
    op: Literal[">", ">="] = ">" if one.op == ">" else ">="
    return of, Having(op, one.right.number, of if is_shown else None)
