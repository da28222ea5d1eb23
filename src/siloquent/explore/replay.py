"""Recomputation of a released answer from the ledger, for comparison with a release's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from siloquent.charge import compute_request_digest
from siloquent.errors import LedgerError, SiloquentError
from siloquent.explore.charging import plan_charged
from siloquent.explore.estimate import QueryProgress, assemble
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.relations.public_joins import build_canonical_request, build_first_canonical_request
from siloquent.explore.plan.rules import list_read_columns
from siloquent.explore.plan.steps import plan_second_step
from siloquent.explore.public_tables import bind_public
from siloquent.explore.release import render_release
from siloquent.explore.spec import Query, parse
from siloquent.explore.spec.rewriting.name_resolution import read_as_population
from siloquent.explore.spec.stored_measurement import decode_measurements, read_request
from siloquent.releases import ExpectedFiles, KeptMeasurement
from siloquent.schema import TOP_ALONE
from siloquent.session import WorkspaceSession

if TYPE_CHECKING:
    from siloquent.explore.plan.steps import QueryPlan
    from siloquent.ledger import SettledAnswer
    from siloquent.releases import Manifest
    from siloquent.schema import TableSchema

MAX_FIRST_STEPS = 20
"""The number of first steps tried, newest first, for a second step without a key, which does not name its first."""


class AnswerCodec:
    """The codec of answers, which are planned again from their query; see ``ReleaseCodec``."""

    def render_stored(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> list[ExpectedFiles] | None:
        """Render the possible releases of ``stored``: none under another declaration; None if it is not an answer."""
        if not _is_answer(stored):
            return None
        if manifest.schema != f"sha256:{schema.digest}":
            return []
        try:
            return list(_iter_renderings(session, schema, stored))
        except SiloquentError:  # planned by another version; the plan cannot be repeated here
            return []

    def find_kept(self, stored: SettledAnswer) -> KeptMeasurement | None:
        """Return what the ledger keeps of an answer besides its numbers, which are planned again: its query."""
        return KeptMeasurement("explore", {}, request=read_request(stored.payload)) if _is_answer(stored) else None

    def confirms_declaration(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> bool:
        """Return whether the reservation, which hashes query and declaration, was made under the manifest's one."""
        digest = manifest.schema.removeprefix("sha256:")
        return not _is_answer(stored) or _was_asked_under(session, schema, stored, digest)


ANSWER_CODEC = AnswerCodec()


def _is_answer(stored: SettledAnswer) -> bool:
    """Return whether ``stored`` is an answer of this task that includes its query."""
    try:
        return bool(decode_measurements(stored.payload)) and bool(read_request(stored.payload))
    except LedgerError:
        return False


def _iter_renderings(session: WorkspaceSession, schema: TableSchema, stored: SettledAnswer) -> Iterator[ExpectedFiles]:
    """Yield the possible releases of ``stored`` by ``schema``: one, unless it has two steps without a common key.

    Empty for an answer by bins that this version defines otherwise.
    """
    query = _read_query(session, stored)
    yield from _iter_renderings_of(session, schema, stored, query)
    # Earlier versions read VAR and STDDEV as those that divide by the number of rows.
    if (earlier := read_as_population(query)) != query:
        yield from _iter_renderings_of(session, schema, stored, earlier)


def _read_query(session: WorkspaceSession, stored: SettledAnswer) -> Query:
    """Return the query of ``stored``, with the public tables that it joins."""
    return bind_public(session, parse(read_request(stored.payload)), may_see=lambda _: True)


def _iter_renderings_of(
    session: WorkspaceSession, schema: TableSchema, stored: SettledAnswer, query: Query
) -> Iterator[ExpectedFiles]:
    meaning = build_canonical_request(query, schema)
    if TOP_ALONE in meaning and _find_file(session, schema, stored, schema.digest, {meaning}) is None:
        return
    course = _plan_as_charged(session, schema, stored, query)
    if course.second is None:
        yield from _iter_answers(QueryProgress(course).add_step(course.first, stored, True))
        return
    for first in _iter_firsts(session, stored):
        try:
            begun = _plan_as_charged(session, schema, first, query)
            yield from _iter_answers(_replay_second(begun, first, stored))
        except SiloquentError:
            continue
    try:
        alone = QueryProgress(course).add_step(course.first, stored, True)
    except LedgerError:
        return
    # The reason why no second step was taken is only in the answer, so that one note is accepted as it is.
    yield from _iter_answers(alone, told=1)


