"""The clauses that SQL and BIN share: aggregate, HAVING, ORDER BY .. LIMIT, and the accuracy tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal, cast

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Deviation, Quantile, Sum, Variance
from siloquent.explore.spec.cursor import Cursor
from siloquent.explore.spec.forms import FLIPPED
from siloquent.explore.spec.predicate import CompareOp
from siloquent.explore.spec.query import DEFAULT_BETA, Accuracy, Bound, Having, Item, Promise, Reuse, Spend, Top
from siloquent.explore.spec.words import AGGREGATES, CLAUSES, COMPARISONS, OTHER_AGGREGATES, TAIL, Refusal, bounds_of

_COUNT_OF = Refusal(
    "COUNT counts rows: COUNT(*).", "COUNT(*), with WHERE ward IS NOT NULL where rows without a ward are to be left out"
)
_SEPARATORS = Refusal("Numbers take a point and no separators.", "ERROR 1000, CONFIDENCE 0.95")
_IN_ROWS = Refusal(
    "The errors of SUM, AVG, VAR and STDDEV are in the attribute's own unit.", "ERROR 5000, without ROWS"
)


def at_aggregate(cursor: Cursor) -> bool:
    """Whether an aggregate function, or one that is refused, begins here."""
    known = cursor.token.word in AGGREGATES or cursor.token.word in OTHER_AGGREGATES
    return known and cursor.following.word == "("


def read_aggregate(cursor: Cursor) -> Aggregate:
    """``COUNT(*)``, ``AVG(attribute)``, ``QUANTILE(attribute, 0.9)`` and their kin."""
    if at_aggregate(cursor) and cursor.token.word in OTHER_AGGREGATES:
        raise _other(cursor)
    function = cursor.expect(*AGGREGATES)
    cursor.expect("(")
    if at_aggregate(cursor):
        raise cursor.refused(Refusal("Aggregates do not nest.", "ask the inner one for each group, with its own ERROR"))
    if cursor.at("DISTINCT"):
        raise cursor.problem()
    aggregate = _count(cursor) if function == "COUNT" else _of_attribute(cursor, function)
    if cursor.at("OVER", "FILTER"):
        raise cursor.problem()
    return aggregate


def _other(cursor: Cursor) -> RequestError:
    """Why the aggregate here is refused; for MIN and MAX with a quantile of the attribute that stands in them."""
    word = cursor.token.word
    refused = cursor.refused(OTHER_AGGREGATES[word])
    if word in ("MIN", "MAX"):
        cursor.advance()
        cursor.advance()
        named = cursor.token.kind in ("word", "quoted") and cursor.following.word == ")"
        refused.fix = bounds_of(cursor.token.text if named else "cost", largest=word == "MAX")
    return refused


def _count(cursor: Cursor) -> Count:
    if not cursor.take("*"):
        raise cursor.refused(_COUNT_OF)
    cursor.expect(")")
    return Count()


def _of_attribute(cursor: Cursor, function: str) -> Aggregate:
    only = Refusal(
        f"{function} takes one declared attribute.",
        f"declare what is wanted as an attribute of its own, then {function}(cost)",
    )
    if cursor.token.kind not in ("word", "quoted"):
        raise cursor.refused(only)
    first = cursor.token
    name = cursor.name("an attribute")
    if cursor.take("."):
        cursor.qualifiers.append(first)
        name = cursor.name("an attribute")
    share = Decimal("0.5")
    if function == "QUANTILE":
        cursor.expect(",")
        share = cursor.number("The share of a quantile")
    if not cursor.at(")"):
        raise cursor.refused(only)
    cursor.advance()
    return Quantile(name, share) if function in ("QUANTILE", "MEDIAN") else _FUNCTIONS[function](name)


_FUNCTIONS: dict[str, type[Sum | Average | Variance | Deviation]] = {
    "SUM": Sum,
    "AVG": Average,
    "VAR": Variance,
    "VAR_POP": Variance,
    "STDDEV": Deviation,
    "STDDEV_POP": Deviation,
}


def read_alias(cursor: Cursor) -> str:
    """``AS name``; empty without."""
    return cursor.name("a column of the answer") if cursor.take("AS") else ""


def read_having(cursor: Cursor, items: Sequence[Item]) -> tuple[Aggregate, Having] | None:
    """``HAVING agg > number``, in either direction; ``items`` are the aggregates that were asked for before, if any."""
    if not cursor.take("HAVING"):
        return None
    start = cursor.token.start
    if cursor.at("-", "+") or cursor.token.kind == "number":
        threshold = cursor.number("A threshold")
        op = FLIPPED[_comparison(cursor)]
        found = _chosen_by(cursor, items)
    else:
        found = _chosen_by(cursor, items)
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
    return found, Having(op, threshold, found if items else None)


def _comparison(cursor: Cursor) -> CompareOp:
    return cast(CompareOp, cursor.expect(*COMPARISONS))


def _chosen_by(cursor: Cursor, items: Sequence[Item]) -> Aggregate:
    """The aggregate behind HAVING or ORDER BY, by itself or by its other name."""
    here = cursor.token
    if here.kind in ("word", "quoted") and cursor.following.word != "(":
        for item in items:
            if item.alias == here.text:
                cursor.advance()
                return item.aggregate
    if not at_aggregate(cursor) and here.kind in ("word", "quoted"):
        why = "Groups come in declared order; only an aggregate sorts or filters them."
        raise cursor.refused(Refusal(why, "ORDER BY COUNT(*) DESC LIMIT 3, or put conditions on rows into WHERE"))
    return read_aggregate(cursor)


def read_top(cursor: Cursor, items: Sequence[Item], *, largest: bool) -> tuple[Aggregate, Top] | None:
    """``ORDER BY agg [DESC|ASC] LIMIT k``; ``largest``: what it means without DESC or ASC."""
    if not cursor.take("ORDER"):
        return None
    cursor.expect("BY")
    start = cursor.token.start
    found = _chosen_by(cursor, items)
    if items and all(item.aggregate != found for item in items):
        raise SyntaxProblem(
            "ORDER BY takes an aggregate that is asked for", position=start, fix="put it among the items, too"
        )
    direction = cursor.take("DESC", "ASC")
    if cursor.at(","):
        raise cursor.refused(Refusal("Ties come in declared order.", "ORDER BY the aggregate alone"))
    if not cursor.at("LIMIT") and (cursor.token.kind == "end" or cursor.at(*TAIL)):
        raise cursor.refused(
            Refusal("ORDER BY needs LIMIT k.", "leave ORDER BY out, and sort the answer for free; or add LIMIT 3")
        )
    cursor.expect("LIMIT")
    k = _whole(cursor, "LIMIT")
    return found, Top(k, direction == "DESC" if direction else largest, found if items else None)


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
    """What stands behind a question, as far as it has been read; ``asked``: the aggregates that need an error bound."""

    asked: Sequence[Aggregate]
    bounds: list[Bound] = field(default_factory=list)
    amount: Decimal | None = None
    currency: Literal["epsilon", "rho"] = "epsilon"
    delta: Decimal | None = None
    beta: Fraction = DEFAULT_BETA
    joint: bool = False
    at_least: int | None = None
    reuse: Reuse = "declared"
    optimistic: bool = False

    def promise(self) -> Promise | None:
        """The accuracy or the budget; None if neither was read."""
        if self.bounds:
            first, *more = self.bounds
            return Accuracy(first.error, self.beta, first.percent, self.joint, tuple(more), self.at_least)
        if self.amount is not None:
            return Spend(self.amount, self.currency, self.delta, self.beta, self.joint)
        return None


def read_tail(cursor: Cursor, asked: Sequence[Aggregate]) -> tuple[Promise, Tail]:
    """ERROR or BUDGET, CONFIDENCE, FOR AT LEAST, REUSE and PREFER in any order, each once; nothing else may follow."""
    if not cursor.at(*TAIL) and not cursor.is_over:
        raise cursor.problem(*CLAUSES[1:])
    tail, left = Tail(asked), list(TAIL)
    while cursor.at(*TAIL):
        start = cursor.token.start
        word = cursor.advance().word
        if word not in left:
            raise SyntaxProblem("A question has ERROR or BUDGET once, and each other clause once", position=start)
        left = [other for other in left if other != word and {other, word} != {"ERROR", "BUDGET"}]
        _READERS[word](cursor, tail)
    if not cursor.is_over:
        raise cursor.problem(*left, "the end")
    cursor.finish()
    promise = tail.promise()
    if promise is None:
        raise SyntaxProblem(
            "A question says how exact its answer must be, or what it may cost",
            position=cursor.token.start,
            expected="ERROR or BUDGET",
            fix="add ERROR 200, or BUDGET 0.01 EPSILON",
        )
    if tail.at_least is not None and not tail.bounds:
        raise RequestError("FOR AT LEAST belongs to ERROR.", fix="leave it out, or write ERROR instead of BUDGET")
    return promise, tail


def _error(cursor: Cursor, tail: Tail) -> None:
    while True:
        place = len(tail.bounds)
        error = cursor.number("ERROR")
        in_rows = place >= len(tail.asked) or isinstance(tail.asked[place], (Count, Quantile))
        if cursor.at("ROWS") and not in_rows:
            raise cursor.refused(_IN_ROWS)
        tail.bounds.append(Bound(error, cursor.take("ROWS", "PERCENT") == "PERCENT"))
        if cursor.at("%"):
            raise cursor.refused(Refusal("The share of size_hint is written in words.", "ERROR 2 PERCENT"))
        comma = cursor.token
        if not cursor.take(","):
            return
        # 1,000: digits right behind the comma, where no further error bound is asked for.
        is_behind = cursor.token.start == comma.start + 1 and len(cursor.token.text) == 3
        if len(tail.bounds) >= len(tail.asked) and cursor.token.kind == "number" and is_behind:
            raise cursor.refused(_SEPARATORS)


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
    if cursor.at(","):
        raise cursor.refused(_SEPARATORS)
    if cursor.at("%", "PERCENT"):
        raise cursor.refused(Refusal("CONFIDENCE lies between 0 and 1.", "CONFIDENCE 0.9995"))
    tail.beta = 1 - share
    tail.joint = cursor.take("JOINT") == "JOINT"


def _for(cursor: Cursor, tail: Tail) -> None:
    cursor.expect("AT")
    cursor.expect("LEAST")
    tail.at_least = _whole(cursor, "FOR AT LEAST")
    cursor.expect("ROWS")


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
