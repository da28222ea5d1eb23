"""Any role may die at any call and come back: the session ends with the same result, and no message is sent twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.trials.failing_roles import mortal
from siloquent.errors import ProtocolError
from siloquent.federation.channel import MemoryNetwork
from siloquent.federation.crypto.seed_store import count_passes, load_seed, rotate_seeds
from unit.federation.places import StoreNetwork
from unit.profile.lattice import as_dependencies, exhaustive, network, random_parts
from unit.profile.roles import honest, run

ROLES = ("p1", "p2", "p3", "w1", "w2", "office")


@pytest.mark.parametrize("protocol", ["padded", "fast", "smfd"])
@pytest.mark.parametrize("seed", range(12))
def test_a_session_survives_the_deaths_of_its_roles(protocol: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(protocol)])
    parts = random_parts(seed, columns=3, rows=6)
    net = network(3, 2, seed=seed + 1)
    roles = honest(net, parts, protocol=protocol)
    for name in ROLES:
        deaths = [(int(rng.integers(1, 30)), bool(rng.integers(2))) for _ in range(int(rng.integers(1, 4)))]
        roles[name] = mortal(net, name, roles[name], deaths)
    report = run(net, roles)
    assert report.cfd == as_dependencies(exhaustive(parts), 3)
    assert report.ufd == as_dependencies(exhaustive([np.concatenate(parts)]), 3)


@pytest.mark.slow
def test_every_single_death_of_one_worker_is_survived() -> None:
    parts = random_parts(3, columns=3, rows=6)
    for at in range(1, 26):
        for after in (False, True):
            net = network(3, 2, seed=at)
            roles = honest(net, parts)
            roles["w1"] = mortal(net, "w1", roles["w1"], [(at, after)])
            assert run(net, roles).ufd == as_dependencies(exhaustive([np.concatenate(parts)]), 3)


def test_seeds_are_replaced_after_each_pass() -> None:
    net = network(3, 2)
    drawn = {role: net.open_channel(role).state for role in ("p1", "w1")}
    first = {role: load_seed(state, "own") for role, state in drawn.items()}
    report = run(net, honest(net, random_parts(1, columns=4)))
    for role, state in drawn.items():
        assert count_passes(state) == report.leakage.passes
        assert load_seed(state, "own") != first[role]


def test_a_role_that_dies_after_its_last_message_comes_back_to_the_same_end() -> None:
    parts = random_parts(1, columns=4)
    net = network(3, 2)
    roles = honest(net, parts)
    report = run(net, roles)
    for role in ("p1", "w2", "office"):
        again = roles[role](net.open_channel(role))
        assert again is None or again == report


@pytest.mark.parametrize("network_of", [MemoryNetwork, StoreNetwork])
def test_a_crash_while_seeds_are_replaced_leaves_all_old_or_all_new(network_of: type[MemoryNetwork]) -> None:
    class Full(Exception):
        pass

    class Cut(dict[str, bytes]):
        """Values of which the last one is never reached."""

        def items(self) -> Iterator[tuple[str, bytes]]:  # type: ignore[override]
            yield from list(super().items())[:-1]
            raise Full

    names = ("own", "with-w1", "with-w2")
    state = network_of(network().members).open_channel("p1").state
    old = {name: load_seed(state, name) for name in names}
    with pytest.raises(Full):
        state.put_all(Cut({name: bytes(32) for name in names}))
    assert {name: load_seed(state, name) for name in names} == old
    rotate_seeds(state, 0, names)
    new = {name: load_seed(state, name) for name in names}
    assert count_passes(state) == 1
    assert not set(new.values()) & set(old.values())
    rotate_seeds(state, 0, names)
    assert {name: load_seed(state, name) for name in names} == new


def test_a_role_that_lost_its_state_is_told_so() -> None:
    """Its seeds are other ones now, so what it would send contradicts what it sent."""
    net = network(3, 2)
    roles = honest(net, random_parts(1, columns=4))
    run(net, roles)
    net.open_channel("w1").state.erase("elgamal")
    with pytest.raises(ProtocolError, match="two different contents"):
        roles["w1"](net.open_channel("w1"))
