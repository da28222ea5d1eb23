"""The paper's example to the last digit, and sums over unions and joins without their rows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines.monomials import (
    Monomials,
    build_one,
    build_zero,
    compute_sums,
    decorrelate,
    join,
    list_exponents,
)

BC = np.array([[1, 2], [3, 2], [2, 3], [3, 4]], dtype=float)
D = np.array([[2], [4]], dtype=float)


def joined(order: int) -> Monomials:
    return compute_sums(("B", "C"), BC, order) * compute_sums(("D",), D, order)


SUMS = {"B": 18, "C": 22, "D": 24, "BB": 46, "BC": 52, "CC": 66, "BD": 54, "CD": 66, "DD": 80}
MEANS = {"BBC": 17, "BCC": 20.5, "CCC": 26.75, "DDD": 36, "BBD": 17.25, "BDD": 22.5, "CCD": 24.75, "CDD": 27.5}


def powers(text: str) -> dict[str, int]:
    return {name: text.count(name) for name in set(text)}


@pytest.mark.parametrize(("monomial", "expected"), SUMS.items())
def test_the_papers_join_has_these_sums(monomial: str, expected: float) -> None:
    assert joined(2)[powers(monomial)] == expected
    assert joined(2).count == 8


@pytest.mark.parametrize(("monomial", "expected"), MEANS.items())
def test_the_papers_join_has_these_third_moments(monomial: str, expected: float) -> None:
    assert joined(3).compute_moment(powers(monomial)) == expected


def test_a_join_without_a_key_pairs_every_row() -> None:
    pair = compute_sums(("A",), np.array([[2.0], [3.0]]), 2) * compute_sums(("B",), np.array([[3.0], [4.0]]), 2)
    assert (pair.count, pair.compute_moment({"A": 1, "B": 1})) == (4, 8.75)


def test_the_regression_of_c_on_d_is_flat() -> None:
    found = joined(2)
    centred = found.compute_moment(powers("CD")) - found.compute_moment("C") * found.compute_moment("D")
    assert centred == 0
    assert found.compute_moment("C") == 2.75


def test_zero_and_one_change_nothing() -> None:
    table = compute_sums(("B", "C"), BC, 3)
    assert (table + build_zero(("B", "C"), 3)).sums == table.sums
    assert (table * build_one(3)).sums == table.sums
    assert (build_zero(("B", "C"), 3) * compute_sums(("D",), D, 3)).sums == {}


def test_there_are_as_many_monomials_as_the_binomial_says() -> None:
    assert len(list_exponents(5, 4)) == 126
    assert len(set(list_exponents(5, 4))) == 126


def test_only_keys_that_both_tables_have_are_joined() -> None:
    left = {"a": compute_sums(("B",), np.array([[1.0]]), 2), "b": compute_sums(("B",), np.array([[5.0]]), 2)}
    right = {"b": compute_sums(("D",), np.array([[2.0], [3.0]]), 2)}
    found = join(left, right)
    assert found is not None
    assert (found.count, found[{"B": 1, "D": 1}]) == (2, 25)
    assert join(left, {"c": right["b"]}) is None


def test_the_estimator_of_proposition_6_is_right_on_average_over_keys() -> None:
    rng = np.random.default_rng(7)
    n, d = 200, 10
    x = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    truth = float((x[:, 0] * x[:, 1]).mean())
    found = []
    for _ in range(300):
        key = rng.permutation(np.arange(n) % d)
        left = {k: compute_sums(("a",), x[key == k, :1], 2) for k in range(d)}
        right = {k: compute_sums(("b",), x[key == k, 1:], 2) for k in range(d)}
        whole = join(left, right)
        assert whole is not None
        found.append(decorrelate(whole, d, left=1)[(1, 1)])
    error = np.std(found) / np.sqrt(len(found))
    # Seven standard errors: a right estimator is this far off once in 10^11 runs.
    assert abs(np.mean(found) - truth) < 7 * error
    assert abs(np.mean(found) / n * d - truth) > 7 * error, "without the correction it is far off"


@pytest.mark.parametrize("wrong", [((1, 1), 1), ((3, 0), 2)])
def test_monomials_above_the_order_are_refused(wrong: tuple[tuple[int, int], int]) -> None:
    with pytest.raises(ValueError, match="above the order"):
        Monomials(("a", "b"), wrong[1], {wrong[0]: 1.0})


def test_unions_and_joins_need_fitting_names() -> None:
    table = compute_sums(("B", "C"), BC, 2)
    with pytest.raises(ValueError, match="same names"):
        _ = table + compute_sums(("D",), D, 2)
    with pytest.raises(ValueError, match="different names"):
        _ = table * table
    with pytest.raises(KeyError):
        _ = table["D"]
