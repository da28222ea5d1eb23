"""A worker's part of a session: it carries out orders on blinded batches, knowing neither task nor tables.

``worker_messages`` has the messages: orders come from the moderator, batches from parties or the worker before. The
part supports restarts: messages already sent are not computed again, so seeds that were replaced since are not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto import chain, mixnet, votes
from siloquent.federation.crypto.framing import join_batches, split_all_batches, split_batches
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.joint_key import gather_proven_keys, publish_key
from siloquent.federation.crypto.seed_store import count_passes, load_seed, rotate_seeds
from siloquent.federation.crypto.seeds import derive_scalar
from siloquent.federation.crypto.worker_messages import (
    Ballots,
    ChainBatches,
    ChainCounts,
    EndOrder,
    HopOrder,
    MixBatches,
    MixOrder,
    MixTags,
    OpenedBallots,
    SharedSeed,
    VoteOrder,
    WorkerOrder,
    ZeroOrder,
    ZeroPairs,
    ZeroPoints,
    parse_order,
)

MAX_ELEMENTS = 2**18  # in one message: 8 MiB


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
        publish_key(channel, self.group, self._key, self._parties)
        load_seed(channel.state, "own")
        for party, payload in channel.gather(SharedSeed.step(), self._parties).items():
            if channel.state.get(f"with-{party}") is None:
                channel.state.put(f"with-{party}", SharedSeed.from_payload(payload).content)

    def _obey(self, number: int) -> bool:
        """Carry out order ``number``; return whether more may follow."""
        step = WorkerOrder.step(number=number)
        order = parse_order(self.channel.receive(step, self.channel.members.moderator))
        try:
            match order:
                case HopOrder():
                    self._hop(order)
                case VoteOrder():
                    self._vote(order)
                case MixOrder():
                    self._mix(order)
                case ZeroOrder():
                    self._test_zero(order)
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("bad_encoding", step=step) from None
        return not isinstance(order, EndOrder)

    def _hop(self, order: HopOrder) -> None:
        """Run one pass of chains: chunks of queries, each a message, so that the next worker can begin at once."""
        sizes = [order.sizes[party] for party in self._parties]
        for chunk, queries in enumerate(order.chunks, start=order.chunk):
            self._take(queries, sizes)
            step = ChainBatches.step(hop=self._place + 2, chunk=chunk)
            if not self.channel.is_sent(self._next, step):
                done = self._hop_batches(chunk, list(queries), sizes, exact=order.exact)
                self.channel.send(self._next, step, self._count_values(done, order.shown) if self._is_last else done)
        # The seeds of this pass are never needed again, and cannot be derived from the next ones.
        rotate_seeds(self.channel.state, self._passes, ("own", *(f"with-{party}" for party in self._parties)))
        self._passes += 1

    def _take(self, queries: Sequence[Any], sizes: list[int]) -> None:
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
        hops = (
            chain.hop(self.group, batch, shared=shared[party], own=own, session=session, query=query, party=party)
            for query, batches in zip(queries, columns, strict=True)
            for party, batch in enumerate(batches)
        )
        return ChainBatches(join_batches(hops)).to_payload()

    def _receive_batches(self, chunk: int, queries: int, sizes: list[int], *, exact: bool) -> list[list[bytes]]:
        """Receive for each query the parties' batches, from the parties themselves or from the previous worker."""
        step = ChainBatches.step(hop=self._place + 1, chunk=chunk)
        if self._place == 0:
            found = self.channel.gather(step, self._parties)
            by_party = [
                split_batches(ChainBatches.from_payload(found[party]).content, [size] * queries, exact=exact)
                for party, size in zip(self._parties, sizes, strict=True)
            ]
            return [[batches[index] for batches in by_party] for index in range(queries)]
        message = ChainBatches.from_payload(self.channel.receive(step, self._before))
        flat = split_batches(message.content, sizes * queries, exact=exact)
        return [flat[at : at + len(sizes)] for at in range(0, len(flat), len(sizes))]

    def _count_values(self, done: bytes, shown: int) -> bytes:
        """Count n_k of every query from k = ``shown`` on, as words."""
        parties = len(self._parties)
        batches = split_all_batches(ChainBatches.from_payload(done).content)
        found = [chain.tally(batches[at : at + parties])[shown - 1 :] for at in range(0, len(batches), parties)]
        return ChainCounts(np.concatenate(found)).to_payload()

    def _vote(self, order: VoteOrder) -> None:
        """Run one round of ballots."""
        level = order.level
        step = Ballots.step(hop=self._place + 2, round=level)
        if self.channel.is_sent(self._next, step):
            return
        pairs = self._add_pairs(Ballots, Ballots.step(hop=self._place + 1, round=level), self._parties, order.count)
        seed = None if self._is_last else load_seed(self.channel.state, "own")
        first, second = votes.open_pairs(
            self.group, pairs, self._key, seed=seed, session=self.channel.session, level=level
        )
        if self._is_last:
            # The parties hear the verdicts from this worker, too: otherwise the role that relays them
            # could tell a party a verdict that its rows refute.
            opened = OpenedBallots(bytes(votes.read_verdicts(second))).to_payload()
            for name in (*self._parties, self._next):
                self.channel.send(name, step, opened)
        else:
            self.channel.send(self._next, step, Ballots(votes.zip_pairs(first, second)).to_payload())

    def _add_pairs(
        self, kind: type[Ballots] | type[ZeroPairs], step: str, sources: tuple[str, ...], count: int
    ) -> bytes:
        """Return the sums of the sources' pairs, as the first worker adds them or the worker before sends them."""
        if self._place == 0:
            found = self.channel.gather(step, sources).values()
            return votes.add_ballots(self.group, [kind.from_payload(payload).content for payload in found], count)
        pairs = kind.from_payload(self.channel.receive(step, self._before)).content
        votes.require_pairs(self.group, pairs, count)
        return pairs

    def _mix(self, order: MixOrder) -> None:
        """Pass all parties' pairs of some sets through the mix network, each set separately."""
        self._take(_number_queries(order.first, order.count), [2 * order.most] * len(self._parties))
        # Only the mix network needs the keys of later workers, and the moderator's pairs the joint key.
        names = (*self.channel.members.workers, self.channel.members.moderator)
        publish_key(self.channel, self.group, self._key, names)
        step = MixBatches.step(hop=self._place + 2, chunk=order.chunk)
        if self.channel.is_sent(self._next, step):
            return
        pooled = self._pool_sets(MixBatches.step(hop=self._place + 1, chunk=order.chunk), order.count, order.most)
        mixed = (self._mix_pairs(pairs, query, "m") for query, pairs in enumerate(pooled, start=order.first))
        kind = MixTags if self._is_last else MixBatches
        self.channel.send(self._next, step, kind(join_batches(mixed)).to_payload())

    def _pool_sets(self, step: str, count: int, most: int) -> list[bytes]:
        """Return for each set the pairs of all parties, from themselves or from the previous worker."""
        parties = len(self._parties)
        if self._place == 0:
            found = self.channel.gather(step, self._parties).values()
            messages = [MixBatches.from_payload(payload).content for payload in found]
            lots = [split_batches(message, [2 * most] * count, exact=False) for message in messages]
            return [mixnet.pool_pairs(self.group, of_one_set, most) for of_one_set in zip(*lots, strict=True)]
        message = MixBatches.from_payload(self.channel.receive(step, self._before)).content
        batches = split_batches(message, [2 * most * parties] * count, exact=False)
        for pairs in batches:
            mixnet.check_pairs(self.group, pairs, most * parties)
        return batches

    def _test_zero(self, order: ZeroOrder) -> None:
        """Test whether numbers of all parties and the moderator add up to zero, by the same steps on one pair each."""
        self._take(_number_queries(order.first, order.count), [2])
        step = ZeroPairs.step(hop=self._place + 2, level=order.level)
        if self.channel.is_sent(self._next, step):
            return
        sources = (*self._parties, self.channel.members.moderator)
        before = ZeroPairs.step(hop=self._place + 1, level=order.level)
        pairs = self._add_pairs(ZeroPairs, before, sources, order.count)
        each = [pairs[at : at + votes.PAIR] for at in range(0, len(pairs), votes.PAIR)]
        done = b"".join(self._mix_pairs(pair, query, "d") for query, pair in enumerate(each, start=order.first))
        kind = ZeroPoints if self._is_last else ZeroPairs
        self.channel.send(self._next, step, kind(done).to_payload())

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


def _number_queries(first: int, count: int) -> list[int]:
    """Return the numbers of ``count`` queries from ``first`` on; refuses more than one message can hold."""
    if not 0 <= count <= MAX_ELEMENTS:
        raise ProtocolError("batch_size")
    return list(range(first, first + count))
