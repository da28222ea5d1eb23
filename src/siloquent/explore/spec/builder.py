"""Queries in Python: ``count("visits").by("ward").within(rows=200)``. Every step returns a new, longer query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import (
    Aggregate,
    Average,
    Count,
    Deviation,
    Distinct,
    Quantile,
    Sum,
    Variance,
)
from siloquent.explore.spec.language.parse import parse_aggregate, parse_expression, parse_predicate
from siloquent.explore.spec.language.presented import build_presentation
from siloquent.explore.spec.numbers import parse_decimal
from siloquent.explore.spec.predicate import And, Predicate
from siloquent.explore.spec.promises import DEFAULT_BETA, Accuracy, Bound, Promise, Spend, Unstated
from siloquent.explore.spec.query import (
    EVERY_ROW,
    Cube,
    GroupBy,
    Having,
    Item,
    Join,
    Predicates,
    Query,
    Ranges,
    Reuse,
    Top,
    Workload,
)

Number = int | float | Decimal | str
"""A number; floats are taken as Python prints them: 0.1 is one tenth."""
Condition = str | Predicate


def count(table: str) -> Question:
    """Count the rows of ``table``; add the groups and the accuracy.

    >>> count("visits").by("ward").where("age > 30").within(rows=200, confidence="0.999").query().kind
    'wcq'
    """
    return Question(table, Count())


def distinct_of(table: str, attribute: str) -> Question:
    """Count the users of ``table`` if ``attribute`` names them, else the declared values of it that occur.

    >>> distinct_of("visits", "patient").by("ward").at_most(groups=3).within(units=20).query().groups_each
    3
    """
    return Question(table, Distinct(attribute))


def sum_of(table: str, attribute: str) -> Question:
    """Sum ``attribute`` over the rows of ``table``.

    >>> sum_of("visits", "cost").by("ward").within(units=5000).query().aggregate
    Sum(attribute='cost')
    """
    return Question(table, Sum(attribute))


def average_of(table: str, attribute: str) -> Question:
    """Average ``attribute`` over the rows of ``table`` that have one.

    >>> average_of("visits", "cost").by("ward").within(units="0.5", at_least=5000).query().aggregate
    Average(attribute='cost')
    """
    return Question(table, Average(attribute))


def variance_of(table: str, attribute: str) -> Question:
    """Compute the mean squared distance of ``attribute`` from its mean."""
    return Question(table, Variance(attribute, sample=True))


def deviation_of(table: str, attribute: str) -> Question:
    """Compute the square root of the variance of ``attribute``."""
    return Question(table, Deviation(attribute, sample=True))


def median_of(table: str, attribute: str) -> Question:
    """Find the median: the declared value of ``attribute`` in the middle of the rows of ``table``."""
    return quantile_of(table, attribute, "0.5")


def quantile_of(table: str, attribute: str, share: Number) -> Question:
    """Find the declared value of ``attribute`` below which that share of the rows of ``table`` lies.

    >>> quantile_of("visits", "age", 0.9).by("ward").within(rows=20).query().aggregate
    Quantile(attribute='age', share=Decimal('0.9'))
    """
    return Question(table, Quantile(attribute, parse_decimal(share, "share")))


@dataclass(frozen=True, slots=True)
class Question:
    """A query under construction. ``query()`` finishes it; ``session.ask`` accepts it directly."""

    table: str
    aggregate: Aggregate
    workload: Workload = EVERY_ROW
    conditions: tuple[Predicate, ...] = ()
    choice: Having | Top | None = None
    shows_values: bool = True
    promise: Promise | None = None
    past: Reuse = "declared"
    is_optimistic: bool = False
    alias: str = ""
    others: tuple[tuple[Item, Bound | None], ...] = ()
    choice_bound: Bound | None = None
    source: Join | None = None
    groups_each: int | None = None
    order: tuple[str, ...] = ()
    shown_rows: int | None = None
    skipped: int = 0
    computed: tuple[tuple[str, str], ...] = ()

    def by(self, *keys: str) -> Question:
        """Group by the declared values of ``keys``, written as after GROUP BY; one part per combination."""
        return self._set_workload(GroupBy(tuple(parse_expression(key) for key in keys)))

    def over(self, predicates: Iterable[Condition]) -> Question:
        """Add one part per predicate, in this order."""
        return self._set_workload(Predicates(tuple(_parse_condition(one) for one in predicates)))

    def histogram(self, attribute: str, lo: Number, hi: Number, width: Number) -> Question:
        """Add one part per range [lo + i width, lo + (i+1) width) below ``hi``."""
        return self._set_workload(_build_ranges("histogram", attribute, lo, hi, width))

    def prefix(self, attribute: str, lo: Number, hi: Number, width: Number) -> Question:
        """Add one part per range [lo, lo + (i+1) width) below ``hi``: a running total."""
        return self._set_workload(_build_ranges("prefix", attribute, lo, hi, width))

    def cube(self, *attributes: str) -> Question:
        """Add one part per combination of the attributes' values."""
        return self._set_workload(Cube(attributes))

    def where(self, condition: Condition) -> Question:
        """Keep only rows that meet ``condition``, written as after WHERE; further conditions are joined by AND."""
        return replace(self, conditions=(*self.conditions, _parse_condition(condition)))

    def joined(self, table: str, key: str) -> Question:
        """Join each row with the row of ``table`` that has the same ``key``."""
        return replace(self, source=Join(table, key))

    def also(
        self,
        aggregate: str,
        *,
        rows: Number | None = None,
        percent: Number | None = None,
        units: Number | None = None,
        named: str = "",
    ) -> Question:
        """Add an aggregate of the same groups, written as in SQL, with its own error bound (unless by budget).

        >>> average_of("visits", "cost").also("COUNT(*)", rows=200).within(units=1, at_least=500).query().others
        (Item(aggregate=Count(), alias=''),)
        """
        item = Item(parse_aggregate(aggregate), named)
        return replace(self, others=(*self.others, (item, _build_bound(item.aggregate, rows, percent, units))))

    def having(
        self,
        *,
        over: Number | None = None,
        at_least: Number | None = None,
        values: bool = False,
        of: str = "",
        rows: Number | None = None,
        units: Number | None = None,
    ) -> Question:
        """Keep only the parts above a threshold; ``values``: show every part's value, and filter for free.

        Args:
            of: Another aggregate to filter by, written as in SQL; the values of the chosen groups are then shown.
            rows: Its error bound, if it is a count that is not shown.
            units: Its error bound, if it is a sum that is not shown.
        """
        if (over is None) == (at_least is None):
            raise RequestError("having takes either over or at_least.", fix="having(over=1000)")
        by = parse_aggregate(of) if of else None
        op: Literal[">", ">="] = ">" if over is not None else ">="
        threshold = parse_decimal(over, "over") if over is not None else parse_decimal(at_least, "at_least")
        asked = replace(self, choice_bound=None if by is None else _build_bound(by, rows, None, units))
        return asked._choose(Having(op, threshold, by), values or by is not None)

    def top(self, k: int, *, values: bool = False) -> Question:
        """Keep only the ``k`` parts with the largest value; ``values``: show every part's value, and sort for free."""
        return self._choose(Top(_require_whole(k)), values)

    def bottom(self, k: int, *, values: bool = False) -> Question:
        """Keep only the ``k`` parts with the smallest value; otherwise as ``top``."""
        return self._choose(Top(_require_whole(k), largest=False), values)

    def sorted(self, *keys: str) -> Question:
        """Sort the answer's rows, at no cost, by ``keys`` as after ORDER BY: ``"ward"``, ``"COUNT(*) DESC"``."""
        return replace(self, order=keys)

    def limit(self, rows: int, *, skip: int = 0) -> Question:
        """Show at most ``rows`` rows of the answer, at no cost, after the first ``skip``."""
        return replace(self, shown_rows=_require_whole(rows, "rows"), skipped=_require_whole(skip, "skip"))

    def showing(self, **values: str) -> Question:
        """Show values computed from the query's aggregates, at no cost, by their names.

        >>> asked = count("visits").also("SUM(cost)", units=5000).by("ward").within(rows=200)
        >>> asked.showing(mean="SUM(cost) / COUNT(*)").sorted("mean DESC").limit(3).query().columns
        ('mean',)
        """
        return replace(self, computed=tuple(values.items()))

    def named(self, alias: str) -> Question:
        """Name the column of values in the answer."""
        return replace(self, alias=alias)

    def at_most(self, *, groups: int) -> Question:
        """Count each user of ``distinct_of`` in at most that many groups, drawn among its own."""
        return replace(self, groups_each=_require_whole(groups, "groups"))

    def within(
        self,
        *,
        rows: Number | None = None,
        percent: Number | None = None,
        units: Number | None = None,
        confidence: Number | Fraction | None = None,
        joint: bool = False,
        at_least: Number | None = None,
    ) -> Question:
        """Set the accuracy of the answer.

        Args:
            rows: The error bound of counts, and of quantiles in rows of rank.
            percent: The same as a share of the declared ``size_hint``.
            units: The error bound of a number of distinct values, or in the attribute's own unit of a sum, average,
                variance or deviation.
            confidence: The probability that the bound holds; 0.9995 by default.
            joint: With ``having`` or ``top``: both kinds of error together.
            at_least: Averages and variances keep the bound for groups of at least this many rows.
        """
        bound = _build_bound(self.aggregate, rows, percent, units)
        if bound is None:
            raise _build_one_bound(self.aggregate)
        least = None if at_least is None else _require_whole(at_least, "at_least")
        promise = Accuracy(bound.error, _compute_beta(confidence), bound.percent, joint, at_least=least)
        return replace(self, promise=promise)

    def spend(
        self,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        confidence: Number | Fraction | None = None,
        joint: bool = False,
    ) -> Question:
        """Set the cost of the answer, which then states its accuracy.

        Args:
            epsilon: The price; in zCDP accounts together with ``delta``.
            rho: The price in a zCDP account.
        """
        if (epsilon is None) == (rho is None):
            raise RequestError("spend takes either epsilon or rho.", fix='spend(epsilon="0.01")')
        currency: Literal["epsilon", "rho"] = "rho" if epsilon is None else "epsilon"
        amount = parse_decimal(rho if epsilon is None else epsilon, currency)
        share = None if delta is None else parse_decimal(delta, "delta")
        return replace(self, promise=Spend(amount, currency, share, _compute_beta(confidence), joint))

    def reuse(self, past: Reuse) -> Question:
        """Set which earlier answers may be used: ``any``, ``none``, ``simultaneous``, or ``declared`` (table file)."""
        return replace(self, past=past)

    def optimistic(self) -> Question:
        """Prefer mechanisms that may turn out cheaper than their worst case."""
        return replace(self, is_optimistic=True)

    def query(self) -> Query:
        """Return the finished query.

        Raises:
            RequestError: the parts are incompatible.
        """
        written = [Item(self.aggregate, self.alias), *(item for item, _ in self.others)]
        keys = self.workload.keys if isinstance(self.workload, GroupBy) else ()
        top, presentation, order = build_presentation(
            keys,
            written if self.shows_values else (),
            self.order,
            dict(self.computed),
            (self.shown_rows, self.skipped),
            is_chosen=self.choice is not None,
        )
        places = sorted(range(len(order)), key=lambda place: order.index(written[place].aggregate))
        items = [written[place] for place in places] or written
        promise = self._add_bounds(self.promise or Unstated())
        if isinstance(promise, Accuracy) and places:
            first, *more = (*(promise.bounds[place] for place in places), *promise.bounds[len(places) :])
            promise = replace(promise, error=first.error, percent=first.percent, more=tuple(more))
        return Query(
            table=self.table,
            workload=self.workload,
            promise=promise,
            aggregate=items[0].aggregate,
            where=_conjoin_all(self.conditions),
            having=self.choice if isinstance(self.choice, Having) else None,
            top=self.choice if isinstance(self.choice, Top) else top,
            presentation=presentation,
            shows_values=self.shows_values,
            reuse=self.past,
            optimistic=self.is_optimistic,
            alias=items[0].alias,
            others=tuple(items[1:]),
            join=self.source,
            groups_each=self.groups_each,
        )

    def _add_bounds(self, promise: Promise) -> Promise:
        """Return the promise with the bounds of further aggregates, which are kept separately until the end."""
        bounds = [*(bound for _, bound in self.others), *([self.choice_bound] if self.choice_bound else [])]
        if isinstance(promise, Accuracy):
            return replace(promise, more=tuple(bound for bound in bounds if bound is not None))
        if any(bounds):
            raise RequestError("A query can have error bounds or a budget, not both.", fix="also('AVG(cost)')")
        return promise

    def _set_workload(self, workload: Workload) -> Question:
        if self.workload != EVERY_ROW:
            raise RequestError("A query takes one workload.", fix="use by, over, histogram, prefix or cube once")
        return replace(self, workload=workload)

    def _choose(self, choice: Having | Top, values: bool) -> Question:
        if self.choice is not None:
            raise RequestError("A query takes one having or top.", fix="query the counts and filter them at no cost")
        return replace(self, choice=choice, shows_values=values)


