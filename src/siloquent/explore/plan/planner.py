"""Choice of the mechanism that keeps the promise at the least worst-case price; deterministic and data-blind."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.distinct import compile_distinct
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.cells.space import max_truths
from siloquent.explore.plan.limits import are_lifted
from siloquent.explore.plan.mechanisms.base import Affords, ErrorRequirement, PricedMechanism
from siloquent.explore.plan.mechanisms.direct_noise import price_gaussian, price_laplace
from siloquent.explore.plan.mechanisms.multi_poking import price_pokes
from siloquent.explore.plan.mechanisms.nested_threshold import price_crossing
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP
from siloquent.explore.plan.mechanisms.strategy import price_factorisation, price_strategy
from siloquent.explore.plan.mechanisms.top import price_geometric_top, price_rounds, price_top_factorisation
from siloquent.explore.plan.relations.unit_rows import extend_schema
from siloquent.explore.spec.aggregates import Aggregate, Distinct
from siloquent.explore.spec.promises import Accuracy, Spend
from siloquent.explore.spec.query import Kind, Query
from siloquent.fixes import AskWith, run
from siloquent.maths.roots import last_negative
from siloquent.maths.tails.errors import compute_breaking_error
from siloquent.privacy import Accountant, Cost, Event, convert_epsilon_to_rho, format_digits, get_accountant
from siloquent.privacy.budget import round_down_to_units
from siloquent.schema import TableSchema

LARGEST_THRESHOLD = 2**58
REUSE_WITHIN = Fraction(105, 100)
EX_POST_WITHIN = Fraction(125, 100)
UNSPENT = Fraction(1, 1_000)
"""The part of a BUDGET that may remain unused; only mechanisms whose noise comes in steps leave more."""
MAX_STEPS = 2**50
MAX_UNITS = Fraction(2**50)

_workloads: ByteLRU[CompiledWorkload] = ByteLRU(2**28, lambda compiled: compiled.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class PlanCandidate:
    """An applicable mechanism, its worst-case price, and its best-case price if that is lower."""

    priced: PricedMechanism
    cost: Cost
    amount: Fraction
    least: Fraction | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The way a query will be answered, and its maximum cost. ``alpha`` is in rows, or in the summed number's unit."""

    query: Query
    schema: TableSchema
    compiled: CompiledWorkload
    chosen: PricedMechanism
    candidates: tuple[PlanCandidate, ...]
    alpha: Fraction
    beta: Fraction
    part: Aggregate | None = None

    @property
    def asked(self) -> Aggregate:
        """The aggregate that is answered, with its test: the query of a part has the test among its conditions."""
        return self.query.aggregate if self.part is None else self.part

    @property
    def event(self) -> Event:
        """The event that will be released."""
        return self.chosen.event

    @property
    def kind(self) -> Kind:
        """wcq, icq or tcq."""
        return self.query.kind

    @property
    def grid(self) -> Fraction:
        """The step of the values: 1 for counts, or a small part of it if they are reconstructed."""
        return self.compiled.grid / (PARTS_OF_A_STEP if self.chosen.form == "strategy" else 1)

    @property
    def alpha_unit(self) -> str:
        """The unit of alpha."""
        if self.compiled.distinct is not None:
            return f"values of {self.compiled.distinct.attribute}"
        if self.compiled.attribute:
            return f"units of {self.compiled.attribute}"
        unit = self.schema.unit
        return "rows" if self.schema.grouped is None else f"persons ({unit.of or unit.column})"

    @property
    def promise(self) -> str:
        """The promise as text."""
        sure = format_digits(1 - self.beta, 8) if self.beta < Fraction(1, 2) else str(float(1 - self.beta))
        sure = _format_trimmed(1 - self.beta) or sure
        size = f"{_format_trimmed(self.alpha) or format_digits(self.alpha, 6)} {self.alpha_unit}"
        if self.kind == "wcq":
            return f"No value is more than {size} off, with probability {sure}."
        both = "both together" if self.query.promise.joint else "each"
        if self.kind == "icq":
            assert self.query.having is not None
            return (
                f"Nothing reported lies more than {size} below {self.query.having.threshold}, nothing left out more "
                f"than that above it, {both} with probability {sure}."
            )
        assert self.query.top is not None
        return (
            f"Nothing reported is more than {size} worse than the true number {self.query.top.k}, nothing left out "
            f"more than that better, {both} with probability {sure}."
        )


