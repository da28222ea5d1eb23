"""The steps that roles compose: chains count what is shared, votes are an AND, mixes lose owners, keys are proven."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.trials.toy_group import ToyGroup
from siloquent.errors import ProtocolError
from siloquent.federation.crypto import chain, mixnet, proofs, votes
from siloquent.federation.crypto.framing import join_batches, split_batches
from siloquent.federation.crypto.group import IDENTITY, Group, Ristretto, split
from siloquent.federation.crypto.hashing import hash_to_group
from siloquent.federation.crypto.permute import derive_permutation, permute_batch
from siloquent.federation.crypto.seeds import derive, derive_next_seed, derive_scalar, derive_stream

SESSION = bytes(range(32))
GROUPS: dict[str, Group] = {"ristretto": Ristretto(), "toy": ToyGroup()}


def seed(*numbers: int) -> bytes:
    return derive(bytes(32), "test", SESSION, *numbers, size=32)


def hashed(group: Group, values: set[int]) -> bytes:
    return hash_to_group(group, [b"%d" % value for value in sorted(values)], b"test")


def counted(group: Group, sets: list[set[int]], workers: int, size: int, query: int = 0) -> list[int]:
    """n_k of ``sets`` by a whole chain."""
    batches = [
        chain.blind_batch(
            group,
            hashed(group, values),
            size,
            shared=[seed(1, party, worker) for worker in range(workers)],
            own=seed(2, party),
            session=SESSION,
            query=query,
        )
        for party, values in enumerate(sets)
    ]
    for worker in range(workers):
        batches = [
            chain.hop(
                group,
                batch,
                shared=seed(1, party, worker),
                own=seed(3, worker),
                session=SESSION,
                query=query,
                party=party,
            )
            for party, batch in enumerate(batches)
        ]
    return chain.tally(batches).tolist()


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("workers", [2, 3])
def test_a_chain_counts_what_groups_of_parties_share(group: Group, workers: int) -> None:
    sets = [{1, 2, 3, 4}, {3, 4, 5}, {4, 5, 6, 7, 8}]
    n1, n2, n3 = counted(group, sets, workers, size=6)
    assert (n2, n3) == (2, 1)
    assert n1 == 3 * 6 - 2 * n2 - 3 * n3  # made-up elements meet nothing


@settings(deadline=None, max_examples=60)
@given(sets=st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=2, max_size=5), query=st.integers(0, 5))
def test_counts_are_those_of_the_sets(sets: list[set[int]], query: int) -> None:
    found = counted(ToyGroup(), sets, 2, size=max(map(len, sets)), query=query)
    held = [sum(value in values for values in sets) for value in set().union(*sets)]
    assert found[1:] == [held.count(k) for k in range(2, len(sets) + 1)]


def test_a_batch_of_more_values_than_places_is_refused() -> None:
    with pytest.raises(ProtocolError) as refused:
        counted(ToyGroup(), [{1, 2, 3}, {1}], 2, size=2)
    assert refused.value.code == "batch_size"


class Counting(ToyGroup):
    """How often the dear operations are done."""

    def __init__(self) -> None:
        self.maps = self.multiples = 0

    def from_uniform(self, wide: bytes) -> bytes:
        self.maps += len(wide) // 64
        return super().from_uniform(wide)

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        self.multiples += len(batch) // 32
        return super().multiply_points(batch, scalar)


@pytest.mark.parametrize("values", [set(), {1}, set(range(20))], ids=len)
def test_a_full_batch_takes_the_same_work_whatever_is_in_it(values: set[int]) -> None:
    group = Counting()
    points = hashed(group, values)
    chain.blind_batch(group, points, 20, shared=[seed(1), seed(2)], own=seed(3), session=SESSION, query=0)
    assert (group.maps, group.multiples) == (20, 20)


def test_two_queries_over_the_same_values_share_no_element() -> None:
    group = Ristretto()
    batches = [
        chain.blind_batch(
            group, hashed(group, {1, 2}), 4, shared=[seed(1), seed(2)], own=seed(3), session=SESSION, query=query
        )
        for query in (0, 1)
    ]
    assert not set(split(batches[0])) & set(split(batches[1]))


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize(("parties", "workers"), [(2, 1), (2, 3), (3, 2)])
def test_a_vote_is_the_and_of_all_votes(group: Group, parties: int, workers: int) -> None:
    patterns = list(product([False, True], repeat=parties))
    told = [seed(7)] * parties
    assert held(group, patterns, told, workers) == [all(pattern) for pattern in patterns]


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_a_ballot_says_nothing_among_parties_that_were_told_otherwise_nor_without_all_others(group: Group) -> None:
    yes = [(True, True, True)] * 2
    assert held(group, yes, [seed(7)] * 3, 2) == [True, True]
    assert held(group, yes, [seed(8), seed(7), seed(7)], 2) == [False, False]
    assert held(group, yes, [seed(7)] * 3, 2, left_out=1) == [False, False]


def held(
    group: Group, patterns: Sequence[Sequence[bool]], told: Sequence[bytes], workers: int, left_out: int | None = None
) -> list[bool]:
    """The verdicts on candidates of which each party says what ``patterns`` have in its place."""
    keys = [derive_scalar(group, seed(4, worker), "key", SESSION) for worker in range(workers)]
    joint = votes.compute_joint_key(group, [group.multiply_base(key) for key in keys])
    at: dict[str, Any] = {"session": SESSION, "level": 1}
    ballots = []
    for party, digest in enumerate(told):
        tied = votes.derive_vote_blinding(group, seed(9), party, len(told), told=digest, count=len(patterns), **at)
        cast = [pattern[party] for pattern in patterns]
        ballots.append(votes.cast(group, cast, joint, seed=seed(5, party), tied=tied, **at))
    pairs = votes.add_ballots(group, [one for party, one in enumerate(ballots) if party != left_out], len(patterns))
    for worker, key in enumerate(keys):
        last = worker == workers - 1
        first, second = votes.open_pairs(group, pairs, key, seed=None if last else seed(6, worker), **at)
        pairs = votes.zip_pairs(first, second)
        if not last:
            votes.require_pairs(group, pairs, len(patterns))
    return votes.read_verdicts(second)


def test_ballots_that_are_no_elements_are_refused_and_do_not_pass_for_a_yes() -> None:
    """libsodium's addition gives zeros for what it cannot read: zeros are the identity, and that means yes."""
    group = Ristretto()
    no_element = next(
        n.to_bytes(32, "little") for n in range(2, 100, 2) if not _decodes(group, n.to_bytes(32, "little"))
    )
    assert group.add_points(no_element, no_element) == IDENTITY
    with pytest.raises(ProtocolError) as refused:
        votes.add_ballots(group, [no_element * 2], 1)
    assert refused.value.code == "bad_encoding"
    with pytest.raises(ProtocolError):
        votes.add_ballots(group, [IDENTITY * 2], 1)


