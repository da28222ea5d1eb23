"""The moderator's part: votes round by round, then passes of planning, requests and histograms, until all is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto import mixnet
from siloquent.federation.crypto.framing import split_batches
from siloquent.federation.crypto.group import IDENTITY, Group, Ristretto, split
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.federation.crypto.seeds import SEED, derive
from siloquent.federation.crypto.votes import compute_joint_key
from siloquent.federation.crypto.worker import gather_proven_keys
from siloquent.federation.messages.payload import pack_bytes, pack_json, unpack_bytes, unpack_json, unpack_words
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile import estimate
from siloquent.profile.plan import canaries as trip
from siloquent.profile.plan.levelwise import LevelwiseSearch
from siloquent.profile.plan.local_search import LocalSearch
from siloquent.profile.plan.passes import QueryPass, lay_out_pass
from siloquent.profile.plan.planner import Excesses, start_search
from siloquent.profile.plan.sizes import split_sets
from siloquent.profile.spec import FDReport, Leakage, build_dependencies, compute_columns_digest, describe_leakage
from siloquent.profile.task.terms import (
    ProgressCallback,
    Terms,
    compute_digest,
    dump_candidates,
    format_bits,
    ignore_progress,
)

MAX_ROWS = 2**24


def discover(
    channel: Channel, terms: Terms, *, group: Group | None = None, say: ProgressCallback = ignore_progress
) -> FDReport:
    """Find the dependencies of all parties' rows together, as the moderator.

    Args:
        terms: The request; every party approves or refuses it.
        say: Called with a description of the session's progress.
    Returns:
        The report, confirmed by every party.
    Raises:
        ProtocolError: a role declined, broke the protocol or left; there is no result.
    Privacy:
        Input privacy: ``siloquent.profile.spec.leakage`` states what the moderator and the others learn.
    """
    walk = _Moderator(channel, terms, group or Ristretto(), say)
    try:
        return walk.run()
    except ProtocolError as broken:
        if broken.code in ("aborted_by", "session_closed"):
            raise
        channel.abort(broken.code, step=broken.step)


@dataclass(slots=True)
class _Moderator:
    channel: Channel
    terms: Terms
    group: Group
    say: ProgressCallback
    sizes: list[int] = field(init=False)
    orders: int = 0
    votes: int = 0
    sets: int = 0
    passes: int = 0
    queries: int = 0
    chunks: int = 0
    made_up: int = 0  # queries
    canaries: int = 0  # ballots
    no_twins: bool = False

    def run(self) -> FDReport:
        self._start()
        cfds = self._vote()
        ufds, keys = self._trace() if self.terms.spec.protocol == "smfd" else self._search(cfds)
        self._order({"do": "end"})
        return self._agree(ufds, cfds, keys)

    @property
    def _parties(self) -> tuple[str, ...]:
        return self.channel.members.parties

    @property
    def _workers(self) -> tuple[str, ...]:
        return self.channel.members.workers

    @property
    def _seed(self) -> bytes:
        return load_seed(self.channel.state, "own")

    def _tell(self, step: str, document: Mapping[str, Any]) -> None:
        for party in self._parties:
            self.channel.send(party, step, pack_json(document))

    def _order(self, document: Mapping[str, Any]) -> None:
        for worker in self._workers:
            self.channel.send(worker, f"order/{self.orders}", pack_json(document))
        self.orders += 1

    def _receive_from_last(self, step: str) -> bytes:
        return self.channel.receive(step, self._workers[-1])

    def _start(self) -> None:
        if len(self._parties) < 2 or len(self._workers) < 2:
            raise ProtocolError("policy_refused", role=self.channel.me)
        self._tell("terms", self.terms.to_dict())
        digest = compute_columns_digest(self.terms.columns)
        sizes = []
        for party, payload in self.channel.gather("entry", self._parties).items():
            joined = unpack_json(payload)
            if not isinstance(joined, dict) or joined.get("columns") != digest:
                raise ProtocolError("bad_encoding", role=party, step="entry")
            size = joined.get("size")
            if not isinstance(size, int) or not self.terms.spec.min_rows <= size <= MAX_ROWS:
                raise ProtocolError("bad_encoding", role=party, step="entry")
            sizes.append(size)
        self.sizes = sizes
        self._tell("sizes", {"sizes": sizes})
        self.say(f"{len(sizes)} parties joined")

    def _vote(self) -> list[FD]:
        """Vote on the dependencies that hold in every party."""
        spec = self.terms.spec
        borders, bits = LocalSearch(len(spec.columns), spec.most, spec.empty_lhs), ""
        while candidates := borders.list_candidates():
            number = borders.rounds
            with_twins = number == 0 and "keys" in spec.kinds
            verdicts = self._vote_round(number, candidates, bits, with_twins=with_twins)
            bits = format_bits(verdicts)
            self.no_twins = verdicts.pop() if with_twins else self.no_twins
            borders.learn(candidates, verdicts)
            self.votes += len(candidates) + with_twins
            self.say(f"votes: round {borders.rounds}, {len(candidates)} candidates")
        self._tell(f"v0/{borders.rounds}", {"bits": bits})
        return borders.list_dependencies()

    def _vote_round(self, number: int, candidates: Sequence[FD], bits: str, *, with_twins: bool) -> list[bool]:
        """Send the last round's verdicts together with this round's ballots, to save a message."""
        real, session, share = len(candidates) + with_twins, self.channel.session, self.terms.spec.canaries
        kinds = trip.draw_vote_canaries(real, len(self.sizes), share, self._seed, session, number)
        # Parties know the order of the ballots, workers do not: a bit's position would reveal its candidate.
        order = derive(self._seed, "vote order", session, number, size=SEED)
        places = trip.compute_vote_indices(real + len(kinds), order, session, number)
        digest = compute_digest(dump_candidates(candidates))
        self._tell(f"v0/{number}", {"bits": bits, "digest": digest, "canaries": kinds, "order": order.hex()})
        self._order({"do": "vote", "level": number, "count": len(places)})
        self.canaries += len(kinds)
        found = unpack_bytes(self._receive_from_last(f"v{len(self._workers) + 1}/{number}"))
        return estimate.select_real_verdicts(found, kinds, places)

    def _search(self, cfds: list[FD]) -> tuple[list[FD], list[int]]:
        """Search for the dependencies over all rows together."""
        spec = self.terms.spec
        wants_keys = "keys" in spec.kinds and self.no_twins
        search = start_search(len(spec.columns), cfds, most=spec.most, empty_lhs=spec.empty_lhs, keys=wants_keys)
        answers, told, keys = Excesses({0: len(self.sizes) - 1}), 0, list[int]()
        while wanted := search.list_requests(answers):
            laid = self._lay_out_pass(wanted)
            self._tell(f"u0/{self.passes}", laid.build_party_message(format_bits(answers.bits[told:])))
            told = len(answers.bits)
            answers.values |= self._measure_pass(laid)
            search.learn(wanted)
            self.say(f"pass {self.passes}: {self.sets} sets asked")
        if wants_keys:
            keys = search.list_keys(answers)
        self._tell(f"u0/{self.passes}", {"bits": format_bits(answers.bits[told:])})
        return search.knowledge.list_minimal(), keys

    def _lay_out_pass(self, wanted: list[int]) -> QueryPass:
        """Lay out the next pass, with the number of canaries that keeps their share over the whole session."""
        self.sets += len(wanted)
        if self.sets > self.terms.most_sets:
            raise ProtocolError("too_large", role=self.channel.me)
        share = self.terms.spec.canaries
        made_up = max(0, trip.count_canaries(self.sets, share) - self.made_up) if share else 0
        self.made_up += made_up
        laid = lay_out_pass(
            wanted,
            made_up,
            number=self.passes,
            first_query=self.queries,
            first_chunk=self.chunks,
            sizes=self.sizes,
            seed=self._seed,
            session=self.channel.session,
        )
        self.queries += len(wanted) + made_up
        self.chunks += len(laid.chunks)
        return laid

    def _measure_pass(self, laid: QueryPass) -> dict[int, int]:
        """Measure E of every set of a pass, after checking all its canaries."""
        exact = self.terms.spec.protocol == "padded"
        order = laid.build_worker_message(dict(zip(self._parties, self.sizes, strict=True)), exact=exact)
        self._order(order)
        first, counts = order["shown"], dict[int, Any]()
        for offset, chunk in enumerate(laid.chunks):
            step = f"c{len(self._workers) + 1}/{laid.first_chunk + offset}"
            words = unpack_words(self._receive_from_last(step))
            found = estimate.compute_histograms(words, len(chunk), first, self.sizes)
            counts |= dict(zip(chunk, found, strict=True))
        plans = {query: plan for query, (plan, _) in laid.plans.items()}
        estimate.check_canaries(plans, counts, len(self.sizes), first)
        self.passes += 1
        return {mask: estimate.compute_excess(counts[query], first) for query, mask in laid.masks.items()}

    def _trace(self) -> tuple[list[FD], list[int]]:
        """Run the thesis' traversal."""
        traversal, number, first, chunk = LevelwiseSearch(len(self.terms.spec.columns), self.terms.spec.most), 0, 0, 0
        shared: dict[int, int] = {}
        while candidates := traversal.list_candidates():
            sets = traversal.list_new_sets(candidates)
            digest = compute_digest(dump_candidates(candidates))
            self._tell(f"s0/{number}", {"sets": sets, "digest": digest, "first": first})
            shared |= dict(zip(sets, self._count_shared_occurrences(first, len(sets), chunk), strict=True))
            chunk += len(split_sets(first, len(sets), self.sizes))
            second = first + len(sets)
            surplus = [shared[lhs] - shared[lhs | 1 << right] for lhs, right in candidates]
            verdicts = self._add_up(surplus, second, number)
            self._tell(f"s9/{number}", {"bits": format_bits(verdicts)})
            traversal.learn(candidates, verdicts)
            self.sets += len(sets)
            self.passes += 1
            number, first = number + 1, second + len(candidates)
            self.say(f"level {number}: {len(candidates)} candidates")
        return traversal.list_minimal(), []

    def _count_shared_occurrences(self, first: int, count: int, chunk: int) -> list[int]:
        """Return S(X) of ``count`` sets: occurrences of values over all parties, minus the number of distinct ones."""
        found, most = [], max(self.sizes)
        cut = split_sets(first, count, self.sizes)
        for number, queries in enumerate(cut, start=chunk):
            self._order({"do": "mix", "chunk": number, "first": queries[0], "count": len(queries), "most": most})
        for number, queries in enumerate(cut, start=chunk):
            message = unpack_bytes(self._receive_from_last(f"m{len(self._workers) + 1}/{number}"))
            for tags in split_batches(message, [sum(self.sizes)] * len(queries), exact=False):
                self.group.check(tags, distinct=False)
                found.append(len(tags) // POINT - estimate.count_distinct_tags(tags))
        return found

    def _add_up(self, numbers: Sequence[int], first: int, level: int) -> list[bool]:
        """Return for each candidate whether the parties' numbers and the moderator's add up to zero."""
        self._order({"do": "zero", "level": level, "first": first, "count": len(numbers)})
        key = compute_joint_key(self.group, gather_proven_keys(self.channel, self.group, self._workers))
        pairs = [
            mixnet.encrypt_points(
                self.group,
                mixnet.encode_number(self.group, number),
                key,
                seed=self._seed,
                session=self.channel.session,
                query=query,
                label="d",
            )
            for query, number in enumerate(numbers, start=first)
        ]
        self.channel.send(self._workers[0], f"d1/{level}", pack_bytes(b"".join(pairs)))
        left = unpack_bytes(self._receive_from_last(f"d{len(self._workers) + 1}/{level}"), POINT * len(numbers))
        return [point == IDENTITY for point in split(left)]

    def _agree(self, ufds: list[FD], cfds: list[FD], keys: list[int]) -> FDReport:
        """Send the result to all parties; it is final when every party has confirmed it."""
        report = self._build_report(ufds, cfds, keys)
        self._tell("report", report.to_dict())
        agreed = self.channel.gather("agreed", self._parties)
        for party, payload in agreed.items():
            if unpack_json(payload) != {"digest": report.compute_digest()}:
                raise ProtocolError("planner_mismatch", role=party, step="agreed")
        self._tell("final", {"agreed": list(agreed)})
        return report.add_confirmations(agreed)

    def _build_report(self, ufds: list[FD], cfds: list[FD], keys: list[int]) -> FDReport:
        spec = self.terms.spec
        shown = describe_leakage(
            spec.protocol,
            parties=len(self.sizes),
            workers=len(self._workers),
            size_class=spec.size_class,
            sets=self.sets,
            votes=self.votes,
        )
        return FDReport(
            protocol=f"{spec.protocol}/1",
            columns=self.terms.columns,
            nulls=spec.nulls,
            empty_lhs=spec.empty_lhs,
            complete_to_lhs=spec.most,
            parties=tuple(zip(self._parties, self.sizes, strict=True)),
            workers=self._workers,
            ufd=build_dependencies(ufds, spec.columns),
            cfd=build_dependencies(cfds, spec.columns),
            keys=tuple(tuple(spec.columns[column] for column in list_columns(key)) for key in keys),
            constants=tuple(spec.columns[right] for lhs, right in ufds if lhs == 0),
            leakage=Leakage(self.sets, self.votes, self.passes, shown),
            canaries=(self.canaries + self.made_up, 0),
            session=self.channel.session.hex(),
        )
