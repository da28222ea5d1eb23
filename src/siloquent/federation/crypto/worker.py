"""A worker's part of a session: it carries out orders on blinded batches, knowing neither task nor tables.

Orders come from the moderator, one JSON document per step ``order/N``: ``hop`` (chains), ``vote`` (ballots), ``mix``
and ``zero`` (mix network), ``end``. The part supports restarts: messages already sent are not computed again, so seeds
that were replaced since are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto import chain, mixnet, proofs, votes
from siloquent.federation.crypto.framing import join_batches, split_batches
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.seed_store import count_passes, load_seed, rotate_seeds
from siloquent.federation.crypto.seeds import derive_scalar
from siloquent.federation.messages.payload import pack_bytes, pack_words, unpack_bytes, unpack_json

MAX_ELEMENTS = 2**18  # in one message: 8 MiB
_KEY_BYTES = 32 + proofs.PROOF


@dataclass(slots=True)
class ChainWorker:
    """One worker in one session. Its seeds stay in ``channel.state`` until the session is over for its role.

    Args:
        channel: Its connection to the others.
        group: The group that all roles of the session use.
    """

    channel: Channel
    group: Group = field(default_factory=Ristretto)
    _last_query: int = -1
    _passes: int = 0
    _behind_known: tuple[bytes | None] | None = None

    def run(self) -> None:
        """Publish the key, take the parties' seeds, carry out orders until the end.

        Raises:
            ProtocolError: another role broke the protocol; the session is aborted.
        """
        try:
            self._start()
            number = 0
            while self._obey(number):
                number += 1
        except ProtocolError as broken:
            if broken.code in ("aborted_by", "session_closed"):
                raise
            self.channel.abort(broken.code, step=broken.step)

    @property
    def _place(self) -> int:
        return self.channel.members.workers.index(self.channel.me)

    @property
    def _parties(self) -> tuple[str, ...]:
        return self.channel.members.parties

    @property
    def _next(self) -> str:
        """The receiver of this worker's output: the next worker, or the moderator."""
        return (*self.channel.members.workers, self.channel.members.moderator)[self._place + 1]

    @property
    def _is_last(self) -> bool:
        return self._place == len(self.channel.members.workers) - 1

    @property
    def _key(self) -> bytes:
        return derive_scalar(self.group, load_seed(self.channel.state, "elgamal"), "elgamal", self.channel.session)

    def _start(self) -> None:
        channel = self.channel
        self._publish(self._parties)
        load_seed(channel.state, "own")
        for party, payload in channel.gather("seed", self._parties).items():
            if channel.state.get(f"with-{party}") is None:
                channel.state.put(f"with-{party}", unpack_bytes(payload, 32))

    def _publish(self, names: tuple[str, ...]) -> None:
        """Send this worker's public key, with a proof that the worker knows its logarithm."""
        channel, key = self.channel, self._key
        seed = load_seed(channel.state, "elgamal")
        proof = proofs.prove(self.group, key, seed, session=channel.session, name=channel.me)
        for name in names:
            if name != channel.me:
                channel.send(name, "key", pack_bytes(self.group.multiply_base(key) + proof))

    def _obey(self, number: int) -> bool:
        """Carry out order ``number``; return whether more may follow."""
        order = unpack_json(self.channel.receive(f"order/{number}", self.channel.members.moderator))
        known: Mapping[str, Callable[[int, Any], None]] = {
            "hop": self._hop,
            "vote": self._vote,
            "mix": self._mix,
            "zero": self._test_zero,
        }
        if not isinstance(order, dict) or order.get("do") not in [*known, "end"]:  # a list: it may not be hashable
            raise ProtocolError("bad_encoding", step=f"order/{number}")
        if order["do"] == "end":
            return False
        try:
            known[order["do"]](number, order)
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("bad_encoding", step=f"order/{number}") from None
        return True

    def _hop(self, number: int, order: Mapping[str, Any]) -> None:
        """Run one pass of chains: chunks of queries, each a message, so that the next worker can begin at once."""
        sizes = [int(order["sizes"][party]) for party in self._parties]
        exact, first, shown = bool(order["exact"]), int(order["chunk"]), int(order["shown"])
        for offset, queries in enumerate(order["chunks"]):
            self._take(queries, sizes)
            step = f"c{self._place + 2}/{first + offset}"
            if not self.channel.is_sent(self._next, step):
                done = self._hop_batches(first + offset, queries, sizes, exact=exact)
                self.channel.send(self._next, step, self._count_values(done, shown) if self._is_last else done)
        # The seeds of this pass are never needed again, and cannot be derived from the next ones.
        rotate_seeds(self.channel.state, self._passes, ("own", *(f"with-{party}" for party in self._parties)))
        self._passes += 1

    def _take(self, queries: Any, sizes: list[int]) -> None:
        """Mark the queries as served: each is served once, since their numbers only grow."""
        if not queries or any(not isinstance(query, int) for query in queries):
            raise ProtocolError("bad_encoding")
        if len(queries) * sum(sizes) > MAX_ELEMENTS and len(queries) > 1:
            raise ProtocolError("too_large")
        for query in queries:
            if query <= self._last_query:
                raise ProtocolError("secret_reuse")
            self._last_query = query

    def _hop_batches(self, chunk: int, queries: list[int], sizes: list[int], *, exact: bool) -> bytes:
        """Return the batches of a chunk after this worker's step: for each query, for each party."""
        if count_passes(self.channel.state) != self._passes:
            raise ProtocolError("state_lost")
        columns = self._receive_batches(chunk, len(queries), sizes, exact=exact)
        state, session = self.channel.state, self.channel.session
        shared = [load_seed(state, f"with-{party}") for party in self._parties]
        own = load_seed(state, "own")
        return pack_bytes(
            join_batches(
                chain.hop(self.group, batch, shared=shared[party], own=own, session=session, query=query, party=party)
                for query, batches in zip(queries, columns, strict=True)
                for party, batch in enumerate(batches)
            )
        )

    def _receive_batches(self, chunk: int, queries: int, sizes: list[int], *, exact: bool) -> list[list[bytes]]:
        """Receive for each query the parties' batches, from the parties themselves or from the previous worker."""
        step = f"c{self._place + 1}/{chunk}"
        if self._place == 0:
            found = self.channel.gather(step, self._parties)
            by_party = [
                split_batches(unpack_bytes(found[party]), [size] * queries, exact=exact)
                for party, size in zip(self._parties, sizes, strict=True)
            ]
            return [[batches[index] for batches in by_party] for index in range(queries)]
        flat = split_batches(unpack_bytes(self.channel.receive(step, self._before)), sizes * queries, exact=exact)
        return [flat[at : at + len(sizes)] for at in range(0, len(flat), len(sizes))]

    def _count_values(self, done: bytes, shown: int) -> bytes:
        """Count n_k of every query from k = ``shown`` on, as words."""
        parties = len(self._parties)
        batches = _split_batches(unpack_bytes(done))
        found = [chain.tally(batches[at : at + parties])[shown - 1 :] for at in range(0, len(batches), parties)]
        return pack_words(np.concatenate(found))

    def _vote(self, number: int, order: Mapping[str, Any]) -> None:
        """Run one level of ballots."""
        level, count = int(order["level"]), int(order["count"])
        step = f"v{self._place + 2}/{level}"
        if self.channel.is_sent(self._next, step):
            return
        if self._place == 0:
            found = self.channel.gather(f"v1/{level}", self._parties)
            pairs = votes.add_ballots(self.group, [unpack_bytes(ballot) for ballot in found.values()], count)
        else:
            pairs = unpack_bytes(self.channel.receive(f"v{self._place + 1}/{level}", self._before))
            votes.require_pairs(self.group, pairs, count)
        seed = None if self._is_last else load_seed(self.channel.state, "own")
        first, second = votes.open_pairs(
            self.group, pairs, self._key, seed=seed, session=self.channel.session, level=level
        )
        if self._is_last:
            # The parties hear the verdicts from this worker, too: otherwise the role that relays them
            # could tell a party a verdict that its rows refute.
            for name in (*self._parties, self._next):
                self.channel.send(name, step, pack_bytes(bytes(votes.read_verdicts(second))))
        else:
            self.channel.send(self._next, step, pack_bytes(votes.zip_pairs(first, second)))

    def _mix(self, number: int, order: Mapping[str, Any]) -> None:
        """Pass all parties' pairs of some sets through the mix network, each set separately."""
        chunk, first, count, most = (int(order[key]) for key in ("chunk", "first", "count", "most"))
        self._take(_number_queries(first, count), [2 * most] * len(self._parties))
        # Only the mix network needs the keys of later workers, and the moderator's pairs the joint key.
        self._publish((*self.channel.members.workers, self.channel.members.moderator))
        step = f"m{self._place + 2}/{chunk}"
        if self.channel.is_sent(self._next, step):
            return
        pooled = self._pool_sets(f"m{self._place + 1}/{chunk}", count, most)
        mixed = (self._mix_pairs(pairs, query, "m") for query, pairs in enumerate(pooled, start=first))
        self.channel.send(self._next, step, pack_bytes(join_batches(mixed)))

    def _pool_sets(self, step: str, count: int, most: int) -> list[bytes]:
        """Return for each set the pairs of all parties, from themselves or from the previous worker."""
        parties = len(self._parties)
        if self._place == 0:
            found = self.channel.gather(step, self._parties).values()
            lots = [split_batches(unpack_bytes(payload), [2 * most] * count, exact=False) for payload in found]
            return [mixnet.pool_pairs(self.group, of_one_set, most) for of_one_set in zip(*lots, strict=True)]
        message = unpack_bytes(self.channel.receive(step, self._before))
        batches = split_batches(message, [2 * most * parties] * count, exact=False)
        for pairs in batches:
            mixnet.check_pairs(self.group, pairs, most * parties)
        return batches

    def _test_zero(self, number: int, order: Mapping[str, Any]) -> None:
        """Test whether numbers of all parties and the moderator add up to zero, by the same steps on one pair each."""
        level, first, count = (int(order[key]) for key in ("level", "first", "count"))
        self._take(_number_queries(first, count), [2])
        step = f"d{self._place + 2}/{level}"
        if self.channel.is_sent(self._next, step):
            return
        if self._place == 0:
            found = self.channel.gather(f"d1/{level}", (*self._parties, self.channel.members.moderator))
            pairs = votes.add_ballots(self.group, [unpack_bytes(payload) for payload in found.values()], count)
        else:
            pairs = unpack_bytes(self.channel.receive(f"d{self._place + 1}/{level}", self._before))
            votes.require_pairs(self.group, pairs, count)
        each = [pairs[at : at + votes.PAIR] for at in range(0, len(pairs), votes.PAIR)]
        done = b"".join(self._mix_pairs(pair, query, "d") for query, pair in enumerate(each, start=first))
        self.channel.send(self._next, step, pack_bytes(done))

    @property
    def _before(self) -> str:
        return self.channel.members.workers[self._place - 1]

    def _mix_pairs(self, pairs: bytes, query: int, label: str) -> bytes:
        return mixnet.mix_pairs(
            self.group,
            pairs,
            self._key,
            self._behind,
            seed=load_seed(self.channel.state, "own"),
            session=self.channel.session,
            query=query,
            label=label,
        )

    @property
    def _behind(self) -> bytes | None:
        """The sum of the keys of the workers after this one; None for the last."""
        if self._behind_known is None:
            self._behind_known = (self._combine_later_keys(),)
        return self._behind_known[0]

    def _combine_later_keys(self) -> bytes | None:
        workers = self.channel.members.workers[self._place + 1 :]
        if not workers:
            return None
        return votes.compute_joint_key(self.group, gather_proven_keys(self.channel, self.group, workers))


def gather_proven_keys(channel: Channel, group: Group, workers: tuple[str, ...]) -> list[bytes]:
    """Receive the public keys of ``workers``, each with a proof that its owner knows the logarithm.

    Raises:
        ProtocolError: ``bad_encoding``: a key without a valid proof.
    """
    publics = []
    for name, payload in channel.gather("key", workers).items():
        message = unpack_bytes(payload, _KEY_BYTES)
        proofs.verify(group, message[:32], message[32:], session=channel.session, name=name)
        publics.append(message[:32])
    return publics


def _split_batches(message: bytes) -> list[bytes]:
    """Split the batches that this worker joined itself."""
    batches, at = [], 0
    while at < len(message):
        count = int.from_bytes(message[at : at + 4], "big")
        batches.append(message[at + 4 : at + 4 + 32 * count])
        at += 4 + 32 * count
    return batches


def _number_queries(first: int, count: int) -> list[int]:
    """Return the numbers of ``count`` queries from ``first`` on; refuses more than one message can hold."""
    if not 0 <= count <= MAX_ELEMENTS:
        raise ProtocolError("batch_size")
    return list(range(first, first + count))
