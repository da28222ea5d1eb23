"""Questions in place of one that is too dear: for a sensible part of the remaining budget, and of use. No data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from siloquent.errors import AccuracyUnreachable, RequestError, SiloquentError
from siloquent.explore.plan.averages import find_sure_rows
from siloquent.explore.plan.planner import compile_query, find_least_error, is_affordable, plan
from siloquent.explore.plan.relations.unit_rows import extend_schema
from siloquent.explore.plan.reuse.plans import apply_reuse, find_most_exact_with_reuse, resolve_wish
from siloquent.explore.plan.steps import find_least_widening, format_errors, plan_query
from siloquent.explore.plan.usefulness import is_useful, tells_something
from siloquent.explore.spec import parse
from siloquent.explore.spec.aggregates import Average, Count, Deviation, Variance
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.promises import Accuracy, Promise, Spend
from siloquent.explore.spec.query import GroupBy, Query
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from siloquent.fixes import AskWith, Fix, RunCommand, Verb, build_fix
from siloquent.privacy import Cost, convert_zcdp_to_epsilon, format_digits, get_accountant
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession

PARTS = (Fraction(1, 10), Fraction(1, 3), Fraction(1))
"""The parts of the remaining budget for which something is offered: the first that buys an answer of use."""
FILTERED = (10, 4, 2)
"""A condition may leave these parts of the rows: averages over it are offered for groups of that size."""
MAX_APART = 4
"""Of at most so many aggregates, each error is widened for itself."""
MAX_EPSILON = 10
"""A budget above this protects little, so that none is offered."""
Currency = Literal["epsilon", "rho"]
_PROMISE = re.compile(
    r"\b(?:ERROR|BUDGET|WITHIN|EPSILON|EPS|RHO|ACCURACY|TOLERANCE|MARGIN|ERR)\b(.*)", re.IGNORECASE | re.DOTALL
)
_PLENTY = Cost(10**30, 10**30)


def describe_price(cost: Cost, left: Cost) -> str:
    """Return a price in words: its share of what is left, rounded up.

    >>> describe_price(Cost(25), Cost(1000))
    '2.5 % of what is left'
    """
    percent = format_digits(Fraction(100 * cost.amount, left.amount), 2) if left.amount else "100"
    return "all that is left" if Fraction(percent) >= 100 else f"{percent} % of what is left"


def tell_owner(session: WorkspaceSession, schema: TableSchema, needed: Cost | None = None) -> Fix:
    """Return the fix where no answer of use can be had for what is left: more budget, which only the owner can give.

    Args:
        needed: What the question costs as it was asked, if that is known.
    """
    file, budget = schema.declared.budget_file, schema.declared.budget
    set_limits = RunCommand("budget set", (schema.name,), by_owner=True)
    if session.analyst is not None and session.analyst in dict(budget.shares):
        return build_fix(f"a larger share for {session.analyst} in analysts in {file}, then: ", set_limits)
    symbol = "epsilon" if budget.rho is None else "rho"
    amount = None if needed is None else _compute_budget(session, schema, needed)
    if amount is None or not (session.workspace.folder / file).is_file():
        return build_fix(f"a larger {symbol} under [budget] in {file}, then: ", set_limits)
    call = f"session.set_budget({schema.name!r}, {symbol}={amount!r})"
    return build_fix(RunCommand("budget set", (schema.name, f"--{symbol}", amount), by_owner=True, python=call))


def _compute_budget(session: WorkspaceSession, schema: TableSchema, needed: Cost) -> str | None:
    """Return the whole budget that pays for ``needed`` beside what is spent; None if it would protect little."""
    budget = schema.declared.budget
    spent = compute_budget_limit(budget).amount - session.get_remaining(schema.name).amount
    amount = Fraction(spent + needed.amount, get_accountant(budget.accountant).scale)
    epsilon = amount
    if budget.accountant == "zcdp":
        if amount > MAX_EPSILON**2:
            return None
        epsilon = Fraction(convert_zcdp_to_epsilon(float(amount), float(budget.delta - budget.delta_events)))
    return None if epsilon > MAX_EPSILON else format_digits(epsilon if budget.rho is None else amount, 2)


@dataclass(frozen=True)
class Offers:
    """The questions that can be offered in place of ``asked``, whose accuracy is stated."""

    session: WorkspaceSession
    asked: Query
    verb: Verb

    @cached_property
    def schema(self) -> TableSchema:
        """The declaration of the asked table."""
        return self.session.schema(self.asked.table)

    @cached_property
    def left(self) -> Cost:
        """The remaining budget of this session."""
        return self.session.get_remaining(self.asked.table)

    @property
    def parts(self) -> Iterator[Cost]:
        """The parts of the remaining budget, the smallest first: by default a tenth."""
        defaults = self.session.find_defaults(self.asked.table)
        first, *others = PARTS
        first = first if defaults is None else min(Fraction(defaults.share) / 100, Fraction(1))
        for part in dict.fromkeys((first, *(one for one in others if one > first))):
            yield Cost(math.floor(self.left.amount * part), self.left.delta)

    def suggest_wider(self, best: float | None, earlier: EarlierAnswers | None = None) -> Fix:
        """Suggest the question with what it lacks to be paid for: a group size, or the least error of use.

        Args:
            best: The smallest error that the whole budget covers, of a query of one part, if the planner told it.
            earlier: The earlier answers that may make it cheaper.
        """
        for allowed in self.parts:
            for query in self._list_wider(allowed, best, earlier):
                if (offer := self._offer(query, allowed, self._describe_change(query), earlier)) is not None:
                    return build_fix(offer)
        return self.ask_owner() if not self.asked.is_composite else self.suggest_spending()

    def tell_most_exact(self, offered: Fix, best: float | None, earlier: EarlierAnswers | None = None) -> str:
        """Return what all that is left would buy, as a sentence; empty if it is not more exact than what is offered.

        Args:
            best, earlier: As for ``suggest_wider``.
        """
        action = offered.find(AskWith)
        if action is None or not action.change or not isinstance(self.asked.promise, Accuracy):
            return ""
        for query in self._list_wider(self.left, best, earlier):
            change = self._describe_change(query)
            if change != action.change and self._offer(query, self.left, change, earlier) is not None:
                return f" At best, what is left pays for {change}."
        return ""

    def suggest_spending(self) -> Fix:
        """Suggest a part of the remaining budget, in the account's own unit; the answer states its own error."""
        promise = self.asked.promise
        currency = self._choose_currency()
        for allowed in self.parts:
            amount = self._convert(allowed, currency)
            if not Decimal(amount):
                continue
            spend = Spend(Decimal(amount), currency, beta=promise.beta, joint=promise.joint)
            query = replace(self.asked, promise=spend, default_share=None)
            if (offer := self._offer(query, allowed, f"BUDGET {amount} {currency.upper()}")) is not None:
                return build_fix(offer)
        return self.ask_owner()

    def _choose_currency(self) -> Currency:
        """Return the unit that was asked in, or else the one that the budget is declared in."""
        promise, budget = self.asked.promise, self.schema.declared.budget
        if isinstance(promise, Spend) and budget.accountant == "zcdp":
            return promise.currency
        return "epsilon" if budget.rho is None else "rho"

    def _convert(self, allowed: Cost, currency: Currency) -> str:
        """Return the largest short amount of ``currency`` that costs at most ``allowed``."""
        budget = self.schema.declared.budget
        amount = Fraction(allowed.amount, get_accountant(budget.accountant).scale)
        if budget.accountant == "zcdp" and currency == "epsilon":
            amount = Fraction(convert_zcdp_to_epsilon(float(amount), float(budget.delta - budget.delta_events)))
        return format_digits(amount, 2 if allowed.amount < self.left.amount else 4, up=False)

    def ask_owner(self) -> Fix:
        """Return the fix where the remaining budget is too small for an answer that is of use."""
        needed = None
        if isinstance(self.asked.promise, Accuracy):
            with suppress(SiloquentError):
                needed = plan_query(resolve_names(self.asked, self.schema), self.schema, left=_PLENTY).cost
        return tell_owner(self.session, self.schema, needed)

    def find_best(self, best: float | None) -> float | None:
        """Return the smallest error that what is left covers, of a query of one part; None if there is none.

        Args:
            best: The one that the whole budget covers, if the planner told it.
        """
        query = resolve_names(self.asked, self.schema)
        if query.is_composite or best is None:
            return None
        payable = _widen(query, Fraction(Decimal(format_digits(best, 6))), self.schema.size_hint)
        error = find_least_error(
            plan(payable, self.schema, left=compute_budget_limit(self.schema.budget)), left=self.left
        )
        return None if error is None else float(error)

    def _offer(self, query: Query, allowed: Cost, change: str, earlier: EarlierAnswers | None = None) -> AskWith | None:
        """Return the action of asking ``query`` if it costs at most ``allowed``, and its answer would be of use."""
        try:
            most = allowed if earlier is None else compute_budget_limit(self.schema.budget)
            course = plan_query(resolve_names(query, self.schema), self.schema, left=most)
        except (AccuracyUnreachable, RequestError):
            return None
        if earlier is not None:
            course = replace(course, first=apply_reuse(course.first, earlier))
            if not is_affordable(course.cost, allowed):
                return None
        is_last = allowed.amount == self.left.amount
        if not (is_useful(course) or (is_last and tells_something(course))):
            return None
        return AskWith(render_offer(query), change, self.verb, describe_price(course.cost, self.left))

    def _describe_change(self, query: Query) -> str:
        promise, asked = query.promise, self.asked.promise
        rows = promise.at_least if isinstance(promise, Accuracy) else None
        is_new = rows is not None and isinstance(asked, Accuracy) and asked.at_least is None
        return f"ERROR {format_errors(query)}{f' FOR AT LEAST {rows} ROWS' if is_new else ''}"

    def _list_wider(self, allowed: Cost, best: float | None, earlier: EarlierAnswers | None) -> Iterator[Query]:
        """Yield the question with its own error in large groups, then with the least error that ``allowed`` covers."""
        query, schema = resolve_names(self.asked, self.schema), self.schema
        if not query.is_composite:
            if (error := self._find_error(query, allowed, best, earlier)) is not None:
                yield _widen(query, error, schema.size_hint)
            return
        sizes = [replace(query, promise=replace(query.promise, at_least=rows)) for rows in self._list_sizes(query)]  # type: ignore[arg-type]
        yield from sizes
        largest = sizes[-1:] or [query]
        apart = filter(None, [self._widen_apart(one, allowed) for one in largest])
        for one in (*apart, *largest, query):
            if (wider := find_least_widening(one, schema, left=allowed)) is not None:
                yield wider

    def _widen_apart(self, query: Query, allowed: Cost) -> Query | None:
        """Return ``query`` with each error as if it were asked alone, for its share of ``allowed``; none is lowered.

        Widened by one factor, an error that could stay as it was asked would be lost with one that is too dear.
        """
        promise, count = query.promise, len(query.aggregates)
        if not isinstance(promise, Accuracy) or not 2 <= count <= MAX_APART or query.chooses_by_another:
            return None
        bounds, part = list(promise.bounds), Cost(allowed.amount // count, allowed.delta)
        for place, aggregate in enumerate(query.aggregates):
            rows = promise.at_least if isinstance(aggregate, Average | Variance | Deviation) else None
            own = replace(promise, error=bounds[place].error, percent=bounds[place].percent, more=(), at_least=rows)
            alone = replace(
                query, aggregate=aggregate, promise=own, others=(), presentation=None, having=None, top=None
            )
            try:
                plan_query(alone, self.schema, left=part)
            except AccuracyUnreachable:
                wider = find_least_widening(alone, self.schema, left=part)
                if wider is None or not isinstance(wider.promise, Accuracy):
                    return None
                bounds[place] = replace(bounds[place], error=wider.promise.error)
            except RequestError:
                return None
        first, *more = bounds
        return replace(query, promise=replace(promise, error=first.error, percent=first.percent, more=tuple(more)))

    def _list_sizes(self, query: Query) -> list[int]:
        """List the group sizes for which averages are offered, if the question leaves them open."""
        promise, schema = query.promise, extend_schema(query, self.schema)
        size = schema.size_hint
        if not isinstance(promise, Accuracy) or promise.at_least is not None or query.chooses_by_another or not size:
            return []
        if not any(isinstance(one, Average) for one in query.aggregates) or find_sure_rows(query, schema):
            return []
        if isinstance(query.workload, GroupBy):
            counted = replace(query, aggregate=Count(), others=(), presentation=None, promise=Accuracy(Decimal(1)))
            with suppress(SiloquentError):
                size = math.ceil(size / compile_query(counted, schema).answers)
        is_filtered = query.where is not None or any(getattr(one, "test", None) for one in query.aggregates)
        found = [math.ceil(size / part) for part in FILTERED] if is_filtered else [math.ceil(size / 2), size]
        return sorted({one for one in found if one >= 1})

    def _find_error(
        self, query: Query, allowed: Cost, best: float | None, earlier: EarlierAnswers | None
    ) -> Fraction | None:
        """Return the least error that ``allowed`` covers, of a query of one part."""
        schema = self.schema
        try:
            payable = (
                query if best is None else _widen(query, Fraction(Decimal(format_digits(best, 6))), schema.size_hint)
            )
            planned = plan(payable, schema, left=compute_budget_limit(schema.budget))
        except (AccuracyUnreachable, RequestError):
            return None
        error = find_least_error(planned, left=allowed)
        wish = resolve_wish(planned.query, planned.schema)
        if error is None or earlier is None or wish == "none":
            return error
        wider = replace(planned, alpha=error)
        return find_most_exact_with_reuse(wider, earlier, allowed, wish=wish, least=planned.alpha).alpha


def offer_mended(session: WorkspaceSession, mended: str, typed: str) -> AskWith:
    """Return the action of asking ``mended``, a correction of what was ``typed``.

    The asker's own accuracy is kept if the budget pays for it; another one takes a sensible part of what is left.
    """
    with suppress(SiloquentError):
        query = replace(parse(mended), explain=False)
        schema, left = session.schema(query.table), session.get_remaining(query.table)
        offers, best, course = Offers(session, query, "explain"), None, None
        try:
            course = plan_query(resolve_names(query, schema), schema, left=compute_budget_limit(schema.budget))
        except AccuracyUnreachable as dear:
            best = offers.find_best(dear.best_alpha) if isinstance(query.promise, Accuracy) else None
        if course is not None and (_is_typed(query.promise, typed) or is_affordable(course.cost, next(offers.parts))):
            price = "" if _is_typed(query.promise, typed) else describe_price(course.cost, left)
            return AskWith(mended, price=price)
        is_wider = isinstance(query.promise, Accuracy)
        found = (offers.suggest_wider(best) if is_wider else offers.suggest_spending()).find(AskWith)
        if found is not None:
            told = mended.rfind(" /* left out: ")
            return replace(found, question=found.question + (mended[told:] if told >= 0 else ""), change="")
        return AskWith(mended, price="" if course is None else describe_price(course.cost, left))
    return AskWith(mended)


def _is_typed(promise: Promise, typed: str) -> bool:
    """Return whether all numbers of a promise stand in ``typed``, after the word that they belong to."""
    found = _PROMISE.search(re.sub(r",(?=\d)", ".", re.sub(r"(?<=\d),(?=\d{3}\b)", "", typed)))
    numbers = {float(one) for one in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", found[1])} if found else set()
    if isinstance(promise, Accuracy):
        return all(float(bound.error) in numbers for bound in promise.bounds)
    return isinstance(promise, Spend) and float(promise.amount) in numbers


def _widen(query: Query, error: Fraction, size: int | None) -> Query:
    """Return ``query`` with another error in rows or value units, in PERCENT of the ``size`` if it was asked so."""
    promise = query.promise
    assert isinstance(promise, Accuracy)
    shown = error * 100 / size if promise.percent and size else error
    return replace(query, promise=replace(promise, error=Decimal(format_digits(shown)), percent=promise.percent))
