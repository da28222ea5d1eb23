"""The result of a synthesis: rows, the model that draws more of them, report, guarantee and receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.readable import Readable, Tabular, label_table
from siloquent.synth.spec.measurements import Measurements

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.privacy import Guarantee


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SyntheticRelease(Readable, Tabular):
    """A synthetic table and all that comes with it.

    Attributes:
        rows: The table, in the source's own types.
        model: Draws more rows at no cost: ``model.draw(rows=..., where=..., seed=...)``.
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

    def __str__(self) -> str:
        size = f"{self.rows.num_rows:,} synthetic rows of {self.rows.num_columns} columns"
        return "\n".join(
            [
                f"{size} from {self.account}; release {self.id}",
                "The rows: to_pandas(), to_polars(), to_arrow(). More of them are free: model.draw(rows=...).",
                self.guarantee.describe(),
            ]
        )

    def to_arrow(self) -> pa.Table:
        """Return the synthetic rows, with the guarantee in the table's metadata."""
        return label_table(self.rows, units={}, guarantee=self.guarantee.describe(), release=self.id)

    @property
    def id(self) -> str:
        """The release's name: the index of its ledger entry."""
        return f"r-{self.receipt[1]:06d}"
