"""A released answer, computed again from what the ledger keeps: what a release's files are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from siloquent.charging import request_digest
from siloquent.errors import LedgerError, SiloquentError
from siloquent.explore.estimate import Progress, assemble
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.lookups import first_meaning_of, meaning_of
from siloquent.explore.plan.steps import after, chart
from siloquent.explore.release import rendered
from siloquent.explore.spec import parse
from siloquent.explore.spec.measured import measurements, request_in
from siloquent.releases import Rendered
from siloquent.schema import TOP_ALONE
from siloquent.session import Session, limit_of_budget

if TYPE_CHECKING:
    from siloquent.explore.plan.steps import Course
    from siloquent.ledger import Stored
    from siloquent.schema import TableSchema

MOST_FIRST_STEPS = 20
"""Without a key, a second step does not say which first step it followed: so many are tried, newest first."""


def is_answer(stored: Stored) -> bool:
    """Whether ``stored`` is an answer of this task, with the question that it answers."""
    try:
        return bool(measurements(stored.payload)) and bool(request_in(stored.payload))
    except LedgerError:
        return False


def renderings(session: Session, schema: TableSchema, stored: Stored) -> Iterator[Rendered]:
    """The releases that ``stored`` can be the end of, by ``schema``; one, but for two steps that no key ties together.

    None of an answer by bins that this version reads otherwise.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    query = parse(request_in(stored.payload))
    meaning = meaning_of(query, schema)
    if TOP_ALONE in meaning and not _was_asked_as(session, schema, stored, schema.digest, {meaning}):
        return
    with lifted(paid=stored.event):
        course = chart(query, schema, left=limit_of_budget(schema.budget))
    if course.second is None:
        yield rendered(assemble(Progress(course).with_step(course.first, stored, True)))
        return
    for first in _firsts(session, stored):
        try:
            yield rendered(assemble(_second(course, first, stored)))
        except SiloquentError:
            continue
    try:
        alone = Progress(course).with_step(course.first, stored, True)
    except LedgerError:
        return
    # Why no second step was taken is told by the answer and kept by nobody: that one note is taken as it is.
    yield rendered(assemble(alone), told=1)


def _second(course: Course, first: Stored, stored: Stored) -> Progress:
    progress = Progress(course).with_step(course.first, first, True)
    with lifted(paid=stored.event):
        step = after(course, progress.values, progress.chosen, left=course.limit)
    if step is None:
        raise LedgerError("This first step has no second one.")
    return progress.with_step(step, stored, True)


def _firsts(session: Session, stored: Stored) -> Iterator[Stored]:
    """The first steps that ``stored`` may be the second one of."""
    own, later = f"{stored.account}:", f"{stored.account}+2:"
    if stored.key.startswith(own):
        return
    request = request_in(stored.payload)
    before = [
        one
        for one in session.ledger.stored(stored.account)
        if one.receipt.seq < stored.receipt.seq and one.account == stored.account
    ]
    if stored.key.startswith(later):
        first = own + stored.key.removeprefix(later)
        yield from (one for one in before if one.key == first)
        return
    yield from islice((one for one in reversed(before) if request_in(one.payload) == request), MOST_FIRST_STEPS)


def was_asked_under(session: Session, schema: TableSchema, stored: Stored, digest: str) -> bool:
    """Whether the ledger shows that ``stored`` was asked under the declaration of SHA-256 ``digest``.

    The reservation holds a hash of the asker, the question and the declaration; ``schema`` is today's.
    """
    query = parse(request_in(stored.payload))
    meanings = {meaning_of(query, schema), first_meaning_of(query, schema)}  # an older answer is verified all the same
    return _was_asked_as(session, schema, stored, digest, meanings)


def _was_asked_as(
    session: Session, schema: TableSchema, stored: Stored, digest: str, meanings: set[tuple[str, ...]]
) -> bool:
    """As ``was_asked_under``, with one of ``meanings``."""
    account = session.ledger.account(stored.account)
    askers = {None, session.analyst, stored.account.partition("/")[2] or None}
    entries = session.ledger.entries(account=stored.account)
    kept = {str(one.body.get("digest")) for one in entries if one.kind == "reserve" and one.body["key"] == stored.key}
    return any(
        request_digest(Session(session.workspace, session.ledger, analyst=asker), account, then, *meaning) in kept
        for meaning in meanings
        for asker in askers
        for version in range(1, schema.version + 1)
        for then in [replace(schema, version=version, digest=digest)]
    )