def _decodes(group: Group, element: bytes) -> bool:
    try:
        group.require_decodable(element)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_a_mix_gives_equal_tags_to_equal_values_and_sums_that_show_zero_alone(group: Group) -> None:
    keys = [derive_scalar(group, seed(7, worker), "key", SESSION) for worker in range(2)]
    publics = [group.multiply_base(key) for key in keys]
    joint = votes.compute_joint_key(group, publics)

    def through(pairs: bytes, label: str) -> bytes:
        for worker, behind in ((0, publics[1]), (1, None)):
            pairs = mixnet.mix_pairs(
                group, pairs, keys[worker], behind, seed=seed(8, worker), session=SESSION, query=3, label=label
            )
        return pairs

    lots = [
        mixnet.encrypt_points(
            group, hashed(group, values), joint, seed=seed(9, party), session=SESSION, query=3, label="m"
        )
        for party, values in enumerate(({1, 2, 3}, {2, 3, 4}))
    ]
    tags = split(through(mixnet.pool_pairs(group, lots, 3), "m"))
    assert len(tags) == 6
    assert len(set(tags)) == 4
    for numbers, zero in (((2, 1, -3), True), ((2, 1, -2), False)):
        pairs = [
            mixnet.encrypt_points(
                group, mixnet.encode_number(group, n), joint, seed=seed(10, i), session=SESSION, query=4, label="d"
            )
            for i, n in enumerate(numbers)
        ]
        assert (through(votes.add_ballots(group, pairs, 1), "d") == IDENTITY) is zero


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_a_key_is_proven_by_whoever_knows_it_for_one_session_and_name(group: Group) -> None:
    key = derive_scalar(group, seed(11), "key", SESSION)
    public = group.multiply_base(key)
    proof = proofs.prove(group, key, seed(12), session=SESSION, name="w1")
    proofs.verify(group, public, proof, session=SESSION, name="w1")
    others = [
        (group.multiply_base((5).to_bytes(32, "little")), proof, SESSION, "w1"),
        (public, proof, bytes(32), "w1"),
        (public, proof, SESSION, "w2"),
        (public, proof[:-1], SESSION, "w1"),
        (public, proof[:32] + bytes(32), SESSION, "w1"),
        (IDENTITY, proof, SESSION, "w1"),
    ]
    for other, shown, session, name in others:
        with pytest.raises(ProtocolError):
            proofs.verify(group, other, shown, session=session, name=name)


