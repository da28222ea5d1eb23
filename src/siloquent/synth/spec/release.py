"""The result of a synthesis: rows, the model that draws more of them, report, guarantee and receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.synth.spec.measurements import Measurements

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.privacy import Guarantee


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticRelease:
    """A synthetic table and all that comes with it.

    Attributes:
        rows: The table, in the source's own types.
        model: Draws more rows at no cost: ``model.draw(rows=.., where=.., seed=..)``.
        measurements: Exactly what was released of the private table.
        report: The quality report on ``rows``.
        receipt: The ledger's id, and the index and hash of the entry.
    """

    rows: pa.Table
    model: Any
    measurements: Measurements
    report: Any
    guarantee: Guarantee
    account: str
    receipt: tuple[str, int, str]
    schema_digest: str

    @property
    def id(self) -> str:
        """The release's name: the index of its ledger entry."""
        return f"r-{self.receipt[1]:06d}"
