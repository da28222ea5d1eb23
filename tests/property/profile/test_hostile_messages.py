"""Whatever one role sends instead of what it should, the session ends with a code: no other error, no hang."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from siloquent.errors import CAUSES, ProtocolError
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.federation.messages.payload import pack_bytes, pack_json, pack_words, parse_kind, unpack_json
from siloquent.profile.spec import FDReport
from unit.profile.lattice import as_dependencies, exhaustive, network, random_parts
from unit.profile.roles import Part, honest

JUNK: list[Any] = [None, [], {}, 7, -1, "x", {"do": "hop"}, {"bits": "2"}, {"queries": [[0]]}, [[[]]], {"digest": 1}]


class Hostile:
    """A channel whose ``at``-th message is changed as the dice say."""

    def __init__(self, channel: Channel, at: int, dice: np.random.Generator) -> None:
        self._channel, self._left, self._dice = channel, at, dice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        self._left -= 1
        self._channel.send(to, step, self._changed(payload) if self._left == 0 else payload, attempt)

    def _changed(self, payload: bytes) -> bytes:
        if self._dice.random() < 0.15:
            return [pack_json({}), pack_bytes(b"junk"), pack_words(np.arange(3))][int(self._dice.integers(3))]
        if parse_kind(payload) == "json":
            return pack_json(self._other(unpack_json(payload)))
        content = bytearray(payload[6:])
        if content and self._dice.random() < 0.6:
            content[int(self._dice.integers(len(content)))] ^= 1 << int(self._dice.integers(8))
            return payload[:6] + bytes(content)
        return pack_bytes(bytes(content[:-1])) if payload[:2] == b"by" else pack_words(np.arange(2))

    def _other(self, value: Any) -> Any:
        """Another document: one value in it is junk, or all of it."""
        if isinstance(value, dict) and value and self._dice.random() < 0.8:
            key = str(self._dice.choice(sorted(value)))
            if self._dice.random() < 0.2:
                return {k: v for k, v in value.items() if k != key}
            return {**value, key: self._other(value[key])}
        return JUNK[int(self._dice.integers(len(JUNK)))]


@pytest.mark.parametrize("protocol", ["padded", "fast", "smfd"])
@pytest.mark.parametrize("seed", range(60))
def test_a_session_with_one_false_message_ends_with_a_code_or_with_the_right_result(protocol: str, seed: int) -> None:
    dice = np.random.default_rng([seed, *protocol.encode()])
    parts = random_parts(seed % 7, columns=3, rows=6)
    net = network(3, 2, seed=seed + 1)
    roles = honest(net, parts, protocol=protocol)
    liar = str(dice.choice(sorted(roles)))
    at, part = int(dice.integers(1, 25)), roles[liar]
    roles[liar] = lambda channel: part(Hostile(channel, at, dice))  # type: ignore[arg-type]
    code, report = _ended(net, roles)
    if report is None:
        assert code in CAUSES
        return
    # One flipped element may pass for a value that nobody else has: then a dependency can be missed, never invented,
    # and a signature finds the flip on a real channel.
    assert report.cfd == as_dependencies(exhaustive(parts), 3)


def _ended(net: MemoryNetwork, roles: dict[str, Part]) -> tuple[str, FDReport | None]:
    try:
        return "", run_all(net, roles)["office"]
    except ProtocolError as ended:
        return ended.code, None


def test_most_false_messages_are_found() -> None:
    found = 0
    for seed in range(40):
        dice = np.random.default_rng([seed, 99])
        net = network(3, 2, seed=seed + 1)
        roles = honest(net, random_parts(seed % 7, columns=3, rows=6))
        part = roles["w1"]
        roles["w1"] = lambda channel, part=part, dice=dice: part(Hostile(channel, 5, dice))  # type: ignore[misc]
        found += _ended(net, roles)[1] is None
    assert found >= 36
