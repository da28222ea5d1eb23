"""Layered strategies keep their promise and their price; more noise, and a price for less than a column, are caught."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from audit.harness import Release, assert_caught, assert_private
from siloquent.explore.measure.base import multiply_clipped
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.mechanisms.large import find_layered_choice
from siloquent.explore.plan.mechanisms.reconstruction import apply_reconstruction
from siloquent.explore.spec import parse
from siloquent.maths.strategies.base import Norm
from siloquent.privacy.noise import add_gaussian, add_laplace
from unit.explore.plan.tables import table

pytestmark = pytest.mark.statistical
FALSE_ALARM, BETA, RUNS = 1e-9, 0.05, 1_500
BOXES = ", ".join(f"age < {i} AND cost < {100 * j}" for i in range(1, 12) for j in range(1, 10))


def misses(norm: Norm, *, more: float = 1.0) -> int:
    """Runs in which some answer is further off than promised, with ``more`` times the noise that the offer allows."""
    workload = compile_workload(parse(f"BIN visits ON COUNT(*) WHERE W = {{{BOXES}}} ERROR 300"), table())
    offer = find_layered_choice(workload, BETA, norm=norm, two_sided=True, bits=16)
    assert offer is not None
    alpha = 300.0
    scale = (alpha - offer.margin) / offer.factor.value * more
    zeros = np.zeros(sum(len(matrix) for matrix in offer.matrices), dtype=np.int64)
    missed = 0
    for _ in range(RUNS):
        if norm == "l1":
            noise = add_laplace(zeros, scale=Fraction(int(scale * 1024), 1024))
        else:
            noise = add_gaussian(zeros, variance=Fraction(int(scale**2)))
        errors = apply_reconstruction(workload, offer.matrices, noise)
        assert errors is not None
        missed += bool(np.abs(errors).max() > alpha)
    return missed


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_promise_is_kept(norm: Norm) -> None:
    assert misses(norm) <= binom.isf(FALSE_ALARM, RUNS, BETA)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_twice_the_noise_is_caught(norm: Norm) -> None:
    """It misses in 30 and 79 of 100 runs."""
    assert misses(norm, more=2.0) > binom.isf(FALSE_ALARM, RUNS, BETA)


# Privacy: one row more, in the cell whose column is the largest.

NINE = ", ".join(f"age < {i} AND cost < {100 * j}" for i in range(1, 4) for j in range(1, 4))


Neighbours = tuple[NDArray[np.int64], NDArray[np.int64]]


def released(share: int = 1) -> tuple[Release, Neighbours]:
    """A release at epsilon 1 and its neighbours; ``share``: the noise hides this part of the largest column alone."""
    workload = compile_workload(parse(f"BIN visits ON COUNT(*) WHERE W = {{{NINE}}} ERROR 300"), table())
    offer = find_layered_choice(workload, BETA, norm="l1", two_sided=True, bits=8)
    assert offer is not None
    (matrix,) = offer.matrices
    scale = Fraction(offer.sensitivity.l1, share)
    sizes = [int(multiply_clipped(matrix, one).sum()) for one in np.eye(workload.parts[0].columns, dtype=np.int64)]
    base = np.full(workload.parts[0].columns, 3)
    more = base + (np.arange(len(base)) == int(np.argmax(sizes)))

    def release(x: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        return add_laplace(np.tile(multiply_clipped(matrix, x), (n, 1)), scale=scale)

    return release, (base, more)


@pytest.mark.slow
def test_the_claim_is_kept() -> None:
    release, pair = released()
    assert_private(release, pair, n=100_000, epsilon=1.0)


@pytest.mark.slow
def test_noise_for_a_third_of_a_column_is_caught() -> None:
    release, pair = released(share=3)
    assert_caught(release, pair, n=100_000, epsilon=1.0)
