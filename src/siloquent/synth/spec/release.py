"""What a synthesis answers: rows, the model that makes more of them, the report, the guarantee and the receipt."""

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
        model: Makes more rows for nothing: ``model.draw(rows=.., where=.., seed=..)``.
        measurements: Exactly what was released of the private table.
        report: What a reader should know about the quality of ``rows``.
        receipt: The ledger's id, the place in it and the hash there.
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
        """The release's name: its place in the ledger."""
        return f"r-{self.receipt[1]:06d}"
