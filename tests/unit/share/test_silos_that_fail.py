"""Silos that do not mean the same, are there twice, or are lost on the way: a clear end, and nothing paid in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import siloquent as sq
from siloquent.errors import KeyReused, ProtocolError, RequestError
from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork, run_all
from siloquent.federation.channel.base import build_missing
from siloquent.federation.messages.payload import pack_json, pack_words
from siloquent.federation.sums import SumSpec, add_shares, gather_sum
from siloquent.share import Budget, ShareSpec
from siloquent.share.agreement_check import GO, READY
from siloquent.share.federated import build_sum_spec, hold_sum
from siloquent.share.plan import SharePlan
from unit.federation.places import StoreNetwork
from unit.share.tables import rows, schema, session, spec

NAMES = ("north", "river", "hill", "lake")
MEMBERS = Members(
    (
        *(Member(name, "party", name.title()) for name in NAMES),
        Member("w1", "worker", "University"),
        Member("w2", "worker", "Institute"),
        Member("office", "moderator", "Registry"),
    )
)
NETWORKS = (MemoryNetwork, StoreNetwork)
Parts = dict[str, Callable[[Channel], Any]]
WANTED = spec(trust="sum", agents=4, honest=2, budget=Budget(epsilon="4"))


class Lost(BaseException):
    """A process that is gone: no abort, no word."""


class OutOfTime:
    """A channel whose time is up as soon as all that are still alive have sent. ``lost``: (role, step) never sent."""

    def __init__(self, channel: Channel, lost: Iterable[tuple[str, str]]) -> None:
        self._channel, self._lost = channel, set(lost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def gather(
        self, step: str, senders: Iterable[str], enough: int | None = None, timeout: float | None = None
    ) -> Mapping[str, bytes]:
        """As the channel's, but nobody waits for the lost."""
        there = [name for name in senders if (name, step) not in self._lost]
        if enough is not None and len(there) < enough:
            raise build_missing(step, next(name for name, at in self._lost if at == step))
        return self._channel.gather(step, there)


def clinics(folder: Path) -> dict[str, sq.Session]:
    return {name: session(folder / name, rows(200, seed=i)) for i, name in enumerate(NAMES)}


def spent(opened: dict[str, sq.Session]) -> dict[str, int]:
    return {name: one.get_account("patients").spent.amount for name, one in opened.items()}


def services(planned: SharePlan, lost: Iterable[tuple[str, str]] = (), half: Iterable[tuple[str, str]] = ()) -> Parts:
    """Workers and moderator; ``half``: what the second worker alone never gets."""
    told = build_sum_spec(planned)
    return {
        "w1": lambda channel: add_shares(OutOfTime(channel, lost), told, timeout=1.0),
        "w2": lambda channel: add_shares(OutOfTime(channel, {*lost, *half}), told, timeout=1.0),
        "office": lambda channel: hold_sum(
            OutOfTime(channel, lost), told, planned.agreement.compute_prints(), timeout=1.0
        ),
    }


def giving(opened: dict[str, sq.Session], wanted: ShareSpec = WANTED) -> Parts:
    return {name: (lambda channel, one=one: one.share.release_sum(wanted, channel)) for name, one in opened.items()}


def lost_at(one: sq.Session, step: str, to: str = "") -> Callable[[Channel], None]:
    """A silo that is gone when it would send or receive ``step``."""

    def part(channel: Channel) -> None:
        def dying(way: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **options: Any) -> Any:
                if step in given and (not to or to in given):
                    raise Lost
                return way(*given, **options)

            return call

        channel.send, channel.receive = dying(channel.send), dying(channel.receive)  # type: ignore[method-assign]
        with pytest.raises(Lost):
            one.share.release_sum(WANTED, channel)

    return part


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("step", ["ready", "a1"])
def test_a_silo_that_is_lost_before_its_share_is_left_out_and_pays_nothing(
    tmp_path: Path, step: str, network: type[MemoryNetwork]
) -> None:
    opened, net = clinics(tmp_path), network(MEMBERS)
    lost = [("lake", at) for at in ("ready", "a1", "a2") if step == "ready" or at != "ready"]
    planned = opened["north"].share.explain(WANTED)
    parts = {**giving(opened), **services(planned, lost), "lake": lost_at(opened["lake"], step)}
    made = run_all(net, parts)
    assert made["north"].members == ("north", "river", "hill")
    assert all(np.array_equal(made[name].counts, made["office"].total) for name in ("north", "river", "hill"))
    assert spent(opened) == {"north": 4 * 10**9, "river": 4 * 10**9, "hill": 4 * 10**9, "lake": 0}
    with pytest.raises(RequestError, match="without this one") as late:
        opened["lake"].share.release_sum(WANTED, net.open_channel("lake"))
    assert late.value.spent == "nothing"
    assert spent(opened)["lake"] == 0


