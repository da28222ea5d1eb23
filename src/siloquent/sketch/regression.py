"""Linear regression from one release of moments: plan, charge, measure, and the model from the moments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from siloquent.charge import Charge, compute_request_digest, require_planned
from siloquent.ledger import Permit, SettledAnswer
from siloquent.schema import TableSchema
from siloquent.sketch.estimate.moments import build_stored_model
from siloquent.sketch.measure.moments import measure_moments
from siloquent.sketch.plan.moments import MomentsPlan, MomentsSpec, plan_moments
from siloquent.sketch.spec import LinearModel

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession


def regress(session: WorkspaceSession, spec: MomentsSpec, *, key: str | None = None) -> LinearModel:
    """Fit a linear model to one release of moments.

    Args:
        key: The idempotency key: the same key and spec give the same model at no cost.
    Raises:
        As ``build``.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    chosen = plan_moments(spec, schema)
    session.open_planned_table(schema)  # problems of a source are found before anything is charged
    budget = {name: str(getattr(spec.budget, name)) for name in spec.budget.__dataclass_fields__}
    asked = compute_request_digest(session, account, schema, "moments", spec.features, spec.target, spec.radius, budget)
    permit = Charge(key, account, asked, what="model").reserve(session, chosen.event)
    stored = permit if isinstance(permit, SettledAnswer) else _measure_release(session, chosen, schema, permit)
    return build_stored_model(chosen, stored.payload, stored.event)


def _measure_release(
    session: WorkspaceSession, chosen: MomentsPlan, schema: TableSchema, permit: Permit
) -> SettledAnswer:
    require_planned(permit, chosen.event)
    table = session.open_planned_table(schema, spent="what was reserved")
    count, sums, second = measure_moments(chosen, table, permit)
    plain = {
        "format": 2,
        "quanta": chosen.quanta,
        "parameters": [str(number) for number in chosen.parameters],
        "count": count.tolist(),
        "sums": sums.tolist(),
        "second": second.tolist(),
    }
    return session.ledger.settle(permit, permit.event, json.dumps(plain).encode())
