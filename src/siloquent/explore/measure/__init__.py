"""The measure stage, where rows meet noise: a plan, a table and a permit in; noisy integers out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from siloquent.explore.measure.base import sum_units
from siloquent.explore.measure.distinct import count_distinct
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.measure.squared_deviations import sum_square_columns
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.schema import MAX_CELLS, Block

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.data.table import AskedCells, CellSums
    from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
    from siloquent.explore.plan.planner import Plan
    from siloquent.ledger import Permit


def measure_all(plans: Sequence[Plan], table: PrivateTable, permit: Permit) -> list[StoredMeasurement]:
    """Measure each of ``plans``, as ``measure`` does, with one scan for all that need the same cells.

    Raises:
        NotAllowed, DataError: as for ``measure``.
    Privacy:
        The events of all plans together, which were reserved under ``permit``: the scan is shared, the noise is not.
    """
    together = [place for place, plan in enumerate(plans) if _find_asked(plan.compiled) is not None]
    if len(together) < 2 and not any(_needs_expressions(plans[place].compiled) for place in together):
        return [measure(plan, table, permit) for plan in plans]
    found: dict[int, list[Integers]] = {}
    for some in _group_by_rows(plans, together):
        rows = choose_rows(plans[some[0]], table)
        asked = [_require_asked(plans[place].compiled) for place in some]
        for place, sums in zip(some, rows.measure_together(asked, permit), strict=True):
            found[place] = _fold(plans[place].compiled, sums)
    return [
        _release(plan, found[place]) if place in found else measure(plan, table, permit)
        for place, plan in enumerate(plans)
    ]


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
    return _release(plan, _read_columns(plan.compiled, table, permit))


def _release(plan: Plan, columns: list[Integers]) -> StoredMeasurement:
    released = run_mechanism(plan.chosen, plan.compiled, columns)
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


def _group_by_rows(plans: Sequence[Plan], places: Sequence[int]) -> list[list[int]]:
    """Group the places of plans by the rows that they are about: those of one schema but for computed attributes."""
    found: dict[object, list[int]] = {}
    for place in places:
        schema = plans[place].schema
        grouped = None if schema.grouped is None else schema.grouped.identity
        found.setdefault((schema.domain.relation, grouped), []).append(place)
    return list(found.values())


def _find_asked(compiled: CompiledWorkload) -> AskedCells | None:
    """Return what a workload asks of the cells; None if it is something else than counts and sums of them."""
    if compiled.distinct is not None or (compiled.summed is not None and compiled.summed.power == 2):
        return None
    from siloquent.data.table import AskedCells

    blocks, used = [part.block for part in compiled.parts], [part.column >= 0 for part in compiled.parts]
    summed = None if compiled.summed is None else compiled.summed.computed or compiled.summed.attribute
    return AskedCells(blocks, summed, used)


def _require_asked(compiled: CompiledWorkload) -> AskedCells:
    found = _find_asked(compiled)
    assert found is not None
    return found


def _needs_expressions(compiled: CompiledWorkload) -> bool:
    """Return whether cells are computed, or so many that rows are not grouped by them as they are."""
    if compiled.summed is not None and compiled.summed.computed is not None:
        return True
    return any(part.block.computed or _is_wide(part.block) for part in compiled.parts)


def _is_wide(block: Block) -> bool:
    return math.prod(map(len, block.classes)) > MAX_CELLS


def _fold(compiled: CompiledWorkload, found: list[CellSums]) -> list[Integers]:
    """Return each part's columns of what was counted or summed."""
    summed = compiled.summed
    if summed is None or summed.power == 0:
        return [part.fold(cells.counts) for part, cells in zip(compiled.parts, found, strict=True)]
    return [
        sum_units(summed, p, cells.index_sums, cells.counts) for p, cells in zip(compiled.parts, found, strict=True)
    ]


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
    return _fold(compiled, found)
