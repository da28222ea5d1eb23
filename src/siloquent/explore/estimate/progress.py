"""The progress of a query: its completed steps, their ledger contents, and why it stopped, if it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from siloquent.errors import LedgerError
from siloquent.explore.estimate.composite import ReleasedPart
from siloquent.explore.estimate.reconstruct import select_reported
from siloquent.explore.plan.steps import PlanStep, QueryPlan
from siloquent.explore.spec.aggregates import Aggregate, Quantile, Ranks
from siloquent.explore.spec.stored_measurement import decode_measurements
from siloquent.fixes import run
from siloquent.ledger import SettledAnswer
from siloquent.privacy import Composed, Event


@dataclass(frozen=True, slots=True, eq=False)
class CompletedStep:
    """One settled step. ``replayed``: it was paid for before and is read from the ledger."""

    step: PlanStep
    stored: SettledAnswer
    replayed: bool
    parts: tuple[ReleasedPart, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueryProgress:
    """The completed steps of ``course``; ``stopped`` is the reason why no further one was taken."""

    course: QueryPlan
    taken: tuple[CompletedStep, ...] = ()
    stopped: str = ""

    def add_step(self, step: PlanStep, stored: SettledAnswer, replayed: bool) -> QueryProgress:
        """Return the progress after one more step.

        Raises:
            LedgerError: the stored measurement does not belong to the step.
        """
        found = decode_measurements(stored.payload)
        step = next((way for way in step.ways if len(way.plans) == len(found)), step)
        if len(found) != len(step.plans):
            raise LedgerError("A stored answer does not belong to this query.", fix=run("ledger verify"))
        # The original guarantee, even if the current planner would give another one.
        parts = tuple(
            ReleasedPart(replace(plan, alpha=Fraction(one.alpha)), one)
            for plan, one in zip(step.plans, found, strict=True)
        )
        return replace(self, taken=(*self.taken, CompletedStep(step, stored, replayed, parts)))

    def mark_stopped(self, why: str) -> QueryProgress:
        """Return this progress marked as stopped."""
        return replace(self, stopped=why)

    @property
    def parts(self) -> Iterator[ReleasedPart]:
        """All measurements."""
        return (part for one in self.taken for part in one.parts)

    @property
    def values(self) -> dict[Aggregate, list[Fraction]]:
        """The numbers of the first step, by part; empty if it chose groups."""
        if self.course.query.chooses_by_another:
            return {}
        numbers = {part.plan.asked: part for part in self.taken[0].parts}
        return {one: part.values for one, part in numbers.items() if not isinstance(one, (Quantile, Ranks))}

    @property
    def chosen(self) -> list[int]:
        """The groups reported by HAVING on another aggregate."""
        if not self.course.query.chooses_by_another:
            return []
        (choice,) = self.taken[0].parts
        return sorted(select_reported(choice.plan.query, choice.plan.compiled, choice.measured))

    @property
    def event(self) -> Event:
        """All released events."""
        events = [one.stored.event for one in self.taken]
        return events[0] if len(events) == 1 else Composed(tuple(events))
