"""One request until it is answered: what is tried again, how long to wait, and what is said where nobody answers.

The steps are a generator: it yields what to do (one attempt, one pause) and is sent what came of it. So the same steps
serve a session that blocks and one that awaits, and a test can play any network.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from siloquent.errors import RequestError, SiloquentError, Unanswered
from siloquent.remote.calls import ApiCall
from siloquent.remote.replies import STRANGER, UNKNOWN, Lost, Reply, parse_error

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_WAIT_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a request may take, in seconds.

    Attributes:
        connect: Until a connection stands, TLS included.
        read: Between two pieces of an answer.
        total: For one request with all its attempts and pauses. Files that are sent or fetched have no such end.
    """

    connect: float = 10.0
    read: float = 60.0
    total: float = 300.0

    def __post_init__(self) -> None:
        if not all(isinstance(one, int | float) and 0 < one < 1e6 for one in (self.connect, self.read, self.total)):
            raise RequestError("A timeout is a positive number of seconds.", fix="timeout=60")


@dataclass(frozen=True, slots=True)
class Link:
    """The address and the token of one server, and how patient to be. A token travels over TLS, or within this machine.

    Attributes:
        attempts: How often a request is sent at most, where sending it again is safe.
        clock: Seconds that only go up.
    """

    address: str
    token: str = field(repr=False)
    timeouts: Timeouts = Timeouts()
    attempts: int = 4
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one or parts.username or parts.query:
            raise RequestError(
                f"{self.address!r} is not a server's address.", fix="--server https://clinic.example.org"
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise RequestError(
                "Without TLS a token could be read on its way, so http reaches this machine only.",
                fix=f"--server https://{parts.netloc}",
            )
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise RequestError("This is not a token: one begins with sq_.", fix="export SILOQUENT_TOKEN=sq_..")
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= 100:
            raise RequestError("A request is sent 1 to 100 times.", fix="attempts=4")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Send ``call`` once, within ``seconds`` (None: as long as pieces keep coming)."""

    call: ApiCall
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Do what takes long here: an awaiting session does it beside its event loop."""

    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of work."""

    value: Any


Effect = Attempt | Pause | Work
Outcome = Reply | Lost | Done | None
Steps = Generator[Effect, Outcome, T]


def run_work(run: Callable[[], T]) -> Steps[T]:
    """What ``run`` returns."""
    done = yield Work(run)
    assert isinstance(done, Done), "work ends with what came of it"
    value: T = done.value
    return value


def exchange(call: ApiCall, link: Link) -> Steps[Reply]:
    """Send ``call`` until it is answered, as often as that is safe.

    Raises:
        SiloquentError: the server's refusal, as the error that the same verb raises without a server.
        Unanswered: no siloquent server answered. Where a charge may stand, ``spent`` says so and ``key`` is its key.
    """
    is_file = call.sink is not None or call.data is not None
    until = None if is_file else link.clock() + link.timeouts.total
    in_doubt = False  # an attempt was sent whose outcome is not known
    for number in range(1, link.attempts + 1):
        left = None if until is None else until - link.clock()
        try:
            outcome = yield Attempt(call, left)
        except BaseException as stopped:  # allowed: it is raised again, with the word that a charge may stand
            _add_doubt_note(stopped, call)
            raise
        assert isinstance(outcome, Reply | Lost), "an attempt ends with a reply, or without one"
        wait, is_safe = _plan_next_attempt(call, outcome, number)
        in_doubt = in_doubt or _is_doubtful(call, outcome)
        if isinstance(outcome, Reply) and (_is_answer(call, outcome) or _is_gone(call, outcome, in_doubt)):
            return outcome
        is_late = until is not None and link.clock() + (wait or 0) >= until
        if wait is None or not is_safe or is_late or number == link.attempts:
            raise _build_failure(link, call, outcome, in_doubt)
        try:
            yield Pause(wait)
        except BaseException as stopped:  # allowed: as above
            if in_doubt:
                _add_doubt_note(stopped, call)
            raise
    raise AssertionError("the last attempt returns or raises")


def _is_answer(call: ApiCall, reply: Reply) -> bool:
    """Whether the server did what it was asked and says so in its own way."""
    return reply.is_good and (call.key is None or reply.parse_object() is not None)


def _is_gone(call: ApiCall, reply: Reply, in_doubt: bool) -> bool:
    """Whether what was to be deleted is not there, and an earlier attempt may be why."""
    return call.ends and in_doubt and reply.status == 404 and reply.is_problem


def _is_doubtful(call: ApiCall, outcome: Reply | Lost) -> bool:
    """Whether this attempt may have done at the server what nothing here tells."""
    if isinstance(outcome, Lost):
        return outcome.is_sent
    if outcome.is_problem:  # too slow, or our bug: the refusal itself says that something may have been charged
        return bool((outcome.parse_object() or {}).get("spent", "nothing") != "nothing")
    return not _is_answer(call, outcome)


def _plan_next_attempt(call: ApiCall, outcome: Reply | Lost, number: int) -> tuple[float | None, bool]:
    """How long to wait before the next attempt (None: there is none), and whether another is safe."""
    pause = FIRST_PAUSE_SECONDS * 2**number * (0.5 + uuid.uuid4().int % 512 / 1024)  # clients do not come back at once
    if isinstance(outcome, Lost):
        return (None if outcome.error else pause), call.may_repeat or not outcome.is_sent
    asked = _read_retry_after(outcome)
    if outcome.status in (429, 503) and asked is not None:
        # A siloquent server that says 429 has not begun: that is safe to repeat, whatever was asked.
        return (asked if asked <= MAX_WAIT_SECONDS else None), call.may_repeat or (
            outcome.status == 429 and outcome.is_problem
        )
    if outcome.status in (502, 503, 504) and not outcome.is_problem:
        return pause, call.may_repeat
    if outcome.is_good and call.key is not None:
        return pause, True  # good, and yet cut or not ours: the same key gives the answer
    return None, False


def _read_retry_after(reply: Reply) -> float | None:
    """Seconds, or until a date."""
    told = reply.headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told[:12])
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _build_failure(link: Link, call: ApiCall, outcome: Reply | Lost, in_doubt: bool) -> SiloquentError:
    """Why ``call`` failed; where an attempt's outcome is not known, that a charge may stand."""
    may_be_charged = call.spends and in_doubt
    if isinstance(outcome, Reply) and outcome.is_problem:
        refused = parse_error(outcome.status, outcome.body, spent=UNKNOWN if may_be_charged else "nothing")
        if may_be_charged and refused.spent == "nothing":
            refused.spent = UNKNOWN
            refused.add_note(f"An earlier attempt was not answered: ask again with the key {call.key!r}.")
        return refused
    if isinstance(outcome, Lost) and outcome.error is not None and not may_be_charged:
        return outcome.error
    reason = outcome.reason if isinstance(outcome, Lost) else _read_detail(outcome)
    is_stranger = isinstance(outcome, Reply) and outcome.status not in (502, 503, 504)
    detail = f"{STRANGER} It was: {reason}." if is_stranger else f"No server answers at {link.address}: {reason}."
    if call.key is not None:
        fix = f"check that the server is up, then ask again with the key {call.key!r}"
    else:
        fix = "check the address, and that the server is up"
    return Unanswered(detail, key=call.key, fix=fix, spent=UNKNOWN if may_be_charged else "nothing")


def _read_detail(reply: Reply) -> str:
    if 300 <= reply.status < 400:
        return f"a redirect ({reply.status}), which a token does not follow"
    return f"status {reply.status} from a proxy or another program"


def _add_doubt_note(stopped: BaseException, call: ApiCall) -> None:
    """On what ended a request from outside (Control-C, a cancelled task): a charge may stand."""
    if not call.spends:
        return
    stopped.add_note(f"A charge may stand. Ask again with the key {call.key!r}: it costs no more.")
    if isinstance(stopped, KeyboardInterrupt):
        vars(stopped).setdefault("spent", UNKNOWN)
        vars(stopped).setdefault("fix", f"ask again with the key {call.key!r}")
