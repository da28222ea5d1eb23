"""The float-grid check: a released float must be a function of a whole number, else its last bits tell the data.

Source: "On Significance of the Least Significant Bits for Differential Privacy" (CCS 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.audit.harness import GAMMA, AuditResult, audit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GridResult:
    """Whether released floats lie on their grid, show the same last bits on both sides, and withstand the attack."""

    off_grid: int  # values, on both data sets together, that are not the float of a multiple of the grid
    last_bits: tuple[frozenset[int], frozenset[int]]  # multiples modulo 8 that were seen on each
    attack: AuditResult

    @property
    def refuted(self) -> bool:
        """Whether the release gives itself away."""
        return self.off_grid > 0 or self.last_bits[0] != self.last_bits[1] or self.attack.refuted

    def __str__(self) -> str:
        bits = [sorted(seen) for seen in self.last_bits]
        return (
            f"{self.off_grid:,} values off the grid; last bits {bits[0]} and {bits[1]}; precision attack: {self.attack}"
        )


def check_grid(
    release: Callable[[Any, int], Floats],
    pair: tuple[Any, Any],
    *,
    grid: Fraction,
    epsilon: float,
    n: int,
    gamma: float = GAMMA,
) -> GridResult:
    """Try to tell the neighbours ``pair`` apart by the bits of released floats, shape (runs,).

    Args:
        grid: What the answer declares: each value is the float nearest to a whole multiple of it.
        n: Runs on each; 300,000 show what a claim of epsilon 1 hides.
    """
    drawn = [release(data, n) for data in pair]
    multiples = [np.rint(side / float(grid)) for side in drawn]
    off = sum(int((side != on_grid(whole, grid)).sum()) for side, whole in zip(drawn, multiples, strict=True))
    seen = [frozenset(np.mod(whole, 8).astype(int).tolist()) for whole in multiples]
    attack = audit(lambda data, m: precision(release(data, m)), pair, epsilon=epsilon, n=n, gamma=gamma)
    return GridResult(off, (seen[0], seen[1]), attack)


def assert_on_grid(release: Callable[[Any, int], Floats], pair: tuple[Any, Any], **claim: Any) -> None:
    """Nothing but the grid's multiples is released."""
    found = check_grid(release, pair, **claim)
    assert not found.refuted, f"Released floats give themselves away: {found}"


def on_grid(multiples: Floats, grid: Fraction) -> Floats:
    """The floats nearest to whole ``multiples`` of ``grid``: exact quotients, rounded once."""
    distinct, place = np.unique(multiples, return_inverse=True)
    return np.array([float(int(whole) * grid) for whole in distinct])[place]


def precision(values: Floats) -> NDArray[np.float64]:
    """What an attacker reads off a float's bits: exponent of the last set bit, exponent, parity of the mantissa."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    last = np.where(whole == 0, 0, whole & -whole)
    zeros = np.where(last > 0, np.frexp(last.astype(np.float64))[1] - 1, 60)
    return np.stack([zeros + exponent - 53, zeros, exponent, whole & 1], axis=1).astype(np.float64)
