"""A role's life: invited, asked, joined, killed, run again, ended; over a real store, envelopes and journals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from contract.channel_contract import LONG
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.channel.relay import RelayChannel
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import RoleJournal
from siloquent.federation.messages.payload import pack_json, unpack_json
from siloquent.federation.messages.transcript import check_transcript, split_head
from siloquent.federation.peer import Peer, run_polling
from siloquent.federation.policy import Policy, Rule
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.relay.store import RelayStore, StoredEnvelope
from siloquent.federation.role import RoleRunner, SessionResult, begin, moderate_session
from siloquent.testing.federation import StoreTransport
from unit.federation.places import keys_and_roster

ALL = ("north", "river", "w1", "w2", "office")
OPEN = Policy((Rule("test", ("visits",), ("age",), ("echo/1",), ("office",), None, "auto"),))
ASKED = Invitation("echo/1", "test", service="echo", tables=("visits",), columns=("age",), session_deadline_s=300)


def say(channel: Channel, invitation: Invitation, desk: Any) -> None:
    channel.send("w1", "say", pack_json(f"{channel.me} {desk}"))


def echo(channel: Channel, invitation: Invitation, desk: Any) -> None:
    if channel.me == "w1":
        heard = channel.gather("say", channel.members.parties)
        channel.send("office", "heard", pack_json([unpack_json(one) for one in heard.values()]))


def hear(channel: Channel, invitation: Invitation, desk: Any) -> Any:
    return unpack_json(channel.receive("heard", "w1"))


WALKS = ProtocolRegistry()
WALKS.add("party", "echo/1", say)
WALKS.add("worker", "echo", echo)


class Federation:
    """Peers with threads, as processes would have them."""

    def __init__(self) -> None:
        self.keys, self.roster = keys_and_roster()
        self.store, self.news = RelayStore(":memory:"), threading.Condition()
        self.journals = {name: RoleJournal(":memory:") for name in ALL}

    def peer(self, name: str) -> Peer:
        transport = StoreTransport(self.store, name, self.news)
        return Peer(name, self.keys[name], self.roster, self.journals[name], transport)

    @contextmanager
    def running(self, *names: str, policy: Policy = OPEN, walks: ProtocolRegistry = WALKS) -> Iterator[None]:
        with ExitStack() as stack:
            for name in names:
                peer = self.peer(name)
                stop = stack.enter_context(run_polling(peer, wait=0.2))
                role = RoleRunner(peer, walks, open_desk=lambda name=name: nullcontext("of " + name), policy=policy)  # type: ignore[misc]
                thread = threading.Thread(target=role.run, args=(stop,), kwargs={"every_s": 0.02}, daemon=True)
                thread.start()
                stack.callback(thread.join, LONG)
                stack.callback(stop.set)
            yield

    def hold(self, invitation: Invitation = ASKED) -> SessionResult:
        peer = self.peer("office")
        with run_polling(peer, wait=0.2):
            return moderate_session(peer, invitation, ALL, hear)

    def states(self) -> dict[str, str]:
        return {name: known.state for name in ALL for known in self.journals[name].list_sessions()}

    def settled(self) -> dict[str, str]:
        """The states once nothing moves any more."""
        until = time.monotonic() + LONG
        while time.monotonic() < until and not set(self.states().values()) <= {"ended", "aborted", "refused"}:
            time.sleep(0.02)
        return self.states()


def test_a_session_runs_from_invitation_to_signed_heads() -> None:
    federation = Federation()
    with federation.running("north", "river", "w1", "w2"):
        held = federation.hold()
        assert held.result == ["north of north", "river of river"]
        assert set(held.heads) == set(ALL)
        assert federation.settled() == dict.fromkeys(("north", "river", "w1", "w2", "office"), "ended")
    for name in ALL:
        count, head = split_head(held.heads[name]["head"])
        kept = federation.journals[name].list_headers(held.session)
        found = check_transcript(held.session, kept, federation.roster, count)
        assert (found.head, found.fault) == (head, "")


class Expired(StoreTransport):
    """The way to a relay that does not take this role's certificate any more."""

    def fetch_next(self, after: int, wait: float) -> StoredEnvelope | None:
        raise ProtocolError("certificate_expired")


