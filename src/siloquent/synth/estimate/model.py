"""The released model of engine ``tree``: any number of rows, expected counts, rows under a condition, at no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.charts.text import name_value
from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.maths.graphical.fit import GraphicalModel
from siloquent.synth.estimate.condition import Condition, draw_matching_rows, parse_condition
from siloquent.synth.estimate.decode import decode_rows
from siloquent.synth.estimate.generate import draw_model_rows
from siloquent.synth.estimate.model_domain import ModelDomain
from siloquent.synth.spec.spec import MAX_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema import TableSchema
    from siloquent.synth.estimate.tree import TreeLearner
    from siloquent.synth.plan.tree import TreePlan


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """A model fitted to what was released of a table.

    Attributes:
        sentence: The guarantee in words.
        rates: Of soft constraints over two rows, by number: those that drawn rows meet.
    """

    plan: TreePlan
    frame: ModelDomain
    fitted: GraphicalModel
    sentence: str
    rates: Mapping[int, float]

    @property
    def schema(self) -> TableSchema:
        """The declaration that the rows follow."""
        return self.plan.schema

    @property
    def rows(self) -> int:
        """The default number of rows: the table's, up to noise; small where noise hides the table's size."""
        return self.frame.rows

    def draw(self, rows: int | None = None, *, where: str | None = None, seed: int = 0) -> pa.Table:
        """Return rows as an Arrow table in the source's own types, every hard constraint kept.

        Args:
            rows: The number of rows; None: as many as the table has, up to noise.
            where: Comparisons of columns with constants, joined by ``and``: ``ward = 'A' and age < 30``.
            seed: Another seed gives other rows.
        Raises:
            RequestError: The condition is invalid, or by the model no row meets it.
            ConstraintProblem: A key allows fewer rows.
        """
        return self.decode_cells(self.draw_cells(self.rows if rows is None else rows, where=where, seed=seed))

    def draw_cells(self, rows: int, *, where: str | None = None, seed: int = 0) -> NDArray[np.int32]:
        """Draw rows as cells of the plan's attributes, shape (rows, attributes)."""
        if not 1 <= rows <= MAX_ROWS:
            raise RequestError(
                f"The number of rows must be between 1 and {MAX_ROWS:,}, not {rows:,}.", fix=UseOption("rows", 10000)
            )
        if where is None:
            return draw_model_rows(self.frame, self.fitted, rows=rows, seed=seed, rates=self.rates)
        return self._draw_where(rows, parse_condition(where, self.schema, self.frame.compiled), seed)

    def decode_cells(self, cells: NDArray[np.int32]) -> pa.Table:
        """Decode cells to values."""
        return decode_rows(cells, self.frame.compiled, self.schema.domain)

    def compute_marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return expected counts of the groups of these columns, one axis each; ``describe_groups`` names the values.

        Raises:
            RequestError: A column is not modelled, but written by a constraint.
        """
        places = self.frame.find_indices(attributes)
        return self.fitted.compute_marginal(places) * self.frame.total

    def describe_groups(self, attribute: str) -> list[str]:
        """Describe the values in each group of a modelled column."""
        place = self.frame.names.index(attribute)
        return describe_cell_groups(self.frame, place)

    def explain(self) -> Mapping[str, Any]:
        """Return the model in numbers: rows, columns, cliques, cells."""
        names = self.frame.names
        return {
            "rows": self.frame.total,
            "columns": list(names),
            "cliques": [[names[v] for v in clique.attributes] for clique in self.fitted.tree.cliques],
            "cells": self.fitted.tree.cells,
            "guarantee": self.sentence,
        }

    def _draw_where(self, rows: int, condition: Condition, seed: int) -> NDArray[np.int32]:
        whole = self.frame, self.fitted
        frame, fitted = condition.apply_to_model(*whole)
        return draw_matching_rows(
            condition,
            rows,
            lambda wanted: draw_model_rows(frame, fitted, rows=wanted, seed=seed, whole=whole),
            self.frame.compiled,
        )


def build_tree_model(learner: TreeLearner, sentence: str) -> TreeModel:
    """Return the model of a finished run."""
    return TreeModel(learner.plan, learner.frame, learner.finish(), sentence, learner.rates)


def describe_cell_groups(frame: ModelDomain, place: int) -> list[str]:
    """Describe each group of one attribute: a value, a range, or the number of values."""
    fine, groups = frame.fines[place], frame.groups[place]
    made = []
    for group in range(frame.sizes[place]):
        runs = np.flatnonzero(groups == group)
        inside = int(fine.widths[runs].sum())
        end = int(fine.starts[runs[-1]] + fine.widths[runs[-1]]) - 1
        first, last = fine.attribute.label(int(fine.starts[runs[0]])), fine.attribute.label(end)
        if inside == 1:
            made.append(name_value(first))
        elif fine.ordered:
            made.append(f"{first} .. {last}")  # allowed: a range, as released models name it
        else:
            made.append(f"{inside} rare values")
    return made
