"""Every field of every message that a party or the moderator sends in a session, changed in every way of its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.federation.messages.payload import (
    pack_bytes,
    pack_json,
    pack_words,
    parse_kind,
    unpack_bytes,
    unpack_json,
)
from siloquent.profile.spec import FDReport
from siloquent.profile.task.party import Party
from unit.profile.lattice import as_dependencies, exhaustive, network, random_parts
from unit.profile.roles import honest

COLUMNS, ROWS, DEADLINE = 3, 6, 1.0
OWN_VALUES = ("seed", "c1/", "d1/", "d0/", "m1/", "v1/", "s1/")
"""Steps at which a party sends what follows from its rows: it may have any rows, so it may send any such thing.

The seed that it tells a worker makes one half of what it sends as its rows."""
SEARCH = ("u0/", "s0/", "s9/", "order/")
"""Steps at which the moderator tells counts' bits, or asks: docs/explanation/profile-proof.md says what follows."""


@dataclass(frozen=True, slots=True)
class Change:
    """One message, and what is sent in its place."""

    sender: str
    to: str
    step: str
    what: str
    payload: bytes

    @property
    def is_declared(self) -> bool:
        """Whether the proof page says that the result may be another one."""
        steps = SEARCH if self.sender == "office" else OWN_VALUES
        return self.step.startswith(steps)


def all_changes(protocol: str, seed: int) -> list[Change]:
    """All changes of all messages of parties and moderator in one honest session."""
    net = network(3, 2, seed=seed + 1)
    run_all(net, honest(net, _parts(seed), protocol=protocol))
    return [
        Change(sender, to, step, what, payload)
        for (sender, to, step, attempt), raw in sorted(net.list_traffic().items())
        if attempt == 0 and sender not in net.members.workers
        for what, payload in _changed(raw)
    ]


def played(protocol: str, seed: int, change: Change) -> tuple[str, str]:
    """The code with which a session ends in which one message was changed, and what must not be: "" if nothing is."""
    parts, net = _parts(seed), network(3, 2, seed=seed + 1)
    roles = honest(net, parts, protocol=protocol)
    liar, shown = roles[change.sender], list[str]()
    roles[change.sender] = lambda channel: liar(_Changes(channel, change))  # type: ignore[arg-type]
    roles = {name: _within_deadlines(part) for name, part in roles.items()}
    real = Party.check_on_own_rows

    def checked(walk: Any, found: Any) -> Any:
        try:
            return real(walk, found)
        except ProtocolError:
            shown.append(f"{walk.channel.me} ended the session since its own rows refute what was told")
            raise

    with patch.object(Party, "check_on_own_rows", checked):
        code, reports = _ended(net, roles)
    if shown:
        return code, shown[0]
    return code, _wrong(change, parts, reports)


def _parts(seed: int) -> list[Any]:
    return random_parts(seed % 7, columns=COLUMNS, rows=ROWS)


def _wrong(change: Change, parts: list[Any], reports: dict[str, FDReport]) -> str:
    each = as_dependencies(exhaustive(parts), COLUMNS)
    whole = as_dependencies(exhaustive([np.concatenate(parts)]), COLUMNS)
    for name, report in reports.items():
        if name == change.sender:
            continue
        if change.sender == "office" and set(report.cfd) != set(each):
            return f"{name} believes that other dependencies hold in each party"
        if not change.is_declared and (set(report.cfd) != set(each) or set(report.ufd) != set(whole)):
            return f"{name} has a wrong result"
    return ""


def _ended(net: MemoryNetwork, roles: dict[str, Callable[[Channel], Any]]) -> tuple[str, dict[str, FDReport]]:
    try:
        made = run_all(net, roles)
    except ProtocolError as ended:
        return ended.code, {}
    except Exception as bare:  # allowed: it stands for the code that is missing, and is none
        return type(bare).__name__, {}
    return "", {name: one for name, one in made.items() if isinstance(one, FDReport)}


def _within_deadlines(part: Callable[[Channel], Any]) -> Callable[[Channel], Any]:
    return lambda channel: part(_Deadlines(channel))  # type: ignore[arg-type]


class _Deadlines:
    """A channel on which nobody waits for ever, as on those between machines."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def receive(self, step: str, sender: str, timeout: float | None = None, attempt: int = 0) -> bytes:
        return self._channel.receive(step, sender, DEADLINE if timeout is None else timeout, attempt)

    def gather(
        self, step: str, senders: Any, enough: int | None = None, timeout: float | None = None, attempt: int = 0
    ) -> dict[str, bytes]:
        return self._channel.gather(step, senders, enough, DEADLINE if timeout is None else timeout, attempt)


class _Changes:
    """A channel on which one message is another."""

    def __init__(self, channel: Channel, change: Change) -> None:
        self._channel, self._change = channel, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        meant = (to, step) == (self._change.to, self._change.step)
        self._channel.send(to, step, self._change.payload if meant else payload, attempt)


def _changed(raw: bytes) -> Iterator[tuple[str, bytes]]:
    kind = parse_kind(raw)
    if kind == "json":
        document = unpack_json(raw)
        for path, value in _places(document):
            for other in _others(value):
                yield (
                    f"{'.'.join(map(str, path)) or 'all'} = {str(other)[:40]}",
                    pack_json(_with(document, path, other)),
                )
            if path and isinstance(path[-1], str):
                yield f"no {'.'.join(map(str, path))}", pack_json(_without(document, path))
        yield "bytes for a document", pack_bytes(b"junk")
        return
    content = unpack_bytes(raw) if kind == "bytes" else raw[6:]
    pack = pack_bytes if kind == "bytes" else (lambda data: raw[:6] + data)
    for at in {0, len(content) // 2, max(len(content) - 1, 0)}:
        if content:
            yield f"bit of byte {at}", pack(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    for what, other in {
        "nothing": b"",
        "a byte less": content[:-1],
        "an element less": content[32:],
        "twice": content + content,
        "zeros": bytes(len(content)),
        "backwards": content[::-1],
    }.items():
        if other != content:
            yield what, pack(other)
    yield "a document for bytes", pack_json({})
    yield "words", pack_words(np.arange(3))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value in a document, with the way to it; of a list the first and the last."""
    yield path, value
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for at in sorted({0, len(value) - 1}):
            yield from _places(value[at], (*path, at))


def _others(value: Any) -> Iterator[Any]:
    """Other values of the same type, and of another."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -1, 2**40)
    elif isinstance(value, str):
        yield from {value.translate({48: "1", 49: "0"}), value[::-1], value[1:], value + "0", "x"} - {value}
    elif isinstance(value, list):
        yield from (other for other in (value[::-1], value[1:], value + value[:1], []) if other != value)
    elif isinstance(value, dict):
        yield {}
    yield from (other for other in (None, 7, "x", [[]]) if type(other) is not type(value))


def _with(document: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    first, *rest = path
    inner = _with(document[first], tuple(rest), other)
    if isinstance(document, dict):
        return {**document, first: inner}
    return [inner if at == first else one for at, one in enumerate(document)]


def _without(document: Any, path: tuple[Any, ...]) -> Any:
    *before, last = path
    holder = document
    for step in before:
        holder = holder[step]
    return _with(document, tuple(before), {key: value for key, value in holder.items() if key != last})
