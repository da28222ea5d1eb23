"""Layered strategies keep their promise, drawn and read as the product does; with more noise they are caught."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from siloquent.explore.measure.large import large_offer
from siloquent.explore.plan.predicates import compile_workload
from siloquent.explore.plan.reconstruction import reconstructed
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
    offer = large_offer(workload, BETA, norm=norm, two_sided=True, bits=16)
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
        errors = reconstructed(workload, offer.matrices, noise)
        assert errors is not None
        missed += bool(np.abs(errors).max() > alpha)
    return missed


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_promise_is_kept(norm: Norm) -> None:
    assert misses(norm) <= binom.isf(FALSE_ALARM, RUNS, BETA)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_half_as_much_noise_again_is_caught(norm: Norm) -> None:
    assert misses(norm, more=1.5) > binom.isf(FALSE_ALARM, RUNS, BETA)
