"""The furthest pair of values for several powers together, against every pair."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from siloquent.maths.sensitivity.replaced_numbers import NumberPower, find_furthest_replacement


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_no_pair_of_values_is_further_apart_and_one_is_as_far(seed: int, squared: bool) -> None:
    chance = random.Random(seed)
    lowest = chance.randint(-20, 5)
    highest = lowest + chance.randint(0, 25)
    powers = [
        NumberPower(power, chance.choice([1, 1, 2, 4]), Fraction(chance.randint(1, 99), chance.randint(1, 999)))
        for power in chance.choice([(1,), (1, 2), (1, 1, 2), (2,)])
    ]
    norm = 2 if squared else 1
    values = range(lowest, highest + 1)
    found = max(
        sum((p.weight * (-(-abs(u**p.power - v**p.power) // p.quantum)) ** norm for p in powers), Fraction(0))
        for u in values
        for v in values
    )
    assert find_furthest_replacement(lowest, highest, powers, squared=squared) == found


def test_many_values_are_bounded_power_by_power() -> None:
    powers = [NumberPower(1, 2**8, Fraction(1, 3)), NumberPower(2, 2**28, Fraction(1, 5))]
    found = find_furthest_replacement(-(2**19), 2**19 - 1, powers, squared=False)
    assert found == Fraction(2**12, 3) + Fraction(2**10, 5)
    ends = sum(
        (p.weight * -(-abs((-(2**19)) ** p.power - (2**19 - 1) ** p.power) // p.quantum) for p in powers), Fraction(0)
    )
    assert ends <= found
