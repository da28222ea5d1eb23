"""Turns: one piece of work of each person at a time, persons in rotation, and a place is taken until its work ends."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.server.access.turns import Turns

ORDERS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30)


class Work:
    """Pieces of work that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running: list[tuple[str, Future[str]]] = []

    def start(self, who: str) -> Future[str]:
        future: Future[str] = Future()
        self.begun.append(who)
        self.running.append((who, future))
        return future


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@given(ORDERS, st.integers(1, 3), st.data())
def test_each_person_has_one_turn_at_a_time_and_nobody_overtakes_twice(
    orders: list[str], places: int, data: st.DataObject
) -> None:
    async def walk() -> None:
        work, turns = Work(), Turns(places)
        tasks = [asyncio.create_task(turns.run(who, lambda who=who: work.start(who))) for who in orders]
        await settle()
        while work.running:
            at_once = [who for who, _ in work.running]
            assert len(at_once) == len(set(at_once)) <= places
            left = {who: orders.count(who) - work.begun.count(who) for who in set(orders)}
            ready = [who for who, count in left.items() if count and who not in at_once]
            assert len(at_once) == places or not ready, "a place stands empty while somebody waits"
            who, future = work.running.pop(data.draw(st.integers(0, len(work.running) - 1)))
            future.set_result(who)
            await settle()
        assert [await task for task in tasks] == orders
        assert turns.waiting == 0

    asyncio.run(walk())


def test_whoever_sends_a_hundred_lets_the_next_person_through_after_one() -> None:
    async def walk() -> None:
        work, turns = Work(), Turns(1)
        tasks = [asyncio.create_task(turns.run(who, lambda who=who: work.start(who))) for who in ["a"] * 100 + ["b"]]
        await settle()
        work.running.pop()[1].set_result("")
        await settle()
        assert work.begun == ["a", "b"]
        while work.running:
            work.running.pop()[1].set_result("")
            await settle()
        await asyncio.gather(*tasks)

    asyncio.run(walk())


@given(ORDERS, st.data())
def test_whoever_leaves_holds_a_place_only_while_the_work_goes_on(orders: list[str], data: st.DataObject) -> None:
    async def walk() -> None:
        work, turns = Work(), Turns(1)
        tasks = [asyncio.create_task(turns.run(who, lambda who=who: work.start(who))) for who in orders]
        await settle()
        gone = data.draw(st.sets(st.integers(0, len(tasks) - 1)))
        for place in gone:
            tasks[place].cancel()
        await settle()
        assert len(work.running) == 1, "the first one's work goes on, whether or not somebody waits for it"
        while work.running:
            work.running.pop()[1].set_result("")
            await settle()
        assert len(work.begun) == len(orders) - len(gone - {0})
        assert turns.waiting == 0
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in found] == [i in gone for i in range(len(tasks))]

    asyncio.run(walk())


def test_work_that_cannot_begin_gives_its_turn_on() -> None:
    def fails() -> Future[str]:
        raise OSError("no thread")

    async def walk() -> None:
        work, turns = Work(), Turns(1)
        with pytest.raises(OSError, match="no thread"):
            await turns.run("a", fails)
        task = asyncio.create_task(turns.run("a", lambda: work.start("a")))
        await settle()
        work.running.pop()[1].set_result("done")
        assert await task == "done"

    asyncio.run(walk())
