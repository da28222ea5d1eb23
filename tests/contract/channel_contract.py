"""What every channel keeps. A new channel inherits these tests and says only how a network of them is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
import pytest

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, Member, Members
from siloquent.federation.messages.payload import pack_json, pack_words, unpack_json, unpack_words

MEMBERS = Members(
    (
        Member("north", "party", "North Clinic"),
        Member("river", "party", "River Clinic"),
        Member("w1", "worker", "University"),
        Member("w2", "worker", "Institute"),
        Member("office", "moderator", "Registry"),
    )
)
SOON = 0.2  # seconds after which a test stops to wait for what never comes
LONG = 30.0  # what comes within it comes, on any machine


class Network(Protocol):
    """A session that is open for all of ``MEMBERS``."""

    def open_channel(self, name: str) -> Channel:
        """The end of ``name``; a second one is that role after a restart."""


def code_of(call: Callable[[], object]) -> str:
    """The code of the protocol error that ``call`` raises."""
    with pytest.raises(ProtocolError) as refused:
        call()
    return refused.value.code


class ChannelContract:
    """What a role may rely on."""

    @pytest.fixture
    def network(self) -> Network:
        """A fresh session."""
        raise NotImplementedError

    def test_what_is_sent_arrives_byte_for_byte(self, network: Network) -> None:
        words = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
        network.open_channel("north").send("w1", "a2", pack_words(words))
        arrived = network.open_channel("w1").receive("a2", "north", LONG)
        assert unpack_words(arrived, 4).tolist() == words.tolist()

    def test_all_members_see_one_session_and_one_order_of_members(self, network: Network) -> None:
        ends = [network.open_channel(name) for name in ("north", "w2", "office")]
        assert len({end.session for end in ends}) == 1
        assert len(ends[0].session) == 32
        assert {end.members.parties for end in ends} == {("north", "river")}
        assert {(end.members.workers, end.members.moderator) for end in ends} == {(("w1", "w2"), "office")}

    def test_a_receiver_waits_until_the_message_is_there(self, network: Network) -> None:
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(network.open_channel("w1").receive, "a2", "north", LONG)
            time.sleep(0.05)
            assert not waiting.done()
            network.open_channel("north").send("w1", "a2", pack_json("late"))
            assert unpack_json(waiting.result(LONG)) == "late"

    def test_steps_may_arrive_in_any_order(self, network: Network) -> None:
        north, w1 = network.open_channel("north"), network.open_channel("w1")
        for step in ("b/2", "b/1", "a"):
            north.send("w1", step, pack_json(step))
        assert [unpack_json(w1.receive(step, "north", LONG)) for step in ("a", "b/1", "b/2")] == ["a", "b/1", "b/2"]

    def test_an_attempt_is_a_message_of_its_own(self, network: Network) -> None:
        north, w1 = network.open_channel("north"), network.open_channel("w1")
        north.send("w1", "a", pack_json("first"))
        north.send("w1", "a", pack_json("second"), attempt=1)
        assert unpack_json(w1.receive("a", "north", LONG, attempt=1)) == "second"
        assert unpack_json(w1.receive("a", "north", LONG)) == "first"

    def test_sending_the_same_again_changes_nothing(self, network: Network) -> None:
        north = network.open_channel("north")
        assert not north.is_sent("w1", "a")
        for _ in range(3):
            north.send("w1", "a", pack_json(1))
        assert north.is_sent("w1", "a")
        assert unpack_json(network.open_channel("w1").receive("a", "north", LONG)) == 1

    def test_other_bytes_under_a_sent_step_are_refused(self, network: Network) -> None:
        north = network.open_channel("north")
        north.send("w1", "a", pack_json(1))
        assert code_of(lambda: north.send("w1", "a", pack_json(2))) == "message_conflict"

    def test_what_is_no_payload_is_refused(self, network: Network) -> None:
        north = network.open_channel("north")
        assert code_of(lambda: north.send("w1", "a", b"raw")) == "bad_encoding"

    def test_a_missing_peer_is_named_with_the_step(self, network: Network) -> None:
        with pytest.raises(ProtocolError) as refused:
            network.open_channel("w1").receive("a", "river", SOON)
        assert (refused.value.code, refused.value.role, refused.value.step) == ("peer_missing", "river", "a")

    def test_status_names_whom_a_role_waits_for(self, network: Network) -> None:
        office = network.open_channel("office")
        network.open_channel("north").send("office", "a1", pack_json(0))
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(office.gather, "a1", ["north", "river"], timeout=LONG)
            until = time.monotonic() + LONG
            while office.get_status().waiting_for != ("river",) and time.monotonic() < until:
                time.sleep(0.01)
            assert (office.get_status().step, office.get_status().waiting_for) == ("a1", ("river",))
            network.open_channel("river").send("office", "a1", pack_json(0))
            waiting.result(LONG)
        assert office.get_status().waiting_for == ()

    def test_gather_gives_all_in_the_order_asked_for(self, network: Network) -> None:
        for name in ("river", "north"):
            network.open_channel(name).send("w1", "a", pack_json(name))
        assert list(network.open_channel("w1").gather("a", ["north", "river"], timeout=LONG)) == ["north", "river"]

    def test_gather_goes_on_with_enough_when_time_is_up(self, network: Network) -> None:
        network.open_channel("river").send("w1", "a", pack_json(0))
        assert list(network.open_channel("w1").gather("a", ["north", "river"], enough=1, timeout=SOON)) == ["river"]

    def test_who_was_in_stays_so_after_a_restart(self, network: Network) -> None:
        network.open_channel("river").send("w1", "a", pack_json(0))
        network.open_channel("w1").gather("a", ["north", "river"], enough=1, timeout=SOON)
        network.open_channel("north").send("w1", "a", pack_json(0))
        assert list(network.open_channel("w1").gather("a", ["north", "river"], enough=1, timeout=SOON)) == ["river"]

    def test_too_few_are_an_error(self, network: Network) -> None:
        assert (
            code_of(lambda: network.open_channel("w1").gather("a", ["north"], enough=1, timeout=SOON)) == "peer_missing"
        )

    def test_a_restarted_role_finds_messages_and_state(self, network: Network) -> None:
        network.open_channel("north").send("w1", "a", pack_json("kept"))
        before = network.open_channel("w1")
        before.receive("a", "north", LONG)
        before.state.put("seed", b"s" * 32)
        before.send("w2", "b", pack_json("sent"))
        after = network.open_channel("w1")
        assert unpack_json(after.receive("a", "north", LONG)) == "kept"
        assert after.state.get("seed") == b"s" * 32
        assert after.is_sent("w2", "b")

    def test_erased_state_is_gone(self, network: Network) -> None:
        state = network.open_channel("w1").state
        state.put("seed", b"s")
        state.put("seed", b"t")
        assert state.get("seed") == b"t"
        state.erase("seed")
        assert network.open_channel("w1").state.get("seed") is None
        assert network.open_channel("w2").state.get("seed") is None

    def test_a_signature_is_of_one_role_one_label_and_one_content(self, network: Network) -> None:
        north, w1 = network.open_channel("north"), network.open_channel("w1")
        mark = north.sign("digest", b"content")
        assert w1.verify("north", "digest", b"content", mark)
        assert not w1.verify("river", "digest", b"content", mark)
        assert not w1.verify("north", "other", b"content", mark)
        assert not w1.verify("north", "digest", b"Content", mark)

    def test_a_head_is_fixed_by_the_first_call(self, network: Network) -> None:
        north = network.open_channel("north")
        north.send("w1", "a", pack_json(1))
        head = north.read_head()
        north.send("w1", "b", pack_json(1))
        assert network.open_channel("north").read_head() == head
        assert network.open_channel("w1").read_head() != head

    def test_an_abort_wakes_and_stops_everybody(self, network: Network) -> None:
        w1, north = network.open_channel("w1"), network.open_channel("north")
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(w1.receive, "a", "north", LONG)
            time.sleep(0.05)
            assert code_of(lambda: network.open_channel("river").abort("canary_failed")) == "canary_failed"
            assert code_of(lambda: waiting.result(LONG)) == "aborted_by"
        assert code_of(lambda: w1.send("w2", "b", pack_json(0))) == "aborted_by"
        with pytest.raises(ProtocolError) as refused:
            north.receive("c", "w1", LONG)
        assert (refused.value.code, refused.value.role) == ("aborted_by", "river")
        assert "canary_failed" in refused.value.detail

    def test_an_abort_names_its_step_to_everybody(self, network: Network) -> None:
        north, river = network.open_channel("north"), network.open_channel("river")
        river.send("w1", "u1/2", pack_json(0))
        with pytest.raises(ProtocolError) as own:
            river.abort("batch_size", step="c2/3")
        assert (own.value.role, own.value.step) == ("river", "c2/3")
        with pytest.raises(ProtocolError) as told:
            north.receive("d", "w1", LONG)
        assert (told.value.role, told.value.step) == ("river", "c2/3")
        assert "role river, step c2/3, batch_size" in told.value.detail

    def test_many_roles_may_send_at_once(self, network: Network) -> None:
        def send(name: str) -> None:
            end = network.open_channel(name)
            for k in range(20):
                end.send("office", f"s/{k}", pack_json(k))

        threads = [threading.Thread(target=send, args=(name,)) for name in ("north", "river", "w1", "w2")]
        for thread in threads:
            thread.start()
        office = network.open_channel("office")
        for k in range(20):
            found = office.gather(f"s/{k}", ["north", "river", "w1", "w2"], timeout=LONG)
            assert [unpack_json(value) for value in found.values()] == [k] * 4
        for thread in threads:
            thread.join()
