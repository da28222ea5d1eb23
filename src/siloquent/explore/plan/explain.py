"""A plan in words and numbers, for analysts who want to see the price first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from siloquent.explore.plan.planner import Plan, PlanCandidate
from siloquent.explore.plan.promise import describe_promise
from siloquent.explore.plan.reuse.plans import ReusedMechanism
from siloquent.explore.plan.steps import QueryPlan
from siloquent.explore.spec.aggregates import Aggregate, Ranks, name_column
from siloquent.explore.spec.answers.answer import Label, find_weakest
from siloquent.privacy import Cost, convert_zcdp_to_epsilon, format_digits, get_accountant
from siloquent.readable import Readable
from siloquent.schema import TableSchema


@dataclass(frozen=True, slots=True)
class PlannedPrice:
    """A charge in the account's epsilon or rho, in the ledger's whole units; ``epsilon``: its meaning, for rho."""

    symbol: str
    amount: Fraction
    epsilon: float | None

    def to_dict(self) -> dict[str, str]:
        """Return the amount, and its meaning in epsilon if the account counts in rho."""
        meaning = {} if self.epsilon is None else {"epsilon": format_digits(self.epsilon)}
        return {self.symbol: format_digits(self.amount, 6), **meaning}


def price_cost(cost: Cost, schema: TableSchema) -> PlannedPrice:
    """Return ``cost`` in the epsilon or rho of the table's account."""
    budget = schema.declared.budget
    book = get_accountant(budget.accountant)
    amount = Fraction(cost.amount, book.scale)
    if budget.accountant != "zcdp":
        return PlannedPrice(book.symbol, amount, None)
    epsilon = convert_zcdp_to_epsilon(float(amount), float(budget.delta - budget.delta_events))
    return PlannedPrice(book.symbol, amount, epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedPart:
    """The mechanism of one measured part of a query, its price and the alternatives."""

    plan: Plan

    @property
    def chosen(self) -> str:
        """The mechanism's name."""
        return self.plan.chosen.name

    @property
    def label(self) -> Label:
        """The label of the promise: from new noise only, or using earlier answers."""
        return self.plan.chosen.label if isinstance(self.plan.chosen, ReusedMechanism) else "fresh"

    @property
    def sources(self) -> tuple[int, ...]:
        """The seqs of the receipts of the earlier answers that would be used."""
        return self.plan.chosen.sources if isinstance(self.plan.chosen, ReusedMechanism) else ()

    @property
    def candidates(self) -> tuple[PlanCandidate, ...]:
        """All applicable mechanisms, cheapest first; those below one ledger unit are charged that unit."""
        return self.plan.candidates

    @property
    def total(self) -> PlannedPrice:
        """The charge if this part were asked alone."""
        schema = self.plan.schema
        return price_cost(get_accountant(schema.budget.accountant).compute_cost(self.plan.event), schema)

    @property
    def price(self) -> Fraction:
        """The charge in the account's epsilon or rho."""
        return self.total.amount

    def to_dict(self) -> dict[str, Any]:
        """Return one item of a composite explanation's ``steps``."""
        return {
            "part": name_column(self.plan.asked),
            "kind": self.plan.kind,
            **self.describe_measurement(),
            "chosen": self.chosen,
            "cost": self.total.to_dict(),
            "label": self.label,
            "sources": list(self.sources),
        }

    def describe_measurement(self) -> dict[str, Any]:
        """Return the error, the size of the workload, its sensitivity and the candidates."""
        compiled = self.plan.compiled
        return {
            "alpha": str(self.plan.alpha),
            "beta": str(self.plan.beta),
            "unit": self.plan.alpha_unit,
            "answers": compiled.answers,
            "cells": sum(part.block.size for part in compiled.parts),
            "blocks": len(compiled.parts),
            "l1_sensitivity": compiled.sensitivity.l1,
            "l2_sensitivity_squared": compiled.sensitivity.l2_squared,
            "linf_sensitivity": compiled.sensitivity.linf,
            "candidates": [
                {
                    "name": c.priced.name,
                    "max_cost": format_digits(self._round_charge(c.amount), 6),
                    "min_cost": format_digits(self._round_charge(c.amount if c.least is None else c.least), 6),
                    "reusable": c.priced.reusable,
                    "calibration": c.priced.calibration,
                    "worst": format_digits(self._round_charge(c.amount), 6),  # clients of 0.1 read this name
                }
                for c in self.candidates
            ],
        }

    def _round_charge(self, amount: Fraction) -> Fraction:
        """Round ``amount`` up to the ledger's whole units."""
        scale = get_accountant(self.plan.schema.budget.accountant).scale
        return Fraction(math.ceil(amount * scale), scale)


class QuotedPrice(Protocol):
    """The price of a query, planned here or told by a server."""

    @property
    def symbol(self) -> str: ...
    @property
    def price(self) -> Fraction: ...
    @property
    def epsilon(self) -> float | None: ...
    @property
    def account(self) -> str: ...
    @property
    def left_before(self) -> Fraction: ...
    @property
    def left_after(self) -> Fraction | None: ...
    @property
    def promise(self) -> str: ...
    @property
    def chosen(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def describe_explanation(told: QuotedPrice) -> str:
    """Return the promise, the price, the remaining budget and the mechanism, one a line."""
    meaning = "" if told.epsilon is None else f" (epsilon {format_digits(told.epsilon)} on its own)"
    price = f"{told.symbol} {format_digits(told.price)}{meaning}" if told.price else "nothing: earlier answers suffice"
    before = f"{told.account} has {told.symbol} {format_digits(told.left_before, up=False)} left"
    if told.left_after is None:
        left = f"{before}: the price exceeds it"
    else:
        left = f"{before}, and {format_digits(told.left_after, up=False)} afterwards"
    lines = [
        told.promise,
        f"Price: {price}. {left}.",
        *([f"Mechanism: {told.chosen}."] if told.chosen else []),
        *told.notes,
        "No data was read and nothing was spent.",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation(Readable):
    """The most that a query costs and how it would be answered; no data was read.

    ``course``: the plan of all its steps; most queries have one step of one part. ``left_before`` and ``left_after``
    are in the account's epsilon or rho; ``left_after`` is None if the price exceeds the remaining budget.
    """

    course: QueryPlan
    account: str
    total: PlannedPrice
    left_before: Fraction
    left_after: Fraction | None
    notes: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The account's unit: epsilon or rho."""
        return self.total.symbol

    @property
    def price(self) -> Fraction:
        """The most that would be charged, in the ledger's whole units, in the account's epsilon or rho."""
        return self.total.amount

    @property
    def epsilon(self) -> float | None:
        """The price's meaning in epsilon, if the account counts in rho."""
        return self.total.epsilon

    @property
    def steps(self) -> tuple[tuple[ExplainedPart, ...], ...]:
        """The parts of each step, which are charged together."""
        return tuple(tuple(map(ExplainedPart, step.plans)) for step in self.course.steps)

    @property
    def parts(self) -> tuple[ExplainedPart, ...]:
        """The parts of all steps."""
        return tuple(part for step in self.steps for part in step)

    @property
    def plan(self) -> Plan:
        """The plan of the first part: of the whole query, if it has no other."""
        return self.course.first.plans[0]

    @property
    def chosen(self) -> str:
        """The mechanism's name, or the names of all parts' mechanisms."""
        return " + ".join(dict.fromkeys(part.chosen for part in self.parts))

    @property
    def promise(self) -> str:
        """The promise that would be made."""
        query, parts = self.course.query, self.parts
        if not query.is_composite:
            return self.plan.promise
        choice = self.plan.alpha if query.chooses_by_another else None
        asked = parts if choice is None else parts[1:]
        errors = {one: part.plan.alpha for part in asked for one in _list_asked(part.plan.asked)}
        return describe_promise(query, self.course.schema, errors, choice)  # type: ignore[arg-type]

    @property
    def label(self) -> Label:
        """The weakest label of all parts."""
        return find_weakest(part.label for part in self.parts)

    @property
    def sources(self) -> tuple[int, ...]:
        """The seqs of the receipts of the earlier answers that would be used."""
        if not self.course.query.is_composite:
            return self.parts[0].sources
        return tuple(sorted({seq for part in self.parts for seq in part.sources}))

    @property
    def candidates(self) -> tuple[PlanCandidate, ...]:
        """All applicable mechanisms, cheapest first; the chosen one of each part, if there are several parts."""
        if not self.course.query.is_composite:
            return self.parts[0].candidates
        return tuple(next(c for c in part.candidates if c.priced is part.plan.chosen) for part in self.parts)

    def __str__(self) -> str:
        return describe_explanation(self)

    def to_json(self) -> dict[str, Any]:
        """Return a document of kind ``siloquent/explanation/2``, or ``siloquent/composite-explanation/2``."""
        query = self.course.query
        steps = [[part.to_dict() for part in step] for step in self.steps] if query.is_composite else []
        return {
            "schema": "siloquent/composite-explanation/2" if query.is_composite else "siloquent/explanation/2",
            "kind": "composite" if query.is_composite else self.plan.kind,
            "promise": self.promise,
            **({"beta": str(query.promise.beta), "steps": steps} if steps else self.parts[0].describe_measurement()),
            "chosen": self.chosen,
            "account": self.account,
            "cost": self.total.to_dict(),
            "left_before": format_digits(self.left_before, 6, up=False),
            "left_after": None if self.left_after is None else format_digits(self.left_after, 6, up=False),
            "free": not self.price,
            "label": self.label,
            "sources": list(self.sources),
            "notes": list(self.notes),
            "data_touched": False,
        }


def _list_asked(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """List the aggregates that a part answers; several quantiles may share one."""
    return aggregate.quantiles if isinstance(aggregate, Ranks) else (aggregate,)


def describe_rows_left_out(schema: TableSchema) -> list[str]:
    """Return a note if only some rows of a user count; none if each row is a unit."""
    unit = schema.unit
    if unit.kind == "row":
        return []
    if schema.grouped is not None:
        most = schema.declared.unit.max_rows
        rows = "1 row" if most == 1 else f"{most:,} rows"
        return [
            f"one row for each {unit.of or unit.column}, computed from all its rows; counts above {most:,}, and sums "
            f"beyond what {rows} can add up to, count as that bound"
        ]
    rows = "1 row counts" if unit.max_rows == 1 else f"{unit.max_rows:,} rows count"
    return [f"of one {unit.of or unit.column}, at most {rows}; rows beyond that are left out"]


def explain_course(course: QueryPlan, *, account: str, left: Cost, notes: tuple[str, ...] = ()) -> Explanation:
    """Explain ``course`` for an account that has ``left``."""
    cost, scale = course.cost, get_accountant(course.schema.budget.accountant).scale
    fits = cost.amount <= left.amount and cost.delta <= left.delta
    return Explanation(
        course=course,
        account=account,
        total=price_cost(cost, course.schema),
        left_before=Fraction(left.amount, scale),
        left_after=Fraction(left.amount - cost.amount, scale) if fits else None,
        notes=notes,
    )
