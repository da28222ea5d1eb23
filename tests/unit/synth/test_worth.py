"""What a joint is worth: one row moves it by one, and rows in few of many cells count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from siloquent.synth.plan.expected_gain import compute_expected_gain

GAPS = st.lists(st.integers(-60, 60), min_size=1, max_size=12)


@given(gaps=GAPS, deviation=st.floats(0.1, 40), step=st.sampled_from([-1, 1]))
def test_one_row_moves_it_by_one_at_most(gaps: list[int], deviation: float, step: int) -> None:
    before = np.array(gaps, dtype=np.int64)
    for place in range(len(gaps)):
        after = before.copy()
        after[place] += step
        assert (
            abs(compute_expected_gain(after, deviation=deviation) - compute_expected_gain(before, deviation=deviation))
            <= 1
        )


@given(gaps=GAPS, deviation=st.floats(0.1, 40))
def test_gaps_are_at_most_what_it_says_and_the_noise_of_every_cell(gaps: list[int], deviation: float) -> None:
    noise = round(np.sqrt(2 / np.pi) * deviation)
    assert np.abs(gaps).sum() <= compute_expected_gain(np.array(gaps), deviation=deviation) + noise * len(gaps)


def test_rows_in_few_of_many_cells_are_worth_a_count() -> None:
    gaps = np.zeros(1_456, dtype=np.int64)
    gaps[:100] = 200
    assert np.abs(gaps).sum() < np.sqrt(2 / np.pi) * 23 * gaps.size  # all of the noise would outweigh them
    assert compute_expected_gain(gaps, deviation=23) > 0
