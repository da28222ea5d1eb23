"""The synthesis task: plan, reserve, measure, settle; everything afterwards is free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charge import Charge, bind_request, plan_as_charged, run_once
from siloquent.errors import RequestError
from siloquent.notebook import build_step_display
from siloquent.readable import Readable
from siloquent.schema import list_bin_rules
from siloquent.synth.engines import Learner, Plan, create_learner, plan, run_measurement
from siloquent.synth.measure import StepJournal
from siloquent.synth.plan.memory_limit import require_memory
from siloquent.synth.references import compute_reference_digests, read_reference_tables
from siloquent.synth.release import assemble
from siloquent.synth.spec.measurements import RULES
from siloquent.synth.spec.release import SyntheticRelease
from siloquent.synth.spec.schema_document import dump_value
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
    chosen = plan(spec, session.schema(spec.table))
    session.get_account(spec.table)
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
        progress: Called with the number of finished steps, and nothing else. In a notebook they are shown by default.
    Raises:
        UnknownName, RequestError, ConstraintProblem, AccuracyUnreachable: The request is infeasible; nothing is spent.
        BudgetExceeded: The remaining budget does not cover the price; nothing is spent.
        DataError: The source or the disk failed after the reservation; the charge stands, a retry with ``key`` is free.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Model, rows and every further draw are post-processing and free.
    """
    prepared = prepare(session, spec, key=key)
    shown = progress or build_step_display("synthesis", prepared.plan.steps)
    return prepared.run(max_cost=max_cost, progress=shown)


@plan_as_charged
def prepare(session: WorkspaceSession, spec: SynthSpec, *, key: str | None = None) -> PreparedSynthesis:
    """Plan ``synthesize`` once, to show its price and then to run it under ``key``. Does not read data; free.

    Raises:
        As ``synthesize``, but for a budget that is too small.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    references, rules = compute_reference_digests(spec), list_bin_rules(schema.domain.attributes)
    parts, also = ("synth", spec.canonical(), references, *rules), ("constraints",)
    charge = bind_request(session, account, schema, *parts, key=key, also=also, what="synthesis")
    prepared = PreparedSynthesis(session, charge, plan(spec, charge.restore_declaration(session, schema)), references)
    if charge.find_existing(session) is None:
        prepared.require_memory()
    return prepared


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PreparedSynthesis(Readable):
    """A synthesis planned once: ``plan`` has its price, and ``run`` makes it at that price.

    ``references``: the SHA-256 of each public file when it was planned.
    """

    session: WorkspaceSession
    charge: Charge
    plan: Plan
    references: dict[str, str]

    def __str__(self) -> str:
        return f"{self.plan}\nTo make it for at most this: run()"

    def require_memory(self) -> None:
        """Refuse a synthesis that does not fit into this machine's memory."""
        require_memory(self.plan.spec.rows, len(self.plan.compiled.attributes))

    def rehearse(self) -> None:
        """Check before the charge that the rows fit into memory and that the model file can hold the declaration."""
        self.require_memory()
        json.dumps(dump_value(self.plan.schema))

    def run(self, *, max_cost: str | None = None, progress: Callable[[int], None] | None = None) -> SyntheticRelease:
        """Make the synthesis under the key given before, or return the one that was made under it.

        Args:
            max_cost, progress: As in ``synthesize``.
        Raises:
            As ``synthesize``. SchemaError, RequestError: the table was redeclared, or a public file has changed since;
                nothing is spent.
        Privacy:
            As ``synthesize``.
        """
        chosen, charge = self.plan, replace(self.charge, max_cost=max_cost)
        extra, journal = read_reference_tables(chosen), _open_journal(self.session, charge, progress)
        if compute_reference_digests(chosen.spec) != self.references:
            raise RequestError("A public file of this synthesis has changed since it was planned.", fix="run it again")
        finished: dict[bytes, Learner] = {}

        def measure(table: PrivateTable, permit: Permit) -> bytes:
            learner = create_learner(chosen, extra=extra)
            payload = run_measurement(chosen, table, permit, learner, journal).to_bytes()
            finished[payload] = learner
            return payload

        stored = run_once(self.session, charge, chosen, measure, rehearse=self.rehearse)
        if finished:
            journal.close()
        # Another run of this request may have settled first: its result is the release, and its learner is rebuilt.
        return assemble(chosen.schema, stored, learner=finished.get(stored.payload))


def _open_journal(session: WorkspaceSession, charge: Charge, progress: Callable[[int], None] | None) -> StepJournal:
    """Open the journal beside the workspace's releases, under a name unique to this request and these rules."""
    if charge.own_key is None:
        return StepJournal(None, progress)
    text = f"{session.ledger.id}|{charge.own_key}|{charge.find_digest(session)}|{RULES}"
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    return StepJournal(Path(session.workspace.folder) / "runs" / name, progress)
