"""What one release may cost: exact amounts, one kind each, in the money of the account."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from siloquent.errors import RequestError
from siloquent.privacy import convert_epsilon_to_rho, parse_exact
from siloquent.privacy.budget import Budget, round_up_to_drawable

DELTA = Fraction(1, 10**6)


@pytest.mark.parametrize(
    "given",
    [{}, {"epsilon": "1", "rho": "1"}, {"rho": "1", "delta": "1e-6"}, {"epsilon": "0"}, {"epsilon": "1", "delta": "1"}],
)
def test_a_budget_is_one_amount_above_zero(given: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        Budget(**given)


def test_equal_amounts_are_written_alike() -> None:
    assert Budget(epsilon="0.50").to_dict() == Budget(epsilon=Fraction(1, 2)).to_dict() == {"epsilon": "1/2"}


def test_a_pure_account_pays_in_epsilon_alone() -> None:
    assert Budget(epsilon="0.1").convert_to_account("pure", delta=DELTA) == Fraction(1, 10)
    for other in (Budget(rho="0.1"), Budget(epsilon="1", delta="1e-6")):
        with pytest.raises(RequestError, match="pure"):
            other.convert_to_account("pure", delta=DELTA)


def test_a_zcdp_account_pays_the_rho_that_implies_epsilon() -> None:
    assert Budget(rho="0.25").convert_to_account("zcdp", delta=DELTA) == Fraction(1, 4)
    whole = math.floor(convert_epsilon_to_rho(1.0, 1e-6) * 10**12)
    assert Budget(epsilon="1").convert_to_account("zcdp", delta=DELTA) == Fraction(whole, 10**12)
    at_own = Budget(epsilon="1", delta="1e-9").convert_to_account("zcdp", delta=DELTA)
    assert at_own == Fraction(math.floor(convert_epsilon_to_rho(1.0, 1e-9) * 10**12), 10**12)


@pytest.mark.parametrize("value", [Fraction(1, 10**9), Fraction(7, 3), Fraction(10**7, 3)])
def test_a_noise_parameter_is_never_rounded_down(value: Fraction) -> None:
    assert value <= round_up_to_drawable(value) <= value + 1
    assert round_up_to_drawable(value).denominator <= 2**10


@pytest.mark.parametrize(
    ("name", "budget", "scale"),
    [
        ("pure", Budget(epsilon="1/3"), 10**9),
        ("zcdp", Budget(rho="1/7"), 10**12),
        ("zcdp", Budget(epsilon="1", delta="1e-9"), 10**12),
    ],
)
def test_a_budget_is_worth_whole_units_rounded_down(name: str, budget: Budget, scale: int) -> None:
    """Prices are rounded up to whole units: what is planned for more than these would be charged above its budget."""
    amount = budget.convert_to_account(name, delta=DELTA)
    assert (amount * scale).denominator == 1
    given = budget.epsilon if name == "pure" else budget.rho
    wanted = Fraction(convert_epsilon_to_rho(1.0, 1e-9)) if given is None else Fraction(str(given))
    assert 0 <= wanted - amount < Fraction(1, scale)


@pytest.mark.parametrize("text", ["1_000", "٣", "１", "1e", "", b"1", [1], None])
def test_amounts_are_plain_numbers(text: Any) -> None:
    with pytest.raises(RequestError, match="is not a number"):
        parse_exact(text)
