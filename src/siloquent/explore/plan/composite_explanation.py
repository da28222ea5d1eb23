"""The explanation of a plan with several parts: the total cost, and each part explained as its own query."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from siloquent.explore.plan.explain import Explanation, explain_plan
from siloquent.explore.plan.planner import PlanCandidate
from siloquent.explore.plan.promise import describe_promise
from siloquent.explore.plan.steps import QueryPlan
from siloquent.explore.spec.aggregates import Aggregate, Ranks
from siloquent.explore.spec.answers.answer import Label, find_weakest
from siloquent.privacy import Cost, format_digits, get_accountant


@dataclass(frozen=True, slots=True, eq=False)
class CompositeExplanation:
    """The maximum cost of a query of several parts, and how each part would be answered.

    ``price``: the worst-case total of all steps. ``steps``: each with its parts.
    """

    course: QueryPlan
    account: str
    symbol: str
    price: Fraction
    epsilon: float | None
    left_before: Fraction
    left_after: Fraction | None
    steps: tuple[tuple[Explanation, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Explanation, ...]:
        """The parts of all steps."""
        return tuple(part for step in self.steps for part in step)

    @property
    def chosen(self) -> str:
        """The mechanisms' names."""
        return " + ".join(dict.fromkeys(part.chosen for part in self.parts))

    @property
    def promise(self) -> str:
        """The promise that would be made."""
        query, course = self.course.query, self.course
        parts = self.parts[1:] if query.chooses_by_another else self.parts
        choice = self.parts[0].plan.alpha if query.chooses_by_another else None
        errors = {asked: part.plan.alpha for part in parts for asked in _list_asked(part.plan.query.aggregate)}
        return describe_promise(query, course.schema, errors, choice)  # type: ignore[arg-type]

    @property
    def label(self) -> Label:
        """The weakest label of all parts."""
        return find_weakest(part.label for part in self.parts)

    @property
    def candidates(self) -> tuple[PlanCandidate, ...]:
        """The mechanism of each part."""
        chosen = [next(c for c in part.candidates if c.priced is part.plan.chosen) for part in self.parts]
        return tuple(chosen)

    def to_json(self) -> dict[str, Any]:
        """Return a document of kind ``siloquent/composite-explanation/1``; ``steps`` list what each charge covers."""
        epsilon = {} if self.epsilon is None else {"epsilon": format_digits(self.epsilon)}
        return {
            "schema": "siloquent/composite-explanation/1",
            "kind": "composite",
            "promise": self.promise,
            "beta": str(self.course.query.promise.beta),
            "steps": [[_describe_part(part) for part in step] for step in self.steps],
            "chosen": self.chosen,
            "account": self.account,
            "cost": {self.symbol: format_digits(self.price, 6), **epsilon},
            "left_before": format_digits(self.left_before, 6, up=False),
            "left_after": None if self.left_after is None else format_digits(self.left_after, 6, up=False),
            "free": not self.price,
            "label": self.label,
            "sources": sorted({seq for part in self.parts for seq in part.sources}),
            "notes": list(self.notes),
            "data_touched": False,
        }


def _list_asked(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """List the aggregates that a part answers; several quantiles may share one."""
    return aggregate.quantiles if isinstance(aggregate, Ranks) else (aggregate,)


def _describe_part(part: Explanation) -> dict[str, Any]:
    from siloquent.explore.spec.aggregates import name_column

    document = part.to_json()
    for name in ("schema", "account", "left_before", "left_after", "free", "data_touched", "promise", "notes"):
        document.pop(name, None)
    return {"part": name_column(part.plan.query.aggregate), **document}


def explain_course(course: QueryPlan, *, account: str, left: Cost) -> CompositeExplanation:
    """Explain ``course`` for an account that has ``left``."""
    from siloquent.privacy import convert_zcdp_to_epsilon

    budget = course.schema.budget
    book = get_accountant(budget.accountant)
    cost = course.cost
    price = Fraction(cost.amount, book.scale)
    fits = cost.amount <= left.amount and cost.delta <= left.delta
    return CompositeExplanation(
        course=course,
        account=account,
        symbol=book.symbol,
        price=price,
        epsilon=(
            convert_zcdp_to_epsilon(float(price), float(budget.delta - budget.delta_events))
            if budget.accountant == "zcdp"
            else None
        ),
        left_before=Fraction(left.amount, book.scale),
        left_after=Fraction(left.amount - cost.amount, book.scale) if fits else None,
        steps=tuple(
            tuple(explain_plan(one, account=account, left=left) for one in step.plans) for step in course.steps
        ),
    )
