"""Secure sums: exact, over any channel, with late and lost parties, and nothing to see for whoever lacks one share."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.channel_contract import LONG, MEMBERS, SOON, code_of
from siloquent.errors import ProtocolError, RequestError
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.federation.messages.payload import pack_json, unpack_words
from siloquent.federation.sums import SumResult, SumSpec, add_shares, contribute_vector, gather_sum
from unit.federation.places import PatientNetwork, StoreNetwork

SPEC = SumSpec("test", length=5, bound=10**9, parties=2, min_parties=2)
NORTH = np.array([0, 1, -2, 10**9, -(10**9)], dtype=np.int64)
RIVER = np.array([7, -1, -5, 10**9, -(10**9)], dtype=np.int64)


def parts(spec: SumSpec = SPEC, **vectors: NDArray[np.int64]) -> dict[str, Callable[[Channel], SumResult | None]]:
    """Every role's part over these vectors."""
    vectors = vectors or {"north": NORTH, "river": RIVER}
    roles: dict[str, Callable[[Channel], SumResult | None]] = {
        name: lambda channel, name=name: contribute_vector(channel, spec, lambda: vectors[name])  # type: ignore[misc]
        for name in vectors
    }
    workers = {name: lambda channel: add_shares(channel, spec, timeout=LONG) for name in MEMBERS.workers}
    return {**roles, **workers, "office": lambda channel: gather_sum(channel, spec, timeout=LONG)}


def tell_parties(network: MemoryNetwork | StoreNetwork, **told: SumSpec) -> None:
    """What workers say first: the spec that each of them was told (w1, w2; default: the usual one)."""
    for worker in MEMBERS.workers:
        for party in MEMBERS.parties:
            spec = told.get(worker, SPEC)
            network.open_channel(worker).send(party, "a0", pack_json({"spec": spec.digest}))


@pytest.mark.parametrize("network", [MemoryNetwork, StoreNetwork])
def test_everybody_gets_the_exact_sum(network: type[MemoryNetwork]) -> None:
    results = run_all(network(MEMBERS), parts())
    for name in ("north", "river", "office"):
        told = results[name]
        assert told is not None
        assert told.total.tolist() == (NORTH + RIVER).tolist()
        assert told.parties == ("north", "river")


def test_a_lost_party_is_left_out_when_the_rest_is_enough() -> None:
    spec = SumSpec("test", length=5, bound=10**9, parties=2, min_parties=1)
    results = run_all(PatientNetwork(["north"]), parts(spec, north=NORTH))
    assert results["office"] is not None
    assert results["office"].parties == ("north",)
    assert results["office"].total.tolist() == NORTH.tolist()


def test_too_few_parties_end_without_a_sum() -> None:
    network = PatientNetwork(["north"])
    with pytest.raises(ProtocolError) as refused:
        run_all(network, {name: part for name, part in parts(SPEC, north=NORTH).items() if name != "river"})
    assert refused.value.code == "peer_missing"
    assert not [key for key in network.list_traffic() if key[2] in ("a5", "a6")]


def test_a_party_that_reached_one_worker_only_is_not_in_the_sum() -> None:
    spec = SumSpec("test", length=5, bound=10**9, parties=2, min_parties=1)
    network = PatientNetwork(["north"])
    half = network.open_channel("river")
    half.send("office", "a1", pack_json({"spec": spec.digest}))
    other = MemoryNetwork(MEMBERS, session=network.session)
    run_all(other, parts(spec, north=NORTH, river=RIVER))
    half.send("w1", "a2", other.list_traffic()["river", "w1", "a2", 0])
    results = run_all(network, parts(spec, north=NORTH))
    assert results["office"] is not None
    assert results["office"].parties == ("north",)