@pytest.mark.parametrize("network", NETWORKS)
def test_a_silo_that_is_lost_after_its_share_is_in_and_finds_its_release(
    tmp_path: Path, network: type[MemoryNetwork]
) -> None:
    opened, net = clinics(tmp_path), network(MEMBERS)
    planned = opened["north"].share.explain(WANTED)
    made = run_all(net, {**giving(opened), **services(planned), "lake": lost_at(opened["lake"], "a6")})
    assert made["north"].members == NAMES
    found = opened["lake"].share.release_sum(WANTED, net.open_channel("lake"))
    assert np.array_equal(found.counts, made["north"].counts)
    assert set(spent(opened).values()) == {4 * 10**9}


def test_a_silo_that_is_lost_between_two_workers_is_left_out_and_gets_the_sum_for_what_it_reserved(
    tmp_path: Path,
) -> None:
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    planned = opened["north"].share.explain(WANTED)
    half = services(planned, half=[("lake", "a2")])
    made = run_all(net, {**giving(opened), **half, "lake": lost_at(opened["lake"], "a2", "w2")})
    assert made["north"].members == ("north", "river", "hill")
    assert set(spent(opened).values()) == {4 * 10**9}  # something of lake had left
    found = opened["lake"].share.release_sum(WANTED, net.open_channel("lake"))
    assert np.array_equal(found.counts, made["north"].counts)
    assert "own rows are not in this sum" in found.notes[-1]
    assert not made["north"].notes
    assert set(spent(opened).values()) == {4 * 10**9}


def test_too_few_silos_end_without_a_sum_and_cost_what_was_reserved_once(tmp_path: Path) -> None:
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    lost = [(name, at) for name in ("hill", "lake") for at in ("a1", "a2")]
    planned = opened["north"].share.explain(WANTED)
    said: dict[str, str] = {}

    def hearing(name: str, part: Callable[[Channel], Any]) -> Callable[[Channel], Any]:
        def heard(channel: Channel) -> Any:
            try:
                return part(channel)
            except ProtocolError as ended:
                said[name] = ended.spent
                raise

        return heard

    parts = {**{name: hearing(name, part) for name, part in giving(opened).items()}, **services(planned, lost)}
    parts |= {name: lost_at(opened[name], "a1") for name in ("hill", "lake")}
    with pytest.raises(ProtocolError) as ended:
        run_all(net, parts)
    assert ended.value.code in ("peer_missing", "aborted_by")
    assert not [key for key in net.list_traffic() if key[2] in ("a5", "a6")]
    for name in ("north", "river"):
        before = spent(opened)[name]
        assert (before, said[name]) in ((0, "nothing"), (4 * 10**9, "what was reserved"))
        with pytest.raises(ProtocolError):
            opened[name].share.release_sum(WANTED, net.open_channel(name))
        assert spent(opened)[name] == before
        assert opened[name].ledger.verify().ok
    assert spent(opened)["hill"] == spent(opened)["lake"] == 0


OTHERWISE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another declaration": ({"outside": "clamp"}, {}, "the declaration of 'dose' differs"),
    "another price": ({}, {"budget": Budget(epsilon="5")}, "budget differs"),
    "another label": ({}, {"label": "kind"}, "features differs|'sick' differs"),
    "other features": ({}, {"features": ("age", "dose")}, "the features differs"),
    "another method": ({}, {"method": "gram"}, "method differs"),
    "fewer honest ones": ({}, {"honest": 1}, "honest differs"),
    "more that may collude": ({}, {"honest": 1, "colluding": 2}, "honest differs|colluding differs"),
}


