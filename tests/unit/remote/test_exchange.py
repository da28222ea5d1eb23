"""Whatever fails at whatever step of a request: one charge a key, one answer, never `nothing` where money went."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from siloquent.errors import NotAllowed, RequestError, SiloquentError, Unanswered
from siloquent.remote import exchange as under_test
from siloquent.remote.calls import ROUTES, ApiCall, build_call
from siloquent.remote.clients import AwaitingClient, BlockingClient
from siloquent.remote.exchange import Attempt, Pause, ServerLink, Timeouts, exchange
from siloquent.remote.replies import PROBLEM, Lost, Reply

ADDRESS, TOKEN = "https://clinic.example.org", "sq_00000000_x"
OURS = {"content-type": PROBLEM}
HTML = b"<html>Bad Gateway</html>"


def problem(status: int, code: str, *, spent: str = "nothing", **headers: str) -> Reply:
    document = {"code": code, "detail": "so it is", "fix": "x", "spent": spent}
    return Reply(json.dumps(document).encode(), status, {**OURS, **headers})


def page(status: int, **headers: str) -> Reply:
    return Reply(HTML, status, {"content-type": "text/html", **headers})


BEFORE: dict[str, Callable[[], Reply | Lost]] = {
    "refused connection": lambda: Lost("the connection is refused", is_sent=False),
    "cut on its way": lambda: Lost("the connection broke", is_sent=True),
    "proxy 502": lambda: page(502),
    "proxy 503 that asks to wait": lambda: page(503, **{"retry-after": "1"}),
    "proxy 413": lambda: page(413),
    "too often": lambda: problem(429, "too_many_requests", **{"retry-after": "1"}),
    "busy store": lambda: problem(503, "store_busy", spent="perhaps", **{"retry-after": "2"}),
    "no budget": lambda: problem(409, "budget_exceeded"),
    "revoked": lambda: problem(401, "unauthorised"),
}
"""What ends an attempt before the server charges."""
AFTER: dict[str, Callable[[], Reply | Lost]] = {
    "cut answer": lambda: Lost("the connection broke", is_sent=True),
    "slow answer": lambda: Lost("it took too long", is_sent=True),
    "endless answer": lambda: Lost(
        "too long", is_sent=True, error=RequestError("The response is too large: the limit is 64 MiB.")
    ),
    "proxy 504": lambda: page(504),
    "proxy 500": lambda: page(500),
    "half an answer": lambda: Reply(b'{"value": 4', 200),
    "a login page": lambda: page(200),
    "a redirect": lambda: page(302, location="https://evil.example"),
    "too slow": lambda: problem(503, "too_slow", spent="perhaps", **{"retry-after": "1"}),
    "our bug": lambda: problem(500, "internal", spent="a charge that was reserved stays"),
}
"""What ends an attempt after the server has charged."""


@dataclass
class World:
    """A server that charges once for a key, and a network that fails as it is told."""

    fates: list[str]
    charges: dict[str, int] = field(default_factory=dict)
    heard: list[ApiCall] = field(default_factory=list)
    now: float = 0.0
    is_closed: bool = False
    link: Any = None

    def reply(self, asked: Attempt | Pause) -> Reply | Lost | None:
        if isinstance(asked, Pause):
            assert asked.seconds >= 0
            self.now += asked.seconds
            return None
        self.heard.append(asked.call)
        self.now += 0.01
        fate = self.fates.pop(0) if self.fates else "answer"
        if fate in BEFORE:
            return BEFORE[fate]()
        key = asked.call.key or f"once {len(self.heard)}"
        self.charges.setdefault(key, len(self.charges) + 1)
        return AFTER[fate]() if fate in AFTER else Reply(json.dumps({"value": self.charges[key]}).encode(), 200)


class BlockingWorld(BlockingClient):
    def __init__(self, world: World) -> None:
        self._transport = world  # type: ignore[assignment]

    def _perform(self, effect: Attempt | Pause) -> Any:
        return self._transport.reply(effect)  # type: ignore[attr-defined]


class AwaitingWorld(AwaitingClient):
    def __init__(self, world: World) -> None:
        self._transport = world  # type: ignore[assignment]

    async def _perform(self, effect: Attempt | Pause) -> Any:
        await asyncio.sleep(0)
        return self._transport.reply(effect)  # type: ignore[attr-defined]


def outcome(world: World, asked: ApiCall, *, awaited: bool, **link: Any) -> Reply | SiloquentError:
    world.link = ServerLink(ADDRESS, TOKEN, clock=lambda: world.now, **link)
    steps = exchange(asked, world.link)
    try:
        if awaited:
            return asyncio.run(AwaitingWorld(world)._run(steps))
        return BlockingWorld(world)._run(steps)
    except SiloquentError as failed:
        return failed


def faults(fates: list[str], *, awaited: bool) -> list[str]:
    """What is wrong with how a question ends whose attempts meet these fates."""
    world, found = World(list(fates)), []
    asked = build_call("answer", body={"sql": "SELECT 1"}, key="monday")
    ended = outcome(world, asked, awaited=awaited)
    found += ["charged twice"] * (sum(1 for _ in world.charges) > 1)
    found += ["another request under the key"] * (set(map(repr, world.heard)) != {repr(asked)})
    found += ["too many attempts"] * (len(world.heard) > 4)
    if isinstance(ended, Reply):
        found += ["another answer"] * (json.loads(ended.body) != {"value": 1})
        return found
    found += ["nothing, and yet charged"] * (bool(world.charges) and ended.spent == "nothing")
    said = f"{ended.fix} {getattr(ended, '__notes__', '')} {getattr(ended, 'key', '')}"
    found += ["no word of the key"] * ("perhaps the price" in ended.spent and "monday" not in said)
    again = outcome(World([], dict(world.charges)), asked, awaited=awaited)
    found += ["asked again: another answer"] * (not isinstance(again, Reply) or json.loads(again.body) != {"value": 1})
    return found


FATES = st.lists(st.sampled_from([*BEFORE, *AFTER, "answer"]), max_size=6)


@settings(max_examples=300, deadline=None)
@given(fates=FATES)
def test_whatever_fails_a_question_is_charged_once_and_says_what_may_be_spent(fates: list[str]) -> None:
    assert faults(fates, awaited=False) == []


@settings(max_examples=40, deadline=None)
@given(fates=FATES)
def test_an_awaited_question_ends_as_one_that_blocks(fates: list[str]) -> None:
    assert faults(fates, awaited=True) == []
    asked = build_call("answer", body={}, key="k")
    ends = [outcome(World(list(fates)), asked, awaited=awaited) for awaited in (False, True)]
    assert len({(type(one), str(one)) for one in ends}) == 1


def test_a_refusal_that_may_have_cost_something_is_not_forgotten_for_a_later_one_that_did_not() -> None:
    for first, last in (("too slow", "too often"), ("cut answer", "revoked"), ("too slow", "no budget")):
        assert faults([first, *[last] * 5], awaited=False) == []


PLANTED: dict[str, tuple[str, Callable[..., object]]] = {
    "an attempt that was cut is forgotten": ("_is_doubtful", lambda *_: False),
    "a page of a proxy is an answer": ("_is_answer", lambda call, reply: reply.is_good),
    "every failure is told as the last attempt tells it": (
        "_build_failure",
        lambda link, call, last, doubt: (
            under_test.parse_error(last.status, last.body)
            if isinstance(last, Reply) and last.is_problem
            else Unanswered("No server answers.", key=call.key, fix="monday", spent="perhaps the price")
        ),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_client_with_that_fault_would_be_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, *PLANTED[name])

    def is_wrong(fates: list[str]) -> bool:
        try:
            return faults(fates, awaited=False) != []
        except json.JSONDecodeError:
            return True

    try:
        find(FATES, is_wrong, settings=settings(max_examples=2_000, deadline=None, database=None))
    except NoSuchExample:
        pytest.fail("the property does not see it")


@settings(max_examples=150, deadline=None)
@given(fates=FATES, route=st.sampled_from([name for name, one in ROUTES.items() if not one.repeats]))
def test_what_has_no_key_happens_at_most_once(fates: list[str], route: str) -> None:
    names = {"session": "s", "table": "t"}
    world = World(list(fates))
    ended = outcome(world, build_call(route, names, body={}), awaited=False)
    assert len(world.charges) <= 1
    if isinstance(ended, Reply):
        assert ended.is_good


def test_what_was_never_sent_cost_nothing_and_is_tried_again_with_and_without_a_key() -> None:
    for asked in (build_call("answer", body={}, key="k"), build_call("decide_session", {"session": "s"}, body={})):
        world = World(["refused connection"] * 9)
        ended = outcome(world, asked, awaited=False)
        assert isinstance(ended, Unanswered)
        assert (ended.spent, len(world.heard)) == ("nothing", 4)


def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there_any_more() -> None:
    replies: list[Any] = [Lost("the connection broke", is_sent=True), problem(404, "not_found")]
    for expected, told in ((Reply, list(replies)), (RequestError, replies[1:])):
        world = World([])
        world.reply = lambda asked, told=told: None if isinstance(asked, Pause) else told.pop(0)  # type: ignore[method-assign]
        assert isinstance(outcome(world, build_call("delete_upload", {"upload": "u-1"}), awaited=False), expected)


@settings(max_examples=60, deadline=None)
@given(fates=FATES)
def test_a_declaration_that_takes_the_place_of_another_is_sent_once(fates: list[str]) -> None:
    world = World(list(fates))
    asked = build_call("put_table", {"table": "t"}, body={}, headers={"If-Match": '"tag"'})
    outcome(world, asked, awaited=False)
    assert len(world.charges) <= 1


@pytest.mark.parametrize("face", [BlockingWorld, AwaitingWorld])
def test_work_of_an_awaiting_session_is_done_beside_its_loop(face: Any) -> None:
    def steps() -> Any:
        return (yield from under_test.run_work(threading.current_thread))

    class Face(face):  # type: ignore[misc]
        _perform = face.__mro__[1]._perform

    ran = Face(World([]))._run(steps())
    thread = asyncio.run(ran) if face is AwaitingWorld else ran
    assert (thread is threading.current_thread()) == (face is BlockingWorld)


@pytest.mark.parametrize("attempts", [1, 2, 7])
def test_attempts_are_the_callers_choice(attempts: int) -> None:
    world = World(["proxy 502"] * 9)
    outcome(world, build_call("me"), awaited=False, attempts=attempts)
    assert len(world.heard) == attempts


def test_pauses_grow_are_told_by_the_server_and_end_with_the_time() -> None:
    world = World(["proxy 502"] * 3)
    outcome(world, build_call("me"), awaited=False)
    assert 0.2 < world.now < 2.8 * 1.5 + 1
    world = World(["proxy 503 that asks to wait"] * 2)
    outcome(world, build_call("me"), awaited=False)
    assert 2 <= world.now < 2.1
    world = World(["proxy 503 that asks to wait"] * 9)
    ended = outcome(world, build_call("me"), awaited=False, timeouts=Timeouts(total=1.5), attempts=50)
    assert isinstance(ended, Unanswered)
    assert world.now <= 1.5


@pytest.mark.parametrize("told", ["99999", "1e9", "-1", "soon", "", "Wed, 21 Oct 2065 07:28:00 GMT", "9" * 400])
def test_a_wait_that_is_too_long_or_none_ends_the_request(told: str) -> None:
    replies = [problem(429, "too_many_requests", **{"retry-after": told})]
    world = World([])
    world.reply = lambda asked: replies.pop(0)  # type: ignore[method-assign]
    ended = outcome(world, build_call("me"), awaited=False)
    assert isinstance(ended, RequestError)
    assert ended.code == "too_many_requests"


def test_a_date_says_when_to_come_again() -> None:
    past = problem(429, "too_many_requests", **{"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})
    replies: list[Any] = [past, Reply(b"{}", 200)]
    world = World([])
    world.reply = lambda asked: None if isinstance(asked, Pause) else replies.pop(0)  # type: ignore[method-assign]
    assert isinstance(outcome(world, build_call("me"), awaited=False), Reply)


def test_who_is_stopped_is_told_that_a_charge_may_stand() -> None:
    world = World([])

    def stop(_: object) -> Any:
        raise KeyboardInterrupt

    world.reply = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt) as stopped:
        outcome(world, build_call("answer", body={}, key="monday"), awaited=False)
    assert "perhaps" in vars(stopped.value)["spent"]
    assert "monday" in stopped.value.__notes__[0]


def test_a_cancelled_task_is_told_that_a_charge_may_stand() -> None:
    async def cancelled() -> BaseException:
        world = World([])
        face = AwaitingWorld(world)
        world.link = ServerLink(ADDRESS, TOKEN)
        face._perform = lambda _: asyncio.sleep(60)  # type: ignore[method-assign, assignment]
        task = asyncio.create_task(face._run(exchange(build_call("answer", body={}, key="monday"), world.link)))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as ended:
            return ended
        raise AssertionError("it was not cancelled")

    assert "monday" in asyncio.run(cancelled()).__notes__[0]


def test_an_error_of_the_server_is_raised_as_it_is() -> None:
    assert isinstance(outcome(World(["revoked"]), build_call("me"), awaited=False), NotAllowed)


@pytest.mark.parametrize("times", [(0, 1, 1), (1, -1, 1), (1, 1, float("nan")), (1, 1, "5"), (1, 1, float("inf"))])
def test_a_timeout_is_a_positive_number(times: Any) -> None:
    with pytest.raises(RequestError, match="positive"):
        Timeouts(*times)
