"""A collection can be designed at every epsilon that may be declared, however many values an attribute has."""

from __future__ import annotations

import pytest

from siloquent import collect
from siloquent.maths.local import frequency_oracles

SPEC = """
format = 1
name = "wide"
epoch = 1
epsilon = "{epsilon}"
[[service]]
name = "profile"
everyone = true
attribute = [
  {{ name = "amount", type = "integer", lo = 0, hi = {hi}, outside = "clamp", null = {{ value = 0 }} }},
]
"""


@pytest.mark.parametrize("hi", [1, 99, 200, 4_000])
@pytest.mark.parametrize("epsilon", ["0.1", "4", "13", "14", "17.5", "20"])
def test_it_is_designed_proved_and_reported(epsilon: str, hi: int) -> None:
    made = collect.design(collect.parse_spec(SPEC.format(epsilon=epsilon, hi=hi)))
    assert all(finding.holds for finding in collect.check(made))
    device = collect.Device(user="u", key=bytes(range(32)), memory={})
    assert collect.perturb(made, "profile", [{"amount": hi}], device)
    assert all(one.relative > 0 for one in collect.predict(made, users=1_000))


def test_buckets_are_bounded() -> None:
    sizes = [frequency_oracles.choose_size("hash", 10**6, epsilon) for epsilon in (1.0, 13.0, 20.0, 1e6)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == frequency_oracles.MAX_BUCKETS
