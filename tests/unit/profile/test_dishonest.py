"""Roles that do not follow the protocol are found, or what they can do is declared: one test a play."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.trials.toy_group import ToyGroup
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork
from siloquent.federation.crypto import chain
from siloquent.federation.crypto.framing import join_batches
from siloquent.federation.crypto.group import split
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.federation.crypto.worker_messages import VoteOrder
from siloquent.federation.messages.payload import (
    pack_bytes,
    pack_json,
    pack_words,
    unpack_bytes,
    unpack_json,
    unpack_words,
)
from siloquent.profile.measure import PartyData, Snapshot, read_arrow_snapshot
from siloquent.profile.plan.planner import Excesses
from siloquent.profile.protocol import VoteVerdicts
from siloquent.profile.spec import ProfileColumn
from siloquent.profile.task import voting
from siloquent.profile.terms import Terms
from unit.profile.lattice import as_table, exhaustive, names, network, random_parts
from unit.profile.roles import honest, refused, tampering

PARTS = random_parts(1, columns=4)
Alter = Callable[[bytes], bytes]


def play(role: str, step: str, alter: Alter, **spec: Any) -> str:
    """How a session ends in which ``role`` changes what it sends at ``step``."""
    net = network(3, 3)
    parts = honest(net, PARTS, **spec)
    parts[role] = tampering(parts[role], step, alter)
    return refused(net, parts)


def batches_of(raw: bytes) -> list[bytes]:
    content, found, at = unpack_bytes(raw), [], 0
    while at < len(content):
        count = int.from_bytes(content[at : at + 4], "big")
        found.append(content[at + 4 : at + 4 + 32 * count])
        at += 4 + 32 * count
    return found


def each(change: Callable[[bytes], bytes]) -> Alter:
    """Change every batch in a message of batches."""
    return lambda raw: pack_bytes(join_batches(change(batch) for batch in batches_of(raw)))


def random_elements(count: int) -> bytes:
    return ToyGroup().from_uniform(np.random.default_rng(3).bytes(64 * count))


WORKER_PLAYS: dict[str, tuple[str, str, Alter, str]] = {
    "drops an element": ("w1", "c2/", each(lambda batch: batch[32:]), "batch_size"),
    "adds an element": ("w1", "c2/", each(lambda batch: batch + random_elements(1)), "batch_size"),
    "doubles an element": ("w2", "c3/", each(lambda batch: batch[32:] + batch[-32:]), "duplicate_points"),
    "sends no elements": ("w1", "c2/", each(lambda batch: b"\2" + bytes(31) + batch[32:]), "bad_encoding"),
    "sends the identity": ("w1", "c2/", each(lambda batch: bytes(32) + batch[32:]), "bad_encoding"),
    "replaces all elements": ("w2", "c3/", each(lambda batch: random_elements(len(batch) // 32)), "duplicate_points"),
    "miscounts": ("w3", "c4/", lambda raw: pack_words(unpack_words(raw) + 1), "canary_failed"),
    "says that nothing is shared": ("w3", "c4/", lambda raw: pack_words(unpack_words(raw) * 0), "canary_failed"),
    "counts more than there can be": ("w3", "c4/", lambda raw: pack_words(unpack_words(raw) + 10**6), "canary_failed"),
    "leaves a count out": ("w3", "c4/", lambda raw: pack_words(unpack_words(raw)[1:]), "batch_size"),
    "says yes to all": ("w3", "v4/", lambda raw: pack_bytes(b"\1" * len(unpack_bytes(raw))), "canary_failed"),
    "says no to all": ("w3", "v4/", lambda raw: pack_bytes(b"\0" * len(unpack_bytes(raw))), "canary_failed"),
    "publishes a key that it does not know": (
        "w2",
        "key",
        lambda raw: pack_bytes(ToyGroup().multiply_base((7).to_bytes(32, "little")) + unpack_bytes(raw)[32:]),
        "bad_encoding",
    ),
    "drops a ballot": ("w1", "v2/", lambda raw: pack_bytes(unpack_bytes(raw)[64:]), "batch_size"),
}


@pytest.mark.parametrize(("role", "step", "alter", "code"), WORKER_PLAYS.values(), ids=WORKER_PLAYS)
def test_a_worker_that_deviates_is_found(role: str, step: str, alter: Alter, code: str) -> None:
    found = play(role, step, alter)
    # Random elements are found as duplicates where one batch is repeated, and by the canaries in any case.
    assert found == code or (code == "duplicate_points" and found == "canary_failed")


class OtherExponents(ChainWorker):
    """Multiplies each party's batch by an exponent of its own: equalities between parties are lost."""

    def _hop_batches(self, chunk: int, queries: list[int], sizes: list[int], *, exact: bool) -> bytes:
        message = super()._hop_batches(chunk, queries, sizes, exact=exact)
        group = ToyGroup()
        spoiled = [group.multiply_points(b, (2 + i).to_bytes(32, "little")) for i, b in enumerate(batches_of(message))]
        return pack_bytes(join_batches(spoiled))


