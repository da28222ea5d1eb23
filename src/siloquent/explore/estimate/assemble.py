"""The answer from what the ledger keeps: free post-processing, the same at every replay."""

from __future__ import annotations

from fractions import Fraction

from siloquent.charging import charged_for, guarantee_of
from siloquent.explore.estimate.composite import Released, combine
from siloquent.explore.estimate.progress import Progress
from siloquent.explore.estimate.reconstruct import Estimate, reconstruct, step_of
from siloquent.explore.plan.bounds import Part, parts_of
from siloquent.explore.plan.promise import promise_of
from siloquent.explore.spec import Answer, Kept, Paid, Placed, render
from siloquent.explore.spec.aggregates import Count, Quantile
from siloquent.explore.spec.answer import KeptItem, weakest
from siloquent.explore.spec.measured import changed_text
from siloquent.explore.spec.query import Accuracy
from siloquent.ledger import Stored
from siloquent.privacy import Cost, accountant
from siloquent.schema import TableSchema


def assemble(progress: Progress) -> Answer:
    """The answer to the course's question from the steps that were taken."""
    query, schema = progress.course.query, progress.course.schema
    first, last = progress.taken[0], progress.taken[-1]
    part = first.parts[0]
    label = weakest(part.measured.label for part in progress.parts)
    changed = dict.fromkeys(changed_text(one.stored.payload) for one in progress.taken)
    sources = tuple(sorted({seq for one in progress.parts for seq in one.measured.sources}))
    if query.is_composite:
        estimate, promise, items = _estimate(progress), _promise(progress), _items(progress)
    else:
        estimate = reconstruct(query, part.plan.compiled, part.measured, alpha=part.error)
        promise, items = part.plan.promise, ()
    return Answer(
        task="explore",
        table_name=schema.name,
        request=render(query),
        schema_digest=schema.digest,
        kind="composite" if query.is_composite else part.plan.kind,
        columns=estimate.columns,
        rows=estimate.rows,
        promise=promise,
        accuracy=Kept(part.error, query.promise.beta, label, part.plan.alpha_unit, items, sources),
        cost=_paid(schema, progress),
        guarantee=guarantee_of(schema, *(one.stored for one in progress.taken)),
        receipt=_placed(last.stored),
        earlier=tuple(_placed(one.stored) for one in progress.taken[:-1]),
        mechanism=" + ".join(dict.fromkeys(one.measured.mechanism for one in progress.parts)),
        grid=step_of(part.plan.compiled, part.measured),
        replayed=all(one.replayed for one in progress.taken),
        notes=(*estimate.notes, *filter(None, (*changed, progress.stopped))),
    )


def _values(progress: Progress) -> dict[Part, Released]:
    """What was measured for the answer's values, by what it is."""
    steps = progress.taken[1:] if progress.course.query.chooses_by_another else progress.taken
    return {asked: found for one in steps for part in one.parts for asked, found in part.each.items()}


def _estimate(progress: Progress) -> Estimate:
    query = progress.course.query
    compiled = progress.taken[0].parts[0].plan.compiled
    chosen = progress.chosen if query.chooses_by_another else None
    return combine(query, progress.course.schema, _values(progress), compiled.labels, compiled.keys, chosen=chosen)


def _promise(progress: Progress) -> str:
    query = progress.course.query
    choice = progress.taken[0].parts[0].error if query.chooses_by_another else None
    errors = {part: one.error for part, one in _values(progress).items()}
    return promise_of(query, progress.course.schema, errors, choice)


def _items(progress: Progress) -> tuple[KeptItem, ...]:
    """How exact each aggregate is by itself, where that was fixed before."""
    query, errors = progress.course.query, _values(progress)
    asked = query.promise.bounds if isinstance(query.promise, Accuracy) else ()
    items = []
    for place, item in enumerate(query.items):
        (first, *more) = parts_of(item.aggregate, progress.course.schema)
        known = errors[first].error if first in errors and not more else None
        error = Fraction(asked[place].error) if more and asked else known
        units = {Count: "rows", Quantile: "rows of rank"}
        unit = units.get(type(item.aggregate)) or f"units of {item.aggregate.attribute}"  # type: ignore[union-attr]
        items.append(KeptItem(item.column, error, unit))
    return tuple(items)


def _placed(stored: Stored) -> Placed:
    return Placed(stored.receipt.ledger, stored.receipt.seq, stored.receipt.hash)


def _amount(schema: TableSchema, cost: Cost) -> Fraction:
    return Fraction(cost.amount, accountant(schema.budget.accountant).scale)


def _paid(schema: TableSchema, progress: Progress) -> Paid:
    last = progress.taken[-1].stored
    limit = _amount(schema, progress.course.limit)
    if "/" in last.account:
        limit *= dict(schema.budget.shares).get(last.account.partition("/")[2], Fraction(1))
    return Paid(
        last.account,
        accountant(schema.budget.accountant).symbol,
        charged_for(schema, *(one.stored for one in progress.taken)),
        limit - _amount(schema, last.spent_after),
    )