@pytest.mark.parametrize("case", OTHERWISE.values(), ids=OTHERWISE)
def test_a_silo_that_means_something_else_is_named_and_nobody_pays(
    tmp_path: Path, case: tuple[dict[str, Any], dict[str, Any], str]
) -> None:
    declared, asked, words = case
    opened = clinics(tmp_path)
    opened["river"] = session(tmp_path / "other", rows(200, seed=1), **declared)
    planned = opened["north"].share.explain(WANTED)
    parts = {**giving(opened), **services(planned)}
    wanted = spec(**{**{name: getattr(WANTED, name) for name in ("trust", "agents", "honest", "budget")}, **asked})
    parts["river"] = lambda channel: opened["river"].share.release_sum(wanted, channel)
    with pytest.raises(ProtocolError, match=words) as refused:
        run_all(MemoryNetwork(MEMBERS), parts)
    assert (refused.value.code, refused.value.role) == ("planner_mismatch", "river")
    assert set(spent(opened).values()) == {0}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_silo_that_joins_under_two_names_is_refused_and_nobody_pays(
    tmp_path: Path, network: type[MemoryNetwork]
) -> None:
    opened = clinics(tmp_path)
    opened["lake"] = opened["river"]
    planned = opened["north"].share.explain(WANTED)
    with pytest.raises(ProtocolError, match="holds the same rows") as refused:
        run_all(network(MEMBERS), {**giving(opened), **services(planned)})
    assert (refused.value.code, refused.value.role) == ("message_conflict", "lake")
    assert set(spent(opened).values()) == {0}


def test_a_silo_does_not_measure_twice_in_one_sum_whatever_the_moderator_says(tmp_path: Path) -> None:
    """One charge buys one vector: two of them would move the sum twice as far."""
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    told = build_sum_spec(opened["north"].share.explain(WANTED))
    river_gives(opened["river"], net, told)
    with pytest.raises(KeyReused) as refused:
        opened["river"].share.release_sum(WANTED, net.open_channel("lake"))
    assert refused.value.spent == "nothing"
    assert not [key for key in net.list_traffic() if key[0] == "lake" and key[2] == "a2"]
    assert spent(opened)["river"] == 4 * 10**9
    assert told.min_parties == 3


OTHER = replace(WANTED, table="others")


def two_tables(folder: Path) -> dict[str, sq.Session]:
    """River's workspace has a second table, of the same persons, and offers it as lake's."""
    opened = clinics(folder)
    opened["river"].add_frame(replace(schema(), name="others"), rows(200, seed=1))
    opened["lake"] = opened["river"]
    return opened


def test_two_tables_of_one_workspace_are_one_silo_and_nobody_pays(tmp_path: Path) -> None:
    """The same persons would be counted twice, where each was promised to be counted once."""
    opened = two_tables(tmp_path)
    parts = {**giving(opened), **services(opened["north"].share.explain(WANTED))}
    parts["lake"] = lambda channel: opened["lake"].share.release_sum(OTHER, channel)
    with pytest.raises(ProtocolError, match="tables of one workspace") as refused:
        run_all(MemoryNetwork(MEMBERS), parts)
    assert (refused.value.code, refused.value.role) == ("message_conflict", "lake")
    assert set(spent(opened).values()) == {0}


def test_two_tables_of_one_workspace_are_two_silos_where_the_promise_is_for_both(tmp_path: Path) -> None:
    opened, both = two_tables(tmp_path), replace(WANTED, overlap=2)
    parts = {**giving(opened, both), **services(opened["north"].share.explain(both))}
    parts["lake"] = lambda channel: opened["lake"].share.release_sum(replace(OTHER, overlap=2), channel)
    made = run_all(MemoryNetwork(MEMBERS), parts)["north"]
    assert "A person may have rows at 2 silos" in made.describe_guarantee()


def test_a_second_table_is_not_measured_for_one_sum_whatever_the_moderator_says(tmp_path: Path) -> None:
    opened, net = two_tables(tmp_path), MemoryNetwork(MEMBERS)
    told = build_sum_spec(opened["north"].share.explain(WANTED))
    river_gives(opened["river"], net, told)
    with pytest.raises(RequestError, match="a person may be in both") as refused:
        opened["river"].share.release_sum(OTHER, net.open_channel("lake"))
    assert refused.value.spent == "nothing"
    assert opened["river"].get_account("others").spent.amount == 0
    assert not [key for key in net.list_traffic() if key[0] == "lake" and key[2] == "a2"]


