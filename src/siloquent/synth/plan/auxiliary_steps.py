"""Steps other than columns and joints: tables of dependencies, rates of soft constraints, the comparison report."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.privacy import parse_exact
from siloquent.synth.plan.budget import TABLES_LEAST, TABLES_MOST, TABLES_TOGETHER, Law, VectorNoise, calibrate_noise
from siloquent.synth.spec.compiled import CompiledConstraints, TableNeed
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

RATE_STEPS = 400
"""The most that one row changes a scaled rate (docs/explanation/synth.md)."""
JUDGES = 3
"""The number of classifiers whose right predictions a report counts."""


def compute_table_shares(needs: list[TableNeed], schema: TableSchema, amount: Fraction, unit: int) -> list[Fraction]:
    """Return the budget shares of FD histograms: a mean count of five standard deviations, within 2 and 5 percent."""
    shares = []
    for need in needs:
        share = TABLES_LEAST
        if schema.size_hint:
            wanted = Fraction(5 * math.prod(need.lhs_sizes), schema.size_hint) ** 2 * unit / 2
            share = min(max(wanted / amount, TABLES_LEAST), TABLES_MOST)
        shares.append(share)
    together = sum(shares, Fraction(0))
    return [share * TABLES_TOGETHER / together for share in shares] if together > TABLES_TOGETHER else shares


def plan_report_noises(
    spec: SynthSpec, schema: TableSchema, modelled: tuple[str, ...], amount: Fraction, law: Law
) -> tuple[VectorNoise, ...]:
    """Return the noise of two sums over marginals and of three counts, in equal parts of the report's share.

    Adding or removing a row changes each marginal's distance by at most one, replacing a row by two; each count of
    right predictions changes by at most one in either case.
    """
    share, count = parse_exact(spec.report), len(modelled)
    if not share:
        return ()
    rows = schema.unit.max_rows
    moved = rows * (2 if schema.replace_one else 1)
    sums = [moved * count, moved * max(count * (count - 1) // 2, 1)]
    sensitivities = [s**2 if law == "gaussian" else s for s in sums]
    if any(schema.domain[target].name in modelled for target in spec.targets):
        sensitivities.append(JUDGES * rows**2 if law == "gaussian" else JUDGES * rows)
    return tuple(calibrate_noise(law, amount * share / len(sensitivities), each) for each in sensitivities)


def select_paid_rates(spec: SynthSpec, compiled: CompiledConstraints) -> tuple[int, ...]:
    """Return the soft constraints over two rows whose rates are neither public nor free.

    Raises:
        RequestError: A rate is given or to be bought for a constraint that does not exist.
    """
    soft = {one.number for one in compiled.soft if one.form is not None and one.form.is_binary}
    known = {int(number) for number in spec.rates}
    if known - soft:
        raise RequestError(
            f"Constraint {min(known - soft)} is not a soft constraint over two rows, so it has no rate to meet.",
            fix="rates for " + (", ".join(str(number) for number in sorted(soft)) or "none: omit rates"),
        )
    if parse_exact(spec.measure_rates) and not soft - known:
        raise RequestError(
            "No soft constraint over two rows exists, so there is no rate to measure.",
            fix=UseOption("measure_rates", 0),
        )
    return tuple(sorted(soft - known)) if parse_exact(spec.measure_rates) else ()


def plan_rate_noise(spec: SynthSpec, schema: TableSchema, count: int, amount: Fraction, law: Law) -> VectorNoise | None:
    """Return the noise of the bought rates: each changes by at most RATE_STEPS per row of a unit, even if replaced."""
    if not count:
        return None
    moved = RATE_STEPS * schema.unit.max_rows
    return calibrate_noise(
        law, amount * parse_exact(spec.measure_rates), count * (moved**2 if law == "gaussian" else moved)
    )