def test_a_worker_with_two_exponents_fails_the_canaries() -> None:
    net = network(3, 3)
    parts = honest(net, PARTS)
    parts["w2"] = lambda channel: OtherExponents(channel, ToyGroup()).run()
    assert refused(net, parts) == "canary_failed"


def spoiling(channel: Channel) -> None:
    """W_2 that sends random elements for others' values: nothing seems to be shared."""

    class Spoils(ChainWorker):
        def _hop_batches(self, chunk: int, queries: list[int], sizes: list[int], *, exact: bool) -> bytes:
            message = super()._hop_batches(chunk, queries, sizes, exact=exact)
            group = ToyGroup()
            wide = np.random.default_rng([*channel.session[:4], chunk])
            batches = [group.from_uniform(wide.bytes(2 * len(b))) for b in batches_of(message)]
            return pack_bytes(join_batches(batches))

    Spoils(channel, ToyGroup()).run()


def test_lost_equalities_invent_dependencies_and_only_canaries_tell() -> None:
    """Declared: what seems to be shared by nobody seems to hold everywhere that it holds inside each party."""
    house = np.array([[0, 0], [1, 1], [2, 2]])
    parts = [house, (house + np.array([0, 1])) % 3, house]
    assert exhaustive([np.concatenate(parts)]) == []
    for canaries, ends in ((0, "no refusal"), (Fraction(1, 20), "canary_failed")):
        net = network(3, 3)
        roles = honest(net, parts, canaries=canaries, min_rows=2)
        roles["w2"] = spoiling
        assert refused(net, roles) == ends


def test_values_meet_only_those_of_parties_that_were_told_the_same() -> None:
    rows = read_arrow_snapshot(as_table(PARTS[0]), tuple(ProfileColumn(name, "text") for name in names(4)))
    seeds = {"shared": [bytes(32), bytes(range(32))], "own": bytes(32)}

    def batch(terms: bytes) -> set[bytes]:
        data = PartyData(rows, bytes(32), 4, False, ToyGroup(), terms)
        return set(split(data.build_batch(0b11, None, 0, **seeds)))

    assert batch(b"a" * 32) == batch(b"a" * 32)
    assert not batch(b"a" * 32) & batch(b"b" * 32)


def test_a_larger_set_that_shares_more_than_a_smaller_one_is_refused() -> None:
    known = Excesses({0b01: 3, 0b11: 4, 0b101: 3})
    assert known.is_equal(0b01, 0b101)
    with pytest.raises(ProtocolError) as refused_:
        known.is_equal(0b01, 0b11)
    assert refused_.value.code == "canary_failed"


def test_a_worker_that_copies_one_batch_over_anothers_fails_the_canaries() -> None:
    def copy(raw: bytes) -> bytes:
        batches = batches_of(raw)
        return pack_bytes(join_batches([batches[at - at % 3] for at in range(len(batches))]))

    assert play("w2", "c3/", copy) == "canary_failed"


def test_a_worker_that_is_asked_a_query_twice_refuses() -> None:
    def again(raw: bytes) -> bytes:
        order = unpack_json(raw)
        if order["do"] == "hop":
            order["chunks"] = [[0] for _ in order["chunks"]]
        return pack_json(order)

    net = network(3, 3)
    parts = honest(net, PARTS)

    def twice(channel: Channel) -> None:
        worker = ChainWorker(channel, ToyGroup())
        worker._take([0], [1])
        worker._take([0], [1])

    parts["w1"] = twice
    assert refused(net, parts) == "secret_reuse"
    assert again(pack_json({"do": "end"})) == pack_json({"do": "end"})


def json_play(step: str, change: Callable[[Any], Any]) -> str:
    return play("office", step, lambda raw: pack_json(change(unpack_json(raw))))


