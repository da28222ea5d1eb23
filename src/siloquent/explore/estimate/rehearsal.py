"""Rehearsals with simulated measurements through every step after a charge, so that a failure costs nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.estimate.assemble import assemble
from siloquent.explore.estimate.completion import complete_measurement
from siloquent.explore.estimate.progress import QueryProgress
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.planner import Plan, SchemaKey
from siloquent.explore.plan.reuse.plans import ReusedMechanism
from siloquent.explore.plan.steps import PlanStep, plan_second_step
from siloquent.explore.spec import Answer, render
from siloquent.explore.spec.stored_measurement import StoredMeasurement, encode_payload
from siloquent.ledger import Receipt, SettledAnswer
from siloquent.privacy import Cost

_FREE = Cost(0, 0)
_passed = ByteLRU[bool](4_096, lambda _: 1)
Fill = Literal["least", "most"]


def rehearse(progress: QueryProgress, step: PlanStep) -> None:
    """Take ``step``, and a possible second step, with simulated numbers, up to the text of the answer.

    Two outcomes are tried: no rows with no group reported, and many rows with every group reported. They depend on the
    query, the declaration and earlier releases. Rows are not read and noise is not drawn. A rehearsed query is not
    rehearsed again while its plan is the same and uses no earlier answer.

    Raises:
        The error that the answer would raise, before anything is reserved.
    """
    if progress.taken or any(isinstance(plan.chosen, ReusedMechanism) for plan in step.plans):
        _walk(progress, step)
        return
    course = progress.course
    ways = tuple((plan.query, plan.chosen.name, plan.chosen.form, plan.alpha) for plan in step.plans)
    _passed.get((course.query, SchemaKey(course.schema), course.limit, ways), lambda: _walk(progress, step))


def _walk(progress: QueryProgress, step: PlanStep) -> bool:
    for fill in ("least", "most"):
        further = _add_made_up(progress, step, fill)
        _show(assemble(further))
        if further.course.second is not None and len(further.taken) == 1:
            _follow(further, fill)
    return True


def _follow(progress: QueryProgress, fill: Fill) -> None:
    """Take the second step after a simulated first one; if it would be refused, the first one is the answer."""
    following = None
    with suppress(RequestError):
        following = plan_second_step(progress.course, progress.values, progress.chosen, left=progress.course.limit)
    if following is not None:
        _show(assemble(_add_made_up(progress, following, fill)))


def _show(answer: Answer) -> None:
    """Render both representations of an answer."""
    str(answer)
    answer._repr_html_()


def _add_made_up(progress: QueryProgress, step: PlanStep, fill: Fill) -> QueryProgress:
    parts = [complete_measurement(plan, _make_up_measurement(plan, fill)) for plan in step.plans]
    payload = encode_payload(parts, request=render(progress.course.query))
    receipt = Receipt("0" * 32, 1, "0" * 64)
    account = progress.course.schema.account
    stored = SettledAnswer("", account, "", step.event, payload, receipt, _FREE, _FREE, _FREE, _FREE)
    return progress.add_step(step, stored, False)


def _make_up_measurement(plan: Plan, fill: Fill) -> StoredMeasurement:
    """Build a measurement of the shape that ``plan`` releases."""
    chosen = plan.chosen
    values: tuple[int, ...]
    if isinstance(chosen, ReusedMechanism):
        values = (0,) * sum(matrix.shape[0] for matrix in chosen.strategy)
    elif chosen.form == "strategy":
        number = 0 if fill == "least" else 10**6
        values = (number,) * sum(matrix.shape[0] for matrix in chosen.strategy)
    elif chosen.form == "answers":
        values = (0 if fill == "least" else 10**6,) * plan.compiled.answers
    else:
        values = _make_up_choice(plan, fill)
    return replace(
        StoredMeasurement(chosen.name, chosen.form, plan.event, values, str(plan.alpha)),
        strategy=tuple(chosen.strategy),
    )


def _make_up_choice(plan: Plan, fill: Fill) -> tuple[int, ...]:
    """Build the groups of an iceberg or top list, or a value for each group: the first or the last one."""
    query, groups = plan.query, plan.compiled.answers
    if query.kind == "icq":
        return () if fill == "least" else tuple(range(groups))
    if query.kind == "tcq":
        assert query.top is not None
        return tuple(range(query.top.k))
    return (0 if fill == "least" else plan.compiled.parts[0].columns // groups - 1,) * groups
