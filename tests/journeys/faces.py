"""Both faces of a session at a server behind one: tests are written once, and run on each."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from siloquent.remote import AsyncRemoteSession, RemoteSession
from siloquent.remote.exchange import ServerLink
from siloquent.remote.replies import Reply

FACES = ("blocking", "awaited")


class Awaited:
    """An asynchronous session, or a part of one, whose verbs a test calls as if they blocked."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._loop = inner, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("ledger", "sketch", "synth", "search", "share", "discover"):
            return Awaited(found, self._loop)
        return self._called(found) if callable(found) else found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(self._inner)(*args, **kwargs)

    def _called(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            made = verb(*args, **kwargs)
            if inspect.isasyncgen(made):
                return self._each(made)
            return self._loop.run_until_complete(made) if inspect.iscoroutine(made) else made

        return called

    def _each(self, made: Any) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run_until_complete(anext(made))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._inner.close())
        self._loop.close()


def session_of(face: str, address: str, token: str, **link: Any) -> Any:
    """A session of this face."""
    made = ServerLink(address, token, **link)
    return RemoteSession(made) if face == "blocking" else Awaited(AsyncRemoteSession(made), asyncio.new_event_loop())


def noting(session: Any, routes: set[str], look: Callable[[str, Reply], None] = lambda route, reply: None) -> Any:
    """The session, whose attempts and streams are noted by their operation's id; ``look`` sees each reply."""
    transport = session._transport if isinstance(session, RemoteSession) else session._inner._transport
    attempt, pieces = transport.attempt, transport.iter_pieces

    def noted(asked: Any) -> Any:
        routes.add(asked.call.route)
        made = attempt(asked)
        if inspect.iscoroutine(made):
            return awaited(asked.call.route, made)
        seen(asked.call.route, made)
        return made

    def seen(route: str, outcome: Any) -> None:
        if isinstance(outcome, Reply):
            look(route, outcome)

    async def awaited(route: str, made: Coroutine[Any, Any, Any]) -> Any:
        outcome = await made
        seen(route, outcome)
        return outcome

    def streamed(call: Any) -> Any:
        routes.add(call.route)
        return pieces(call)

    transport.attempt, transport.iter_pieces = noted, streamed
    return session
