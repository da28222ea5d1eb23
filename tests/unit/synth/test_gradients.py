"""Closed-form gradients against finite differences, and whole sums against their bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from siloquent.privacy.sampling import compute_renyi_divergence, compute_steps_epsilon, find_multiplier
from siloquent.synth.measure.gradients import Quanta, compute_gradients, sum_clipped_gradients
from siloquent.synth.spec.network import Network, build_blank_network, draw_first_embeddings

SIZES = (3, 4, 5)


def network(seed: int = 0, spread: float = 1.0) -> Network:
    random = np.random.default_rng(seed)
    blank = build_blank_network((0, 1), 2, SIZES, draw_first_embeddings(SIZES, 6, seed=seed))
    return blank.replace_parameters(random.normal(0, spread, blank.size))


def rows(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SIZES, (count, 3))


def loss(model: Network, row: np.ndarray) -> float:
    return float(-np.log(model.compute_probabilities(row)[0, row[0, 2]]))


def test_a_row_s_gradient_and_its_norm_are_those_of_finite_differences() -> None:
    model, row = network(), rows(1)
    line, step = model.flatten(), 1e-6
    slopes = []
    for i in range(len(line)):
        up, down = line.copy(), line.copy()
        up[i] += step
        down[i] -= step
        slopes.append(
            (loss(model.replace_parameters(up), row) - loss(model.replace_parameters(down), row)) / (2 * step)
        )
    fine = Quanta(2**6, 2**44)
    exact = sum_clipped_gradients(model, row, fine) / fine.per_unit
    assert np.abs(exact - slopes).max() < 1e-4
    assert abs(float(compute_gradients(model, row).squared_norms[0]) - float(np.square(slopes).sum())) < 1e-5


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("clip", [1, 8])
def test_no_row_moves_the_sum_by_more_than_the_bound(clip: int, spread: float) -> None:
    quanta, model = Quanta(clip, 2**20), network(3, spread)
    table = rows(60)
    whole = sum_clipped_gradients(model, table, quanta)
    for i in range(60):
        moved = whole - sum_clipped_gradients(model, np.delete(table, i, axis=0), quanta)
        assert float((moved.astype(np.float64) ** 2).sum()) <= float(2**40)


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_a_row_s_gradient_does_not_hang_on_the_rows_beside_it(spread: float) -> None:
    """To the last digit: a row that comes or goes must not change how others are rounded."""
    sizes = (7, 5, 4, 3, 6, 2, 5, 4, 3, 9)
    blank = build_blank_network(tuple(range(9)), 9, sizes, draw_first_embeddings(sizes, 64, seed=3))
    model = blank.replace_parameters(np.random.default_rng(1).normal(0, spread, blank.size))
    table = np.random.default_rng(2).integers(0, sizes, (37, 10))
    whole = compute_gradients(model, table)
    for count in (1, 2, 3, 8, 19):
        for start in range(0, 37 - count, 5):
            part = compute_gradients(model, table[start : start + count])
            for name in ("delta", "mixed", "back", "logits", "squared_norms"):
                assert (getattr(whole, name)[start : start + count] == getattr(part, name)).all(), name


def test_the_test_would_catch_a_sum_without_the_check_of_norms() -> None:
    quanta, model, table = Quanta(1, 2**20), network(3, 30.0), rows(1)
    unclipped = (
        sum_clipped_gradients(model, table, Quanta(2**10, 2**30)) / Quanta(2**10, 2**30).per_unit * quanta.per_unit
    )
    assert float((unclipped**2).sum()) > float(2**40)


def test_what_is_no_number_adds_nothing() -> None:
    model = network().replace_parameters(np.full(network().size, np.nan))
    with np.errstate(invalid="ignore"):
        assert not sum_clipped_gradients(model, rows(5), Quanta(8, 2**20)).any()


def test_an_empty_sample_adds_nothing() -> None:
    assert not sum_clipped_gradients(network(), rows(5)[:0], Quanta(8, 2**20)).any()


def test_prices_are_those_of_the_accountant_that_is_a_reference() -> None:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = [*range(2, 65), 80, 128, 256]
    for rate, multiplier, steps in ((0.0679, 20.2, 3_900), (0.01, 1.1, 1_000), (1.0, 30.0, 10)):
        accountant = RdpAccountant(orders)
        step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
        accountant.compose(dp_event.SelfComposedDpEvent(step, steps))
        ours = float(compute_steps_epsilon(rate=rate, multiplier=multiplier, steps=steps, delta=1e-6))
        assert abs(ours / accountant.get_epsilon(1e-6) - 1) < 1e-6
        assert ours >= accountant.get_epsilon(1e-6) * (1 - 1e-9)


def test_the_least_noise_keeps_the_budget_and_a_little_less_would_not() -> None:
    wanted = Fraction(95, 100)
    found = find_multiplier(wanted, rate=2_048 / 30_162, steps=3_900, delta=1e-6)
    assert found == Fraction(20_201, 1_000)
    assert compute_steps_epsilon(rate=2_048 / 30_162, multiplier=float(found), steps=3_900, delta=1e-6) <= wanted
    assert compute_steps_epsilon(rate=2_048 / 30_162, multiplier=20.19, steps=3_900, delta=1e-6) > wanted


def test_the_thesis_sum_is_not_the_divergence() -> None:
    # Lemma 2 as printed: the binomial weights add up to one, and exp((a^2 - a) / (2 s^2)) is left, free of the rate.
    printed = np.exp((64 - 8) / (2 * 1.1**2))
    assert printed > 1e10
    assert abs(compute_renyi_divergence(8, rate=0.01, multiplier=1.1) - 5.8407e-4) < 1e-8


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_a_sum_is_that_of_each_rows_own_whole_gradient(spread: float) -> None:
    """A row that moved the sum by anything but a whole vector would move it by more than its norm was checked for."""
    quanta, model, table = Quanta(2, 2**12), network(3, spread), rows(40)
    each = [sum_clipped_gradients(model, table[i : i + 1], quanta) for i in range(40)]
    assert all(float((one.astype(np.float64) ** 2).sum()) <= float(quanta.scale) ** 2 for one in each)
    assert (sum_clipped_gradients(model, table, quanta) == sum(each)).all()
