"""Verbs written once as steps, for two interfaces: blocking on a session, awaited on an asynchronous one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from siloquent.errors import RequestError
from siloquent.remote.api_document import ApiDocument
from siloquent.remote.calls import ApiCall
from siloquent.remote.exchange import Attempt, Done, Effect, Outcome, ServerLink, Steps, Work, exchange
from siloquent.remote.replies import UNKNOWN, Reply

if TYPE_CHECKING:
    from siloquent.remote.async_transport import AsyncApiTransport
    from siloquent.remote.transport import ApiTransport

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=ApiDocument)


class ApiClient:
    """A session at a server; its verbs are steps, which a blocking or an awaiting subclass performs."""

    _transport: ApiTransport | AsyncApiTransport

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._link.address!r}{', closed' if self._transport.is_closed else ''})"

    @property
    def _link(self) -> ServerLink:
        return self._transport.link

    def _send(self, call: ApiCall) -> Steps[Reply]:
        self._require_open()
        return (yield from exchange(call, self._link))

    def _require_open(self) -> None:
        if self._transport.is_closed:
            raise RequestError("This session is closed.", fix="siloquent.connect(ADDRESS)")

    def _fetch_document(self, call: ApiCall) -> Steps[dict[str, Any]]:
        reply = yield from self._send(call)
        return reply.require_document()

    def _fetch_as(self, kind: type[K], call: ApiCall) -> Steps[K]:
        """Return the answer as a document of ``kind``; a request with an invalid answer may have been charged."""
        document = yield from self._fetch_document(call)
        try:
            return kind(document)
        except RequestError as unreadable:
            if call.spends:
                unreadable.spent = UNKNOWN
            raise


class BlockingClient(ApiClient):
    """A client whose verbs return when the server has answered."""

    _transport: ApiTransport

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                effect = steps.send(outcome)
                try:
                    outcome = self._perform(effect)
                except BaseException as stopped:  # allowed: the steps raise it again, with what may be charged
                    steps.throw(stopped)
                    raise
        except StopIteration as done:
            result: T = done.value
            return result

    def _perform(self, effect: Effect) -> Outcome:
        if isinstance(effect, Attempt):
            return self._transport.attempt(effect)
        if isinstance(effect, Work):
            return Done(effect.run())
        time.sleep(effect.seconds)
        return None


class AwaitingClient(ApiClient):
    """A client whose verbs are awaited."""

    _transport: AsyncApiTransport

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                effect = steps.send(outcome)
                try:
                    outcome = await self._perform(effect)
                except BaseException as stopped:  # allowed: the steps raise it again, with what may be charged
                    steps.throw(stopped)
                    raise
        except StopIteration as done:
            result: T = done.value
            return result

    async def _perform(self, effect: Effect) -> Outcome:
        if isinstance(effect, Attempt):
            return await self._transport.attempt(effect)
        if isinstance(effect, Work):
            return Done(await asyncio.to_thread(effect.run))
        await asyncio.sleep(effect.seconds)
        return None


class Verb(Generic[P, T]):
    """A method of sessions, written as steps: a call on a blocking client, a coroutine on an awaiting one."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps

        def blocking(face: BlockingClient, *args: P.args, **kwargs: P.kwargs) -> T:
            return face._run(steps(face, *args, **kwargs))

        async def awaiting(face: AwaitingClient, *args: P.args, **kwargs: P.kwargs) -> T:
            return await face._run(steps(face, *args, **kwargs))

        self._blocking = update_wrapper(blocking, steps)
        self._awaiting = update_wrapper(awaiting, steps)
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, face: None, owner: Any) -> Callable[Concatenate[Any, P], Steps[T]]: ...

    @overload
    def __get__(self, face: BlockingClient, owner: Any) -> Callable[P, T]: ...

    @overload
    def __get__(self, face: AwaitingClient, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, face: Any, owner: Any) -> Any:
        if face is None:
            return self._steps
        return MethodType(self._awaiting if isinstance(face, AwaitingClient) else self._blocking, face)


def verb(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Verb[P, T]:
    """Return a method for both kinds of client, from its steps."""
    return Verb(steps)
