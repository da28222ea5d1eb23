"""Questions that state no accuracy: the default of the session, the table or the workspace stands in. No data."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NoReturn

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.examples import reading
from siloquent.explore.offers import describe_price, tell_owner
from siloquent.explore.plan.relations.public_joins import check_joined
from siloquent.explore.plan.relations.unit_rows import extend_schema
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse
from siloquent.explore.spec.aggregates import Aggregate, Count, Deviation, Distinct, Quantile, Sum, Variance
from siloquent.explore.spec.language.render import render_offer, render_promise
from siloquent.explore.spec.promises import Accuracy, Bound, Spend, Unstated
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from siloquent.fixes import AskWith, build_fix
from siloquent.privacy import Cost, format_digits, get_accountant

if TYPE_CHECKING:
    from siloquent.schema import AccuracyDefaults, TableSchema
    from siloquent.session import WorkspaceSession

_DIGITS = 4
_SMALLEST_PART = 10
"""Averages, variances and deviations keep a default error in groups of at least this part of the rows."""


def state_accuracy(session: WorkspaceSession, query: Query, *, then: TableSchema | None = None) -> Query:
    """Return ``query`` with its default accuracy if it states none; the same as long as the declarations are.

    Args:
        then: The declaration whose defaults and size stand in, if not that of today.
    Raises:
        RequestError: no default is declared, or the table needs a ``size_hint`` for it.
        UnknownName: the table or an attribute is not declared.
    """
    stated = query.promise
    if not isinstance(stated, Unstated):
        return query
    schema = session.schema(query.table) if then is None else then
    defaults = session.find_defaults(query.table, then)
    if defaults is None:
        _refuse_unstated(session, query)
    named = resolve_names(query, schema)
    check_joined(named, schema)
    extended = extend_schema(named, schema)
    first, *more = (_build_bound(one, defaults, extended) for one in named.bounded)
    spreads = any(isinstance(one, (Variance, Deviation)) for one in named.bounded)
    rows = max(_require_size(schema) // _SMALLEST_PART, 2) if spreads and stated.at_least is None else stated.at_least
    beta = stated.beta if stated.states_confidence else defaults.beta
    promise = Accuracy(first.error, beta, first.percent, stated.joint, tuple(more), rows)
    share = defaults.share if query.default_share is None else query.default_share
    return replace(query, promise=promise, default_share=share.normalize())


def list_unstated(query: Query) -> list[Query]:
    """List the questions without an accuracy that ``query`` may be, with a default one; none if it is stated."""
    promise = query.promise
    if query.default_share is None or not isinstance(promise, Accuracy):
        return []
    promises = (
        Unstated(promise.beta, promise.joint, rows, states_confidence=states)
        for states in (False, True)
        for rows in dict.fromkeys((None, promise.at_least))
    )
    return [replace(query, promise=one, default_share=None) for one in promises]


def _refuse_unstated(session: WorkspaceSession, query: Query) -> NoReturn:
    """Refuse a question that was built, as its text is refused: with one that can be asked."""
    text = render_offer(query)
    with reading(session, text):
        parse(text)
    raise AssertionError("a text without an accuracy is refused")


def _build_bound(aggregate: Aggregate, defaults: AccuracyDefaults, schema: TableSchema) -> Bound:
    """Build the error of one aggregate: a share of the declared rows, or of its largest possible value."""
    if isinstance(aggregate, (Count, Quantile)):
        _require_size(schema)
        return Bound(defaults.percent, percent=True)
    part = Fraction(defaults.percent) / 100
    attribute = schema.domain[aggregate.attribute]
    if isinstance(aggregate, Distinct):
        is_unit = schema.unit.kind != "row" and schema.unit.column == attribute.name
        most = Fraction(_require_size(schema), schema.unit.max_rows) if is_unit else Fraction(attribute.steps)
        return Bound(_round(max(part * most, Fraction(1))))
    if not attribute.is_numeric:
        return Bound(Decimal(1))  # refused when it is planned
    lo, hi = Fraction(attribute.lo), Fraction(attribute.hi)  # type: ignore[arg-type]
    if isinstance(aggregate, Sum):
        return Bound(_round(part * _require_size(schema) * max(abs(lo), abs(hi)) or Fraction(1)))
    if isinstance(aggregate, (Variance, Deviation)):
        variance = part * ((hi - lo) / 2) ** 2
        return Bound(
            _round((Fraction(float(variance) ** 0.5) if isinstance(aggregate, Deviation) else variance) or part)
        )
    return Bound(_round(part * (hi - lo) or part))


def _require_size(schema: TableSchema) -> int:
    if schema.size_hint is None:
        raise RequestError(
            "The default accuracy is a share of the rows, and the table declares no size_hint.",
            fix="size_hint = 10000 under [table], or ERROR 200",
        )
    return schema.size_hint


def _round(value: Fraction) -> Decimal:
    """Return ``value`` with few digits, rounded down: a default is never coarser than declared."""
    with localcontext(prec=_DIGITS, rounding=ROUND_FLOOR):
        return (Decimal(value.numerator) / Decimal(value.denominator)).normalize()


def find_share_refusal(session: WorkspaceSession, query: Query, cost: Cost) -> RequestError | None:
    """Return the refusal if a default accuracy costs more than its share of the remaining budget; None otherwise."""
    if query.default_share is None:
        return None
    schema, left = session.schema(query.table), session.get_remaining(query.table)
    book = get_accountant(schema.budget.accountant)
    most = Fraction(left.amount, book.scale) * Fraction(query.default_share) / 100
    price = Fraction(cost.amount, book.scale)
    if price <= most:
        return None
    told = f"{query.default_share.normalize():f} percent of the remaining {book.symbol}"
    refusal = RequestError(
        f"With its default accuracy, the question costs {book.symbol} {format_digits(price)}, more than {told} "
        f"{format_digits(Fraction(left.amount, book.scale), up=False)}, the most that a default may cost."
    )
    refusal.remedy = build_fix(_suggest_stated(session, query, most) or tell_owner(session, schema, cost))
    return refusal


def _suggest_stated(session: WorkspaceSession, query: Query, most: Fraction) -> AskWith | None:
    """Return the question with a stated accuracy: for ``most``, or the default one; None if neither fits."""
    schema, left = session.schema(query.table), session.get_remaining(query.table)
    symbol = get_accountant(schema.budget.accountant).symbol
    currency: Literal["epsilon", "rho"] = "rho" if symbol == "rho" else "epsilon"
    amount = format_digits(most, 2, up=False)
    stated = replace(query, default_share=None)
    asked = [stated]
    if Decimal(amount):
        spend = Spend(Decimal(amount), currency, beta=query.promise.beta, joint=query.promise.joint)
        asked.insert(0, replace(stated, promise=spend))
    for one in asked:
        with suppress(AccuracyUnreachable, RequestError):
            course = plan_query(resolve_names(one, schema), schema, left=left)
            price = describe_price(course.cost, left)
            return AskWith(render_offer(one), render_promise(one.promise), price=price)
    return None