def test_a_moderator_that_is_turned_away_ends_at_once_and_its_session_goes_on_afterwards() -> None:
    federation = Federation()
    judged = ProtocolError("certificate_expired", role="office", fix="renew")
    transport = Expired(federation.store, "office", federation.news)
    office = Peer(
        "office", federation.keys["office"], federation.roster, federation.journals["office"], transport,
        judge=lambda failed, times: judged,
    )  # fmt: skip
    with federation.running("north", "river", "w1", "w2"):
        with run_polling(office, wait=0.2), pytest.raises(ProtocolError) as refused:
            moderate_session(office, ASKED, ALL, hear)
        assert refused.value is judged
        (known,) = federation.journals["office"].list_sessions()
        assert not known.is_over
        renewed = federation.peer("office")
        with run_polling(renewed, wait=0.2):
            held = moderate_session(renewed, ASKED, ALL, hear, session=known.id)
    assert held.result == ["north of north", "river of river"]


def test_payloads_and_secrets_are_gone_from_journals_at_the_end() -> None:
    federation = Federation()
    with federation.running("north", "river", "w1", "w2"):
        held = federation.hold()
        federation.settled()
    for journal in federation.journals.values():
        assert journal.get(held.session, "transcript") is None
        assert not any(e.sealed for e in journal.list_envelopes(held.session, "north", "w1", "say", 0))


def test_an_edited_header_is_found_by_its_number() -> None:
    federation = Federation()
    with federation.running("north", "river", "w1", "w2"):
        held = federation.hold()
        federation.settled()
    count, head = split_head(held.heads["w1"]["head"])
    kept = federation.journals["w1"].list_headers(held.session)
    text, signature = kept[1]
    kept[1] = (text.replace(b'"attempt":0', b'"attempt":7'), signature)
    found = check_transcript(held.session, kept, federation.roster, count)
    assert found.fault.startswith("header 1 ")
    assert found.head != head


def test_a_party_without_a_policy_waits_for_a_person() -> None:
    federation = Federation()
    with federation.running("north", "river", "w1", "w2", policy=Policy()):
        held: list[SessionResult] = []
        thread = threading.Thread(target=lambda: held.append(federation.hold()))
        thread.start()
        for name in ("north", "river"):
            journal, until = federation.journals[name], time.monotonic() + LONG
            while not journal.list_sessions() and time.monotonic() < until:
                time.sleep(0.02)
            assert journal.decide(journal.list_sessions()[0].id, "approved")
            assert not journal.decide(journal.list_sessions()[0].id, "refused")
        thread.join(LONG)
    assert held[0].result == ["north of north", "river of river"]


def test_a_refusal_says_policy_and_nothing_else() -> None:
    federation = Federation()
    other = Policy((Rule("test", ("visits",), ("weight",), ("echo/1",), ("office",), None, "auto"),))
    with federation.running("north", "w1", "w2"), federation.running("river", policy=other):
        with pytest.raises(ProtocolError) as refused:
            federation.hold(
                Invitation("echo/1", "test", "echo", ("visits",), ("age",), min_parties=2, step_deadline_s=60)
            )
        assert (refused.value.code, refused.value.role) == ("policy_refused", "river")
        assert federation.settled()["river"] == "refused"
        heard = {name: federation.journals[name].list_sessions()[0].code for name in ("north", "w1", "w2")}
        assert heard == dict.fromkeys(("north", "w1", "w2"), "policy_refused")  # the others hear why, too


def test_the_rest_goes_on_without_a_party_that_refuses() -> None:
    federation = Federation()
    with federation.running("north", "w1", "w2"), federation.running("river", policy=Policy()):
        for_river = federation.journals["river"]

        def refuse() -> None:
            until = time.monotonic() + LONG
            while not for_river.list_sessions() and time.monotonic() < until:
                time.sleep(0.02)
            for_river.decide(for_river.list_sessions()[0].id, "refused")

        thread = threading.Thread(target=refuse)
        thread.start()
        held = federation.hold()
        thread.join(LONG)
    assert held.result == ["north of north"]
    assert held.members == ("north", "w1", "w2", "office")


