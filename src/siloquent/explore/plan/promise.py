"""The promise of an answer with several aggregates, in words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from siloquent.explore.plan.bounds import Part, list_parts
from siloquent.explore.spec.aggregates import Aggregate, Count, Distinct, Moment, Quantile, Sum
from siloquent.explore.spec.derived import Measured
from siloquent.explore.spec.language.render import render_promise
from siloquent.explore.spec.numbers import format_number
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import Query
from siloquent.privacy import format_digits
from siloquent.schema import TableSchema


def describe_default(query: Query) -> tuple[str, ...]:
    """Describe a promise that the query did not state; nothing if it did."""
    if query.default_share is None:
        return ()
    share = format_number(query.default_share)
    stated = render_promise(query.promise)
    return (f"accuracy by default: {stated}, for at most {share} % of what is left; state ERROR or BUDGET for another",)


def describe_promise(
    query: Query, schema: TableSchema, errors: Mapping[Part, Fraction], choice: Fraction | None
) -> str:
    """Describe the promises of all items, which hold jointly.

    Args:
        errors: The error of each part (planned or actual); missing parts were not requested.
        choice: The error of the groups' choice, if HAVING uses another aggregate.
    """
    promises = []
    if choice is not None and query.having is not None:
        both = "" if query.promise.joint else ", each kind of error by itself,"
        promises.append(
            f"no reported group lies more than {_format_number(choice)} below "
            f"{format_number(query.having.threshold)}, and none left out more than that above it{both}"
        )
    for place, item in enumerate(query.items):
        promises.append(f"{item.column}: {_describe_item(item.aggregate, query, place, schema, errors)}")
    presented = query.presentation
    shown = () if presented is None else presented.shown[: len(presented.shown) - presented.hidden]
    promises += [
        f"{one.name}: computed from these, in its interval if they are in theirs"
        for one in shown
        if not isinstance(one.value, Measured)
    ]
    sure = format_number(_convert_to_decimal(1 - query.promise.beta))
    return f"{'; '.join(promises)}; all together with probability {sure}.".replace(",;", ";")


def _describe_item(
    aggregate: Aggregate, query: Query, place: int, schema: TableSchema, errors: Mapping[Part, Fraction]
) -> str:
    if isinstance(aggregate, (Count, Distinct, Sum, Moment, Quantile)):
        (part,) = list_parts(aggregate, schema)
        if part not in errors:
            return "not asked"
        unit = describe_unit(aggregate, part, rows=name_rows(query, schema))
        return f"no value is more than {_format_number(errors[part])} {unit} off"
    promise = query.promise
    if not isinstance(promise, Accuracy):
        return "every value lies in its interval"
    least = "" if promise.at_least is None else f" of {promise.at_least:,} {name_rows(query, schema)} or more"
    which = f"in groups{least}" if least else "in groups that are large enough for it"
    error = format_number(promise.bounds[place].error)
    return f"no value is more than {error} off {which}, and every one lies in its interval"


def name_rows(query: Query, schema: TableSchema) -> str:
    """Return the word for what is counted: a subquery by person has one row for each."""
    return "rows" if query.per_unit is None else f"persons ({schema.unit.of or schema.unit.column})"


def describe_unit(aggregate: Aggregate, part: Aggregate, *, rows: str = "rows") -> str:
    """Describe the unit of the error of ``aggregate``, which is measured as ``part``."""
    words = {Count: rows, Quantile: f"{rows} of rank"}
    kind = "values" if isinstance(aggregate, Distinct) else "units"
    return words.get(type(aggregate)) or f"{kind} of {part.attribute}"  # type: ignore[union-attr]


def _format_number(value: Fraction) -> str:
    exact = _convert_to_decimal(value)
    return format_number(exact) if Fraction(exact) == value and len(str(exact)) < 16 else format_digits(value, 6)


def _convert_to_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
