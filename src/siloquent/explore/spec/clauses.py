"""The clauses that SQL and BIN share: aggregate, HAVING, ORDER BY .. LIMIT, and the accuracy tail."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, cast

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.cursor import Cursor
from siloquent.explore.spec.forms import FLIPPED
from siloquent.explore.spec.predicate import CompareOp
from siloquent.explore.spec.query import (
    DEFAULT_BETA,
    Accuracy,
    Aggregate,
    Count,
    Having,
    Promise,
    Reuse,
    Spend,
    Sum,
    Top,
)
from siloquent.explore.spec.words import AGGREGATES, CLAUSES, COMPARISONS, OTHER_AGGREGATES, SEVERAL, TAIL, Refusal

_COUNT_OF = Refusal(
    "COUNT counts rows: COUNT(*).", "COUNT(*), with WHERE ward IS NOT NULL where rows without a ward are to be left out"
)
_SUM_OF = Refusal(
    "SUM takes one declared attribute.", "declare what is to be summed as an attribute of its own, then SUM(cost)"
)
_AT_LEAST = Refusal("FOR AT LEAST is not in this version.", "ask SUM(cost) and COUNT(*), each with its ERROR")
_SUM_IN_ROWS = Refusal("The error of a sum is in the attribute's own unit.", "ERROR 5000, without ROWS")


def at_aggregate(cursor: Cursor) -> bool:
    """Whether an aggregate function, or one that is refused, begins here."""
    known = cursor.token.word in AGGREGATES or cursor.token.word in OTHER_AGGREGATES
    return known and cursor.following.word == "("


def read_aggregate(cursor: Cursor) -> Aggregate:
    """COUNT(*) or SUM(attribute)."""
    if at_aggregate(cursor) and cursor.token.word in OTHER_AGGREGATES:
        raise cursor.refused(OTHER_AGGREGATES[cursor.token.word])
    function = cursor.expect(*AGGREGATES)
    cursor.expect("(")
    if at_aggregate(cursor):
        raise cursor.refused(Refusal("Aggregates do not nest.", "ask the inner one for each group, with its own ERROR"))
    if cursor.at("DISTINCT"):
        raise cursor.problem()
    aggregate = _count(cursor) if function == "COUNT" else _sum(cursor)
    if cursor.at("OVER", "FILTER"):
        raise cursor.problem()
    return aggregate


def _count(cursor: Cursor) -> Count:
    if not cursor.take("*"):
        raise cursor.refused(_COUNT_OF)
    cursor.expect(")")
    return Count()


def _sum(cursor: Cursor) -> Sum:
    if cursor.token.kind not in ("word", "quoted"):
        raise cursor.refused(_SUM_OF)
    first = cursor.token
    name = cursor.name("an attribute")
    if cursor.take("."):
        cursor.qualifiers.append(first)
        name = cursor.name("an attribute")
    if not cursor.at(")"):
        raise cursor.refused(_SUM_OF)
    cursor.advance()
    return Sum(name)


def read_alias(cursor: Cursor) -> str:
    """``AS name``; empty without."""
    return cursor.name("a column of the answer") if cursor.take("AS") else ""


def read_having(cursor: Cursor, aggregate: Aggregate | None, alias: str) -> tuple[Aggregate, Having] | None:
    """``HAVING agg > number``, in either direction; ``aggregate`` is the one that was asked for before, if any."""
    if not cursor.take("HAVING"):
        return None
    start = cursor.token.start
    if cursor.at("-", "+") or cursor.token.kind == "number":
        threshold = cursor.number("A threshold")
        op = FLIPPED[_comparison(cursor)]
        found = _same_aggregate(cursor, aggregate, alias)
    else:
        found = _same_aggregate(cursor, aggregate, alias)
        op = _comparison(cursor)
        threshold = cursor.number("A threshold")
    if op not in (">", ">="):
        raise SyntaxProblem(
            "HAVING reports the parts above a threshold",
            position=start,
            expected="> or >=",
            fix="HAVING COUNT(*) > 100",
        )
    if cursor.at("AND", "OR"):
        raise cursor.refused(Refusal("HAVING has one threshold.", "ask for the counts, and filter the answer for free"))
    return found, Having(op, threshold)


def _comparison(cursor: Cursor) -> CompareOp:
    return cast(CompareOp, cursor.expect(*COMPARISONS))


def _same_aggregate(cursor: Cursor, aggregate: Aggregate | None, alias: str) -> Aggregate:
    here = cursor.token
    if alias and here.kind in ("word", "quoted") and here.text == alias and cursor.following.word != "(":
        cursor.advance()
        assert aggregate is not None  # an alias names one
        return aggregate
    if not at_aggregate(cursor) and here.kind in ("word", "quoted"):
        why = "Groups come in declared order; only an aggregate sorts or filters them."
        raise cursor.refused(Refusal(why, "ORDER BY COUNT(*) DESC LIMIT 3, or put conditions on rows into WHERE"))
    found = read_aggregate(cursor)
    if aggregate is not None and found != aggregate:
        raise SyntaxProblem(
            "HAVING and ORDER BY take the aggregate that is asked for; another one is not in this version",
            position=here.start,
            fix="ask two questions",
        )
    return found


def read_top(cursor: Cursor, aggregate: Aggregate | None, alias: str, *, largest: bool) -> tuple[Aggregate, Top] | None:
    """``ORDER BY agg [DESC|ASC] LIMIT k``; ``largest``: what it means without DESC or ASC."""
    if not cursor.take("ORDER"):
        return None
    cursor.expect("BY")
    found = _same_aggregate(cursor, aggregate, alias)
    direction = cursor.take("DESC", "ASC")
    if cursor.at(","):
        raise cursor.refused(Refusal("Ties come in declared order.", "ORDER BY the aggregate alone"))
    if not cursor.at("LIMIT") and (cursor.token.kind == "end" or cursor.at(*TAIL)):
        raise cursor.refused(
            Refusal("ORDER BY needs LIMIT k.", "leave ORDER BY out, and sort the answer for free; or add LIMIT 3")
        )
    cursor.expect("LIMIT")
    return found, Top(_whole(cursor, "LIMIT"), direction == "DESC" if direction else largest)


def _whole(cursor: Cursor, what: str) -> int:
    start = cursor.token.start
    number = cursor.number(what)
    if number != number.to_integral_value():
        raise SyntaxProblem(f"{what} is a whole number", position=start)
    if cursor.at("PERCENT", "%"):
        raise cursor.refused(Refusal(f"{what} is a number of groups, not a share.", "LIMIT 3"))
    return int(number)


@dataclass(slots=True)
class Tail:
    """What stands behind a question, as far as it has been read."""

    aggregate: Aggregate
    error: Decimal | None = None
    percent: bool = False
    amount: Decimal | None = None
    currency: Literal["epsilon", "rho"] = "epsilon"
    delta: Decimal | None = None
    beta: Fraction = DEFAULT_BETA
    joint: bool = False
    reuse: Reuse = "any"
    optimistic: bool = False

    def promise(self) -> Promise | None:
        """The accuracy or the budget; None if neither was read."""
        if self.error is not None:
            return Accuracy(self.error, self.beta, self.percent, self.joint)
        if self.amount is not None:
            return Spend(self.amount, self.currency, self.delta, self.beta, self.joint)
        return None


def read_tail(cursor: Cursor, aggregate: Aggregate) -> tuple[Promise, Tail]:
    """ERROR or BUDGET, CONFIDENCE, REUSE and PREFER in any order, each once; nothing else may follow."""
    if not cursor.at(*TAIL) and not cursor.is_over:
        raise cursor.problem(*CLAUSES[1:])
    tail, left = Tail(aggregate), list(TAIL)
    while cursor.at(*TAIL):
        start = cursor.token.start
        word = cursor.advance().word
        if word not in left:
            raise SyntaxProblem("A question has ERROR or BUDGET once, and each other clause once", position=start)
        left = [other for other in left if other != word and {other, word} != {"ERROR", "BUDGET"}]
        _READERS[word](cursor, tail)
    if not cursor.is_over:
        raise cursor.problem(*(word for word in left if word != "FOR"), "the end")
    cursor.finish()
    promise = tail.promise()
    if promise is None:
        raise SyntaxProblem(
            "A question says how exact its answer must be, or what it may cost",
            position=cursor.token.start,
            expected="ERROR or BUDGET",
            fix="add ERROR 200, or BUDGET 0.01 EPSILON",
        )
    return promise, tail


def _error(cursor: Cursor, tail: Tail) -> None:
    tail.error = cursor.number("ERROR")
    if cursor.at("ROWS") and isinstance(tail.aggregate, Sum):
        raise cursor.refused(_SUM_IN_ROWS)
    tail.percent = cursor.take("ROWS", "PERCENT") == "PERCENT"
    if cursor.at("%"):
        raise cursor.refused(Refusal("The share of size_hint is written in words.", "ERROR 2 PERCENT"))
    if cursor.at(","):
        raise cursor.refused(SEVERAL)


def _budget(cursor: Cursor, tail: Tail) -> None:
    tail.amount = cursor.number("BUDGET")
    tail.currency = "rho" if cursor.expect("EPSILON", "RHO") == "RHO" else "epsilon"
    if cursor.take("DELTA"):
        tail.delta = cursor.number("DELTA")


def _confidence(cursor: Cursor, tail: Tail) -> None:
    start = cursor.token.start
    share = Fraction(cursor.number("CONFIDENCE"))
    if cursor.take("/"):
        whole = Fraction(cursor.number("CONFIDENCE"))
        if not whole:
            raise SyntaxProblem("Nothing is divided by zero", position=start)
        share /= whole
    if cursor.at("%", "PERCENT"):
        raise cursor.refused(Refusal("CONFIDENCE lies between 0 and 1.", "CONFIDENCE 0.9995"))
    tail.beta = 1 - share
    tail.joint = cursor.take("JOINT") == "JOINT"


def _for(cursor: Cursor, _: Tail) -> None:
    cursor.expect("AT")
    raise cursor.refused(_AT_LEAST)


def _reuse(cursor: Cursor, tail: Tail) -> None:
    tail.reuse = cast(Reuse, cursor.expect("ANY", "NONE", "SIMULTANEOUS").lower())


def _prefer(cursor: Cursor, tail: Tail) -> None:
    cursor.expect("OPTIMISTIC")
    tail.optimistic = True


_READERS = {
    "ERROR": _error,
    "BUDGET": _budget,
    "CONFIDENCE": _confidence,
    "FOR": _for,
    "REUSE": _reuse,
    "PREFER": _prefer,
}