def _format_trimmed(value: Fraction) -> str:
    """Format ``value`` as an exact decimal if it has a short one, else as an empty text."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return format(decimal.normalize(), "f") if Fraction(decimal) == value and len(str(decimal)) < 16 else ""


def plan(query: Query, schema: TableSchema, *, left: Cost) -> Plan:
    """Return the cheapest plan for ``query`` under the whole budget ``left``.

    Args:
        left: The most that the account could pay: the declared budget.
    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
        AccuracyUnreachable: no mechanism keeps the promise within ``left``; ``best_alpha`` is the smallest feasible.
    """
    schema = extend_schema(query, schema)
    compiled = compile_query(query, schema)
    if compiled.sensitivity.linf == 0:
        raise RequestError(
            "This query always returns 0: its condition matches no declared value.", fix=run("show", schema.name)
        )
    if query.kind == "tcq" and query.top is not None and query.top.k >= compiled.answers:
        raise RequestError(
            f"The query has only {compiled.answers:,} groups, so the top {query.top.k:,} would include all of them.",
            fix="use a smaller LIMIT, or query the values and sort them at no cost",
        )
    wanted = _build_requirement(query, compiled)
    promise = query.stated
    if isinstance(promise, Spend):
        allowed = compute_allowed_cost(promise, schema)
        steps = _find_least_steps(compiled, wanted, schema, allowed)
        if steps is None:
            raise AccuracyUnreachable("The budget is too small for any error bound.", fix="raise BUDGET")
        alpha = steps * compiled.grid
        left = Cost(min(left.amount, allowed.amount), left.delta)
    else:
        alpha = compute_error_bound(promise, schema)
    candidates = _list_candidates(compiled, wanted, schema, alpha)
    affordable = [c for c in candidates if is_affordable(c.cost, left)]
    if not affordable:
        raise _build_unreachable(compiled, wanted, schema, left, alpha)
    chosen = _choose(affordable, optimistic=query.optimistic)
    if isinstance(query.promise, Spend):
        wanted = replace(wanted, affords=build_budget_test(left, schema))
        candidates = _list_candidates(compiled, wanted, schema, alpha)
        chosen = choose_fullest([chosen, *affordable], candidates, left)
    return Plan(query, schema, compiled, chosen.priced, tuple(candidates), alpha, query.promise.beta)


def find_least_error(chosen: Plan, *, left: Cost) -> Fraction | None:
    """Find the smallest integer number of steps, in the answer's unit, that ``left`` covers; None if there is none."""
    wanted = _build_requirement(chosen.query, chosen.compiled)
    steps = _find_least_steps(chosen.compiled, wanted, chosen.schema, left)
    return None if steps is None else steps * chosen.compiled.grid


def compile_query(query: Query, schema: TableSchema) -> CompiledWorkload:
    """Compile the workload of ``query``, cached.

    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
    """
    return compile_once(compile_distinct if isinstance(query.aggregate, Distinct) else compile_workload, query, schema)


def compile_once(
    build: Callable[[Query, TableSchema], CompiledWorkload], query: Query, schema: TableSchema
) -> CompiledWorkload:
    """Return ``build(query, schema)``, cached for all accuracies; ``build`` is a function of a module."""
    # The promise does not affect the matrices: with a placeholder for it, all accuracies share one compilation.
    bare = replace(
        query,
        promise=Accuracy(Decimal(1)),
        having=None,
        top=None,
        shows_values=True,
        explain=False,
        alias="",
        presentation=None,
    )
    return _workloads.get((build, bare, SchemaKey(schema), are_lifted(), max_truths.get()), lambda: build(bare, schema))


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """A schema as a cache key; its digest makes the hash cheap."""

    schema: TableSchema

    def __hash__(self) -> int:
        return hash((self.schema.name, self.schema.digest))

    def __eq__(self, other: object) -> bool:
        # Never by digest only: replacing a field of a schema in Python keeps the digest of its file.
        # Computed attributes have the bounds of a condition, which is not part of the query of every part.
        if not isinstance(other, SchemaKey):
            return False
        mine, others = self.schema, other.schema
        return mine is others or (mine == others and mine.domain.computed == others.domain.computed)