def _plan_as_charged(session: WorkspaceSession, schema: TableSchema, stored: SettledAnswer, query: Query) -> QueryPlan:
    """Plan the query of ``stored`` by the declaration under which it, or its first step, was charged."""
    meanings = {build_canonical_request(query, schema), build_first_canonical_request(query, schema)}
    file = _find_file(session, schema, stored, schema.digest, meanings)
    then = schema if file in (None, schema.digest) else session.restore_declaration(schema, str(file))
    return plan_charged(query, then, paid=stored.event)


def _iter_answers(progress: QueryProgress, *, told: int = 0) -> Iterator[ExpectedFiles]:
    """Yield the answer as a release, and as earlier versions wrote averages of groups that may have no rows."""
    answer, earlier = assemble(progress), assemble(progress, with_middles=True)
    yield render_release(answer, told=told)
    if earlier.rows != answer.rows:
        yield render_release(earlier, told=told)


def _replay_second(course: QueryPlan, first: SettledAnswer, stored: SettledAnswer) -> QueryProgress:
    progress = QueryProgress(course).add_step(course.first, first, True)
    with lifted(paid=stored.event):
        step = plan_second_step(course, progress.values, progress.chosen, left=course.limit)
    if step is None:
        raise LedgerError("This first step has no second one.")
    return progress.add_step(step, stored, True)


def _iter_firsts(session: WorkspaceSession, stored: SettledAnswer) -> Iterator[SettledAnswer]:
    """Yield the first steps that ``stored`` may follow."""
    own, later = f"{stored.account}:", f"{stored.account}+2:"
    if stored.key.startswith(own):
        return
    request = read_request(stored.payload)
    before = [
        one
        for one in session.ledger.iter_answers(stored.account)
        if one.receipt.seq < stored.receipt.seq and one.account == stored.account
    ]
    if stored.key.startswith(later):
        first = own + stored.key.removeprefix(later)
        yield from (one for one in before if one.key == first)
        return
    yield from islice((one for one in reversed(before) if read_request(one.payload) == request), MAX_FIRST_STEPS)


def _was_asked_under(session: WorkspaceSession, schema: TableSchema, stored: SettledAnswer, digest: str) -> bool:
    """Return whether the ledger shows that ``stored`` was asked under the declaration of SHA-256 ``digest``.

    The reservation contains a hash of analyst, query and declaration; ``schema`` is the current one.
    """
    query = _read_query(session, stored)
    meanings = {
        build_canonical_request(query, schema),
        build_first_canonical_request(query, schema),
    }  # an older answer is verified nevertheless
    return _find_file(session, schema, stored, digest, meanings) is not None


def _find_file(
    session: WorkspaceSession, schema: TableSchema, stored: SettledAnswer, digest: str, meanings: set[tuple[str, ...]]
) -> str | None:
    """Return the table file under which ``stored`` was asked, with one of ``meanings``: ``digest`` or one alike.

    None if the ledger does not show that.
    """
    account, query = session.ledger.get_account(stored.account), _read_query(session, stored)
    askers = {None, session.analyst, stored.account.partition("/")[2] or None}
    entries = session.ledger.iter_entries(account=stored.account)
    alike = session.list_files_alike(replace(schema, digest=digest), list_read_columns(query, schema))
    kept = {str(one.body.get("digest")) for one in entries if one.kind == "reserve" and one.body["key"] == stored.key}
    found = (
        file
        for file in (digest, *alike)
        for meaning in meanings
        for asker in askers
        for version in range(1, schema.version + 1)
        for then in [replace(schema, version=version, digest=file)]
        if compute_request_digest(
            WorkspaceSession(session.workspace, session.ledger, analyst=asker), account, then, *meaning
        )
        in kept
    )
    return next(found, None)
