"""The state of one measurement: its plan, the table, the permit and the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.measure.marginals import CoarseDomain, MarginalQuery, count_marginals
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.measurements import Measurements, NoisyCounts

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.synth.plan.tree import TreePlan

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement in progress."""

    plan: TreePlan
    table: PrivateTable
    permit: Permit
    journal: StepJournal

    def count_exactly(self, coarse: Sequence[CoarseDomain], wanted: Sequence[MarginalQuery]) -> list[Integers]:
        """Return exact counts of some marginals. They never leave ``measure``."""
        columns = self.plan.compiled.attributes
        return count_marginals(self.table, self.permit, columns=columns, coarse=coarse, wanted=wanted)

    def collect_measurements(self, fines: Sequence[FineDomain], steps: Sequence[NoisyCounts]) -> Measurements:
        """Return the measurements of all steps."""
        starts = tuple((each.name, each.starts) for each in fines)
        plan = self.plan
        return Measurements(plan.spec.canonical(), plan.schema.digest, self.permit.event, tuple(steps), starts)
