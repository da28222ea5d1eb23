"""Discovery inside one table is exact, whatever the table looks like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from siloquent.errors import RequestError
from siloquent.maths.dependencies import DiscoveryProgress, compute_closures, discover, list_columns, number_groups
from unit.profile.lattice import exhaustive

SHAPES = st.tuples(st.integers(1, 14), st.integers(1, 5))
TABLES = SHAPES.flatmap(lambda shape: arrays(np.int64, shape, elements=st.integers(0, 3)))


@settings(deadline=None, max_examples=150)
@given(codes=TABLES, empty=st.booleans(), most=st.sampled_from([None, 1, 2]))
def test_what_is_found_is_what_trying_everything_finds(codes: np.ndarray, empty: bool, most: int | None) -> None:
    assert discover(codes, max_lhs=most, empty_lhs=empty) == exhaustive([codes], most=most, empty_lhs=empty)


def test_a_chain_of_dependencies_is_found_link_by_link() -> None:
    item = np.arange(60)
    codes = np.stack([item, item // 5, item // 20, item % 7], axis=1)
    assert (0b0001, 1) in discover(codes)
    assert (0b0010, 2) in discover(codes)
    assert all(lhs & 0b0011 for lhs, right in discover(codes) if right == 2)


def test_a_constant_depends_on_every_column_or_on_none_needed() -> None:
    codes = np.array([[0, 5], [1, 5], [2, 5]])
    assert discover(codes) == [(0b01, 1)]
    assert discover(codes, empty_lhs=True) == [(0, 1)]


def test_left_sides_of_more_columns_are_not_looked_at() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, (200, 8))
    found = discover(codes, max_lhs=3)
    assert {lhs.bit_count() for lhs, _ in found} <= {1, 2, 3}


def test_progress_is_reported_and_may_end_the_search() -> None:
    seen: list[DiscoveryProgress] = []

    def stop(progress: DiscoveryProgress) -> None:
        seen.append(progress)
        raise KeyboardInterrupt

    codes = np.random.default_rng(1).integers(0, 3, (50, 6))
    with pytest.raises(KeyboardInterrupt):
        discover(codes, progress=stop)
    assert seen[0].size >= 1
    assert seen[0].open > 0
    assert len(seen) == 1


def test_more_columns_than_a_mask_has_bits_are_refused() -> None:
    with pytest.raises(RequestError, match="62 columns"):
        discover(np.zeros((2, 63), dtype=np.int64))
    with pytest.raises(RequestError, match="16 columns"):
        compute_closures([], 17)


def test_groups_are_numbered_whatever_the_size_of_the_codes() -> None:
    codes = np.array([[2**40, 2**40, 7], [2**40, 2**40, 7], [3, 2**40, 7], [3, 1, 7]])
    group, first = number_groups(codes, 0b111)
    assert len(first) == 3
    assert group[0] == group[1] != group[2] != group[3]
    assert (number_groups(codes, 0)[0] == 0).all()


def test_closures_follow_armstrongs_rules() -> None:
    closed = compute_closures([(0b0001, 1), (0b0010, 2), (0b1100, 0)], 4)
    assert [list_columns(int(closed[mask])) for mask in (0b0001, 0b0010, 0b1000, 0b1010)] == [
        (0, 1, 2),
        (1, 2),
        (3,),
        (0, 1, 2, 3),
    ]
