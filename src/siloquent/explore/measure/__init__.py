"""The measure stage, where rows meet noise: a plan, a table and a permit in; noisy integers out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.explore.measure.base import sum_units
from siloquent.explore.measure.distinct import count_distinct
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.measure.squared_deviations import sum_square_columns
from siloquent.explore.spec.stored_measurement import StoredMeasurement

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
    from siloquent.explore.plan.planner import Plan
    from siloquent.ledger import Permit


def measure(plan: Plan, table: PrivateTable, permit: Permit) -> StoredMeasurement:
    """Read the cells that ``plan`` needs, run its mechanism and release nothing else.

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency, or the cheaper event of an ex-post mechanism: one scan,
        one mechanism, whose worst price was reserved under ``permit``.
    """
    table = choose_rows(plan, table)
    released = run_mechanism(plan.chosen, plan.compiled, _read_columns(plan.compiled, table, permit))
    return StoredMeasurement(
        mechanism=plan.chosen.name,
        form=plan.chosen.form,
        event=released.event,
        values=tuple(released.values.tolist()),
        alpha=str(plan.alpha),
        strategy=plan.chosen.strategy,
    )


def choose_rows(plan: Plan, table: PrivateTable) -> PrivateTable:
    """Return the rows that ``plan`` is about: those of ``table``, or one for each of its units. Reads nothing.

    With conditions on related tables, the rows have their attributes.
    """
    if plan.schema.looked_up:
        from siloquent.data.units.related_table import relate

        table = relate(plan.schema, table)
    if plan.schema.grouped is None:
        return table
    from siloquent.data.units.unit_table import UnitTable

    return UnitTable(plan.schema, table)


def _read_columns(compiled: CompiledWorkload, table: PrivateTable, permit: Permit) -> list[Integers]:
    """Read exact counts, or sums in units, of each part's columns."""
    if compiled.distinct is not None:
        return [count_distinct(compiled, compiled.distinct, table, permit)]
    blocks = [part.block for part in compiled.parts]
    summed, used = compiled.summed, [part.column >= 0 for part in compiled.parts]
    if summed is None:
        counted = table.count_by_cell(blocks, permit, counted=used)
        return [part.fold(cells) for part, cells in zip(compiled.parts, counted, strict=True)]
    if summed.power == 2:
        return sum_square_columns(compiled, summed, table, permit)
    found = table.sum_by_cell(blocks, summed.computed or summed.attribute, permit, counted=used)
    if summed.power == 0:
        return [part.fold(cells.counts) for part, cells in zip(compiled.parts, found, strict=True)]
    return [
        sum_units(summed, p, cells.index_sums, cells.counts) for p, cells in zip(compiled.parts, found, strict=True)
    ]
