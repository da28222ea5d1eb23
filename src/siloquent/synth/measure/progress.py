"""One measurement of engine ``tree`` in progress: its plan, the table, the permit and what is on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.journal import Journal
from siloquent.synth.measure.marginals import Coarse, Wanted, exact_counts
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy

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
    journal: Journal

    def counts(self, coarse: Sequence[Coarse], wanted: Sequence[Wanted]) -> list[Integers]:
        """Exact counts of some marginals. They stay in this room."""
        columns = self.plan.compiled.attributes
        return exact_counts(self.table, self.permit, columns=columns, coarse=coarse, wanted=wanted)

    def measured(self, fines: Sequence[Fine], steps: Sequence[Noisy]) -> Measurements:
        """What all steps have released."""
        starts = tuple((each.name, each.starts) for each in fines)
        plan = self.plan
        return Measurements(plan.spec.canonical(), plan.schema.digest, self.permit.event, tuple(steps), starts)
