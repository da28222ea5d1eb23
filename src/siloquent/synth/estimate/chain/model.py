"""The released model of engine ``chain``: any number of rows, every hard constraint kept, at no cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.synth.estimate.chain.draw import Drawing
from siloquent.synth.estimate.condition import draw_matching_rows, parse_condition
from siloquent.synth.estimate.decode import decode_rows
from siloquent.synth.estimate.enforce.constraints import enforce_constraints
from siloquent.synth.estimate.model_domain import ModelDomain
from siloquent.synth.spec.network import Network
from siloquent.synth.spec.spec import MAX_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema import TableSchema
    from siloquent.synth.plan.chain import ChainPlan

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ChainModel:
    """Conditional models, one for each block of columns but the first.

    Attributes:
        first: The distribution of the first block's values, shape (values,).
        weights: Of soft constraints, by number, for 5,000 rows.
        sentence: The guarantee in words.
    """

    plan: ChainPlan
    frame: ModelDomain
    first: Floats
    networks: tuple[Network, ...]
    weights: Mapping[int, float] = field(default_factory=dict)
    sentence: str = ""

    @property
    def schema(self) -> TableSchema:
        """The declaration that the rows follow."""
        return self.plan.schema

    @property
    def rows(self) -> int:
        """The default number of rows: the table's, up to noise; small where noise hides the table's size."""
        return self.frame.rows

    def draw(self, rows: int | None = None, *, where: str | None = None, seed: int = 0) -> pa.Table:
        """Return rows as an Arrow table in the source's own types, every hard constraint kept; see ``TreeModel.draw``.

        Raises:
            RequestError: The condition is invalid, or too few drawn rows meet it.
            ConstraintProblem: A key allows fewer rows.
        """
        return self.decode_cells(self.draw_cells(self.rows if rows is None else rows, where=where, seed=seed))

    def draw_cells(self, rows: int, *, where: str | None = None, seed: int = 0, kept: bool = True) -> NDArray[np.int32]:
        """Draw rows as cells of the plan's attributes, shape (rows, attributes); ``kept`` False skips the passes."""
        if not 1 <= rows <= MAX_ROWS:
            raise RequestError(
                f"The number of rows must be between 1 and {MAX_ROWS:,}, not {rows:,}.", fix=UseOption("rows", 10000)
            )
        if where is None:
            return self._draw_rows(rows, seed=seed, kept=kept)
        condition = parse_condition(where, self.schema, self.frame.compiled)
        return draw_matching_rows(
            condition, rows, lambda wanted: self._draw_rows(wanted, seed=seed, kept=kept), self.frame.compiled
        )

    def _draw_rows(self, rows: int, *, seed: int, kept: bool) -> NDArray[np.int32]:
        random = np.random.default_rng(seed)
        drawing = Drawing(
            self.plan,
            self.frame,
            first=self.first,
            networks=self.networks,
            weights=self.weights,
            rows=rows,
            random=random,
        )
        cells = drawing.assemble_cells()
        if not kept:
            return cells.astype(self.frame.compiled.cell_type)
        of_cells = {name: self.frame.get_cell_groups(place) for place, name in enumerate(self.frame.names)}
        return enforce_constraints(cells, self.frame.compiled, self.frame.tables, random, groups=of_cells)

    def decode_cells(self, cells: NDArray[np.int32]) -> pa.Table:
        """Decode cells to values."""
        return decode_rows(cells, self.frame.compiled, self.schema.domain)

    def compute_marginal(self, attributes: Sequence[str]) -> Floats:
        """Return expected counts of the groups of these columns, one axis each, by simulation.

        Raises:
            RequestError: A column is not modelled, but written by a constraint.
        """
        places = self.frame.find_indices(attributes)
        groups = self.frame.find_groups(self.draw_cells(self.rows, kept=False))
        return self.frame.count_groups(groups, [places])[0]

    def explain(self) -> Mapping[str, Any]:
        """Return the model in numbers: rows, columns, blocks, parameters."""
        names = self.frame.names
        return {
            "rows": self.frame.total,
            "columns": list(names),
            "blocks": [[names[place] for place in block] for block in self.plan.blocks],
            "parameters": sum(network.size for network in self.networks),
            "guarantee": self.sentence,
        }

    def replace_weights(self, weights: Mapping[int, float]) -> ChainModel:
        """Return the same model with other weights of soft constraints, by number."""
        return replace(self, weights=dict(weights))

    def attach_guarantee(self, sentence: str) -> ChainModel:
        """Return the same model with its guarantee in words."""
        return replace(self, sentence=sentence)


def compute_block_sizes(plan: ChainPlan, frame: ModelDomain) -> tuple[int, ...]:
    """Return the number of values of each block."""
    return tuple(math.prod(frame.sizes[place] for place in block) for block in plan.blocks)
