"""The messages of a session: the same bytes as ever, each of a declared class, sent and received by declared roles."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trials.toy_group import ToyGroup
from siloquent.errors import ProtocolError
from siloquent.federation.channel import MemoryNetwork, run_all
from siloquent.federation.crypto import worker_messages
from siloquent.federation.crypto.group import Ristretto
from siloquent.federation.crypto.worker_messages import EndOrder, HopOrder, VoteOrder, WorkerOrder, parse_order
from siloquent.federation.messages.payload import pack_bytes, pack_json, unpack_document, unpack_json
from siloquent.federation.messages.step_message import DocumentMessage, StepMessage
from siloquent.profile import protocol as profile_messages
from siloquent.profile.protocol import (
    Agreed,
    EntryMessage,
    Final,
    LevelMessage,
    SearchPass,
    Sizes,
    VerdictsMessage,
    VoteRound,
    VoteVerdicts,
)
from siloquent.testing.profile import build_parts, open_in_memory
from unit.profile.lattice import as_table, network, random_parts
from unit.profile.roles import terms

ROLES = {"p1": "with-w1 with-w2 canary salt", "p2": "with-w1 with-w2 salt", "p3": "with-w1 with-w2 salt"}
GOLDEN = {
    "padded": "f89196308ee52faa08e95ba8a215805bc2fda193955dc28ffdf104b6aa9d0e1a",
    "fast": "16c886fa2be8784de06511e9bfc21f2c500db0db400d8e36473401f00206a93b",
    "smfd": "87f239be7ba312723c3b9310836023e10915a55981bb1b1d84e16a0c1022738c",
    "ristretto": "ab483db02e428964347ee7270a220c578df200cf4501c19ef7370e6bf659e856",
}
"""SHA-256 over all messages of a session whose seeds are fixed: version 2 of the protocol is these bytes."""


def record(protocol: str, group: Any, **spec: Any) -> MemoryNetwork:
    """All messages of one session; every random number follows from its role's name."""
    net = network(3, 2, seed=5)
    for name in ("p1", "p2", "p3", "w1", "w2", "office"):
        state = net.open_channel(name).state
        for seed in ("own", "elgamal", *ROLES.get(name, "").split()):
            state.put(seed, hashlib.sha256(f"{name} {seed}".encode()).digest())
    parts = random_parts(3, columns=4, rows=9)
    opened = [open_in_memory(as_table(part), name) for part, name in zip(parts, net.members.parties, strict=True)]
    run_all(net, build_parts(net.members, terms(4, protocol=protocol, **spec), opened, group=group))
    return net


SESSIONS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "padded": ("padded", ToyGroup(), {"kinds": ("cfd", "ufd", "keys"), "empty_lhs": True}),
    "fast": ("fast", ToyGroup(), {"kinds": ("cfd", "ufd", "keys")}),
    "smfd": ("smfd", ToyGroup(), {}),
    "ristretto": ("padded", Ristretto(), {"max_lhs": 1}),
}


def digest(net: MemoryNetwork) -> str:
    found = hashlib.sha256()
    for key, payload in sorted(net.list_traffic().items()):
        found.update(f"{key} {len(payload)} ".encode() + payload)
    return found.hexdigest()


@pytest.mark.parametrize("name", SESSIONS)
def test_no_byte_of_a_session_has_changed(name: str) -> None:
    protocol, group, spec = SESSIONS[name]
    assert digest(record(protocol, group, **spec)) == GOLDEN[name]


MESSAGES = (*profile_messages.MESSAGES, *worker_messages.MESSAGES)
PAGE = Path(__file__).resolve().parents[3] / "docs/reference/profile-messages.md"


def declared(net: MemoryNetwork, sender: str, to: str, step: str) -> Iterator[type[StepMessage]]:
    """The classes whose step, senders and receivers are those of a message."""
    for kind in MESSAGES:
        pattern = re.sub(r"{[a-z]+}", "[0-9]+", kind.step_name)
        kinds = net.members[sender].kind in kind.senders and net.members[to].kind in kind.receivers
        if kinds and re.fullmatch(pattern, step):
            yield kind


def encode_again(kind: type[StepMessage], payload: bytes, sizes: list[int]) -> bytes:
    """The payload, read into ``kind`` and written again; empty if it is of another kind."""
    made: Any = kind
    try:
        if issubclass(kind, WorkerOrder):
            order = parse_order(payload)
            return order.to_payload() if isinstance(order, kind) else b""
        if kind is SearchPass:
            return SearchPass.from_payload(payload, sizes).to_payload()
        if kind in (LevelMessage, Agreed, Final):  # compared as a whole, not read
            message = made(**unpack_document(payload))
            assert message.matches(payload)
            return bytes(message.to_payload())
        return bytes(made.from_payload(payload).to_payload())
    except ProtocolError:
        return b""


@pytest.mark.parametrize("name", SESSIONS)
def test_every_message_of_a_session_is_a_declared_one(name: str) -> None:
    protocol, group, spec = SESSIONS[name]
    net = record(protocol, group, **spec)
    traffic = net.list_traffic()
    sizes = unpack_json(traffic["office", "p1", "sizes", 0])["sizes"]
    used = set()
    for (sender, to, step, _), payload in traffic.items():
        kinds = [kind for kind in declared(net, sender, to, step) if encode_again(kind, payload, sizes) == payload]
        assert kinds, (sender, to, step)
        used |= set(kinds)
    others = {"c{hop}/{chunk}", "u0/{number}"} if protocol == "smfd" else {"s0/{level}", "s9/{level}"}
    left = {kind.__name__ for kind in MESSAGES if kind not in used and kind.step_name not in others}
    assert left <= {"HopOrder", "MixOrder", "ZeroOrder", "MixBatches", "MixTags", "ZeroPairs", "ZeroPoints"}


