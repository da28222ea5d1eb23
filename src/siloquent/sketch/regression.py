"""Linear regression from one release of moments: plan, charge, measure, and the model from the moments."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from siloquent.charge import bind_request, plan_as_charged, run_once
from siloquent.sketch.estimate.moments import build_stored_model
from siloquent.sketch.measure.moments import measure_moments
from siloquent.sketch.plan.moments import MomentsPlan, MomentsSpec, plan_moments
from siloquent.sketch.spec import LinearModel

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.session import WorkspaceSession


@plan_as_charged
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
    budget = {name: str(getattr(spec.budget, name)) for name in spec.budget.__dataclass_fields__}
    asked = "moments", spec.features, spec.target, spec.radius, budget
    charge = bind_request(
        session, account, schema, *asked, key=key, columns={*spec.features, spec.target}, what="model"
    )
    chosen = plan_moments(spec, charge.restore_declaration(session, schema))
    stored = run_once(session, charge, chosen, partial(_measure_release, chosen))
    return build_stored_model(chosen, stored.payload, stored.event)


def _measure_release(chosen: MomentsPlan, table: PrivateTable, permit: Permit) -> bytes:
    count, sums, second = measure_moments(chosen, table, permit)
    plain = {
        "format": 2,
        "quanta": chosen.quanta,
        "parameters": [str(number) for number in chosen.parameters],
        "count": count.tolist(),
        "sums": sums.tolist(),
        "second": second.tolist(),
    }
    return json.dumps(plain).encode()