def test_one_workers_shares_say_nothing_of_the_vector() -> None:
    networks = [MemoryNetwork(MEMBERS) for _ in range(2)]
    for network in networks:
        run_all(network, parts())
    masked = [unpack_words(network.list_traffic()["north", "w2", "a2", 0]) for network in networks]
    assert not set(masked[0].tolist()) & {int(x) % 2**64 for x in NORTH}
    assert not set(masked[0].tolist()) & set(masked[1].tolist())  # other masks in another session


def test_a_killed_party_measures_once_and_sends_the_same_again() -> None:
    network, measured = StoreNetwork(), []

    def noisy() -> NDArray[np.int64]:
        measured.append(1)
        return NORTH

    tell_parties(network)
    first = network.open_channel("north")
    first.send = _dies_at_second_worker(first.send)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        contribute_vector(first, SPEC, noisy)
    others = {name: part for name, part in parts().items() if name != "north"}
    result = run_all(network, {**others, "north": lambda channel: contribute_vector(channel, SPEC, noisy)})["north"]
    assert len(measured) == 1
    assert result is not None
    assert result.total.tolist() == (NORTH + RIVER).tolist()


def _dies_at_second_worker(send: Callable[..., None]) -> Callable[..., None]:
    def dying(to: str, *rest: object, **options: object) -> None:
        if to == "w2":
            raise KeyboardInterrupt
        send(to, *rest, **options)

    return dying


def test_a_party_whose_vector_is_gone_does_not_draw_anew() -> None:
    network = MemoryNetwork(MEMBERS)
    tell_parties(network)
    north = network.open_channel("north")
    north.send = _dies_at_second_worker(north.send)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        contribute_vector(north, SPEC, lambda: NORTH)
    network.open_channel("north").state.erase("sum/y")
    assert code_of(lambda: contribute_vector(network.open_channel("north"), SPEC, lambda: NORTH)) == "state_lost"


def test_a_worker_refuses_parties_that_it_does_not_hold() -> None:
    network = MemoryNetwork(MEMBERS)
    spec = SumSpec("test", length=5, bound=10**9, parties=2, min_parties=1)
    whole = MemoryNetwork(MEMBERS, session=network.session)
    run_all(whole, parts(spec))
    network.open_channel("north").send("w1", "a2", whole.list_traffic()["north", "w1", "a2", 0])
    network.open_channel("office").send("w1", "a4", pack_json({"parties": ["north", "river"]}))
    assert code_of(lambda: add_shares(network.open_channel("w1"), spec, timeout=SOON)) == "planner_mismatch"


@pytest.mark.parametrize("told", [["north"] * 1000 + ["river"], ["north", "north"], ["north"], ["north", "hill"]])
def test_a_worker_adds_every_party_once_and_never_too_few(told: list[str]) -> None:
    network = MemoryNetwork(MEMBERS)
    whole = MemoryNetwork(MEMBERS, session=network.session)
    run_all(whole, parts())
    for name in ("north", "river"):
        network.open_channel(name).send("w1", "a2", whole.list_traffic()[name, "w1", "a2", 0])
    network.open_channel("office").send("w1", "a4", pack_json({"parties": told}))
    assert code_of(lambda: add_shares(network.open_channel("w1"), SPEC, timeout=SOON)) == "planner_mismatch"
    assert not [key for key in network.list_traffic() if key[2] == "a5"]


def test_another_spec_is_refused_at_the_first_step() -> None:
    network = MemoryNetwork(MEMBERS)
    other = SumSpec("other", length=5, bound=10**9, parties=2, min_parties=2)
    with pytest.raises(ProtocolError) as refused:
        run_all(network, {**parts(), "north": lambda channel: contribute_vector(channel, other, lambda: NORTH)})
    assert refused.value.code == "planner_mismatch"


