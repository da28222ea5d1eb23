"""Columns that a query computes from the cells of declared attributes, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.data.sql.indices import SourceColumn
from siloquent.schema import Attribute
from siloquent.schema.computed import Computed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ComputedColumn:
    """A computed attribute, and the columns of the attributes that it is computed from."""

    attribute: Attribute
    inputs: tuple[SourceColumn, ...]

    @property
    def program(self) -> Computed:
        """The program that computes its cells."""
        assert self.attribute.computed is not None
        return self.attribute.computed

    @property
    def index_name(self) -> str:
        """The column's name once it holds cells."""
        return f"c{self.program.identity}"

    def compute_cells(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Compute the cells of some rows from the columns of cells that an engine returned."""
        rows = {one.attribute.name: columns[one.index_name] for one in self.inputs}
        return self.program.compute_cells(rows)