def _build_requirement(query: Query, compiled: CompiledWorkload) -> ErrorRequirement:
    """Build the promise without its error bound."""
    joint = query.promise.joint and query.kind != "wcq"
    threshold = 0
    if query.having is not None:
        steps = Fraction(query.having.threshold) / compiled.grid
        threshold = math.floor(steps) if query.having.op == ">" else math.ceil(steps) - 1
        threshold = max(min(threshold, LARGEST_THRESHOLD), -LARGEST_THRESHOLD)
    top = query.top
    return ErrorRequirement(
        kind=query.kind,
        alpha=Fraction(1),
        m=1,
        beta=float(query.promise.beta / 2 if joint else query.promise.beta),
        threshold=threshold,
        k=top.k if top else 0,
        sign=-1 if top and not top.largest else 1,
        joint=joint,
    )


def compute_error_bound(promise: Accuracy, schema: TableSchema) -> Fraction:
    """Compute the (first) error bound in rows or value units.

    Raises:
        RequestError: it is a share of a size that the table does not declare.
    """
    if not promise.percent:
        return Fraction(promise.error)
    if schema.size_hint is None:
        raise RequestError(
            "ERROR in PERCENT requires a public number of rows; the table declares none.",
            fix="size_hint = 10000 under [table], or ERROR 200",
        )
    return Fraction(promise.error) * schema.size_hint / 100


def _list_candidates(
    compiled: CompiledWorkload, wanted: ErrorRequirement, schema: TableSchema, alpha: Fraction
) -> list[PlanCandidate]:
    """List every mechanism that keeps ``alpha``, with its price in the account's whole units, cheapest first."""
    # A top-k list compares two sums, and each was rounded.
    units = alpha / compiled.grid - compiled.slack * (2 if wanted.kind == "tcq" else 1)
    if units <= 0:  # finer than the rounding of sums
        return []
    units = min(units, MAX_UNITS)  # wider than any drawable noise
    wanted = replace(wanted, alpha=units, m=compute_breaking_error(units))
    book = get_accountant(schema.budget.accountant)
    price = [price_laplace, price_crossing, price_geometric_top, price_rounds]
    if can_settle_early(schema):
        price.append(price_pokes)
    if compiled.distinct is not None:  # not linear in the cells: no strategy applies
        price += [price_gaussian] if schema.budget.accountant == "zcdp" else []
        return _price_all(price, compiled, wanted, book)
    # Laplace strategies cost eps^2/2 in zCDP, several times the rho of the factorisation: not worth searching.
    price += (
        [price_gaussian, price_factorisation, price_top_factorisation]
        if schema.budget.accountant == "zcdp"
        else [price_strategy]
    )
    return _price_all(price, compiled, wanted, book)


def _price_all(
    price: Sequence[Callable[[CompiledWorkload, ErrorRequirement], PricedMechanism | None]],
    compiled: CompiledWorkload,
    wanted: ErrorRequirement,
    book: Accountant,
) -> list[PlanCandidate]:
    offers = [one(compiled, wanted) for one in price]
    found = [_build_candidate(one, book) for one in offers if one is not None]
    return sorted(found, key=lambda c: (c.cost.amount, c.priced.name))


def _build_candidate(priced: PricedMechanism, book: Accountant) -> PlanCandidate:
    least = None if priced.least is None else book.compute_price(priced.least).amount
    return PlanCandidate(priced, book.compute_cost(priced.event), book.compute_price(priced.event).amount, least)


def can_settle_early(schema: TableSchema) -> bool:
    """Return whether the table's account charges early-stopped answers for the published stop, not the worst case.

    The proof requires a pure account without a delta limit; pure budgets have none.
    """
    return schema.budget.accountant == "pure"


def _choose(affordable: list[PlanCandidate], *, optimistic: bool) -> PlanCandidate:
    """Choose the cheapest candidate, with two exceptions.

    A candidate that may turn out cheaper is taken if its worst case is within 25 % of the cheapest, or at any price if
    the query prefers it. Within 5 % of the cheapest, a candidate whose answer can be reused is taken.
    """
    cheapest = affordable[0]
    for one in affordable:
        hopeful = one.least is not None and one.least < cheapest.amount
        if hopeful and (optimistic or one.cost.amount <= cheapest.cost.amount * EX_POST_WITHIN):
            return one
    reusable = [c for c in affordable if c.priced.reusable and c.cost.amount <= cheapest.cost.amount * REUSE_WITHIN]
    return cheapest if cheapest.priced.reusable or not reusable else reusable[0]


def is_affordable(cost: Cost, left: Cost) -> bool:
    """Return whether ``left`` covers ``cost``."""
    return cost.amount <= left.amount and cost.delta <= left.delta


