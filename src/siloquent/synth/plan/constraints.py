"""From declared constraints to how each is kept: no row is looked at (design of the passes: docs/explanation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siloquent.synth.spec.compiled import CompiledConstraints

if TYPE_CHECKING:
    from siloquent.schema import Constraint, TableSchema


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides, besides the declaration, how an FD is kept: public or planned numbers only.

    Attributes:
        rows: Rows to be put out, if that is known (keys need as many combinations).
        one_way_deviation: The noise on a cell of the 1-way counts, in rows.
        table_deviation: The noise on a cell of an FD's histogram at the largest share of the budget, in rows.
        references: Public files by constraint: ``lhs_rhs`` names (``zip_city``), as in ``SynthSpec.references``.
    """

    rows: int | None = None
    one_way_deviation: float = 54.0
    table_deviation: float = 20.0
    references: tuple[str, ...] = ()


def compile_constraints(
    schema: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    constraints: Sequence[Constraint] | None = None,
    circumstances: Circumstances | None = None,
    rates: Mapping[str, float] | None = None,
) -> CompiledConstraints:
    """How every constraint is kept when these columns are synthesised.

    Args:
        columns: The chosen attributes (default: all; ``text`` is left out, ``id`` gets fresh numbers).
        constraints: Default: those that the schema declares; pass more to adopt FDs that were found elsewhere.
        circumstances: What else decides about FDs and keys.
    Raises:
        RequestError: A constraint (code ``constraint``) cannot be kept or contradicts another; the message names both
            and says how each of the others would be kept.
    """
    raise NotImplementedError
