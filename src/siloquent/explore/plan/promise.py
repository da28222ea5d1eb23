"""What an answer of several aggregates promises, in words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from siloquent.explore.plan.bounds import Part, parts_of
from siloquent.explore.spec.aggregates import Aggregate, Count, Moment, Quantile, Sum
from siloquent.explore.spec.numbers import number_text
from siloquent.explore.spec.query import Accuracy, Query
from siloquent.privacy import digits
from siloquent.schema import TableSchema


def promise_of(query: Query, schema: TableSchema, errors: Mapping[Part, Fraction], choice: Fraction | None) -> str:
    """The promises of all items, which hold together.

    Args:
        errors: How exact each part is (or is planned to be); what is missing was not asked.
        choice: The error of the groups' choice, where HAVING takes another aggregate.
    """
    promises = []
    if choice is not None and query.having is not None:
        both = "" if query.promise.joint else ", each kind of error by itself,"
        promises.append(
            f"no reported group lies more than {_number(choice)} below {number_text(query.having.threshold)}, and none "
            f"left out more than that above it{both}"
        )
    for place, item in enumerate(query.items):
        promises.append(f"{item.column}: {_words(item.aggregate, query, place, schema, errors)}")
    sure = number_text(_decimal(1 - query.promise.beta))
    return f"{'; '.join(promises)}; all together with probability {sure}.".replace(",;", ";")


def _words(aggregate: Aggregate, query: Query, place: int, schema: TableSchema, errors: Mapping[Part, Fraction]) -> str:
    if isinstance(aggregate, (Count, Sum, Moment, Quantile)):
        (part,) = parts_of(aggregate, schema)
        if part not in errors:
            return "not asked"
        unit = {Count: "rows", Quantile: "rows of rank"}.get(type(part)) or f"units of {part.attribute}"  # type: ignore[union-attr]
        return f"no value is more than {_number(errors[part])} {unit} off"
    promise = query.promise
    if not isinstance(promise, Accuracy):
        return "every value lies in its interval"
    least = "" if promise.at_least is None else f" of {promise.at_least:,} rows or more"
    which = f"in groups{least}" if least else "in groups that are large enough for it"
    error = number_text(promise.bounds[place].error)
    return f"no value is more than {error} off {which}, and every one lies in its interval"


def _number(value: Fraction) -> str:
    exact = _decimal(value)
    return number_text(exact) if Fraction(exact) == value and len(str(exact)) < 16 else digits(value, 6)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
