"""Knowledge about a query's answers from earlier measurements, as one system of linear equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.reuse.evidence_selection import select_usable
from siloquent.explore.plan.reuse.linear_measurements import LinearMeasurement, build_area, describe_quantity
from siloquent.explore.plan.reuse.refinement import Refinement, broadcast_columns, refine
from siloquent.explore.spec.footprint import Integers
from siloquent.maths.gls import SupplementFamily, build_supplement_family, solve_weights
from siloquent.schema import TableSchema

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Earlier measurements and requested answers over common base cells, the query's blocks concatenated.

    ``known``: standardised rows, shape (noises, cells). ``values``: the measured values, ``margins``: the effect of
    integer noise, both in deviations. ``rates``: scale over deviation of each noise. ``wanted``: W.
    """

    blocks: tuple[Refinement, ...]
    known: Reals
    margins: Reals
    rates: Reals
    values: Reals
    sources: NDArray[np.int64]
    wanted: Reals

    def express_asked(self, matrices: Sequence[Integers]) -> Reals:
        """Express a new measurement, one integer matrix over the columns of each block, over the base cells."""
        parts = [broadcast_columns(matrix, block.asked) for matrix, block in zip(matrices, self.blocks, strict=True)]
        return _stack_diagonal(parts)

    def add_new(self, rows: Reals, *, most: float) -> SupplementFamily | None:
        """Compute deviations for every strength of a new measurement."""
        return build_supplement_family(self.known, rows, self.wanted, most=most)

    def find_weights(self, rows: Reals) -> Reals | None:
        """Find the weights of the known noises and new, standardised ``rows`` in the answers."""
        return solve_weights(np.vstack([self.known, rows]), self.wanted)


def gather(compiled: CompiledWorkload, schema: TableSchema, past: Sequence[LinearMeasurement]) -> Evidence:
    """Gather the evidence of ``past`` about the answers of ``compiled``: of one version, quantity and noise."""
    quantity, law = (
        describe_quantity(compiled, schema.domain),
        "gaussian" if schema.budget.accountant == "zcdp" else "laplace",
    )
    pieces = select_usable(past, version=schema.version, quantity=quantity, law=law)
    blocks = tuple(refine(build_area(part, schema.domain), pieces) for part in compiled.parts)
    drawn = [piece for block in blocks for piece in block.pieces]
    return Evidence(
        blocks=blocks,
        known=_stack_diagonal([block.build_known() for block in blocks]),
        margins=_join_blocks([piece.margins / piece.deviation for piece in drawn]),
        rates=_join_blocks([np.full(len(piece.values), piece.scale / piece.deviation) for piece in drawn]),
        values=_join_blocks([piece.values / piece.deviation for piece in drawn]),
        sources=_join_blocks([np.full(len(piece.values), piece.source) for piece in drawn]).astype(np.int64),
        wanted=np.hstack(
            [broadcast_columns(part.matrix, b.asked) for part, b in zip(compiled.parts, blocks, strict=True)]
        ),
    )


def _join_blocks(parts: Sequence[Reals]) -> Reals:
    return np.concatenate([np.zeros(0), *parts])


def _stack_diagonal(parts: Sequence[Reals]) -> Reals:
    """Stack matrices along a diagonal."""
    rows, columns = sum(len(part) for part in parts), sum(part.shape[1] for part in parts)
    whole = np.zeros((rows, columns))
    row = column = 0
    for part in parts:
        whole[row : row + len(part), column : column + part.shape[1]] = part
        row, column = row + len(part), column + part.shape[1]
    return whole
