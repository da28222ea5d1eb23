"""The synthesis task: plan, reserve, measure, settle; everything afterwards is free."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charge import Charge, compute_request_digest, run_once
from siloquent.schema import list_bin_rules
from siloquent.synth.engines import Learner, Plan, create_learner, plan, run_measurement
from siloquent.synth.measure import StepJournal
from siloquent.synth.plan.memory_limit import require_memory
from siloquent.synth.references import compute_reference_digests, read_reference_tables
from siloquent.synth.release import assemble
from siloquent.synth.spec.measurements import RULES
from siloquent.synth.spec.release import SyntheticRelease
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.session import WorkspaceSession


def explain(session: WorkspaceSession, spec: SynthSpec) -> Plan:
    """Return the plan of ``synthesize`` for ``spec``, with its price, without reading data.

    Raises:
        As ``synthesize``, but for a budget that is too small.
    """
    schema = session.schema(spec.table)
    session.get_account(spec.table)
    chosen = plan(spec, schema)
    require_memory(spec.rows, len(chosen.compiled.attributes))
    return chosen


def synthesize(
    session: WorkspaceSession,
    spec: SynthSpec,
    *,
    key: str | None = None,
    max_cost: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> SyntheticRelease:
    """Return a synthetic table that keeps every hard constraint, and the model that draws more rows at no cost.

    Args:
        key: The idempotency key: the same key and request return the same release at no cost, and a killed run
            continues where it stopped.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
        progress: Called with the number of finished steps, and nothing else.
    Raises:
        UnknownName, RequestError, ConstraintProblem, AccuracyUnreachable: The request is infeasible; nothing is spent.
        BudgetExceeded: The remaining budget does not cover the price; nothing is spent.
        DataError: The source or the disk failed after the reservation; the charge stands, a retry with ``key`` is free.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Model, rows and every further draw are post-processing and free.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    rules = list_bin_rules(schema.domain.attributes)
    digest = compute_request_digest(
        session, account, schema, "synth", spec.canonical(), compute_reference_digests(spec), *rules
    )
    charge = Charge(key, account, digest, max_cost, what="synthesis", dearer="a smaller budget")
    chosen = plan(spec, schema)
    extra, journal = read_reference_tables(chosen), _open_journal(session, charge, progress)
    finished: dict[bytes, Learner] = {}

    def measure(table: PrivateTable, permit: Permit) -> bytes:
        learner = create_learner(chosen, extra=extra)
        payload = run_measurement(chosen, table, permit, learner, journal).to_bytes()
        finished[payload] = learner
        return payload

    def rehearse() -> None:
        require_memory(spec.rows, len(chosen.compiled.attributes))

    stored = run_once(session, charge, chosen, measure, rehearse=rehearse)
    if finished:
        journal.close()
    # Another run of this request may have settled first: then its result is the release, and its learner is rebuilt.
    return assemble(schema, stored, learner=finished.get(stored.payload))


def _open_journal(session: WorkspaceSession, charge: Charge, progress: Callable[[int], None] | None) -> StepJournal:
    """Open the journal beside the workspace's releases, under a name unique to this request and these rules."""
    if charge.own_key is None:
        return StepJournal(None, progress)
    name = hashlib.sha256(f"{session.ledger.id}|{charge.own_key}|{charge.digest}|{RULES}".encode()).hexdigest()[:32]
    return StepJournal(Path(session.workspace.folder) / "runs" / name, progress)
