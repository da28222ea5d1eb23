"""What the relay's mailbox keeps, in memory and on disk: idempotent, in order, for members alone, with limits."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from contract.channel_contract import MEMBERS, code_of
from siloquent.errors import NotAllowed, ProtocolError
from siloquent.federation.messages.message import Envelope, Header, compute_pair_genesis
from siloquent.federation.relay.envelope_files import INLINE_BYTES, ORPHAN_S
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.relay.store import DAY, RelayLimits, RelayStore
from siloquent.federation.relay.turns import WINDOW_BYTES

SESSION = "ab" * 32
ALL = [member.name for member in MEMBERS]


def envelope(size: int = 60, **change: object) -> tuple[tuple[str, str, str, int, int], bytes]:
    """A message as the relay sees it: it can open none, so any bytes will do."""
    start = compute_pair_genesis(SESSION, "north", "w1")
    header = Header(SESSION, "north", "w1", "a", 0, 0, 1, 0, start, "0" * 64, "json", size, "0" * 64)
    header = replace(header, **change)  # type: ignore[arg-type]
    wire = Envelope(header.encode(), bytes(64), bytes(size)).encode()
    return (header.session, header.receiver, header.step, header.attempt, header.part), wire


class RelayStoreContract:
    @pytest.fixture
    def store(self, tmp_path: Path) -> RelayStore:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _open(self, store: RelayStore) -> None:
        store.open_session("office", SESSION, ALL, int(time.time()) + 600)

    def test_a_message_is_stored_once(self, store: RelayStore) -> None:
        key, wire = envelope()
        assert [store.put("north", key, wire) for _ in range(3)] == [True, False, False]
        found = store.find_next("w1", 0)
        assert found is not None
        assert found.wire == wire
        assert store.find_next("w1", found.seq) is None

    def test_another_content_under_its_key_is_a_conflict(self, store: RelayStore) -> None:
        key, wire = envelope()
        store.put("north", key, wire)
        other = wire[:-1] + b"\x01"
        assert code_of(lambda: store.put("north", key, other)) == "message_conflict"

    def test_the_sender_is_the_certificates_name(self, store: RelayStore) -> None:
        key, wire = envelope()
        assert code_of(lambda: store.put("river", key, wire)) == "bad_encoding"
        assert code_of(lambda: store.put("north", (*key[:2], "b", *key[3:]), wire)) == "bad_encoding"

    def test_order_is_the_order_of_arrival(self, store: RelayStore) -> None:
        for step in ("c", "a", "b"):
            store.put("north", *envelope(step=step))
        seen, after = [], 0
        while (found := store.find_next("w1", after)) is not None:
            seen.append(Header.decode(Envelope.decode(found.wire).header).step)
            after = found.seq
        assert seen == ["c", "a", "b"]

    @pytest.mark.parametrize("size", [60, INLINE_BYTES + 1])
    def test_what_is_acknowledged_goes_and_stays_known(self, store: RelayStore, size: int) -> None:
        key, wire = envelope(size)
        store.put("north", key, wire)
        found = store.find_next("w1", 0)
        assert found is not None
        assert found.wire == wire
        store.acknowledge("w1", found.seq)
        assert store.find_next("w1", 0) is None
        assert store.put("north", key, wire) is False
        assert store.compute_totals()["bytes_waiting"] == 0

    @pytest.mark.parametrize("size", [60, INLINE_BYTES + 1])
    def test_what_was_received_never_comes_back(self, store: RelayStore, tmp_path: Path, size: int) -> None:
        key, wire = envelope(size)
        store.put("north", key, wire)
        store.acknowledge("w1", 10**6)
        for _ in range(2):
            assert store.put("north", key, wire) is False  # its 201 was lost: a usual retry
            assert store.find_next("w1", 0) is None
            assert list(tmp_path.glob("bodies/*")) == []
            store.sweep()
        assert store.compute_totals()["bytes_waiting"] == 0

    def test_a_crowded_inbox_keeps_each_sessions_order_and_gives_every_message_once(
        self, store: RelayStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("siloquent.federation.relay.store.WINDOW_MESSAGES", 4)
        monkeypatch.setattr("siloquent.federation.relay.turns.WINDOW_MESSAGES", 4)
        chance, sessions = random.Random(3), [SESSION, "cd" * 32, "ef" * 32]
        for session in sessions[1:]:
            store.open_session("office", session, ALL, int(time.time()) + 600)
        sent: dict[str, list[bytes]] = {session: [] for session in sessions}
        got: dict[str, list[bytes]] = {session: [] for session in sessions}
        after, waiting = 0, 0
        while waiting or sum(map(len, sent.values())) < 300:
            for _ in range(chance.choice([0, 1, 9]) if sum(map(len, sent.values())) < 300 else 0):
                session, sender = chance.choice(sessions), chance.choice(["north", "river", "office"])
                change = {"session": session, "sender": sender, "step": f"s{len(sent[session])}"}
                key, wire = envelope(chance.choice([60, 600, 6_000]), **change)
                assert store.put(sender, key, wire)
                sent[session].append(wire)
                waiting += 1
            if (found := store.find_next("w1", after)) is not None:
                assert found.seq > after
                assert store.find_next("w1", after) == found, "the same again until the next is asked for"
                got[Header.decode(Envelope.decode(found.wire).header).session].append(found.wire)
                after, waiting = found.seq, waiting - 1
            if chance.random() < 0.2:
                store.acknowledge("w1", after)
        assert got == sent
        assert store.find_next("w1", after) is None

    def test_nobody_acknowledges_for_another(self, store: RelayStore) -> None:
        store.put("north", *envelope())
        store.acknowledge("w2", 10)
        assert store.find_next("w1", 0) is not None

    def test_a_session_does_not_exist_for_others(self, store: RelayStore) -> None:
        calls = [
            lambda: store.look("stranger", SESSION),
            lambda: store.admit("stranger", SESSION),
            lambda: store.record_heartbeat("stranger", SESSION, "running", "", [], 0),
            lambda: store.finish("stranger", SESSION, "quota", ""),
            lambda: store.look("north", "cd" * 32),
            lambda: store.put("north", *envelope(receiver="stranger")),
        ]
        assert {code_of(call) for call in calls} == {"unknown_session"}

    def test_opening_the_same_session_again_is_fine_and_another_is_not(self, store: RelayStore) -> None:
        deadline = int(time.time()) + 600
        fresh = "cd" * 32
        assert store.open_session("office", fresh, ALL, deadline)
        assert not store.open_session("office", fresh, ALL, deadline)
        assert code_of(lambda: store.open_session("office", fresh, ALL[1:], deadline)) == "message_conflict"

    def test_a_session_without_end_or_with_too_many_is_refused(self, store: RelayStore) -> None:
        fresh, now = "cd" * 32, int(time.time())
        assert code_of(lambda: store.open_session("office", fresh, ALL, now - 1)) == "bad_encoding"
        assert code_of(lambda: store.open_session("office", fresh, ALL, now + 400 * DAY)) == "bad_encoding"
        many = ["office", *(f"r{k}" for k in range(40))]
        assert code_of(lambda: store.open_session("office", fresh, many, now + 9)) == "quota"

    def test_an_abort_is_final_and_names_who_and_why(self, store: RelayStore) -> None:
        store.finish("w1", SESSION, "canary_failed", "", "c2/3")
        store.finish("north", SESSION, "quota", "")
        with pytest.raises(ProtocolError) as refused:
            store.put("north", *envelope())
        assert (refused.value.code, refused.value.role, refused.value.where) == ("aborted_by", "w1", "canary_failed")
        told = store.look("north", SESSION)
        assert (told["state"], told["by"], told["step"]) == ("aborted", "w1", "c2/3")

    def test_the_moderator_alone_ends_well(self, store: RelayStore) -> None:
        with pytest.raises(NotAllowed):
            store.finish("north", SESSION, "ended", "")
        store.finish("office", SESSION, "ended", "head")
        assert code_of(lambda: store.put("north", *envelope())) == "session_closed"

    def test_status_tells_who_waits_for_whom(self, store: RelayStore) -> None:
        store.record_heartbeat("w1", SESSION, "running", "a2", ["river"], 12)
        line = next(one for one in store.look("north", SESSION)["roles"] if one["role"] == "w1")
        assert (line["state"], line["step"], line["waiting_for"]) == ("running", "a2", ["river"])
        assert 12 <= line["since_s"] <= 14
        assert 0 <= line["seen_s"] <= 2


class TestMemory(RelayStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RelayStore:
        return RelayStore(":memory:")


class TestOnDisk(RelayStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RelayStore:
        return RelayStore(tmp_path / "relay.sqlite")

    def test_everything_is_there_after_a_restart(self, store: RelayStore, tmp_path: Path) -> None:
        large, small = envelope(INLINE_BYTES + 1), envelope(step="b")
        store.put("north", *large)
        store.put("north", *small)
        store.close()
        again = RelayStore(tmp_path / "relay.sqlite")
        first = again.find_next("w1", 0)
        assert first is not None
        assert first.wire == large[1]
        assert again.put("north", *small) is False

    def test_a_refused_body_leaves_no_file(self, store: RelayStore, tmp_path: Path) -> None:
        store.finish("w1", SESSION, "quota", "")
        with pytest.raises(ProtocolError):
            store.put("north", *envelope(INLINE_BYTES + 1))
        assert list((tmp_path / "bodies").iterdir()) == []

    def test_files_that_no_row_names_are_swept_and_no_others(self, store: RelayStore, tmp_path: Path) -> None:
        key, wire = envelope(INLINE_BYTES + 1)
        store.put("north", key, wire)
        (waiting,) = (tmp_path / "bodies").iterdir()
        old, fresh, half = (tmp_path / "bodies" / name for name in ("ab" * 32, "cd" * 32, f"{'ef' * 32}.77"))
        for file in (old, fresh, half):
            file.write_bytes(b"x")
        for file in (waiting, old, half):
            os.utime(file, (time.time() - 2 * ORPHAN_S,) * 2)
        store.sweep()
        assert sorted((tmp_path / "bodies").iterdir()) == sorted([waiting, fresh])

    def test_a_disk_that_is_all_but_full_takes_nothing_more(
        self, store: RelayStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = shutil._ntuple_diskusage(10**12, 10**12 - 10**6, 10**6)  # type: ignore[attr-defined]
        monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
        for size in (60, INLINE_BYTES + 1):
            assert code_of(lambda size=size: store.put("north", *envelope(size))) == "quota"
        assert list((tmp_path / "bodies").iterdir()) == []


def test_one_moderator_has_so_many_open_sessions_and_so_many_bytes_in_all_of_them() -> None:
    clock = [time.time()]
    store = RelayStore(":memory:", limits=RelayLimits(sessions=2, moderator_bytes=1_500), clock=lambda: clock[0])
    end = int(clock[0]) + 600
    first, second, third = (letter * 64 for letter in "abc")
    for session in (first, second):
        store.open_session("office", session, ALL, end)
    assert code_of(lambda: store.open_session("office", third, ALL, end)) == "quota"
    assert store.open_session("river", "d" * 64, ALL, end), "another moderator has room"
    assert store.put("north", *envelope(600, session=first))
    assert code_of(lambda: store.put("north", *envelope(600, session=second))) == "too_large"
    store.finish("office", first, "ended", "")
    assert store.open_session("office", third, ALL, end)
    assert store.put("north", *envelope(600, session=second))
    clock[0] += 601
    assert store.open_session("office", "e" * 64, ALL, int(clock[0]) + 600), "what has expired is not open"


def test_one_moderator_has_so_many_sessions_that_ended() -> None:
    clock = [time.time()]
    store = RelayStore(":memory:", limits=RelayLimits(kept_sessions=3), clock=lambda: clock[0])
    for number in range(3):
        session = f"{number:064x}"
        assert store.open_session("office", session, ALL, int(clock[0]) + 600)
        store.finish("office", session, "ended", "")
    assert code_of(lambda: store.open_session("office", SESSION, ALL, int(clock[0]) + 600)) == "quota"
    assert store.open_session("river", SESSION, ALL, int(clock[0]) + 600), "another moderator has room"
    clock[0] += 91 * DAY
    store.sweep()
    assert store.open_session("office", "f" * 64, ALL, int(clock[0]) + 600)


@pytest.mark.parametrize("seed", range(3))
def test_what_each_member_sent_is_known_without_its_messages(tmp_path: Path, seed: int) -> None:
    """Sums beside the messages: a look at a long session must not read it. Files of earlier versions get them, too."""
    chance, path, sessions = random.Random(seed), tmp_path / "relay.sqlite", [SESSION, "cd" * 32]
    store = RelayStore(path)
    for session in sessions:
        store.open_session("office", session, ALL, int(time.time()) + 600)
    for step in range(40):
        sender, session = chance.choice(["north", "w1", "w2"]), chance.choice(sessions)
        wanted = {"session": session, "sender": sender, "receiver": "office"}
        key, wire = envelope(chance.randrange(50, 900), **wanted, step=f"s{chance.randrange(12)}")
        with suppress(ProtocolError):
            store.put(sender, key, wire)
        if step % 10 == 5:
            store.acknowledge("office", chance.randrange(step))
        if step % 10 == 9:
            store.close()
            with closing(sqlite3.connect(path)) as old:
                old.execute("DROP TABLE sent") if step == 19 else None
            store = RelayStore(path)
        for one in sessions:
            sums = dict(store._db.execute("SELECT sender, SUM(size) FROM message WHERE session = ? GROUP BY 1", (one,)))
            assert {role["role"]: role["bytes"] for role in store.look("w1", one)["roles"]} == {
                name: sums.get(name, 0) for name in ALL
            }
    store.close()


def test_a_look_at_a_long_session_reads_none_of_its_messages() -> None:
    store = RelayStore(":memory:", limits=RelayLimits(unacknowledged=10**6))
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    steps: list[int] = []
    store._db.set_progress_handler(lambda: steps.append(1) and 0, 100)
    taken = []
    for number in range(400):
        store.put("north", *envelope(step=f"s{number}"))
        if number in (10, 399):
            steps.clear()
            store.look("w1", SESSION)
            taken.append(len(steps))
    assert taken[1] <= taken[0] + 1, taken


def test_a_body_that_a_killed_put_left_long_ago_is_no_orphan_once_it_is_named(tmp_path: Path) -> None:
    store = RelayStore(tmp_path / "relay.sqlite")
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    key, wire = envelope(INLINE_BYTES + 1)
    left = tmp_path / "bodies" / hashlib.sha256(wire).hexdigest()
    left.write_bytes(wire)
    os.utime(left, (time.time() - 2 * ORPHAN_S,) * 2)
    assert store.put("north", key, wire)
    assert time.time() - left.stat().st_mtime < ORPHAN_S, "a sweep that is under way would remove it"
    store.close()


def test_back_pressure_stops_a_sender_until_its_receiver_has_caught_up() -> None:
    store = RelayStore(":memory:", limits=RelayLimits(unacknowledged=2))
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    for step in ("a", "b"):
        store.put("north", *envelope(step=step))
    assert code_of(lambda: store.put("north", *envelope(step="c"))) == "quota"
    store.acknowledge("w1", 1)
    assert store.put("north", *envelope(step="c"))


def test_what_may_be_queued_is_bounded_by_bytes_for_a_receiver_and_for_a_sender() -> None:
    limits = RelayLimits(queued_bytes=3_000, sender_bytes=5_000)
    store = RelayStore(":memory:", limits=limits)
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    assert store.put("north", *envelope(9_000, step="large")), "one message always fits"
    assert code_of(lambda: store.put("north", *envelope(step="b"))) == "quota"
    assert code_of(lambda: store.put("north", *envelope(step="b", receiver="w2"))) == "quota"
    store.acknowledge("w1", 10)
    for step, receiver in (("c", "w1"), ("c", "w2")):
        assert store.put("north", *envelope(2_000, step=step, receiver=receiver))
    assert code_of(lambda: store.put("north", *envelope(2_000, step="d"))) == "quota"
    assert code_of(lambda: store.put("north", *envelope(2_000, step="d", receiver="river"))) == "quota"
    assert store.put("river", *envelope(2_000, sender="river")), "another sender has room"


@pytest.mark.parametrize("parts", [1, 40])
def test_an_honest_message_waits_for_no_more_than_a_window_of_a_hostile_senders(tmp_path: Path, parts: int) -> None:
    store, other = RelayStore(tmp_path / "relay.sqlite"), "cd" * 32
    sessions = [SESSION, *(f"{number:064x}" for number in range(4))]
    for session in [*sessions, other]:
        store.open_session("office", session, ALL, int(time.time()) + 600)
    bulk, fit = 2**23, RelayLimits().queued_bytes // (2**23 + 1_000)
    for step in range(fit):
        assert store.put("north", *envelope(bulk, session=sessions[step % len(sessions)], step=f"s{step}"))
    assert code_of(lambda: store.put("north", *envelope(bulk, step="more"))) == "quota"
    honest = [envelope(60, sender="river", session=other, part=part, parts=parts)[1] for part in range(parts)]
    for part, wire in enumerate(honest):
        assert store.put("river", envelope(60, sender="river", session=other, part=part, parts=parts)[0], wire)
    before, after, left = 0, 0, list(honest)
    while left:
        found = store.find_next("w1", after)
        assert found is not None
        after = found.seq
        if found.wire == left[0]:
            left.pop(0)
        else:
            before += len(found.wire)
    assert before <= WINDOW_BYTES
    store.close()


def test_a_session_has_room_for_so_much_and_no_more() -> None:
    store = RelayStore(":memory:", limits=RelayLimits(session_bytes=1_000, messages=10))
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    assert code_of(lambda: store.put("north", *envelope(2_000))) == "too_large"


def test_bodies_and_headers_are_forgotten_in_their_time() -> None:
    clock = [time.time()]
    store = RelayStore(":memory:", clock=lambda: clock[0])
    store.open_session("office", SESSION, ALL, int(clock[0]) + 600)
    store.put("north", *envelope())
    clock[0] += 600 + 8 * DAY
    store.sweep()
    assert store.find_next("w1", 0) is None
    assert store.look("north", SESSION)["state"] == "expired"
    clock[0] += 90 * DAY
    store.sweep()
    assert code_of(lambda: store.look("north", SESSION)) == "unknown_session"


def test_a_role_that_asks_too_often_waits() -> None:
    clock = [0.0]
    rates = RelayRates(rate=10, burst=3, clock=lambda: clock[0])
    for _ in range(3):
        rates.take("north")
    rates.take("river")
    assert code_of(lambda: rates.take("north")) == "quota"
    clock[0] += 0.2
    rates.take("north")


def test_files_of_an_earlier_version_get_what_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "relay.sqlite"
    store = RelayStore(path)
    store.open_session("office", SESSION, ALL, int(time.time()) + 600)
    store.put("north", *envelope())
    store.close()
    with closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE session DROP COLUMN step")
        for index in ("ordered", "queued"):
            old.execute(f"DROP INDEX {index}")
        old.execute("ALTER TABLE message DROP COLUMN queued")
    store = RelayStore(path)
    assert store.find_next("w1", 0) is not None
    assert store.put("north", *envelope(step="b"))
    store.finish("w1", SESSION, "quota", "", "a2")
    assert store.look("north", SESSION)["step"] == "a2"
    store.close()