@pytest.mark.parametrize(
    "told",
    [
        ["north", "river", "w1", "office"],
        ["north", "w1", "w2", "office"],
        ["north", "river", "w1", "w2"],
        [*ALL, "north"],
        [*ALL, "hill"],
        [[], *ALL],
        None,
    ],
    ids=["without a worker", "with too few parties", "without its moderator", "twice", "uninvited", "no name", "none"],
)
def test_nobody_plays_among_others_than_it_agreed_to(told: Any) -> None:
    played: list[str] = []
    walks = ProtocolRegistry()
    walks.add("party", "echo/1", lambda channel, invitation, desk: played.append(channel.me))
    walks.add("worker", "echo", lambda channel, invitation, desk: played.append(channel.me))
    federation, asked = Federation(), replace(ASKED, min_parties=2)
    with federation.running("north", "river", "w1", "w2", walks=walks):
        peer = federation.peer("office")
        with run_polling(peer, wait=0.2):
            session = begin(peer, asked, ALL)
            known = peer.journal.find_session(session)
            assert known is not None
            peer.transport.open_session(session, list(known.members), known.deadline)
            channel = RelayChannel(peer, session)
            for name in ALL[:-1]:
                channel.send(name, "invite", pack_json(known.invitation))
            channel.gather("join", ALL[:-1], timeout=LONG)
            channel.send("north", "start", pack_json({"members": told}))
            until = time.monotonic() + LONG
            while (
                mine := federation.journals["north"].list_sessions()[0]
            ).state != "aborted" and time.monotonic() < until:
                time.sleep(0.02)
    assert mine.code == ("planner_mismatch" if told and all(told) else "bad_encoding")
    assert (mine.by_role, mine.step) == ("north", "start")
    assert not played


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": ["north", "office", ["river"]]},
        {"members": "north"},
        {"deadline": 10**30},
        {"deadline": 1e300},
        {"deadline": -1},
        {"invitation": {**ASKED.to_json(), "body": []}},
        {"invitation": {**ASKED.to_json(), "tables": 7}},
        {"invitation": {**ASKED.to_json(), "later": 1}},
        {"invitation": "come"},
        None,
    ],
    ids=lambda wrong: f"{wrong}"[:40],
)
def test_an_invitation_that_is_none_is_refused_and_the_next_one_is_read(wrong: dict[str, Any] | None) -> None:
    federation = Federation()
    office, north = federation.peer("office"), federation.peer("north")
    sessions = [begin(office, ASKED, ALL) for _ in range(2)]
    for session, changed in zip(sessions, (wrong, {}), strict=True):
        known = office.journal.find_session(session)
        assert known is not None
        office.transport.open_session(session, list(known.members), known.deadline)
        told = [] if changed is None else {**known.invitation, **changed}
        office.leave(session, "north", "invite", pack_json(told), 0, "json")
    while north.poll(0):
        pass
    first, second = (north.journal.find_session(session) for session in sessions)
    assert first is None or (first.state, first.invitation) == ("aborted", {})
    assert second is not None
    assert second.state == "invited"


def test_a_role_that_starts_late_is_waited_for() -> None:
    federation = Federation()
    with federation.running("north", "w1", "w2"):
        held: list[SessionResult] = []
        thread = threading.Thread(target=lambda: held.append(federation.hold()))
        thread.start()
        time.sleep(0.3)
        assert not held
        with federation.running("river"):
            thread.join(LONG)
    assert held[0].members == ALL


def test_a_part_that_breaks_ends_the_session_for_all() -> None:
    def breaks(channel: Channel, invitation: Invitation, desk: Any) -> None:
        raise ZeroDivisionError("p0001")

    walks = ProtocolRegistry()
    walks.add("party", "echo/1", breaks)
    federation = Federation()
    with federation.running("w1", "w2"), federation.running("north", "river", walks=walks):
        with pytest.raises(ProtocolError) as refused:
            federation.hold()
        assert refused.value.code == "aborted_by"
        assert "p0001" not in str(refused.value)
        assert set(federation.settled().values()) == {"aborted"}


def test_whoever_is_silent_for_a_steps_deadline_ends_a_session_that_may_not_wait() -> None:
    def is_silent(channel: Channel, invitation: Invitation, desk: Any) -> None:
        channel.receive("never", "w1", LONG)

    walks, asked = ProtocolRegistry(), replace(ASKED, on_missing="abort", step_deadline_s=1)
    walks.add("party", "echo/1", is_silent)
    federation = Federation()
    with federation.running("north", "w1", "w2"), federation.running("river", walks=walks):
        with pytest.raises(ProtocolError) as refused:
            federation.hold(asked)
        assert refused.value.code in ("peer_missing", "aborted_by")
        assert set(federation.settled().values()) == {"aborted"}
        ends = [journal.list_sessions()[0] for journal in federation.journals.values()]
    assert {known.code for known in ends} == {"peer_missing"}
    assert all(known.step and known.by_role for known in ends)  # several may give up at once, each says where


def test_a_worker_that_does_not_know_the_service_ends_the_session() -> None:
    federation = Federation()
    with (
        federation.running("north", "river"),
        federation.running("w1", "w2", walks=ProtocolRegistry()),
        pytest.raises(ProtocolError) as refused,
    ):
        federation.hold()
    assert "version_mismatch" in refused.value.detail
