"""The thesis' traversal, level by level (protocol smfd): the moderator's side, then a party's.

Every set goes through the mix network once, then one number per candidate is tested for zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.federation.crypto import mixnet
from siloquent.federation.crypto.framing import join_batches, split_batches
from siloquent.federation.crypto.group import IDENTITY, split
from siloquent.federation.crypto.joint_key import gather_proven_keys
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.votes import compute_joint_key
from siloquent.federation.crypto.worker_messages import MixBatches, MixOrder, MixTags, ZeroOrder, ZeroPairs, ZeroPoints
from siloquent.maths.dependencies import FD, compute_closures
from siloquent.profile.encodings import digest_candidates
from siloquent.profile.estimate import count_distinct_tags
from siloquent.profile.plan.levelwise import LevelwiseSearch
from siloquent.profile.plan.sizes import split_sets
from siloquent.profile.protocol import LevelMessage, LevelVerdicts
from siloquent.profile.spec import ProfileSpec
from siloquent.profile.task.moderator import Moderator
from siloquent.profile.task.party import Party


def ask_levels(moderator: Moderator) -> list[FD]:
    """Run the traversal as the moderator; return the minimal dependencies over all rows."""
    traversal, number, first, chunk = _start_traversal(moderator.terms.spec), 0, 0, 0
    shared: dict[int, int] = {}
    while candidates := traversal.list_candidates():
        sets = traversal.list_new_sets(candidates)
        moderator.tell(LevelMessage.step(level=number), LevelMessage(tuple(sets), digest_candidates(candidates), first))
        shared |= dict(zip(sets, _count_shared_occurrences(moderator, first, len(sets), chunk), strict=True))
        chunk += len(split_sets(first, len(sets), moderator.sizes))
        second = first + len(sets)
        surplus = [shared[lhs] - shared[lhs | 1 << right] for lhs, right in candidates]
        verdicts = _add_up(moderator, surplus, second, number)
        moderator.tell(LevelVerdicts.step(level=number), LevelVerdicts(tuple(verdicts)))
        traversal.learn(candidates, verdicts)
        moderator.sets += len(sets)
        moderator.passes += 1
        number, first = number + 1, second + len(candidates)
        moderator.say(f"level {number}: {len(candidates)} candidates")
    return traversal.list_minimal()


def _count_shared_occurrences(moderator: Moderator, first: int, count: int, chunk: int) -> list[int]:
    """Return S(X) of ``count`` sets: occurrences of values over all parties, minus the number of distinct ones."""
    shared, most, total = [], max(moderator.sizes), sum(moderator.sizes)
    cut = split_sets(first, count, moderator.sizes)
    for number, queries in enumerate(cut, start=chunk):
        moderator.order(MixOrder(chunk=number, first=queries[0], count=len(queries), most=most))
    for number, queries in enumerate(cut, start=chunk):
        payload = moderator.receive_from_last(MixTags.step(hop=moderator.last_hop, chunk=number))
        for tags in split_batches(MixTags.from_payload(payload).content, [total] * len(queries), exact=False):
            moderator.group.check(tags, distinct=False)
            shared.append(len(tags) // POINT - count_distinct_tags(tags))
    return shared


def _add_up(moderator: Moderator, numbers: Sequence[int], first: int, level: int) -> list[bool]:
    """Return for each candidate whether the parties' numbers and the moderator's add up to zero."""
    group, channel = moderator.group, moderator.channel
    moderator.order(ZeroOrder(level=level, first=first, count=len(numbers)))
    key = compute_joint_key(group, gather_proven_keys(channel, group, moderator.workers))
    pairs = [
        mixnet.encrypt_points(
            group,
            mixnet.encode_number(group, number),
            key,
            seed=moderator.seed,
            session=channel.session,
            query=query,
            label="d",
        )
        for query, number in enumerate(numbers, start=first)
    ]
    channel.send(moderator.workers[0], ZeroPairs.step(hop=1, level=level), ZeroPairs(b"".join(pairs)).to_payload())
    payload = moderator.receive_from_last(ZeroPoints.step(hop=moderator.last_hop, level=level))
    return [point == IDENTITY for point in split(ZeroPoints.from_payload(payload, POINT * len(numbers)).content)]


def answer_levels(party: Party) -> list[FD]:
    """Answer the traversal as a party; return the minimal dependencies over all rows.

    Raises:
        ProtocolError: ``planner_mismatch``: the moderator asks other sets, or its verdicts contradict the votes.
    """
    spec, own, data, key = party.terms.spec, party.own_seed, party.data, party.joint_key
    traversal, number, first, chunk = _start_traversal(spec), 0, 0, 0
    while candidates := traversal.list_candidates():
        payload = party.receive(LevelMessage.step(level=number))
        sets = traversal.list_new_sets(candidates)
        # Reusing a query's number would reuse its random numbers for other values.
        if not LevelMessage(tuple(sets), digest_candidates(candidates), first).matches(payload):
            raise party.refuse(LevelMessage.step(level=number))
        second = first + len(sets)
        for queries in split_sets(first, len(sets), party.sizes):
            masks = [(query, sets[query - first]) for query in queries]

            def mix(masks: list[tuple[int, int]] = masks) -> MixBatches:
                return MixBatches(join_batches(data.encrypt_values(mask, key, query, own=own) for query, mask in masks))

            party.send_to_first(MixBatches.step(hop=1, chunk=chunk), mix)
            chunk += 1

        def add(candidates: list[FD] = candidates, second: int = second) -> ZeroPairs:
            surplus = enumerate((data.compute_surplus(lhs, right) for lhs, right in candidates), start=second)
            return ZeroPairs(b"".join(data.encrypt_number(value, key, query, own=own) for query, value in surplus))

        party.send_to_first(ZeroPairs.step(hop=1, level=number), add)
        step = LevelVerdicts.step(level=number)
        verdicts = LevelVerdicts.from_payload(party.receive(step)).bits
        if len(verdicts) != len(candidates):
            raise party.refuse(step)
        traversal.learn(candidates, verdicts)
        number, first = number + 1, second + len(candidates)
        party.say(f"level {number}: {len(candidates)} candidates")
    minimal = traversal.list_minimal()
    # Judged by public knowledge, not by one party's rows, which would end the session under that party's name.
    implied = compute_closures(party.cfds, len(spec.columns))
    if any(not implied[lhs] >> right & 1 for lhs, right in minimal):
        raise party.refuse(LevelVerdicts.step(level=number - 1))
    return minimal


def _start_traversal(spec: ProfileSpec) -> LevelwiseSearch:
    return LevelwiseSearch(len(spec.columns), spec.most)
