"""Votes round by round on the dependencies that hold in every party: the moderator's side, then a party's.

Both compute the candidates of each round from the verdicts so far; the moderator sends only their digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.seeds import SEED, derive
from siloquent.federation.crypto.votes import derive_vote_blinding
from siloquent.federation.crypto.worker_messages import Ballots, OpenedBallots, VoteOrder
from siloquent.maths.dependencies import FD
from siloquent.profile.encodings import compute_digest, digest_candidates, extend_digest
from siloquent.profile.estimate import select_real_verdicts
from siloquent.profile.plan.canaries import compute_vote_indices, count_vote_canaries, draw_vote_canaries
from siloquent.profile.plan.local_search import LocalSearch
from siloquent.profile.protocol import VoteRound, VoteVerdicts
from siloquent.profile.spec import ProfileSpec
from siloquent.profile.task.moderator import Moderator
from siloquent.profile.task.party import Party


def hold_votes(moderator: Moderator) -> list[FD]:
    """Hold the votes as the moderator; return the minimal dependencies that hold in every party."""
    spec = moderator.terms.spec
    search, verdicts = _start_search(spec), list[bool]()
    while candidates := search.list_candidates():
        number = search.rounds
        with_rows = _votes_on_rows(spec, number)
        verdicts = _hold_round(moderator, number, candidates, verdicts, with_rows=with_rows)
        if with_rows:
            moderator.no_duplicate_rows = verdicts[-1]
        search.learn(candidates, verdicts[: len(candidates)])
        moderator.votes += len(verdicts)
        moderator.say(f"votes: round {search.rounds}, {len(candidates)} candidates")
    moderator.tell(VoteVerdicts.step(round=search.rounds), VoteVerdicts(tuple(verdicts)))
    return search.list_dependencies()


def _hold_round(
    moderator: Moderator, number: int, candidates: Sequence[FD], verdicts: Sequence[bool], *, with_rows: bool
) -> list[bool]:
    """Send the last round's verdicts together with this round's ballots, to save a message."""
    real, session, seed = len(candidates) + with_rows, moderator.channel.session, moderator.seed
    kinds = draw_vote_canaries(real, len(moderator.sizes), moderator.terms.spec.canaries, seed, session, number)
    # Parties know the order of the ballots, workers do not: a bit's position would reveal its candidate.
    order = derive(seed, "vote order", session, number, size=SEED)
    positions = compute_vote_indices(real + len(kinds), order, session, number)
    asked = VoteRound(tuple(verdicts), digest_candidates(candidates), tuple(kinds), order)
    moderator.tell(VoteRound.step(round=number), asked)
    moderator.order(VoteOrder(level=number, count=len(positions)))
    moderator.canaries += len(kinds)
    opened = moderator.receive_from_last(OpenedBallots.step(hop=moderator.last_hop, round=number))
    return select_real_verdicts(OpenedBallots.from_payload(opened).content, kinds, positions)


def cast_votes(party: Party) -> None:
    """Vote as a party, and keep the result in ``party.cfds``.

    Raises:
        ProtocolError: ``planner_mismatch``: the moderator asks for other votes, or tells other verdicts than the last
            worker; ``canary_failed``: a canary, or a verdict that this party's rows refute.
    """
    spec = party.terms.spec
    search = _start_search(spec)
    payload = party.receive(VoteRound.step(round=0))
    told = compute_digest([party.terms.to_dict(), list(party.sizes)])
    while candidates := search.list_candidates():
        number, told = search.rounds, extend_digest(told, payload)
        with_rows = _votes_on_rows(spec, number)
        asked = VoteRound.from_payload(payload)
        positions = _cast_ballots(party, number, asked, bytes.fromhex(told), candidates, with_rows=with_rows)
        payload = party.receive(VoteRound.step(round=number + 1))
        verdicts = _receive_verdicts(party, number, payload, asked.canaries, positions)
        if with_rows:
            party.no_duplicate_rows = verdicts[-1]
        search.learn(candidates, verdicts[: len(candidates)])
        party.say(f"votes: round {search.rounds}, {len(candidates)} candidates")
    party.cfds = search.list_dependencies()
    party.check_on_own_rows(party.cfds)


def _cast_ballots(
    party: Party, number: int, asked: VoteRound, told: bytes, candidates: Sequence[FD], *, with_rows: bool
) -> list[int]:
    """Send this party's ballots; return the position of each candidate and canary among them."""
    session, real = party.channel.session, len(candidates) + with_rows
    if asked.digest != digest_candidates(candidates):
        raise party.refuse(VoteRound.step(round=number))
    if any(kind >= len(party.sizes) for kind in asked.canaries):
        raise ProtocolError("bad_encoding")
    if len(asked.canaries) != count_vote_canaries(real, party.terms.spec.canaries):
        raise party.refuse(VoteRound.step(round=number))
    positions = compute_vote_indices(real + len(asked.canaries), asked.order, session, number)

    def build() -> Ballots:
        own = [party.data.holds(lhs, right) for lhs, right in candidates]
        own += [party.data.has_no_duplicate_rows()] if with_rows else []
        canaries = [kind != party.index for kind in asked.canaries]  # a canary's value is the party that votes no
        cast = [vote for _, vote in sorted(zip(positions, (*own, *canaries), strict=True))]
        tied = derive_vote_blinding(
            party.group, party.canary_key, party.index, len(party.sizes),
            session=session, told=told, level=number, count=len(cast),
        )  # fmt: skip
        key, seed = party.joint_key, party.own_seed
        return Ballots(party.data.encrypt_ballots(cast, key, seed=seed, level=number, tied=tied))

    party.send_to_first(Ballots.step(hop=1, round=number), build)
    return positions


def _receive_verdicts(
    party: Party, number: int, payload: bytes, canaries: Sequence[int], positions: Sequence[int]
) -> list[bool]:
    """Receive a round's verdicts from the moderator and the last worker, before comparing them with own rows.

    A false verdict refuted only by this party's rows would end the session under its name, and so reveal its
    vote.
    """
    workers = party.channel.members.workers
    opened = party.channel.receive(OpenedBallots.step(hop=len(workers) + 1, round=number), workers[-1])
    verdicts = select_real_verdicts(OpenedBallots.from_payload(opened).content, canaries, positions)
    if list(VoteVerdicts.from_payload(payload).bits) != verdicts:
        raise party.refuse(VoteVerdicts.step(round=number + 1))
    return verdicts


def _start_search(spec: ProfileSpec) -> LocalSearch:
    return LocalSearch(len(spec.columns), spec.most, spec.empty_lhs)


def _votes_on_rows(spec: ProfileSpec, number: int) -> bool:
    """Return whether a round also votes on the absence of equal rows, after its candidates: the first one, for keys."""
    return number == 0 and "keys" in spec.kinds
