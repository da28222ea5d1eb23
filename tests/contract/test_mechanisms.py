"""Every mechanism keeps the contract."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from contract.mechanism_contract import FAR, MechanismContract
from siloquent.explore.measure.base import compute_answers
from siloquent.explore.measure.selection import select_largest
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism
from siloquent.explore.plan.mechanisms.direct_noise import price_gaussian, price_laplace
from siloquent.explore.plan.mechanisms.multi_poking import price_pokes
from siloquent.explore.plan.mechanisms.nested_threshold import price_crossing
from siloquent.explore.plan.mechanisms.reconstruction import compute_reconstructions
from siloquent.explore.plan.mechanisms.strategy import price_factorisation, price_strategy
from siloquent.explore.plan.mechanisms.top import price_geometric_top, price_rounds, price_top_factorisation

ALPHA = Fraction(60)
VALUES = ErrorRequirement("wcq", alpha=ALPHA, m=61, beta=1e-4)
CHAIN = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 60"
GROUPS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 60"


class TestLaplace(MechanismContract):
    question, wanted = GROUPS, VALUES

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_laplace(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        assert np.abs(values - compute_answers(compiled, [x])).max() <= ALPHA


class TestGaussian(TestLaplace):
    account = "zcdp"

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_gaussian(compiled, wanted)


class TestStrategy(MechanismContract):
    question, wanted = CHAIN, VALUES

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_strategy(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        backs = compute_reconstructions(compiled, priced.strategy)
        assert backs is not None
        assert np.abs(np.hstack(backs) @ values - compute_answers(compiled, [x])).max() <= ALPHA


class TestFactorisation(TestStrategy):
    account = "zcdp"

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_factorisation(compiled, wanted)


class TestCrossing(MechanismContract):
    question = CHAIN
    wanted = ErrorRequirement("icq", alpha=ALPHA, m=61, beta=1e-4, threshold=10 * FAR)

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_crossing(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        """The fourth range ends at 10 million, which is not above it: utility 0 there, and one step worse beside it."""
        assert values.tolist() in ([3, 4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 9])


class TestPokes(MechanismContract):
    question = GROUPS
    wanted = ErrorRequirement("icq", alpha=ALPHA, m=61, beta=1e-4, threshold=4 * FAR)

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_pokes(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        assert values.tolist() in ([3, 4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 9])  # the fourth is just at the threshold


class TestGeometricTop(MechanismContract):
    question = GROUPS
    wanted = ErrorRequirement("tcq", alpha=ALPHA, m=61, beta=1e-4, k=3)

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_geometric_top(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        assert values.tolist() == [9, 8, 7]


class TestRounds(TestGeometricTop):
    account = "zcdp"

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_rounds(compiled, wanted)


class TestTopFactorisation(MechanismContract):
    question = CHAIN
    account = "zcdp"
    wanted = ErrorRequirement("tcq", alpha=ALPHA, m=61, beta=1e-4, k=3)

    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        return price_top_factorisation(compiled, wanted)

    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        backs = compute_reconstructions(compiled, priced.strategy)
        assert backs is not None
        assert select_largest(np.rint(np.hstack(backs) @ values).astype(np.int64), 3).tolist() == [9, 8, 7]
