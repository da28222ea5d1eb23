"""A plan in words and numbers, for analysts who want to see the price first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from siloquent.explore.plan.planner import Plan, PlanCandidate
from siloquent.explore.plan.reuse.plans import ReusedMechanism
from siloquent.explore.spec.answers.answer import Label
from siloquent.privacy import Cost, format_digits, get_accountant


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The cost of a query and how it would be answered; no data was read.

    ``price`` is what would be charged, in the ledger's whole units; it, ``left_before`` and ``left_after`` are in the
    account's epsilon or rho; ``left_after`` is None if the price exceeds the budget.
    """

    plan: Plan
    account: str
    symbol: str
    price: Fraction
    epsilon: float | None
    left_before: Fraction
    left_after: Fraction | None
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> str:
        """The mechanism's name."""
        return self.plan.chosen.name

    @property
    def promise(self) -> str:
        """The promise that would be made."""
        return self.plan.promise

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

    def to_json(self) -> dict[str, Any]:
        """Return a document of kind ``siloquent/explanation/1``."""
        compiled = self.plan.compiled
        return {
            "schema": "siloquent/explanation/1",
            "kind": self.plan.kind,
            "promise": self.promise,
            "alpha": str(self.plan.alpha),
            "beta": str(self.plan.beta),
            "unit": self.plan.alpha_unit,
            "answers": compiled.answers,
            "cells": sum(part.block.size for part in compiled.parts),
            "blocks": len(compiled.parts),
            "d1": compiled.sensitivity.l1,
            "d2_squared": compiled.sensitivity.l2_squared,
            "dinf": compiled.sensitivity.linf,
            "candidates": [
                {
                    "name": c.priced.name,
                    "worst": format_digits(self._round_charge(c.amount), 6),
                    "least": format_digits(self._round_charge(c.amount if c.least is None else c.least), 6),
                    "reusable": c.priced.reusable,
                    "calibration": c.priced.calibration,
                }
                for c in self.candidates
            ],
            "chosen": self.chosen,
            "account": self.account,
            "cost": {self.symbol: format_digits(self.price, 6), **self._build_epsilon()},
            "left_before": format_digits(self.left_before, 6, up=False),
            "left_after": None if self.left_after is None else format_digits(self.left_after, 6, up=False),
            "free": not self.price,
            "label": self.label,
            "sources": list(self.sources),
            "notes": list(self.notes),
            "data_touched": False,
        }

    def _round_charge(self, amount: Fraction) -> Fraction:
        """Round ``amount`` up to the ledger's whole units."""
        scale = get_accountant(self.plan.schema.budget.accountant).scale
        return Fraction(math.ceil(amount * scale), scale)

    def _build_epsilon(self) -> dict[str, str]:
        return {} if self.epsilon is None else {"epsilon": format_digits(self.epsilon)}


def explain_plan(plan: Plan, *, account: str, left: Cost) -> Explanation:
    """Explain ``plan`` for an account that has ``left``."""
    from siloquent.privacy import convert_zcdp_to_epsilon

    budget = plan.schema.budget
    book = get_accountant(budget.accountant)
    cost = book.compute_cost(plan.event)
    price = Fraction(cost.amount, book.scale)
    fits = cost.amount <= left.amount and cost.delta <= left.delta
    delta = float(budget.delta - budget.delta_events)
    return Explanation(
        plan=plan,
        account=account,
        symbol=book.symbol,
        price=price,
        epsilon=convert_zcdp_to_epsilon(float(price), delta) if budget.accountant == "zcdp" else None,
        left_before=Fraction(left.amount, book.scale),
        left_after=Fraction(left.amount - cost.amount, book.scale) if fits else None,
    )