def with_other_mask(told: Any) -> Any:
    return {**told, "queries": [[q, m ^ 1 or 2] for q, m in told["queries"]]} if "queries" in told else told


MODERATOR_PLAYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "asks other sets": ("u0/", with_other_mask),
    "asks one more set": ("u0/", lambda told: {**told, "queries": [*told.get("queries", []), [9_999, 15]]}),
    "asks a set again": (
        "u0/",
        lambda told: (
            {**told, "queries": [*told["queries"], [9_999, told["queries"][0][1]]]} if "queries" in told else told
        ),
    ),
    "counts chunks from below 0": ("u0/", lambda told: {**told, "chunk": -1} if "chunk" in told else told),
    "tells more bits": ("u0/", lambda told: {**told, "bits": told["bits"] + "1"}),
    "votes on other candidates": ("v0/", lambda told: {**told, "digest": "0" * 64}),
    "asks for more canaries": ("v0/", lambda told: {**told, "canaries": told.get("canaries", []) * 1000}),
    "tells fewer verdicts": ("v0/", lambda told: {**told, "bits": told["bits"][1:]} if told["bits"] else told),
    "reports other dependencies": ("report", lambda told: {**told, "ufd": [*told["ufd"], [["b"], "c"]]}),
    "reports another session": ("report", lambda told: {**told, "session": "00" * 32}),
    "ends without all parties": ("final", lambda told: {"agreed": told["agreed"][1:]}),
    "tells other sizes": ("sizes", lambda told: {"sizes": [size + 1 for size in told["sizes"]]}),
}


@pytest.mark.parametrize(("step", "change"), MODERATOR_PLAYS.values(), ids=MODERATOR_PLAYS)
def test_parties_refuse_a_moderator_that_deviates(step: str, change: Callable[[Any], Any]) -> None:
    assert json_play(step, change) in ("planner_mismatch", "bad_encoding")


def test_a_party_draws_no_number_twice_for_a_moderator_that_counts_queries_anew() -> None:
    step, change = "s0/1", lambda told: {**told, "first": 0}
    assert play("office", step, lambda raw: pack_json(change(unpack_json(raw))), protocol="smfd") == "planner_mismatch"
    again = json_play("u0/1", lambda told: {**told, "queries": [[0, m] for _, m in told.get("queries", [])]})
    assert again in ("planner_mismatch", "bad_encoding")


class Lies:
    """A role's channel that changes what it sends to those in ``to`` at steps that begin with ``step``."""

    def __init__(self, channel: Channel, to: tuple[str, ...], step: str, alter: Alter) -> None:
        self._channel, self._to, self._step, self._alter = channel, to, step, alter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        lies = to in self._to and step.startswith(self._step)
        self._channel.send(to, step, self._alter(payload) if lies else payload, attempt)


PARTIES = ("p1", "p2", "p3")


def endings(role: str, to: tuple[str, ...], step: str, alter: Alter, parts: Any = PARTS, **spec: Any) -> dict[str, str]:
    """The end of the session for each party, by its own check, when ``role`` lies to the parties in ``to``."""
    net, ended = network(3, 3), dict[str, str]()
    roles = honest(net, parts, **spec)
    liar = roles[role]
    roles[role] = lambda channel: liar(Lies(channel, to, step, alter))  # type: ignore[arg-type]

    def noted(name: str, part: Callable[[Channel], Any]) -> Callable[[Channel], Any]:
        class Notes(Lies):
            def abort(self, code: str, step: str = "") -> None:
                ended.setdefault(name, code)
                self._channel.abort(code, step=step)

        return lambda channel: part(Notes(channel, (), "", alter))  # type: ignore[arg-type]

    roles |= {name: noted(name, roles[name]) for name in PARTIES}
    ended["all"] = refused(net, roles)
    return ended


def only(bits: Callable[[str], str]) -> Alter:
    """Other verdicts than were voted, where there are some."""

    def alter(raw: bytes) -> bytes:
        told = unpack_json(raw)
        return pack_json({**told, "bits": bits(told["bits"])}) if told["bits"] else raw

    return alter


FALSE_BITS = {
    "only the first holds": lambda bits: "1" + "0" * (len(bits) - 1),
    "all hold": lambda bits: "1" * len(bits),
    "none holds": lambda bits: "0" * len(bits),
    "the others hold": lambda bits: bits.translate({48: "1", 49: "0"}),
}