def build_budget_test(left: Cost, schema: TableSchema) -> Affords:
    """Build a test of whether ``left`` covers an event of the table's account."""
    book = get_accountant(schema.budget.accountant)
    return lambda event: is_affordable(book.compute_cost(event), left)


def choose_fullest(
    preferred: Sequence[PlanCandidate], spending: Sequence[PlanCandidate], allowed: Cost
) -> PlanCandidate:
    """Choose the first of ``preferred``, by name, whose match in ``spending`` uses all but a thousandth of a BUDGET.

    If there is none, the one that uses the most of it.
    """
    by_name = {one.priced.name: one for one in spending if is_affordable(one.cost, allowed)}
    order = [by_name[one.priced.name] for one in preferred]
    enough = allowed.amount * (1 - UNSPENT)
    return next((one for one in order if one.cost.amount >= enough), max(order, key=lambda one: one.cost.amount))


def compute_allowed_cost(spend: Spend, schema: TableSchema) -> Cost:
    """Compute the cost that BUDGET allows, in the account's whole units, rounded down."""
    pure = schema.budget.accountant == "pure"
    if pure and (spend.currency == "rho" or spend.delta is not None):
        raise RequestError("This table's account accepts only pure epsilon.", fix="BUDGET 0.01 EPSILON")
    amount = Fraction(spend.amount)
    if not pure and spend.currency == "epsilon":
        delta = Fraction(spend.delta) if spend.delta is not None else schema.budget.delta - schema.budget.delta_events
        amount = Fraction(convert_epsilon_to_rho(float(amount), float(delta)))
    name = schema.budget.accountant
    least = Fraction(1, get_accountant(name).scale)
    if amount < least:
        symbol = get_accountant(name).symbol
        raise AccuracyUnreachable(
            f"The budget is below {symbol} {format_digits(least)}, the smallest possible charge.",
            fix=AskWith(change=f"BUDGET {format_digits(least)} {symbol.upper()}"),
        )
    return Cost(int(round_down_to_units(amount, name) * get_accountant(name).scale))


def _find_least_steps(
    compiled: CompiledWorkload, wanted: ErrorRequirement, schema: TableSchema, left: Cost
) -> int | None:
    """Find the smallest integer bound in grid steps whose cheapest mechanism costs at most ``left``."""

    book = get_accountant(schema.budget.accountant)
    pure, budget = book.name == "pure", left.amount / book.scale

    def shortfall(steps: int) -> float:
        """Return ln of the cheapest cost over the budget; above 0 if ``left`` covers no mechanism."""
        try:
            candidates = _list_candidates(compiled, wanted, schema, steps * compiled.grid)
        except AccuracyUnreachable:
            return math.inf
        if not candidates or not left.amount:
            return math.inf if not any(is_affordable(c.cost, left) for c in candidates) else -math.inf
        # The exact price: the cost of any tiny one is one unit.
        ratio = math.log(float(min(c.amount for c in candidates)) or sys.float_info.min) - math.log(budget)
        return (
            min(ratio, 0.0) if any(is_affordable(c.cost, left) for c in candidates) else max(ratio, sys.float_info.min)
        )

    low, high, at_low, step = 0, 1, math.inf, 4
    while (at_high := shortfall(high)) > 0:
        if high >= MAX_STEPS:
            return None
        # Epsilon falls with the error, rho with its square: at least this far, except for deviations from that.
        wider = math.exp(min(at_high if pure else at_high / 2, 30.0)) if math.isfinite(at_high) else 1.0
        low, at_low = high, at_high
        high, step = min(max(high + step, math.ceil(high * wider)), MAX_STEPS), 4 * step
    if high == 1:
        return 1

    def reserve(steps: int) -> float:
        """Return the negated shortfall: above 0 from the first affordable bound on."""
        return -shortfall(steps) or sys.float_info.min

    return 1 + last_negative(reserve, low, high, at_low=-at_low, at_high=-at_high or sys.float_info.min)


def _build_unreachable(
    compiled: CompiledWorkload, wanted: ErrorRequirement, schema: TableSchema, left: Cost, alpha: Fraction
) -> AccuracyUnreachable:
    steps = _find_least_steps(compiled, wanted, schema, left)
    best = None if steps is None else float(steps * compiled.grid)
    return AccuracyUnreachable(
        f"An error of {format_digits(alpha, 6)} would cost more than the whole budget of {schema.name!r}.",
        best_alpha=best,
        fix="query fewer values, or lower CONFIDENCE" if best is None else AskWith(change=f"ERROR {best:g}"),
    )
