"""Private selection of range ends from the rows: its rate and its cost."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.privacy import ExponentialSelect
from siloquent.schema import TableSchema
from siloquent.search.domains import Feature
from siloquent.search.spec import MAX_CELLS

RANGES_SHARE = Fraction(1, 10)
"""The part of the price for the ends of all ranges."""
PARTS = 50
"""One in this many rows lies below a range, and one above."""
_FINE = 2**40


def plan_range_selection(
    features: tuple[Feature, ...], schema: TableSchema, amount: Fraction
) -> tuple[Fraction, ExponentialSelect]:
    """Plan the rate of each selection, and the event of all of them, two per numeric feature.

    An index's utility is -abs(PARTS below - all) for the lower end, with the numbers of rows below it and of all
    rows. Adding or removing a row changes it by at most PARTS - 1, replacing one by at most PARTS.

    Raises:
        RequestError: No feature is a number, or one has too many values for a selection.
    """
    numbers = [feature for feature in features if is_estimated(feature)]
    if not numbers:
        raise RequestError("Only ranges of numbers can be estimated.", fix=UseOption("range", "declared"))
    wide = next((feature for feature in numbers if feature.steps > MAX_CELLS), None)
    if wide is not None:
        raise RequestError(
            f"{wide.name!r} has {wide.steps:,} places; an end is selected from at most {MAX_CELLS:,}.",
            fix="declare a coarser grid",
        )
    rounds = 2 * len(numbers)
    moved = schema.unit.max_rows * (PARTS if schema.replace_one else PARTS - 1)
    wanted = amount / rounds if schema.budget.accountant == "pure" else Fraction(math.sqrt(8 * amount / rounds))
    # Rounded down, so that the selections cost no more than their part.
    rate = Fraction(math.floor(wanted / (2 * moved) * (1 - Fraction(1, 2**30)) * _FINE), _FINE)
    if rate <= 0:
        raise RequestError("The budget is too small to estimate ranges.", fix=UseOption("range", "declared"))
    return rate, ExponentialSelect(rounds, 2 * moved * rate)


def is_estimated(feature: Feature) -> bool:
    """Return whether the feature's range can be estimated: it is a number."""
    return feature.kind in ("integer", "real")
