"""The guarantee's sentence says the numbers, rounded up, and whose presence is hidden."""

from __future__ import annotations

from fractions import Fraction

import pytest

from siloquent.errors import RequestError
from siloquent.privacy import Guarantee, format_digits

F = Fraction


def test_a_zcdp_sentence_names_unit_price_and_total() -> None:
    guarantee = Guarantee(
        definition="zcdp",
        unit="all rows of one patient (at most 8 count)",
        adjacency="add-remove",
        account="visits@1",
        spent_before=F(0),
        spent_after=F(124, 10**6),
        rho=F(124, 10**6),
    )
    assert guarantee.describe() == (
        "Differential privacy for all rows of one patient (at most 8 count), added or removed: this answer costs "
        "rho 0.000124, which is epsilon 0.06026 at delta 0.000001; everything asked of visits@1 so far amounts to "
        "epsilon 0.06026 at delta 0.000001."
    )


def test_a_free_answer_says_that_it_costs_nothing() -> None:
    guarantee = Guarantee("pure", "one row", "replace-one", "t@1", spent_before=F(1, 2), spent_after=F(1, 2))
    assert "costs nothing" in guarantee.describe()
    assert "replaced" in guarantee.describe()


def test_input_privacy_must_say_what_it_reveals() -> None:
    with pytest.raises(RequestError):
        Guarantee("input-privacy", "one row", "add-remove", "t@1", F(0), F(0))


@pytest.mark.parametrize(
    ("value", "text"), [(F(1, 3), "0.3334"), (F(2), "2"), (F(1, 10**9), "0.000000001"), (F(99999), "100000")]
)
def test_digits_round_up_and_are_plain_decimals(value: Fraction, text: str) -> None:
    assert format_digits(value) == text
    assert Fraction(format_digits(value)) >= value