def test_every_message_has_its_row_in_the_reference() -> None:
    rows = [[cell.strip() for cell in line.split(" | ")] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    for kind in MESSAGES:
        near = [row for row in rows if row[0] == f"| `{kind.step_name}`" and len(row) >= 5]
        fitting = [row for row in near if {*kind.senders} <= named(row[1]) and {*kind.receivers} <= named(row[2])]
        assert fitting, (kind.__name__, near)
        if issubclass(kind, DocumentMessage) and kind.__name__ != "Report":
            keys = ["v", "spec", "columns", "most_sets"] if kind.__name__ == "Terms" else [f.name for f in fields(kind)]
            assert any(all(f"`{key}`" in row[3] for key in keys) for row in fitting), kind.__name__


def named(cell: str) -> set[str]:
    kinds = {"party": "part(y|ies)", "worker": "worker|W_", "moderator": "moderator"}
    return {kind for kind, pattern in kinds.items() if re.search(pattern, cell)}


ORDER = {"do": "vote", "level": 0, "count": 3}
ROUND = {"bits": "", "digest": "0" * 64, "canaries": [-1, 0], "order": "00" * 32}


@pytest.mark.parametrize(
    ("read", "document"),
    [
        (parse_order, {**ORDER, "do": "sum"}),
        (parse_order, {**ORDER, "do": ["vote"]}),
        (parse_order, {"do": "vote", "level": 0}),
        (parse_order, {**ORDER, "count": None}),
        (parse_order, [ORDER]),
        (parse_order, {"do": "hop", "sizes": [], "exact": True, "shown": 2, "chunks": [], "chunk": 0}),
        (parse_order, {"do": "hop", "sizes": {}, "exact": True, "shown": 2, "chunks": [7], "chunk": 0}),
        (EntryMessage.from_payload, {"columns": "", "size": "9", "commitment": ""}),
        (Sizes.from_payload, {"sizes": [9, -1]}),
        (Sizes.from_payload, {"sizes": [True]}),
        (VoteVerdicts.from_payload, {"bits": "012"}),
        (VoteVerdicts.from_payload, {}),
        (VoteRound.from_payload, {**ROUND, "bits": None}),
        (VoteRound.from_payload, {**ROUND, "canaries": [-2]}),
        (VoteRound.from_payload, {**ROUND, "canaries": [False]}),
        (VoteRound.from_payload, {**ROUND, "order": "00"}),
        (VoteRound.from_payload, {**ROUND, "order": 7}),
        (SearchPass.from_payload, {"bits": ""}),
        (SearchPass.from_payload, {"bits": "", "queries": [[0]], "canaries": [], "chunks": [[0]], "chunk": 0}),
        (SearchPass.from_payload, {"bits": "", "queries": [[0, 1]], "canaries": [], "chunks": [[0]], "chunk": -1}),
        (
            SearchPass.from_payload,
            {"bits": "", "queries": [], "canaries": [[0, [[3, 9]], 0]], "chunks": [], "chunk": 0},
        ),
    ],
)
def test_a_message_of_another_form_is_refused(read: Any, document: Any) -> None:
    with pytest.raises(ProtocolError) as refused:
        read(pack_json(document))
    assert refused.value.code == "bad_encoding"
    with pytest.raises(ProtocolError) as refused:
        read(pack_bytes(b"no document"))
    assert refused.value.code == "bad_encoding"


def test_a_message_is_read_as_it_was_sent() -> None:
    asked = VoteRound((True, False), "0" * 64, (-1, 2), bytes(32))
    assert VoteRound.from_payload(asked.to_payload()) == asked
    assert VoteVerdicts.from_payload(asked.to_payload()).bits == (True, False)
    hop = HopOrder({"p1": 9, "p2": 8}, True, 2, ((0, 1), (2,)), 0)
    assert [parse_order(order.to_payload()) for order in (hop, VoteOrder(1, 2), EndOrder())] == [
        hop,
        VoteOrder(1, 2),
        EndOrder(),
    ]
    assert (VoteRound.step(round=3), HopOrder.step(number=4)) == ("v0/3", "order/4")
    assert issubclass(VoteRound, VerdictsMessage)


def test_a_message_that_the_receiver_computes_matches_no_other() -> None:
    level = LevelMessage((1, 2), "0" * 64, 0)
    assert level.matches(level.to_payload())
    document = unpack_json(level.to_payload())
    assert not level.matches(pack_json({**document, "first": 1}))
    assert not level.matches(pack_json({**document, "more": 1}))
    assert not level.matches(pack_json([]))


def test_the_reference_is_enough_to_find_the_canaries_among_the_ballots() -> None:
    """What the page says of derivations and positions, written down with hashlib alone."""
    net = record("padded", ToyGroup())
    traffic = net.list_traffic()
    asked = unpack_json(traffic["office", "p1", "v0/0", 0])
    opened = traffic["w2", "p1", "v3/0", 0][6:]
    label = b"stream shuffle votes"
    data = len(label).to_bytes(2, "big") + label + net.session + (0).to_bytes(8, "big")
    key = hashlib.shake_256(hashlib.blake2b(data, key=bytes.fromhex(asked["order"])).digest()).digest(32)
    words = hashlib.shake_256(b"permutation" + key).digest(16 * len(opened))
    halves = [int.from_bytes(words[at : at + 8], "little") for at in range(0, len(words), 8)]
    positions = sorted(range(len(opened)), key=lambda i: (halves[2 * i], halves[2 * i + 1]))
    canaries = positions[len(opened) - len(asked["canaries"]) :]
    assert [opened[place] for place in canaries] == [kind == -1 for kind in asked["canaries"]]
    assert {opened[place] for place in canaries} == {0, 1}
