"""The walk of engine ``chain``: plan, reserve, measure, settle; the model that comes out draws for nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charging import Charge, guarantee_of, request_digest, require_planned
from siloquent.ledger import Permit
from siloquent.synth.estimate.chain import ChainLearner, ChainModel, chain_model_of
from siloquent.synth.estimate.chain_weights import fit_weights
from siloquent.synth.measure.chain import measure_chain
from siloquent.synth.measure.journal import Journal
from siloquent.synth.plan.chain import plan_chain, wanted_rates
from siloquent.synth.references import reference_digests, reference_tables
from siloquent.synth.spec.chain import ChainSpec
from siloquent.synth.spec.measured import measurements_from_bytes
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.session import Session


def learn_chain(
    session: Session,
    spec: SynthSpec,
    chain: ChainSpec | None = None,
    *,
    key: str | None = None,
    max_cost: str | None = None,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> ChainModel:
    """A chain of conditional models of a table, which keeps every hard constraint in what it draws.

    Args:
        chain: Settings of training and drawing.
        key: The idempotency key: the same key and request give the same model for nothing.
        folder: Where finished steps are kept until the run ends, each run's in a folder of its own, so that a killed
            run with a ``key`` goes on.
        progress: Told the number of finished steps, and nothing else.
    Raises:
        RequestError, ConstraintProblem, AccuracyUnreachable: It cannot be done so; nothing is spent.
        BudgetExceeded: What is left does not pay for it; nothing is spent.
        DataError: The source or the disk failed after the reservation; the charge stands.
    Privacy:
        The table's account; the amount is the plan's event, charged durably before a row is read: discrete noise on
        counts, and discrete Gaussian steps on Poisson samples. All that follows is post-processing.
    """
    chain = chain or ChainSpec()
    schema, account = session.schema(spec.table), session.account(spec.table)
    settings = repr(sorted(chain.plain().items()))
    digest = request_digest(
        session, account, schema, "synth-chain", spec.canonical(), settings, reference_digests(spec)
    )
    charge = Charge(key, account, digest, max_cost, what="synthesis", dearer="a smaller budget")
    chosen = plan_chain(spec, schema, chain)
    extra = reference_tables(chosen.first)
    held = charge.held(session)
    if held is None:
        charge.require_affordable(session, chosen.event)
        session.table_of(schema)
        held = charge.reserve(session, chosen.event)
    if isinstance(held, Permit):
        require_planned(held, chosen.event)
        table = session.table_of(schema, spent="what was reserved")
        journal = _journal(session, charge, folder, progress)
        measured = measure_chain(chosen, table, held, ChainLearner(chosen, extra=extra), journal)
        held = session.ledger.settle(held, held.event, measured.to_bytes())
        journal.close()
    model = chain_model_of(chosen, measurements_from_bytes(held.payload), extra=extra)
    guarantee = guarantee_of(schema, held)
    return fit_weights(model.promised(guarantee.sentence()), wanted_rates(spec), seed=spec.seed)


def _journal(session: Session, charge: Charge, folder: Path | None, progress: Callable[[int], None] | None) -> Journal:
    """Finished steps lie in ``folder`` under a name that only this request has; without a key nothing goes on."""
    if folder is None or charge.own_key is None:
        return Journal(None, progress)
    name = hashlib.sha256(f"{session.ledger.id}|{charge.own_key}|{charge.digest}".encode()).hexdigest()[:32]
    return Journal(folder / name, progress)