def river_gives(river: sq.Session, net: MemoryNetwork, told: SumSpec) -> None:
    """A moderator lets river and lake join, and river's share is sent."""
    for name in ("river", "lake"):
        net.open_channel("office").send(name, GO, pack_json({"parties": list(NAMES)}))
        for worker in ("w1", "w2"):
            net.open_channel(worker).send(name, "a0", pack_json({"spec": told.digest}))
    with pytest.raises(Lost):
        lost_at_end(river, net.open_channel("river"))


def lost_at_end(one: sq.Session, channel: Channel) -> None:
    """A silo that has sent its share and is gone before the sum comes."""
    receive = channel.receive

    def dying(step: str, *given: Any, **options: Any) -> bytes:
        if step == "a6" and not options:
            raise Lost
        return receive(step, *given, **options)

    channel.receive = dying  # type: ignore[method-assign]
    one.share.release_sum(WANTED, channel)


def test_a_silo_that_is_started_again_says_that_its_charge_stands(tmp_path: Path) -> None:
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    told, office = build_sum_spec(opened["north"].share.explain(WANTED)), net.open_channel("office")
    office.send("river", GO, pack_json({"parties": list(NAMES)}))
    for worker in ("w1", "w2"):
        net.open_channel(worker).send("river", "a0", pack_json({"spec": told.digest}))
    with pytest.raises(Lost):
        lost_at_end(opened["river"], net.open_channel("river"))
    office.send("river", "a6", pack_json({"parties": ["north"]}))
    office.send("river", "a6/1", pack_words(np.zeros(told.length, dtype=np.uint64)))
    with pytest.raises(ProtocolError) as ended:
        opened["river"].share.release_sum(WANTED, net.open_channel("river"))
    assert ended.value.spent == "what was reserved"
    assert spent(opened)["river"] == 4 * 10**9


def test_a_moderator_that_begins_with_too_few_is_refused(tmp_path: Path) -> None:
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    net.open_channel("office").send("north", GO, pack_json({"parties": ["north", "river"]}))
    with pytest.raises(ProtocolError) as refused:
        opened["north"].share.release_sum(WANTED, net.open_channel("north"))
    assert refused.value.code == "planner_mismatch"
    assert spent(opened)["north"] == 0


@pytest.mark.parametrize("said", [{}, {"prints": [["x"]], "rows": ""}, {"prints": 3, "rows": "a"}], ids=repr)
def test_words_that_are_none_name_their_silo(tmp_path: Path, said: dict[str, Any]) -> None:
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    planned = opened["north"].share.explain(WANTED)
    for name in NAMES:
        net.open_channel(name).send("office", READY, pack_json(said))
    with pytest.raises(ProtocolError) as refused:
        services(planned)["office"](net.open_channel("office"))
    assert (refused.value.code, refused.value.role) == ("bad_encoding", "north")


def test_as_many_shares_as_the_noise_needs_are_in_whoever_is_lost_and_whoever_colludes() -> None:
    """Every set that may be summed, every set of colluders: the honest ones left are enough, and one fewer is not."""
    from itertools import combinations

    agents, honest, colluding = 6, 3, 2
    least = honest + colluding
    summed = [set(u) for k in range(least, agents + 1) for u in combinations(range(agents), k)]
    liars = [set(c) for c in combinations(range(agents), colluding)]
    assert min(len(u - c) for u in summed for c in liars) == honest
    fewer = [set(u) for u in combinations(range(agents), least - 1)]
    assert min(len(u - c) for u in fewer for c in liars) == honest - 1


def test_collecting_without_a_meeting_is_no_part_of_it(tmp_path: Path) -> None:
    """A moderator that only adds up gets nothing: silos wait to be told who takes part."""
    opened, net = clinics(tmp_path), MemoryNetwork(MEMBERS)
    told = build_sum_spec(opened["north"].share.explain(WANTED))
    with pytest.raises(ProtocolError):
        gather_sum(net.open_channel("office"), told, timeout=0.0)
    assert set(spent(opened).values()) == {0}
