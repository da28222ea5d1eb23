"""Events of a job: the same states however a stream is cut into pieces, and one refusal for what is no stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError, SiloquentError, Unanswered
from siloquent.remote.event_reader import MAX_EVENT_BYTES, EventReader
from siloquent.remote.exchange import ServerLink
from siloquent.remote.replies import PROBLEM, Lost, Reply

LINK = ServerLink("https://clinic.example.org", "sq_x", attempts=3)
JOB: dict[str, Any] = {
    "id": "j-1", "name": "ana", "task": "synth", "spec": {}, "state": "running", "done": 1, "steps": 3,
    "result": None, "created": 1, "changed": 2,
}  # fmt: skip


def event(number: int, end: str = "\n", **changed: Any) -> str:
    kind = "end" if changed.get("state") == "done" else "progress"
    return f"id: {number}{end}event: {kind}{end}data: {json.dumps({**JOB, **changed})}{end}{end}"


@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=40), end=st.sampled_from(["\n", "\r\n"]))
def test_a_stream_says_the_same_however_it_is_cut(cuts: list[int], end: str) -> None:
    stream = event(1, end) + f": it goes on{end}{end}" + event(2, end, done=2) + event(3, end, state="done", done=3)
    rest, following, seen = stream.encode(), EventReader("j-1", LINK), []
    for cut in [*cuts, len(rest)]:
        seen += following.hear(rest[:cut])
        rest = rest[cut:]
    assert [(one.state, one.done) for one in seen] == [("running", 1), ("running", 2), ("done", 3)]
    assert following.has_ended
    assert following.build_call().headers == {"Last-Event-ID": "3"}


@pytest.mark.parametrize("data", ["5", "{}", "[", '{"id": 5}', "\xff", "[" * 1_000])
def test_what_is_no_event_is_refused(data: str) -> None:
    with pytest.raises(Unanswered, match="events"):
        EventReader("j-1", LINK).hear(f"data: {data}\n\n".encode("latin-1"))


def test_an_event_without_end_is_refused() -> None:
    following = EventReader("j-1", LINK)
    for _ in range(20):
        following.hear(b"x" * (MAX_EVENT_BYTES // 20))
    with pytest.raises(Unanswered, match="events"):
        following.hear(b"x" * (MAX_EVENT_BYTES // 20))


@pytest.mark.parametrize("number", ["-1", "x", "9" * 40, "1\r\nX: y"])
def test_the_number_of_an_event_is_digits(number: str) -> None:
    following = EventReader("j-1", LINK)
    following.hear(f"id: {number}\ndata: {json.dumps(JOB)}\n\n".encode())
    told = following.build_call().headers["Last-Event-ID"]
    assert told.isdigit()
    assert len(told) <= 9


def test_connections_that_break_in_a_row_end_it_and_an_event_between_begins_anew() -> None:
    following, broken = EventReader("j-1", LINK), Lost("the connection broke", is_sent=True)
    pauses = [following.compute_pause(broken) for _ in range(2)]
    assert pauses == sorted(pauses)
    following.hear(event(1).encode())
    assert following.compute_pause(broken) == pauses[0]
    following.compute_pause(broken)
    with pytest.raises(Unanswered, match="broke"):
        following.compute_pause(broken)


@pytest.mark.parametrize(("status", "is_last"), [(404, True), (403, True), (429, False), (503, False), (502, False)])
def test_a_refusal_ends_it_but_not_one_that_asks_for_patience(status: int, is_last: bool) -> None:
    refusal = Reply(b'{"code": "x", "detail": "no"}', status, {"content-type": PROBLEM} if status != 502 else {})
    following = EventReader("j-1", LINK)
    if is_last:
        with pytest.raises(SiloquentError, match="no"):
            following.compute_pause(refusal)
        return
    assert following.compute_pause(refusal) > 0
    following.compute_pause(refusal)
    with pytest.raises(RequestError):
        following.compute_pause(refusal)
