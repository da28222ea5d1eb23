"""Roles that die and come back, for fault runs and tests: ordinary parts over channels that end at a chosen call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from siloquent.federation.channel import Channel

Part = Callable[[Channel], Any]


class Network(Protocol):
    """Where a role that comes back gets its end from."""

    def open_channel(self, name: str) -> Any:
        """A new end of ``name``, with the messages and the state of the old one."""
        ...


class Killed(BaseException):
    """The role's process is gone."""


class Dying:
    """A channel whose role dies at its ``at``-th call, before it or after it had its effect."""

    def __init__(self, channel: Channel, at: int, *, after: bool) -> None:
        self._channel, self._left, self._after = channel, at, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if name not in ("send", "receive", "gather"):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            result = found(*args, **kwargs)
            if self._left == 0:
                raise Killed
            return result

        return call


def mortal(net: Network, name: str, part: Part, deaths: Iterable[tuple[int, bool]]) -> Part:
    """A role that dies at each of ``deaths`` (after so many calls; before or after the last one) and starts anew."""

    def lives(channel: Channel) -> Any:
        for at, after in deaths:
            try:
                return part(Dying(net.open_channel(name), at, after=after))
            except Killed:
                continue
        return part(net.open_channel(name))

    return lives
