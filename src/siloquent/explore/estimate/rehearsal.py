"""A made-up outcome walked through all that follows a charge: what fails there is refused while it is still free."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.estimate.assemble import assemble
from siloquent.explore.estimate.completed import completed
from siloquent.explore.estimate.progress import Progress
from siloquent.explore.plan.cheaper import Drawn
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.steps import Step, after
from siloquent.explore.spec import render
from siloquent.explore.spec.measured import Measured, payload_of
from siloquent.ledger import Receipt, Stored
from siloquent.privacy import Cost

_FREE = Cost(0, 0)
Fill = Literal["least", "most"]


def rehearse(progress: Progress, step: Step) -> None:
    """Take ``step`` with made-up numbers, and what may follow it, up to the text of the answer.

    Two outcomes are tried: nothing anywhere with no group reported, and many rows with every group reported. They
    depend on the question and the declaration alone, and no noise is drawn for them.

    Raises:
        Whatever the answer would raise, before anything is reserved.
    """
    for fill in ("least", "most"):
        further = _with_made_up(progress, step, fill)
        str(assemble(further))
        if further.course.second is not None and len(further.taken) == 1:
            _follow(further, fill)


def _follow(progress: Progress, fill: Fill) -> None:
    """The second step after a made-up first one; where it would be refused, the first one is the answer."""
    following = None
    with suppress(RequestError):
        following = after(progress.course, progress.values, progress.chosen, left=progress.course.limit)
    if following is not None:
        str(assemble(_with_made_up(progress, following, fill)))


def _with_made_up(progress: Progress, step: Step, fill: Fill) -> Progress:
    parts = [completed(plan, _made_up(plan, fill)) for plan in step.plans]
    payload = payload_of(parts, request=render(progress.course.query))
    receipt = Receipt("0" * 32, 1, "0" * 64)
    account = progress.course.schema.account
    stored = Stored("", account, "", step.event, payload, receipt, _FREE, _FREE, _FREE, _FREE)
    return progress.with_step(step, stored, False)


def _made_up(plan: Plan, fill: Fill) -> Measured:
    """A measurement of the shape that ``plan`` releases."""
    chosen = plan.chosen
    values: tuple[int, ...]
    if isinstance(chosen, Drawn):
        values = (0,) * sum(matrix.shape[0] for matrix in chosen.strategy)
    elif chosen.form == "strategy":
        number = 0 if fill == "least" else 10**6
        values = (number,) * sum(matrix.shape[0] for matrix in chosen.strategy)
    elif chosen.form == "answers":
        values = (0 if fill == "least" else 10**6,) * plan.compiled.answers
    else:
        values = _made_up_choice(plan, fill)
    return replace(
        Measured(chosen.name, chosen.form, plan.event, values, str(plan.alpha)), strategy=tuple(chosen.strategy)
    )


def _made_up_choice(plan: Plan, fill: Fill) -> tuple[int, ...]:
    """Groups of an iceberg or a top list, or a value for each group: the first or the last one."""
    query, groups = plan.query, plan.compiled.answers
    if query.kind == "icq":
        return () if fill == "least" else tuple(range(groups))
    if query.kind == "tcq":
        assert query.top is not None
        return tuple(range(query.top.k))
    return (0 if fill == "least" else plan.compiled.parts[0].columns // groups - 1,) * groups
