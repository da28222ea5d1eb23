"""The clauses that SQL and BIN share: aggregate, HAVING, ORDER BY ... LIMIT, and the accuracy tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal, cast

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate, Count, Distinct, Quantile
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.expressions.tested import add_test, is_at_one, read_count, read_of_expression
from siloquent.explore.spec.language.refusals import (
    AGGREGATES,
    CLAUSES,
    COMPARISONS,
    OTHER_AGGREGATES,
    SPELLINGS,
    TAIL,
    Refusal,
    suggest_bounds,
)
from siloquent.explore.spec.predicate import CompareOp
from siloquent.explore.spec.promises import DEFAULT_BETA, Accuracy, Bound, Promise, Spend, Unstated
from siloquent.explore.spec.query import Having, Item, Reuse, Top
from siloquent.explore.spec.rewriting.normal_form import FLIPPED

NESTED = Refusal("Aggregates cannot be nested.", "query the inner aggregate for each group, with its own ERROR")
_SEPARATORS = Refusal("Numbers use a decimal point and no thousands separators.", "ERROR 1000, CONFIDENCE 0.95")
_IN_ROWS = Refusal(
    "The errors of SUM, AVG, VAR and STDDEV are in the attribute's unit, not in rows.", "ERROR 5000, without ROWS"
)
_IN_VALUES = Refusal("The error of COUNT(DISTINCT ...) is a number of values, not of rows.", "ERROR 20, without ROWS")
_DISTINCT = Refusal(
    "DISTINCT is supported only as COUNT(DISTINCT attribute), of one attribute.", "COUNT(DISTINCT ward)"
)


def is_at_aggregate(cursor: Cursor) -> bool:
    """Return whether an aggregate function, including a refused one, begins here."""
    known = cursor.token.word in AGGREGATES or cursor.token.word in OTHER_AGGREGATES
    return known and cursor.following.word == "("


def read_aggregate(cursor: Cursor) -> Aggregate:
    """Parse ``COUNT(*)``, ``AVG(attribute)``, ``QUANTILE(attribute, 0.9)`` or another aggregate."""
    takes_extreme = cursor.takes_extremes and cursor.is_at("MIN", "MAX")
    if is_at_aggregate(cursor) and cursor.token.word in OTHER_AGGREGATES and not takes_extreme:
        raise _build_aggregate_refusal(cursor)
    function = cursor.expect(*AGGREGATES, *(("MIN", "MAX") if takes_extreme else ()))
    cursor.expect("(")
    if is_at_aggregate(cursor):
        raise cursor.build_refusal(NESTED)
    if cursor.is_at("DISTINCT") and function != "COUNT":
        raise cursor.build_refusal(_DISTINCT)
    if cursor.following.kind in ("word", "quoted"):
        cursor.take("ALL")  # the opposite of DISTINCT, which changes nothing
    if function in ("PERCENTILE_CONT", "PERCENTILE_DISC"):
        aggregate = _read_percentile(cursor)
    else:
        aggregate = _read_arguments(cursor, SPELLINGS.get(function, function))
    if cursor.take("FILTER"):
        cursor.expect("(")
        cursor.take("WHERE")
        cursor.enter_parenthesis()
        aggregate = add_test(aggregate, read_predicate(cursor))
        cursor.leave_parenthesis()
    if cursor.is_at("OVER"):
        raise cursor.build_problem()
    return aggregate


def _read_arguments(cursor: Cursor, function: str) -> Aggregate:
    """Parse what stands in the parentheses of ``function``, and the closing one."""
    if function in ("COUNT_IF", "COUNTIF"):
        cursor.enter_parenthesis()
        aggregate = Count(test=read_predicate(cursor))
        cursor.leave_parenthesis()
        return aggregate
    if function == "APPROX_COUNT_DISTINCT" or (function == "COUNT" and cursor.take("DISTINCT")):
        return _read_distinct(cursor)
    if function == "COUNT":
        return read_count(cursor)
    if function == "SUM" and is_at_one(cursor):
        return read_count(cursor)
    return read_of_expression(cursor, function)


def _read_distinct(cursor: Cursor) -> Distinct:
    """Parse the attribute of COUNT(DISTINCT a), in parentheses of its own or not, and the closing one."""
    refusal = cursor.build_refusal(_DISTINCT)
    inner = cursor.take("(")
    cursor.enter_parenthesis()
    expression = read_expression(cursor)
    cursor.leave_parenthesis("")
    if not cursor.take(")") or (inner and not cursor.take(")")):
        raise refusal
    return Distinct("", computed=expression)


def _read_percentile(cursor: Cursor) -> Aggregate:
    """Parse ``0.9) WITHIN GROUP (ORDER BY cost)``."""
    share = cursor.take_number("The share of a quantile")
    cursor.expect(")")
    for word in ("WITHIN", "GROUP", "(", "ORDER", "BY"):
        cursor.expect(word)
    found = _read_arguments(cursor, "MEDIAN")
    assert isinstance(found, Quantile)
    return replace(found, share=share)


def _build_aggregate_refusal(cursor: Cursor) -> RequestError:
    """Build the refusal of the aggregate here; for MIN and MAX, with a quantile of the attribute as the fix."""
    word = cursor.token.word
    refused = cursor.build_refusal(OTHER_AGGREGATES[word])
    if word in ("MIN", "MAX"):
        cursor.advance()
        cursor.advance()
        named = cursor.token.kind in ("word", "quoted") and cursor.following.word == ")"
        refused.fix = suggest_bounds(cursor.token.text if named else "cost", largest=word == "MAX")
    return refused


def read_alias(cursor: Cursor) -> str:
    """Parse ``AS name``; empty without it."""
    return cursor.take_name("a column of the answer") if cursor.take("AS") else ""


def read_having(cursor: Cursor, items: Sequence[Item]) -> tuple[Aggregate, Having] | None:
    """Parse ``HAVING agg > number``, in either direction; ``items`` are the aggregates before it, if any."""
    if not cursor.take("HAVING"):
        return None
    start = cursor.token.start
    if cursor.is_at("-", "+") or cursor.token.kind == "number":
        threshold = cursor.take_number("A threshold")
        op = FLIPPED[_read_comparison(cursor)]
        found = _read_chosen_by(cursor, items)
    else:
        found = _read_chosen_by(cursor, items)
        op = _read_comparison(cursor)
        threshold = cursor.take_number("A threshold")
    if op not in (">", ">="):
        raise SyntaxProblem(
            "HAVING can only report parts above a threshold",
            position=start,
            expected="> or >=",
            fix="HAVING COUNT(*) > 100",
        )
    if cursor.is_at("AND", "OR"):
        raise cursor.build_refusal(
            Refusal("HAVING takes a single threshold.", "query the counts and filter the answer at no cost")
        )
    return found, Having(op, threshold, found if items else None)


def _read_comparison(cursor: Cursor) -> CompareOp:
    return cast(CompareOp, cursor.expect(*COMPARISONS))


def _read_chosen_by(cursor: Cursor, items: Sequence[Item]) -> Aggregate:
    """Parse the aggregate after HAVING or ORDER BY, by itself or by its alias."""
    here = cursor.token
    if here.kind in ("word", "quoted") and cursor.following.word != "(":
        for item in items:
            if item.alias == here.text:
                cursor.advance()
                return item.aggregate
    if not is_at_aggregate(cursor) and here.kind in ("word", "quoted"):
        why = "Groups keep declared order; only an aggregate can sort or filter them."
        raise cursor.build_refusal(Refusal(why, "ORDER BY COUNT(*) DESC LIMIT 3, or put conditions on rows into WHERE"))
    return read_aggregate(cursor)


def read_top(cursor: Cursor, items: Sequence[Item], *, largest: bool) -> tuple[Aggregate, Top] | None:
    """Parse ``ORDER BY agg [DESC|ASC] LIMIT k``; ``largest``: the default without DESC or ASC."""
    if not cursor.take("ORDER"):
        return None
    cursor.expect("BY")
    start = cursor.token.start
    found = _read_chosen_by(cursor, items)
    if items and all(item.aggregate != found for item in items):
        raise SyntaxProblem(
            "ORDER BY takes only an aggregate of the query", position=start, fix="add it to the SELECT list"
        )
    direction = cursor.take("DESC", "ASC")
    if cursor.is_at(","):
        refusal = Refusal(
            "Only one ORDER BY expression is allowed; ties keep declared order.", "ORDER BY the aggregate"
        )
        raise cursor.build_refusal(refusal)
    if not cursor.is_at("LIMIT") and (cursor.token.kind == "end" or cursor.is_at(*TAIL)):
        raise cursor.build_refusal(
            Refusal("ORDER BY requires LIMIT.", "remove ORDER BY and sort the answer at no cost, or add LIMIT 3")
        )
    cursor.expect("LIMIT")
    k = read_whole(cursor, "LIMIT")
    return found, Top(k, direction == "DESC" if direction else largest, found if items else None)


def read_whole(cursor: Cursor, what: str) -> int:
    """Parse a whole number."""
    start = cursor.token.start
    number = cursor.take_number(what)
    if number != number.to_integral_value():
        raise SyntaxProblem(f"{what} must be a whole number", position=start)
    if cursor.is_at("PERCENT", "%"):
        raise cursor.build_refusal(Refusal(f"{what} must be a number of groups, not a share.", "LIMIT 3"))
    return int(number)


@dataclass(slots=True)
class Tail:
    """The clauses after a query, as far as parsed; ``asked``: the aggregates that need an error bound."""

    asked: Sequence[Aggregate]
    bounds: list[Bound] = field(default_factory=list)
    amount: Decimal | None = None
    currency: Literal["epsilon", "rho"] = "epsilon"
    delta: Decimal | None = None
    beta: Fraction = DEFAULT_BETA
    joint: bool = False
    at_least: int | None = None
    groups_each: int | None = None
    reuse: Reuse = "declared"
    optimistic: bool = False
    default_share: Decimal | None = None
    states_confidence: bool = False

    def build_promise(self) -> Promise | None:
        """Build the accuracy or the budget; None if neither was parsed."""
        if self.bounds:
            first, *more = self.bounds
            return Accuracy(first.error, self.beta, first.percent, self.joint, tuple(more), self.at_least)
        if self.amount is not None:
            return Spend(self.amount, self.currency, self.delta, self.beta, self.joint)
        return None


def read_tail(cursor: Cursor, asked: Sequence[Aggregate]) -> tuple[Promise, Tail]:
    """Parse ERROR or BUDGET, and the clauses that may follow in any order, up to the end."""
    if not cursor.is_at(*TAIL) and not cursor.is_over:
        raise cursor.build_problem(*CLAUSES[1:])
    tail, left = Tail(asked), list(TAIL)
    while cursor.is_at(*TAIL):
        start = cursor.token.start
        word = cursor.advance().word
        if word not in left:
            raise SyntaxProblem("ERROR or BUDGET, and each other clause, can appear only once", position=start)
        left = [other for other in left if other != word and {other, word} != {"ERROR", "BUDGET"}]
        _READERS[word](cursor, tail)
    if not cursor.is_over:
        raise cursor.build_problem(*left, "the end")
    cursor.finish()
    promise = tail.build_promise()
    if promise is None and cursor.takes_unstated:
        return Unstated(tail.beta, tail.joint, tail.at_least, tail.states_confidence), tail
    if promise is None:
        raise SyntaxProblem(
            "The query states neither an error bound nor a budget",
            position=cursor.token.start,
            expected="ERROR or BUDGET",
            fix="add ERROR 200, or BUDGET 0.01 EPSILON",
        )
    if tail.at_least is not None and not tail.bounds:
        raise RequestError(
            "FOR AT LEAST can only be used with ERROR.", fix="remove it, or write ERROR instead of BUDGET"
        )
    return promise, tail


def _read_error(cursor: Cursor, tail: Tail) -> None:
    while True:
        place = len(tail.bounds)
        error = cursor.take_number("ERROR")
        in_rows = place >= len(tail.asked) or isinstance(tail.asked[place], (Count, Quantile))
        if cursor.is_at("ROWS") and not in_rows:
            raise cursor.build_refusal(_IN_VALUES if isinstance(tail.asked[place], Distinct) else _IN_ROWS)
        tail.bounds.append(Bound(error, cursor.take("ROWS", "PERCENT") == "PERCENT"))
        if cursor.is_at("%"):
            raise cursor.build_refusal(Refusal("A share of size_hint must be written with PERCENT.", "ERROR 2 PERCENT"))
        comma = cursor.token
        if not cursor.take(","):
            return
        # 1,000: digits directly after the comma, where no further error bound is expected.
        is_behind = cursor.token.start == comma.start + 1 and len(cursor.token.text) == 3
        if len(tail.bounds) >= len(tail.asked) and cursor.token.kind == "number" and is_behind:
            raise cursor.build_refusal(_SEPARATORS)


def _read_budget(cursor: Cursor, tail: Tail) -> None:
    tail.amount = cursor.take_number("BUDGET")
    tail.currency = "rho" if cursor.expect("EPSILON", "RHO") == "RHO" else "epsilon"
    if cursor.take("DELTA"):
        tail.delta = cursor.take_number("DELTA")


def _read_confidence(cursor: Cursor, tail: Tail) -> None:
    start = cursor.token.start
    share = Fraction(cursor.take_number("CONFIDENCE"))
    if cursor.take("/"):
        whole = Fraction(cursor.take_number("CONFIDENCE"))
        if not whole:
            raise SyntaxProblem("Division by zero", position=start)
        share /= whole
    if cursor.is_at(","):
        raise cursor.build_refusal(_SEPARATORS)
    if cursor.is_at("%", "PERCENT"):
        raise cursor.build_refusal(Refusal("CONFIDENCE must be between 0 and 1.", "CONFIDENCE 0.9995"))
    tail.beta, tail.states_confidence = 1 - share, True
    tail.joint = cursor.take("JOINT") == "JOINT"


def _read_for(cursor: Cursor, tail: Tail) -> None:
    cursor.expect("AT")
    cursor.expect("LEAST")
    tail.at_least = read_whole(cursor, "FOR AT LEAST")
    cursor.expect("ROWS")


def _read_at(cursor: Cursor, tail: Tail) -> None:
    cursor.expect("MOST")
    tail.groups_each = read_whole(cursor, "AT MOST")
    cursor.expect("GROUPS", "GROUP")
    cursor.expect("EACH")


def _read_by(cursor: Cursor, tail: Tail) -> None:
    for word in ("DEFAULT", "UP", "TO"):
        cursor.expect(word)
    tail.default_share = cursor.take_number("UP TO")
    cursor.expect("PERCENT")


def _read_reuse(cursor: Cursor, tail: Tail) -> None:
    tail.reuse = cast(Reuse, cursor.expect("ANY", "NONE", "SIMULTANEOUS").lower())


def _read_prefer(cursor: Cursor, tail: Tail) -> None:
    cursor.expect("OPTIMISTIC")
    tail.optimistic = True


_READERS = {
    "ERROR": _read_error,
    "BUDGET": _read_budget,
    "CONFIDENCE": _read_confidence,
    "FOR": _read_for,
    "AT": _read_at,
    "BY": _read_by,
    "REUSE": _read_reuse,
    "PREFER": _read_prefer,
}
