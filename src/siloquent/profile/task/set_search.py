"""The search over all rows together, pass by pass (protocols padded and fast): the moderator's side, then a party's.

Both compute the sets of each pass from the comparisons so far; a party answers no set that it did not compute itself.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.framing import join_batches
from siloquent.federation.crypto.seed_store import load_seed, rotate_seeds
from siloquent.federation.crypto.worker_messages import ChainBatches, ChainCounts, HopOrder
from siloquent.maths.dependencies import FD
from siloquent.profile import estimate
from siloquent.profile.plan.canaries import count_canaries
from siloquent.profile.plan.passes import QueryPass, lay_out_pass
from siloquent.profile.plan.planner import Excesses, ReplayedVerdicts, Search, start_search
from siloquent.profile.protocol import PassVerdicts, SearchPass
from siloquent.profile.spec import ProfileSpec
from siloquent.profile.task.moderator import Moderator
from siloquent.profile.task.party import Party


def ask_sets(moderator: Moderator, cfds: list[FD]) -> tuple[list[FD], list[int]]:
    """Search as the moderator; return the minimal dependencies over all rows, and the keys."""
    spec = moderator.terms.spec
    wants_keys = "keys" in spec.kinds and moderator.no_duplicate_rows
    search, keys = _start_search(spec, cfds, wants_keys), list[int]()
    answers, told = Excesses({0: len(moderator.sizes) - 1}), 0
    while wanted := search.list_requests(answers):
        laid = _lay_out_pass(moderator, wanted)
        bits, told = tuple(answers.bits[told:]), len(answers.bits)
        asked = SearchPass(bits, laid.masks, laid.plans, laid.chunks, laid.first_chunk)
        moderator.tell(SearchPass.step(number=moderator.passes), asked)
        answers.values |= _measure_pass(moderator, laid)
        search.learn(wanted)
        moderator.say(f"pass {moderator.passes}: {moderator.sets} sets asked")
    if wants_keys:
        keys = search.list_keys(answers)
    moderator.tell(PassVerdicts.step(number=moderator.passes), PassVerdicts(tuple(answers.bits[told:])))
    return search.knowledge.list_minimal(), keys


def _lay_out_pass(moderator: Moderator, wanted: list[int]) -> QueryPass:
    """Lay out the next pass, with the number of canaries that keeps their share over the whole session."""
    moderator.sets += len(wanted)
    if moderator.sets > moderator.terms.most_sets:
        raise ProtocolError("too_large", role=moderator.channel.me)
    share = moderator.terms.spec.canaries
    synthetic = max(0, count_canaries(moderator.sets, share) - moderator.synthetic) if share else 0
    moderator.synthetic += synthetic
    laid = lay_out_pass(
        wanted,
        synthetic,
        number=moderator.passes,
        first_query=moderator.queries,
        first_chunk=moderator.chunks,
        sizes=moderator.sizes,
        seed=moderator.seed,
        session=moderator.channel.session,
    )
    moderator.queries += len(wanted) + synthetic
    moderator.chunks += len(laid.chunks)
    return laid


def _measure_pass(moderator: Moderator, laid: QueryPass) -> dict[int, int]:
    """Measure E of every set of a pass, after checking all its canaries."""
    exact = moderator.terms.spec.protocol == "padded"
    first, counts = 2 if exact else 1, dict[int, NDArray[np.int64]]()  # n_1 would show the number of values
    sizes = dict(zip(moderator.parties, moderator.sizes, strict=True))
    moderator.order(HopOrder(sizes, exact, first, laid.chunks, laid.first_chunk))
    for number, chunk in enumerate(laid.chunks, start=laid.first_chunk):
        payload = moderator.receive_from_last(ChainCounts.step(hop=moderator.last_hop, chunk=number))
        words = ChainCounts.from_payload(payload).counts.astype(np.uint64, copy=False)
        histograms = estimate.compute_histograms(words, len(chunk), first, moderator.sizes)
        counts |= dict(zip(chunk, histograms, strict=True))
    plans = {query: plan for query, (plan, _) in laid.plans.items()}
    estimate.check_canaries(plans, counts, len(moderator.sizes), first)
    moderator.passes += 1
    return {mask: estimate.compute_excess(counts[query], first) for query, mask in laid.masks.items()}


def answer_sets(party: Party) -> tuple[list[FD], list[int]]:
    """Answer the search as a party; return the minimal dependencies over all rows, and the keys.

    Raises:
        ProtocolError: ``planner_mismatch``: the moderator asks other sets, more sets, or sends other bits than needed.
    """
    wants_keys = "keys" in party.terms.spec.kinds and party.no_duplicate_rows
    search, keys = _start_search(party.terms.spec, party.cfds, wants_keys), list[int]()
    answers, number, asked, queries, chunks = ReplayedVerdicts(), 0, 0, 0, 0
    while True:
        step = SearchPass.step(number=number)
        payload = party.receive(step)
        answers.bits += PassVerdicts.from_payload(payload).bits
        wanted: list[int] | None = None
        with suppress(IndexError):  # fewer bits than the search needs
            wanted = search.list_requests(answers)
            if not wanted and wants_keys:
                keys = search.list_keys(answers)
        if wanted is None or not answers.exhausted:
            raise party.refuse(step)
        if not wanted:
            return search.knowledge.list_minimal(), keys
        request = SearchPass.from_payload(payload, party.sizes)
        queries = _check_pass(party, request, wanted, step, first_query=queries, first_chunk=chunks)
        _send_batches(party, request, number)
        search.learn(wanted)
        asked, number, chunks = asked + len(wanted), number + 1, chunks + len(request.chunks)
        party.say(f"pass {number}: {asked} sets asked")
        if asked > party.terms.most_sets:
            raise party.refuse(SearchPass.step(number=number))


def _check_pass(
    party: Party, request: SearchPass, wanted: list[int], step: str, *, first_query: int, first_chunk: int
) -> int:
    """Check that a pass asks the sets of this party's own search; return the number after its last query.

    Numbers only grow, so that no secret is used twice.
    """
    queries = [query for chunk in request.chunks for query in chunk]
    if list(request.queries.values()) != wanted or sorted({**request.queries, **request.canaries}) != queries:
        raise party.refuse(step)
    if queries[0] < first_query or request.chunk != first_chunk:
        raise party.refuse(step)
    return queries[-1] + 1


def _send_batches(party: Party, request: SearchPass, number: int) -> None:
    """Send the batches of a pass, chunk by chunk, and replace the seeds that they were made with."""
    for number_of_chunk, queries in enumerate(request.chunks, start=request.chunk):

        def build(queries: tuple[int, ...] = queries) -> ChainBatches:
            return ChainBatches(join_batches(_build_batch(party, request, query, number) for query in queries))

        party.send_to_first(ChainBatches.step(hop=1, chunk=number_of_chunk), build)
    workers = party.channel.members.workers
    rotate_seeds(party.channel.state, number, ("own", *(f"with-{worker}" for worker in workers)))


def _build_batch(party: Party, request: SearchPass, query: int, number: int) -> bytes:
    padded = party.terms.spec.protocol == "padded"
    size = party.sizes[party.index] if padded else None
    state = party.channel.state
    shared = [load_seed(state, f"with-{worker}") for worker in party.channel.members.workers]
    own = party.own_seed
    if query in request.queries:
        return party.data.build_batch(request.queries[query], size, query, shared=shared, own=own)
    plan, like = request.canaries[query]
    if size is None:
        if like not in request.queries:
            raise ProtocolError("bad_encoding", role=party.moderator, step=SearchPass.step(number=number))
        size = party.data.snapshot.count_distinct(request.queries[like])
    size = max(size, sum(count for _, count in plan.list_held(party.index)))
    key = party.canary_key
    return party.data.build_canary_batch(plan, party.index, size, query, key=key, shared=shared, own=own)


def _start_search(spec: ProfileSpec, cfds: list[FD], wants_keys: bool) -> Search:
    return start_search(len(spec.columns), cfds, most=spec.most, empty_lhs=spec.empty_lhs, keys=wants_keys)