def _parse_condition(condition: Condition) -> Predicate:
    if isinstance(condition, str):
        return parse_predicate(condition)
    if not isinstance(condition, Predicate):
        raise RequestError(
            f"A condition must be text as after WHERE, not {type(condition).__name__}.", fix='.where("age > 30")'
        )
    return condition


def _conjoin_all(conditions: tuple[Predicate, ...]) -> Predicate | None:
    return (conditions[0] if len(conditions) == 1 else And(conditions)) if conditions else None


def _build_ranges(
    shape: Literal["histogram", "prefix"], attribute: str, lo: Number, hi: Number, width: Number
) -> Ranges:
    return Ranges(shape, attribute, parse_decimal(lo, "lo"), parse_decimal(hi, "hi"), parse_decimal(width, "width"))


def _require_whole(k: Number, what: str = "k") -> int:
    number = parse_decimal(k, what)
    if number % 1:
        raise RequestError(f"{what} must be a whole number, not {number}.", fix=f"{what}=3")
    return int(number)


def _build_bound(
    aggregate: Aggregate, rows: Number | None, percent: Number | None, units: Number | None
) -> Bound | None:
    """Return the one error bound given in the unit of ``aggregate``; None if none was given."""
    given = {"rows": rows, "percent": percent, "units": units}
    said = [(name, value) for name, value in given.items() if value is not None]
    if not said:
        return None
    name, value = said[0]
    if len(said) != 1 or (name != "units") != isinstance(aggregate, (Count, Quantile)):
        raise _build_one_bound(aggregate)
    return Bound(parse_decimal(value, name), name == "percent")


def _build_one_bound(aggregate: Aggregate) -> RequestError:
    in_rows = isinstance(aggregate, (Count, Quantile))
    return RequestError(
        "An aggregate takes one error bound: rows or percent for counts and quantiles, units for all others.",
        fix="within(rows=200)" if in_rows else "within(units=5000)",
    )


def _compute_beta(confidence: Number | Fraction | None) -> Fraction:
    if confidence is None:
        return DEFAULT_BETA
    return 1 - (confidence if isinstance(confidence, Fraction) else Fraction(parse_decimal(confidence, "confidence")))