@pytest.mark.parametrize("worker", ["w1", "w2"])
def test_a_party_draws_nothing_for_a_worker_that_was_told_another_spec(worker: str) -> None:
    spec = SumSpec("test", 5, 10**9, parties=2, min_parties=2, noise="workers", scale=Fraction(3))
    exact = SumSpec("test", 5, 10**9, parties=2, min_parties=2)
    network, drawn = MemoryNetwork(MEMBERS), list[int]()

    def noisy() -> NDArray[np.int64]:
        drawn.append(1)
        return NORTH

    tell_parties(network, **{**dict.fromkeys(MEMBERS.workers, spec), worker: exact})
    with pytest.raises(ProtocolError) as refused:
        contribute_vector(network.open_channel("north"), spec, noisy)
    assert (refused.value.code, refused.value.role) == ("planner_mismatch", worker)
    assert not drawn
    assert not [key for key in network.list_traffic() if key[0] == "north"]


def test_a_party_that_did_not_join_is_left_out_when_the_rest_is_enough() -> None:
    three = SumSpec("test", length=5, bound=10**9, parties=3, min_parties=2)
    told = run_all(PatientNetwork(["north", "river"]), parts(three, north=NORTH, river=RIVER))["north"]
    assert told is not None
    assert told.total.tolist() == (NORTH + RIVER).tolist()


@pytest.mark.parametrize(("parties", "least"), [(1, 1), (3, 3)])
def test_a_party_refuses_a_spec_for_more_or_fewer_parties_than_are_there(parties: int, least: int) -> None:
    network = MemoryNetwork(MEMBERS)
    other = SumSpec("test", length=5, bound=10**9, parties=parties, min_parties=least)
    assert code_of(lambda: contribute_vector(network.open_channel("north"), other, lambda: NORTH)) == "planner_mismatch"
    assert not network.list_traffic()


def test_every_worker_adds_its_own_noise_once() -> None:
    spec = SumSpec("test", 5, 10**9, parties=2, min_parties=2, noise="workers", scale=Fraction(3))
    draws: list[str] = []

    def noise(zeros: NDArray[np.int64], asked: SumSpec) -> NDArray[np.int64]:
        assert asked == spec
        draws.append("draw")
        return zeros + 100 ** len(draws)

    roles = parts(spec)
    for name in MEMBERS.workers:
        roles[name] = lambda channel: add_shares(channel, spec, noise)
    result = run_all(MemoryNetwork(MEMBERS), roles)["office"]
    assert result is not None
    assert (result.total - NORTH - RIVER).tolist() == [100 + 100**2] * 5


def test_a_worker_without_a_source_of_noise_refuses_to_stand_in_for_one() -> None:
    spec = SumSpec("test", 5, 10**9, parties=2, min_parties=2, noise="workers", scale=Fraction(3))
    with pytest.raises(RequestError, match="source"):
        add_shares(MemoryNetwork(MEMBERS).open_channel("w1"), spec)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"length": 0}, "coordinates"),
        ({"bound": 2**61}, "62 bits"),
        ({"min_parties": 3}, "min_parties"),
        ({"noise": "laplace", "scale": Fraction(1), "colluding": 2}, "leave no noise"),
        ({"noise": "laplace", "scale": Fraction(1), "colluding": 0}, "its own share"),
        ({"noise": "gaussian", "scale": Fraction(9), "colluding": 0}, "its own share"),
        ({"noise": "laplace", "scale": Fraction(1)}, "Of two parties"),
        ({"noise": "gaussian", "parties": 3, "min_parties": 3}, "scale above 0"),
    ],
)
def test_a_sum_that_cannot_hold_is_refused(wrong: dict[str, object], match: str) -> None:
    good: dict[str, object] = {"name": "x", "length": 5, "bound": 10, "parties": 2, "min_parties": 2}
    with pytest.raises(RequestError, match=match):
        SumSpec(**{**good, **wrong})  # type: ignore[arg-type]


def test_a_spec_comes_back_from_an_invitation() -> None:
    spec = SumSpec("x", 5, 10, 3, 3, noise="gaussian", scale=Fraction(81, 2))
    assert SumSpec.from_json(spec.to_json()) == spec
    assert code_of(lambda: SumSpec.from_json({**spec.to_json(), "scale": "1/0"})) == "bad_encoding"
