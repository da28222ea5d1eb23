"""A member that sends messages out of order, again, altered and to others' sessions: honest members notice nothing."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.doors.floods import relay_process
from benchmarks.profile.federation import process_of
from siloquent.federation.identity.bundle import Bundle, read_bundle
from siloquent.federation.messages.message import Envelope, Header, compute_pair_genesis
from siloquent.federation.relay.envelope_files import INLINE_BYTES
from siloquent.federation.relay.store import RelayLimits
from siloquent.federation.relay.turns import WINDOW_BYTES
from siloquent.federation.transport import HttpTransport

OURS, THEIRS = "ab" * 32, "cd" * 32
"""The session of all, and the one of which the hostile role is no member."""
STEPS = ("setup", "share", "sum", "end")
MESSAGES, HONEST = 20, 100


def envelope(sender: str, to: str, step: str, part: int, *, session: str = OURS, body: bytes = b"x" * 60) -> bytes:
    """A message as the relay sees it: it can open none, so any bytes will do."""
    start = compute_pair_genesis(session, sender, to)
    header = Header(session, sender, to, step, 0, part, 1_000, 0, start, "0" * 64, "json", len(body), "0" * 64)
    return Envelope(header.encode(), bytes(64), body).encode()


def path(to: str, step: str, part: object, *, session: str = OURS) -> str:
    return f"/v1/sessions/{session}/messages/{to}/{step}/0/{part}"


def client_of(bundle: Bundle) -> httpx.Client:
    return httpx.Client(base_url=bundle.roster.relay, verify=bundle.build_client_context(), timeout=60, trust_env=False)


def attack(client: httpx.Client, chance: random.Random, kept: dict[str, bytes]) -> tuple[str, int]:
    """Send one request of the hostile role; remember which bytes the relay took first at each address."""
    to, step, part = chance.choice(["river", "office"]), chance.choice(STEPS), chance.randrange(MESSAGES)
    name = chance.choice(["message"] * 6 + ["forged", "foreign", "odd", "inbox", "ack", "beat", "end", "open"])
    if name == "message":  # any order, often again, often with other bytes at the same address
        size = chance.choice([60, 60, 60, 61, INLINE_BYTES + chance.randrange(3)])
        wire = envelope("north", to, step, part, body=chance.randbytes(size) if part % 3 else bytes(60))
        where = path(to, step, part)
        status = client.put(where, content=wire).status_code
        if status == 201:
            assert where not in kept, "what was taken is never taken anew"
            kept[where] = wire
        elif status == 200:
            assert kept[where] == wire
        return name, status
    foreign = envelope("north", "river", step, part, session=THEIRS)
    requests = {
        "forged": ("PUT", path(to, step, part), {"content": envelope("river", "office", step, part)}),
        "foreign": ("PUT", path("river", step, part, session=THEIRS), {"content": foreign}),
        "odd": ("PUT", path(to, step, chance.choice([-1, "9" * 30, "x", 2**63])), {"content": chance.randbytes(200)}),
        "inbox": ("GET", "/v1/inbox", {"params": {"after": chance.choice([0, -1, 2**62, 10**30])}}),
        "ack": ("POST", "/v1/inbox/ack", {"json": {"upto": chance.choice([-1, 2**62, 10**30, "all", None])}}),
        "beat": ("POST", f"/v1/sessions/{THEIRS}/beat", {"json": {"state": "x" * 999, "step": step, "since_s": 1}}),
        "end": ("POST", f"/v1/sessions/{OURS}/close", {"json": {"code": "ended", "transcript": "", "step": ""}}),
        "open": ("POST", "/v1/sessions", {"json": {"session": "ef" * 32, "members": ["north"], "deadline": 2**40}}),
    }
    method, where, what = requests[name]
    return name, client.request(method, where, **what).status_code  # type: ignore[arg-type]


def flood(place: Path, seed: int, until: float) -> None:
    with client_of(read_bundle(place / "north")) as client:
        chance, kept = random.Random(seed), dict[str, bytes]()
        while time.time() < until:
            attack(client, chance, kept)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with relay_process(tmp_path_factory.mktemp("relay") / "all") as running:
        yield running


@pytest.mark.slow
def test_each_message_that_the_relay_took_arrives_once_as_it_was_and_in_the_order_of_arrival(place: Path) -> None:
    office, river = (HttpTransport(read_bundle(place / name)) for name in ("office", "river"))
    with closing(office), closing(river), client_of(read_bundle(place / "north")) as north:
        later = int(time.time()) + 600
        assert office.open_session(OURS, ["office", "north", "river"], later)
        assert office.open_session(THEIRS, ["office", "river"], later)
        chance, kept, told = random.Random(5), dict[str, bytes](), Counter[tuple[str, int]]()
        honest, received, after = list[bytes](), list[bytes](), 0
        while len(honest) < HONEST:
            for _ in range(6):
                told[attack(north, chance, kept)] += 1
            session = (OURS, THEIRS)[len(honest) % 2]
            wire = envelope("office", "river", "work", len(honest), session=session)
            assert office.put((session, "river", "work", 0, len(honest)), wire)
            honest.append(wire)
            while (found := river.fetch_next(after, 0)) is not None:
                received.append(found.wire)
                after = found.seq
            river.acknowledge(after)
        statuses = {status for _, status in told}
        assert statuses <= {200, 201, 204, 403, 404, 409, 422, 429}, told
        assert {("message", 201), ("message", 200), ("message", 409), ("end", 403)} <= set(told), told
        assert [one for one in received if one in set(honest)] == honest
        to_river = [wire for where, wire in kept.items() if "/messages/river/" in where]
        assert [one for one in received if one not in set(honest)] == to_river
        assert office.look(OURS)["state"] == office.look(THEIRS)["state"] == "open"


@pytest.mark.slow
def test_an_honest_message_is_not_behind_all_that_a_hostile_member_may_queue(place: Path) -> None:
    bulk, ours, theirs = 8_000_000, "34" * 32, "56" * 32
    office, river = (HttpTransport(read_bundle(place / name)) for name in ("office", "river"))
    with closing(office), closing(river), client_of(read_bundle(place / "north")) as north:
        later = int(time.time()) + 600
        office.open_session(ours, ["office", "north", "river"], later)
        office.open_session(theirs, ["office", "river"], later)
        statuses = Counter[int]()
        for part in range(100):
            wire = envelope("north", "river", "bulk", part, session=ours, body=bytes(bulk))
            statuses[north.put(path("river", "bulk", part, session=ours), content=wire).status_code] += 1
            if statuses[429] == 3:
                break
        assert statuses[201] * bulk <= RelayLimits().queued_bytes < (statuses[201] + 1) * (bulk + 1_000)
        honest = [envelope("office", "river", "work", part, session=theirs) for part in range(50)]
        for part, wire in enumerate(honest):
            assert office.put((theirs, "river", "work", 0, part), wire)
        after, before, left = 0, 0, list(honest)
        while left:
            found = river.fetch_next(after, 0)
            assert found is not None
            after, is_next = found.seq, found.wire == left[0]
            before += 0 if is_next else len(found.wire)
            del left[: int(is_next)]
        river.acknowledge(2**62)
    assert before <= WINDOW_BYTES


@pytest.mark.slow
def test_honest_members_are_answered_while_another_one_sends_what_it_may(place: Path) -> None:
    session = "12" * 32
    office, river = (HttpTransport(read_bundle(place / name)) for name in ("office", "river"))
    with closing(office), closing(river):
        assert office.open_session(session, ["office", "river"], int(time.time()) + 600)

        def median_ms(first: int) -> float:
            taken = []
            for part in range(first, first + 60):
                start = time.perf_counter()
                office.put(
                    (session, "river", "work", 0, part), envelope("office", "river", "work", part, session=session)
                )
                found = river.fetch_next(0, 0)
                assert found is not None
                river.acknowledge(found.seq)
                taken.append(1_000 * (time.perf_counter() - start))
            return float(np.median(taken))

        median_ms(0)
        alone = median_ms(60)
        with process_of(flood, place, 1, time.time() + 60), process_of(flood, place, 2, time.time() + 60):
            time.sleep(3)
            beside = median_ms(120)
    assert beside < max(5 * alone, 200), f"{beside:.0f} ms, {alone:.0f} ms alone"
