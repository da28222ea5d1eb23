"""What every mechanism keeps: a new one inherits these tests and says how it is priced and what it may answer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism
from siloquent.explore.spec import parse
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.privacy import get_accountant
from unit.explore.plan.tables import table

FAR = 10**6


class MechanismContract:
    """``question`` is one that the mechanism answers; ``account`` where it may be charged."""

    question: str
    account = "pure"
    wanted: ErrorRequirement

    @abstractmethod
    def price(self, compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
        """The mechanism's own price function."""

    @abstractmethod
    def assert_right(
        self, compiled: CompiledWorkload, priced: PricedMechanism, values: NDArray[np.int64], x: NDArray[np.int64]
    ) -> None:
        """``values`` is the right answer for column counts ``x`` whose differences all pass any error bound."""

    def compiled(self, **more: object) -> CompiledWorkload:
        return compile_workload(parse(self.question), table(self.account, **more))  # type: ignore[arg-type]

    def priced(self, wanted: ErrorRequirement | None = None, **more: object) -> PricedMechanism:
        found = self.price(self.compiled(**more), wanted or self.wanted)
        assert found is not None
        return found

    def amount(self, priced: PricedMechanism) -> Fraction:
        return get_accountant(self.account).compute_price(priced.event).amount

    def test_the_price_is_a_function_of_workload_and_promise(self) -> None:
        assert self.priced().event == self.priced().event

    def test_the_account_takes_its_event(self) -> None:
        assert get_accountant(self.account).compute_cost(self.priced().event).amount > 0

    def test_a_wider_bound_never_costs_more(self) -> None:
        amounts = [
            self.amount(self.priced(replace(self.wanted, alpha=Fraction(alpha), m=alpha + 1)))
            for alpha in (60, 61, 100, 1_000)
        ]
        assert amounts == sorted(amounts, reverse=True)
        assert amounts[-1] < amounts[0]

    def test_a_surer_promise_costs_more(self) -> None:
        amounts = [self.amount(self.priced(replace(self.wanted, beta=beta))) for beta in (0.2, 0.01, 1e-6)]
        assert amounts == sorted(amounts)

    def test_replacing_a_row_costs_no_less_than_adding_one(self) -> None:
        assert self.amount(self.priced(adjacency="replace-one")) >= self.amount(self.priced())

    def test_a_user_of_three_rows_costs_three_times_as_much_and_rho_nine_times(self) -> None:
        factor = 3 if self.account == "pure" else 9
        assert self.amount(self.priced(users=3)) == factor * self.amount(self.priced())

    def test_without_noise_to_speak_of_the_answer_is_right(self) -> None:
        compiled = self.compiled()
        x = FAR * np.arange(1, compiled.parts[0].columns + 1, dtype=np.int64)
        priced = self.priced()
        self.assert_right(compiled, priced, run_mechanism(priced, compiled, [x]).values, x)

    def test_the_empty_table_is_answered_as_any_other(self) -> None:
        compiled, priced = self.compiled(), self.priced()
        values = run_mechanism(priced, compiled, [np.zeros(compiled.parts[0].columns, dtype=np.int64)]).values
        assert values.dtype == np.int64
        assert values.ndim == 1

    def test_two_runs_differ(self) -> None:
        """Counts so near each other, and to a threshold, that chance decides."""
        wide = replace(self.wanted, alpha=Fraction(10**6), m=10**6 + 1, threshold=5)
        compiled, priced = self.compiled(), self.priced(wide)
        x = [np.arange(compiled.parts[0].columns, dtype=np.int64)]
        assert len({tuple(run_mechanism(priced, compiled, x).values.tolist()) for _ in range(60)}) > 1

    def test_what_was_measured_reads_back_from_its_payload(self) -> None:
        compiled, priced = self.compiled(), self.priced()
        values = run_mechanism(priced, compiled, [np.zeros(compiled.parts[0].columns, dtype=np.int64)]).values
        first = StoredMeasurement(priced.name, priced.form, priced.event, tuple(values.tolist()), "60", priced.strategy)
        again = StoredMeasurement.from_payload(first.to_payload())
        assert again.to_payload() == first.to_payload()
        assert (again.event, again.values) == (first.event, first.values)