def test_keys_that_cancel_each_other_are_refused() -> None:
    group = Ristretto()
    one = group.multiply_base((7).to_bytes(32, "little"))
    minus = group.subtract_points(IDENTITY, one)
    with pytest.raises(ProtocolError):
        votes.compute_joint_key(group, [one, minus])


def test_secrets_hang_on_everything_that_they_are_derived_from() -> None:
    texts = {
        derive(seed(1), "a", SESSION, 1),
        derive(seed(2), "a", SESSION, 1),
        derive(seed(1), "b", SESSION, 1),
        derive(seed(1), "a", bytes(32), 1),
        derive(seed(1), "a", SESSION, 2),
        derive(seed(1), "a", SESSION, 1, 0),
        derive_stream(seed(1), "a", SESSION, 1, size=64),
    }
    assert len(texts) == 7
    assert derive_next_seed(seed(1), 0) != derive_next_seed(seed(1), 1) != seed(1)
    assert derive_stream(seed(1), "a", SESSION, size=10) == derive_stream(seed(1), "a", SESSION, size=20)[:10]


def test_a_fixed_seed_gives_the_secrets_that_it_always_gave() -> None:
    """A role that is restarted by a later version must send the same bytes."""
    assert derive(bytes(32), "key", SESSION, 1, 0).hex()[:32] == FIXED["derive"]
    assert derive_scalar(Ristretto(), bytes(32), "key", SESSION, 1, 0).hex()[:32] == FIXED["scalar"]
    assert derive_stream(bytes(32), "padding", SESSION, 1, size=16).hex() == FIXED["stream"]
    assert derive_next_seed(bytes(32), 3).hex()[:32] == FIXED["following"]
    assert derive_permutation(bytes(32), 8).tolist() == FIXED["permutation"]


FIXED: dict[str, object] = {
    "derive": "ae44ac3f4a262b5fdf9bd3fcadab0036",
    "scalar": "46aa6de35f78f88feeddb0bf47cd62b6",
    "stream": "e775f57d9309274367ee0be3d8cd384a",
    "following": "61eecda135466ffa0594eac61abd05f2",
    "permutation": [1, 7, 4, 0, 2, 3, 5, 6],
}


def test_a_permutation_moves_every_item_to_one_place() -> None:
    for count in (0, 1, 2, 1_000):
        assert sorted(derive_permutation(seed(1), count).tolist()) == list(range(count))
    batch = np.random.default_rng(1).bytes(32 * 50)
    moved = permute_batch(batch, seed(2))
    assert sorted(split(moved)) == sorted(split(batch))
    assert moved != batch
    assert permute_batch(batch, seed(2)) == moved


def test_permutations_are_even() -> None:
    """Every item comes to every place equally often; one false alarm in 10^9."""
    from scipy.stats import chi2

    counts = np.zeros((6, 6))
    for number in range(3_000):
        for place, item in enumerate(derive_permutation(seed(13, number), 6).tolist()):
            counts[place, item] += 1
    statistic = ((counts - 500) ** 2 / 500).sum()
    assert statistic < chi2.isf(1e-9, 25)


def test_batches_come_apart_as_they_were_joined_and_other_sizes_are_refused() -> None:
    one, two = bytes(64), bytes(96)
    message = join_batches([one, two])
    assert split_batches(message, [2, 3], exact=True) == [one, two]
    assert split_batches(message, [5, 5], exact=False) == [one, two]
    for most, exact in (([2, 4], True), ([1, 3], False), ([2], True), ([2, 3, 1], True)):
        with pytest.raises(ProtocolError):
            split_batches(message, most, exact=exact)
    for cut in (message[:-1], message + b"\0", b"\xff" * 4):
        with pytest.raises(ProtocolError):
            split_batches(cut, [2, 3], exact=False)
