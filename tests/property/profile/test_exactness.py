"""Whatever the tables, splits, conventions and protocol: what a session finds is what trying everything finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.trials.toy_group import ToyGroup
from siloquent.maths.dependencies import FD, discover
from siloquent.profile.plan.knowledge import Knowledge
from siloquent.profile.plan.local_search import LocalSearch
from siloquent.profile.plan.planner import Excesses, ReplayedVerdicts, start_search
from siloquent.profile.spec import ProfileColumn, ProfileSpec
from siloquent.profile.task import simulate
from unit.profile.lattice import Codes, as_dependencies, distinct, exhaustive, names, session

SEEDS = st.integers(0, 2**32)


def drawn(seed: int, parties: int, columns: int) -> list[Codes]:
    """Parts with some structure: shared rows, columns that depend on others in all or in single parties."""
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, int(rng.integers(2, 5)), (int(rng.integers(4, 12)), columns))
    parts = []
    for _ in range(parties):
        part = pool[rng.integers(0, len(pool), int(rng.integers(2, 10)))].copy()
        if rng.random() < 0.6:
            column = int(rng.integers(0, columns))
            part[:, column] = part[:, (column + 1) % columns] + int(rng.integers(0, 2))
        parts.append(part)
    return parts


def excess(parts: list[Codes], mask: int) -> int:
    return sum(distinct(part, mask) for part in parts) - distinct(np.concatenate(parts), mask)


def searched(parts: list[Codes], cfds: list[FD], *, most: int, empty: bool) -> tuple[list[FD], Excesses, int]:
    """The planner against exact answers, with a party that follows it on the bits alone."""
    columns = parts[0].shape[1]
    search = start_search(columns, cfds, most=most, empty_lhs=empty)
    follower = start_search(columns, cfds, most=most, empty_lhs=empty)
    answers, bits, asked = Excesses({0: len(parts) - 1}), ReplayedVerdicts(), 0
    while wanted := search.list_requests(answers):
        bits.bits = list(answers.bits)
        assert follower.list_requests(bits) == wanted
        assert bits.exhausted
        answers.values |= {mask: excess(parts, mask) for mask in wanted}
        search.learn(wanted)
        follower.learn(wanted)
        asked += len(wanted)
        assert asked <= 2**columns
    bits.bits = list(answers.bits)
    assert follower.list_requests(bits) == []
    return search.knowledge.list_minimal(), answers, asked


@settings(deadline=None, max_examples=150)
@given(seed=SEEDS, parties=st.integers(2, 6), columns=st.integers(2, 6), empty=st.booleans(), cut=st.booleans())
def test_the_planner_finds_all_and_parties_can_follow_it(
    seed: int, parties: int, columns: int, empty: bool, cut: bool
) -> None:
    parts = drawn(seed, parties, columns)
    most = 2 if cut else columns
    cfds = exhaustive(parts, most=most, empty_lhs=empty)
    found, _, _ = searched(parts, cfds, most=most, empty=empty)
    assert found == exhaustive([np.concatenate(parts)], most=most, empty_lhs=empty)


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS, parties=st.integers(2, 5), columns=st.integers(2, 6), empty=st.booleans(), cut=st.booleans())
def test_rounds_of_votes_find_what_holds_in_every_party(
    seed: int, parties: int, columns: int, empty: bool, cut: bool
) -> None:
    parts = drawn(seed, parties, columns)
    most = 2 if cut else columns
    borders, asked = LocalSearch(columns, most, empty), list[FD]()
    while candidates := borders.list_candidates():
        asked += candidates
        verdicts = [all(distinct(p, x) == distinct(p, x | 1 << b) for p in parts) for x, b in candidates]
        borders.learn(candidates, verdicts)
    assert borders.list_dependencies() == exhaustive(parts, most=most, empty_lhs=empty)
    assert len(set(asked)) == len(asked)
    assert all(lhs.bit_count() <= most and not lhs >> right & 1 for lhs, right in asked)


@pytest.mark.parametrize("protocol", ["padded", "fast", "smfd"])
@settings(deadline=None, max_examples=12)
@given(seed=SEEDS, parties=st.integers(2, 4), workers=st.integers(2, 4), columns=st.integers(2, 4), empty=st.booleans())
def test_a_session_finds_exactly_what_holds(
    protocol: str, seed: int, parties: int, workers: int, columns: int, empty: bool
) -> None:
    empty = empty and protocol != "smfd"
    parts = drawn(seed, parties, columns)
    report = session(parts, workers=workers, protocol=protocol, empty_lhs=empty)
    assert report.cfd == as_dependencies(exhaustive(parts, empty_lhs=empty), columns)
    assert report.ufd == as_dependencies(exhaustive([np.concatenate(parts)], empty_lhs=empty), columns)


@settings(deadline=None, max_examples=25)
@given(seed=SEEDS, columns=st.integers(2, 4))
def test_keys_are_the_sets_on_which_no_two_rows_agree(seed: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    whole = np.unique(rng.integers(0, 4, (8, columns)), axis=0)
    rng.shuffle(whole)
    if len(whole) < 5:
        whole = np.concatenate([whole, 10 + np.arange(10).reshape(-1, 1).repeat(columns, axis=1)])
    twice = seed % 3 == 0
    parts = [whole[: len(whole) // 2], whole[len(whole) // 2 - twice :]]
    report = session(parts, kinds=("ufd", "keys"))
    every = range(1, 2**columns)
    keys = [mask for mask in every if distinct(np.concatenate(parts), mask) == sum(map(len, parts))]
    smallest = [mask for mask in keys if not any(other != mask and other & ~mask == 0 for other in keys)]
    assert {frozenset(key) for key in report.keys} == {
        frozenset("abcd"[j] for j in range(columns) if mask >> j & 1) for mask in smallest
    }


def test_the_whole_set_is_never_open_where_nothing_holds_inside_parties() -> None:
    knowledge = Knowledge(3, [], most=3)
    assert not knowledge.find_undecided_sets().any()
    assert knowledge.list_minimal() == []


def test_local_discovery_is_what_parties_vote_by() -> None:
    parts = drawn(11, 3, 4)
    for part in parts:
        assert discover(part) == exhaustive([part])


@pytest.mark.parametrize("nulls", ["value", "distinct"])
@settings(deadline=None, max_examples=15)
@given(seed=SEEDS, columns=st.integers(2, 4))
def test_nulls_are_one_value_or_never_equal_as_the_session_says(nulls: str, seed: int, columns: int) -> None:
    parts = drawn(seed, 3, columns)
    rng = np.random.default_rng(seed)
    missing = [rng.random(part.shape) < 0.25 for part in parts]
    names_ = names(columns)
    tables = [
        pa.table(
            {
                name: [None if m else str(v) for v, m in zip(p[:, j], lost[:, j], strict=True)]
                for j, name in enumerate(names_)
            }
        )
        for p, lost in zip(parts, missing, strict=True)
    ]
    spec = ProfileSpec("t", names_, nulls=nulls, min_rows=2)  # type: ignore[arg-type]
    report = simulate(spec, tables, [ProfileColumn(name, "text") for name in names_], workers=2, group=ToyGroup())
    for part, lost in zip(parts, missing, strict=True):
        alike = nulls == "value"
        part[lost] = -1 if alike else 10**6 + rng.choice(10**9, lost.sum(), replace=False)
    assert report.cfd == as_dependencies(exhaustive(parts), columns)
    assert report.ufd == as_dependencies(exhaustive([np.concatenate(parts)]), columns)
