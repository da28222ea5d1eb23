"""Answers from ledger contents: free post-processing, identical at every replay."""

from __future__ import annotations

from fractions import Fraction

from siloquent.explore.estimate.composite import ReleasedPart, combine
from siloquent.explore.estimate.presentation import present
from siloquent.explore.estimate.progress import QueryProgress
from siloquent.explore.estimate.reconstruct import EstimatedRows, compute_step, reconstruct
from siloquent.explore.plan.bounds import Part, list_parts
from siloquent.explore.plan.cells.distinct import describe_distinct
from siloquent.explore.plan.explain import describe_rows_left_out
from siloquent.explore.plan.promise import describe_default, describe_promise, describe_unit, name_rows
from siloquent.explore.spec import Answer, AnswerAccuracy, AnswerCost, AnswerReceipt, render
from siloquent.explore.spec.answers.answer import ItemAccuracy, find_weakest
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.stored_measurement import describe_changed
from siloquent.ledger import SettledAnswer
from siloquent.privacy import Cost, get_accountant
from siloquent.releases.guarantees import build_guarantee, compute_charged_amount
from siloquent.schema import TableSchema


def assemble(progress: QueryProgress, *, with_middles: bool = False) -> Answer:
    """Build the answer to the plan's query from the completed steps.

    Args:
        with_middles: As earlier versions did, the average of a group that may have no rows is the middle of its bounds.
    """
    query, schema = progress.course.query, progress.course.schema
    first, last = progress.taken[0], progress.taken[-1]
    part = first.parts[0]
    label = find_weakest(part.measured.label for part in progress.parts)
    changed = dict.fromkeys(describe_changed(one.stored.payload) for one in progress.taken)
    sources = tuple(sorted({seq for one in progress.parts for seq in one.measured.sources}))
    if query.is_composite:
        estimate, promise, items = (
            _estimate(progress, with_middles),
            _describe_promise(progress),
            _build_items(progress),
        )
    else:
        estimate = reconstruct(query, part.plan.compiled, part.measured, alpha=part.error)
        promise, items = part.plan.promise, ()
    estimate = present(query, schema, estimate, part.plan.compiled.labels)
    return Answer(
        task="explore",
        table_name=schema.name,
        request=render(query),
        schema_digest=schema.declared.digest,
        kind="composite" if query.is_composite else part.plan.kind,
        columns=estimate.columns,
        rows=estimate.rows,
        promise=promise,
        accuracy=AnswerAccuracy(part.error, query.promise.beta, label, part.plan.alpha_unit, items, sources),
        cost=_build_cost(schema, progress),
        guarantee=build_guarantee(schema, *(one.stored for one in progress.taken)),
        receipt=_build_receipt(last.stored),
        earlier=tuple(_build_receipt(one.stored) for one in progress.taken[:-1]),
        left_out=next(iter(describe_rows_left_out(schema)), ""),
        mechanism=" + ".join(dict.fromkeys(one.measured.mechanism for one in progress.parts)),
        grid=compute_step(part.plan.compiled, part.measured),
        replayed=all(one.replayed for one in progress.taken),
        notes=(
            *describe_default(query),
            *estimate.notes,
            *describe_distinct([one.plan.compiled for one in progress.parts]),
            *filter(None, (*changed, progress.stopped)),
        ),
    )


def _collect_values(progress: QueryProgress) -> dict[Part, ReleasedPart]:
    """Collect the measurements for the answer's values, by part."""
    steps = progress.taken[1:] if progress.course.query.chooses_by_another else progress.taken
    return {asked: found for one in steps for part in one.parts for asked, found in part.each.items()}


def _estimate(progress: QueryProgress, with_middles: bool) -> EstimatedRows:
    query = progress.course.query
    compiled = progress.taken[0].parts[0].plan.compiled
    chosen = progress.chosen if query.chooses_by_another else None
    return combine(
        query,
        progress.course.schema,
        _collect_values(progress),
        compiled.labels,
        compiled.keys,
        chosen=chosen,
        with_middles=with_middles,
    )


def _describe_promise(progress: QueryProgress) -> str:
    query = progress.course.query
    choice = progress.taken[0].parts[0].error if query.chooses_by_another else None
    errors = {part: one.error for part, one in _collect_values(progress).items()}
    return describe_promise(query, progress.course.schema, errors, choice)


def _build_items(progress: QueryProgress) -> tuple[ItemAccuracy, ...]:
    """Build the accuracy of each aggregate, if it was fixed in advance."""
    query, errors = progress.course.query, _collect_values(progress)
    asked = query.promise.bounds if isinstance(query.promise, Accuracy) else ()
    items, rows = [], name_rows(query, progress.course.schema)
    for place, item in enumerate(query.items):
        (first, *more) = list_parts(item.aggregate, progress.course.schema)
        known = errors[first].error if first in errors and not more else None
        error = Fraction(asked[place].error) if more and asked else known
        items.append(ItemAccuracy(item.column, error, describe_unit(item.aggregate, item.aggregate, rows=rows)))
    return tuple(items)


def _build_receipt(stored: SettledAnswer) -> AnswerReceipt:
    return AnswerReceipt(stored.receipt.ledger, stored.receipt.seq, stored.receipt.hash)


def _compute_amount(schema: TableSchema, cost: Cost) -> Fraction:
    return Fraction(cost.amount, get_accountant(schema.budget.accountant).scale)


def _build_cost(schema: TableSchema, progress: QueryProgress) -> AnswerCost:
    last = progress.taken[-1].stored
    limit = _compute_amount(schema, progress.course.limit_now or progress.course.limit)
    if "/" in last.account:
        limit *= dict(schema.declared.budget.shares).get(last.account.partition("/")[2], Fraction(1))
    return AnswerCost(
        last.account,
        get_accountant(schema.budget.accountant).symbol,
        compute_charged_amount(schema, *(one.stored for one in progress.taken)),
        limit - _compute_amount(schema, last.spent_after),
    )
