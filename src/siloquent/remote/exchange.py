"""The exchange of one request: its retries, pauses, and the error if no server answers.

The steps are a generator: it yields an action (an attempt or a pause) and is sent its outcome. So the same steps serve
blocking and awaiting sessions, and a test can simulate any network.
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
from siloquent.fixes import UseOption
from siloquent.remote.calls import ApiCall
from siloquent.remote.replies import STRANGER, UNKNOWN, Lost, Reply, parse_error

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_WAIT_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The time limits of a request, in seconds.

    Attributes:
        connect: Until a connection is established, TLS included.
        read: Between two pieces of an answer.
        total: For one request with all its attempts and pauses. Uploads and downloads of files have no such limit.
    """

    connect: float = 10.0
    read: float = 60.0
    total: float = 300.0

    def __post_init__(self) -> None:
        if not all(isinstance(one, int | float) and 0 < one < 1e6 for one in (self.connect, self.read, self.total)):
            raise RequestError("A timeout must be a positive number of seconds.", fix=UseOption("timeout", 60))


@dataclass(frozen=True, slots=True)
class ServerLink:
    """The address, token and time limits of one server. A token travels over TLS, or within this machine.

    Attributes:
        attempts: The most attempts per request, where repeating it is safe.
        clock: A monotonic clock in seconds.
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
                f"{self.address!r} is not a valid server address.", fix=_use_server("https://clinic.example.org")
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise RequestError(
                "Without TLS a token could be intercepted, so http is allowed only for this machine.",
                fix=_use_server(f"https://{parts.netloc}"),
            )
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise RequestError("The token is not valid: tokens begin with sq_.", fix="export SILOQUENT_TOKEN=sq_...")
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= 100:
            raise RequestError("The number of attempts must be between 1 and 100.", fix=UseOption("attempts", 4))


def _use_server(address: str) -> UseOption:
    return UseOption("server", address, f'siloquent.connect("{address}")')


@dataclass(frozen=True, slots=True)
class Attempt:
    """Send ``call`` once, within ``seconds`` (None: as long as pieces keep arriving)."""

    call: ApiCall
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Work that takes long on this machine: an awaiting session runs it outside its event loop."""

    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of work."""

    value: Any


Effect = Attempt | Pause | Work
Outcome = Reply | Lost | Done | None
Steps = Generator[Effect, Outcome, T]


def run_work(run: Callable[[], T]) -> Steps[T]:
    """Return the result of ``run``."""
    done = yield Work(run)
    assert isinstance(done, Done), "work ends with what came of it"
    value: T = done.value
    return value


def exchange(call: ApiCall, link: ServerLink) -> Steps[Reply]:
    """Send ``call`` until it is answered, repeating it only where that is safe.

    Raises:
        SiloquentError: the server's refusal, as the error that the same verb raises without a server.
        Unanswered: no siloquent server answered. Where a charge may exist, ``spent`` says so and ``key`` is its key.
    """
    is_file = call.sink is not None or call.data is not None
    until = None if is_file else link.clock() + link.timeouts.total
    in_doubt = False  # an attempt of unknown outcome was sent
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
    """Return whether the server succeeded and answered in the API's format."""
    return reply.is_good and (call.key is None or reply.parse_object() is not None)


def _is_gone(call: ApiCall, reply: Reply, in_doubt: bool) -> bool:
    """Return whether the resource to delete is missing, possibly because of an earlier attempt."""
    return call.ends and in_doubt and reply.status == 404 and reply.is_problem


def _is_doubtful(call: ApiCall, outcome: Reply | Lost) -> bool:
    """Return whether this attempt may have had an unknown effect at the server."""
    if isinstance(outcome, Lost):
        return outcome.is_sent
    if outcome.is_problem:  # too slow, or our bug: the refusal itself says that there may be a charge
        return bool((outcome.parse_object() or {}).get("spent", "nothing") != "nothing")
    return not _is_answer(call, outcome)


def _plan_next_attempt(call: ApiCall, outcome: Reply | Lost, number: int) -> tuple[float | None, bool]:
    """Return the pause before the next attempt (None: there is none), and whether another is safe."""
    pause = FIRST_PAUSE_SECONDS * 2**number * (0.5 + uuid.uuid4().int % 512 / 1024)  # spreads clients' retries
    if isinstance(outcome, Lost):
        return (None if outcome.error else pause), call.may_repeat or not outcome.is_sent
    asked = _read_retry_after(outcome)
    if outcome.status in (429, 503) and asked is not None:
        # A siloquent server that responds 429 has not begun: repeating any request is then safe.
        return (asked if asked <= MAX_WAIT_SECONDS else None), call.may_repeat or (
            outcome.status == 429 and outcome.is_problem
        )
    if outcome.status in (502, 503, 504) and not outcome.is_problem:
        return pause, call.may_repeat
    if outcome.is_good and call.key is not None:
        return pause, True  # successful, but truncated or not ours: the same key gives the answer
    return None, False


def _read_retry_after(reply: Reply) -> float | None:
    """Return the Retry-After delay, given in seconds or as a date."""
    told = reply.headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told[:12])
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _build_failure(link: ServerLink, call: ApiCall, outcome: Reply | Lost, in_doubt: bool) -> SiloquentError:
    """Return the error of ``call``; if an attempt's outcome is unknown, it says that a charge may exist."""
    may_be_charged = call.spends and in_doubt
    if isinstance(outcome, Reply) and outcome.is_problem:
        refused = parse_error(outcome.status, outcome.body, spent=UNKNOWN if may_be_charged else "nothing")
        if may_be_charged and refused.spent == "nothing":
            refused.spent = UNKNOWN
            refused.add_note(f"An earlier attempt was not answered: repeat the request with the key {call.key!r}.")
        return refused
    if isinstance(outcome, Lost) and outcome.error is not None and not may_be_charged:
        return outcome.error
    reason = outcome.reason if isinstance(outcome, Lost) else _read_detail(outcome)
    is_stranger = isinstance(outcome, Reply) and outcome.status not in (502, 503, 504)
    detail = f"{STRANGER} It was: {reason}." if is_stranger else f"Could not connect to {link.address}: {reason}."
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
    """Note on an exception from outside (Control-C, a cancelled task) that a charge may exist."""
    if not call.spends:
        return
    stopped.add_note(f"A charge may have been made. Repeat the request with the key {call.key!r} at no further cost.")
    if isinstance(stopped, KeyboardInterrupt):
        vars(stopped).setdefault("spent", UNKNOWN)
        vars(stopped).setdefault("fix", f"ask again with the key {call.key!r}")