@pytest.mark.parametrize("name", FALSE_BITS)
@pytest.mark.parametrize("to", [PARTIES, ("p2",)], ids=["all", "one"])
@pytest.mark.parametrize("refuter", range(3))
def test_false_verdicts_end_the_session_before_a_partys_rows_meet_them(
    name: str, to: tuple[str, ...], refuter: int
) -> None:
    """a -> b holds everywhere but at one party; whoever ends the session, it is not since its own rows refute it."""
    holds, fails = np.array([[0, 0, 0], [1, 1, 0], [2, 2, 1]]), np.array([[0, 0, 0], [0, 1, 0], [2, 2, 1]])
    parts = [fails if at == refuter else holds for at in range(3)]
    ended = endings("office", to, "v0/", only(FALSE_BITS[name]), parts)
    assert "canary_failed" not in ended.values(), ended  # what a party says whose own rows refute a verdict
    assert ended["all"] in ("planner_mismatch", "no refusal")
    assert ended["all"] == "planner_mismatch" or name != "the others hold"


def test_without_the_last_workers_word_false_verdicts_show_one_partys_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: verdicts are believed as the moderator tells them."""
    believe = lambda party, number, payload, *_: list(VoteVerdicts.from_payload(payload).bits)  # noqa: E731
    monkeypatch.setattr(voting, "_receive_verdicts", believe)
    holds, fails = np.array([[0, 0, 0], [1, 1, 0], [2, 2, 1]]), np.array([[0, 0, 0], [0, 1, 0], [2, 2, 1]])
    ended = endings("office", PARTIES, "v0/", only(FALSE_BITS["all hold"]), [holds, fails, holds])
    assert ended["all"] == "canary_failed"


@pytest.mark.parametrize("to", [PARTIES, ("p2",), ("office",), (*PARTIES, "office")], ids=str)
@pytest.mark.parametrize("alter", [lambda v: bytes(1 - b for b in v), lambda v: v[::-1], lambda v: v[1:]], ids=range(3))
def test_a_last_worker_that_tells_other_verdicts_is_found(to: tuple[str, ...], alter: Callable[[bytes], bytes]) -> None:
    ended = endings("w3", to, "v4/", lambda raw: pack_bytes(alter(unpack_bytes(raw))))
    assert ended["all"] in ("canary_failed", "planner_mismatch", "batch_size")


def test_the_thesis_moderator_that_says_more_holds_than_was_voted_is_refused_by_all_alike() -> None:
    holds, fails = np.array([[0, 0, 0], [1, 1, 0], [2, 2, 1]]), np.array([[0, 0, 0], [0, 1, 0], [2, 2, 1]])
    ended = endings("office", PARTIES, "s9/", only(FALSE_BITS["all hold"]), [holds, fails, holds], protocol="smfd")
    assert set(ended.values()) == {"planner_mismatch"}


@pytest.mark.parametrize("what", ["order", "canaries"])
def test_a_moderator_that_tells_one_party_another_order_or_other_canaries_learns_no_vote(what: str) -> None:
    """With one party's vote among the made-up ones of the others, a verdict would be that party's alone."""

    class Divides:
        def __init__(self, channel: Channel) -> None:
            self._channel = channel

        def __getattr__(self, name: str) -> Any:
            return getattr(self._channel, name)

        def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
            if (to, step) == ("p1", "v0/0"):
                told = unpack_json(payload)
                other = {"order": told["order"][::-1], "canaries": [-1] * len(told["canaries"])}
                payload = pack_json({**told, what: other[what]})
            self._channel.send(to, step, payload, attempt)

    alike = np.zeros((9, 3), dtype=np.int64)  # all holds everywhere: whatever meets is a yes
    net = network(3, 3)
    parts = honest(net, [alike] * 3)
    office = parts["office"]
    parts["office"] = lambda channel: office(Divides(channel))  # type: ignore[arg-type]
    assert refused(net, parts) == "canary_failed"
    votes = [
        unpack_bytes(raw) for (_, to, step, _), raw in net.list_traffic().items() if (to, step) == ("office", "v4/0")
    ]
    assert set(votes[0]) == {0}


def test_a_first_worker_that_leaves_parties_out_of_a_vote_learns_no_vote() -> None:
    class Alone(ChainWorker):
        @property
        def _parties(self) -> tuple[str, ...]:
            return self.channel.members.parties[:1] if self.votes else self.channel.members.parties

        votes = False

        def _vote(self, order: VoteOrder) -> None:
            self.votes = True
            super()._vote(order)
            self.votes = False

    alike = np.zeros((9, 3), dtype=np.int64)
    net = network(3, 3)
    parts = honest(net, [alike] * 3)
    parts["w1"] = lambda channel: Alone(channel, ToyGroup()).run()
    assert refused(net, parts) == "canary_failed"


def test_false_verdicts_are_found_by_a_party_whose_rows_contradict_them() -> None:
    assert json_play("v0/", lambda told: {**told, "bits": "1" * len(told["bits"])}) in (
        "canary_failed",
        "planner_mismatch",
    )


def test_parties_answer_no_more_sets_than_the_terms_allow() -> None:
    found = json_play("terms", lambda told: {**told, "most_sets": 1})
    assert found == "planner_mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda told: {**told, "v": 99}, "version_mismatch"),
        (lambda told: {**told, "columns": told["columns"][:-1]}, "bad_encoding"),
        (lambda told: {**told, "spec": {**told["spec"], "protocol": "plain"}}, "bad_encoding"),
        (lambda told: [], "bad_encoding"),
    ],
)
def test_terms_that_cannot_be_read_are_refused(change: Callable[[Any], Any], code: str) -> None:
    assert json_play("terms", change) == code


def test_a_party_that_reads_its_columns_otherwise_is_refused_before_anything_is_sent() -> None:
    found = play("p2", "entry", lambda raw: pack_json({**unpack_json(raw), "columns": "0" * 64}))
    assert found == "bad_encoding"


def test_a_party_that_sends_another_number_of_elements_is_refused() -> None:
    assert play("p1", "c1/", each(lambda batch: batch[32:])) == "batch_size"


def test_a_party_of_few_rows_declines_and_says_no_more_than_policy() -> None:
    net = network(3, 2)
    small = [PARTS[0], PARTS[1][:1], PARTS[2]]
    assert refused(net, honest(net, small, min_rows=2)) == "policy_refused"
    assert not any(step.startswith("c1") for _, _, step, _ in net.list_traffic())


def test_a_party_whose_owner_refuses_ends_the_session_before_its_rows_are_read() -> None:
    def refuse(terms: Terms) -> Snapshot:
        raise ProtocolError("policy_refused")

    net = network(3, 2)
    parts = honest(net, [refuse, refuse, refuse], columns=4)
    assert refused(net, parts) == "policy_refused"


def test_a_session_with_one_worker_is_refused() -> None:
    members = (Member("p1", "party"), Member("p2", "party"), Member("w1", "worker"), Member("office", "moderator"))
    net = MemoryNetwork(Members(members))
    assert refused(net, honest(net, PARTS[:2])) == "policy_refused"


def test_what_is_not_prevented_is_a_party_that_asks_about_a_guess() -> None:
    """Declared: a party may put any value into its own rows, so counts tell it whether others hold it."""
    guess = PARTS[0].copy()
    guess[:] = PARTS[1][0]
    guess[0] = PARTS[0][0]
    net = network(2, 2)
    assert refused(net, honest(net, [guess, PARTS[1]])) == "no refusal"


def test_a_batch_is_counted_only_when_all_its_elements_differ() -> None:
    batch = random_elements(3)
    assert chain.tally([batch, batch]).tolist() == [0, 3]
    with pytest.raises(ProtocolError, match="twice"):
        chain.tally([batch, batch + batch[:32]])


def test_a_worker_that_is_told_nonsense_ends_the_session_for_all_and_names_the_step() -> None:
    net = network(3, 2)
    for party in net.members.parties:
        net.open_channel(party).send("w1", "seed", pack_bytes(b"no seed"))
    with pytest.raises(ProtocolError) as broken:
        ChainWorker(net.open_channel("w1"), ToyGroup()).run()
    assert broken.value.role == "w1"
    for name in (*net.members.parties, "w2", net.members.moderator):
        assert net.open_channel(name).get_status().state == "aborted"
        with pytest.raises(ProtocolError) as heard:
            net.open_channel(name).receive("never", "w1")
        assert (heard.value.code, heard.value.role) == ("aborted_by", "w1")


def test_a_worker_hears_that_another_ended_the_session_and_blames_nobody_itself() -> None:
    net = network(3, 2)
    with pytest.raises(ProtocolError):
        net.open_channel("w2").abort("bad_encoding", step="order/7")
    with pytest.raises(ProtocolError) as heard:
        ChainWorker(net.open_channel("w1"), ToyGroup()).run()
    assert heard.value.role == "w2"
