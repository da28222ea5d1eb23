"""Places of persons: whatever a few of them do together, one is left for a person who has none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.server.access.limits import Places
from siloquent.server.failures.problems import Refused


@given(st.integers(8, 40), st.integers(1, 200), st.data())
def test_a_newcomer_finds_a_place_whatever_less_than_a_quarter_as_many_persons_do(
    places: int, each: int, data: st.DataObject
) -> None:
    """They enter and leave in any order, always trying again."""
    open_, held = Places(each=each, all_=places), dict.fromkeys(range(max(1, places // 4 - 1)), 0)
    orders = st.tuples(st.sampled_from(sorted(held)), st.sampled_from([200, 3, 1, -1, -3]))
    for who, change in data.draw(st.lists(orders, min_size=1, max_size=40)):
        for _ in range(abs(change)):
            if change > 0:
                with suppress(Refused):
                    open_.enter(str(who))
                    held[who] += 1
            elif held[who]:
                open_.leave(str(who))
                held[who] -= 1
        assert sum(held.values()) < places
        assert max(held.values()) <= each
        open_.enter("newcomer")
        open_.leave("newcomer")


def test_one_person_alone_has_all_that_one_may_have_and_a_second_one_less() -> None:
    open_ = Places(each=8, all_=16)
    for _ in range(8):
        open_.enter("ana")
    with pytest.raises(
        Refused, match="One person can have 1 of the places for open requests at once while so many are taken"
    ):
        open_.enter("ana")
    open_.enter("bo")
    with pytest.raises(Refused):
        open_.enter("bo")
    open_.leave("ana")
    open_.leave("ana")
    open_.enter("ana")
