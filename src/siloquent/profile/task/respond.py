"""A party's part of a session: it computes every request itself and answers no other.

It supports restarts, see ``Channel``: messages already sent are not computed again; seeds are kept in the role's
state and replaced after each pass.
"""

from __future__ import annotations

import secrets  # allowed: a salt for a commitment, no noise
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from siloquent.errors import ProtocolError, ReleaseError, SiloquentError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.framing import join_batches
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.seed_store import load_seed, rotate_seeds
from siloquent.federation.crypto.seeds import SEED
from siloquent.federation.crypto.votes import compute_joint_key, derive_vote_blinding
from siloquent.federation.crypto.worker import gather_proven_keys
from siloquent.federation.messages.payload import pack_bytes, pack_json, unpack_bytes, unpack_json
from siloquent.maths.dependencies import FD, compute_closures
from siloquent.profile.estimate import select_real_verdicts
from siloquent.profile.measure import PartyData, Snapshot
from siloquent.profile.plan.canaries import YES, compute_vote_indices, count_vote_canaries, parse_sharing_plan
from siloquent.profile.plan.levelwise import LevelwiseSearch
from siloquent.profile.plan.local_search import LocalSearch
from siloquent.profile.plan.planner import ReplayedVerdicts, Search, start_search
from siloquent.profile.plan.sizes import split_sets
from siloquent.profile.spec import FDReport, build_dependencies, compute_columns_digest, parse_report
from siloquent.profile.task.terms import (
    ProgressCallback,
    Terms,
    compute_digest,
    dump_candidates,
    ignore_progress,
    parse_bits,
    parse_terms,
)

RowOpener = Callable[[Terms], Snapshot]
"""A function that gives the rows for approved terms, or raises; called once, after all public checks."""


def respond(
    channel: Channel, open_rows: RowOpener, *, group: Group | None = None, say: ProgressCallback = ignore_progress
) -> FDReport:
    """Take part in a session as a party.

    Args:
        open_rows: Checks policy, asks a person, charges, reads the rows; ``ProtocolError("policy_refused")`` declines.
    Returns:
        The report, checked by this party against its own rows and its own computation of every request.
    Raises:
        ProtocolError: another role broke the protocol or the session was ended; nothing is reported then.
    Privacy:
        Input privacy: ``siloquent.profile.spec.leakage`` states for the terms' protocol what the
        others learn. Not differential privacy.
    """
    walk = _Party(channel, open_rows, group or Ristretto(), say)
    try:
        return walk.run()
    except ProtocolError as broken:
        if broken.code in ("aborted_by", "session_closed"):
            raise
        channel.abort(broken.code, step=broken.step)
    except SiloquentError:
        # A failure here is private to this party; the others only learn that it has left.
        with suppress(ProtocolError):
            channel.abort("protocol_failed")
        raise


@dataclass(slots=True)
class _Party:
    channel: Channel
    open_rows: RowOpener
    group: Group
    say: ProgressCallback
    terms: Terms = field(init=False)
    data: PartyData = field(init=False)
    sizes: list[int] = field(init=False)
    key: bytes = field(init=False)
    canary_key: bytes = field(init=False)
    cfds: list[FD] = field(init=False, default_factory=list)
    no_twins: bool = field(init=False, default=False)
    keys: list[int] = field(init=False, default_factory=list)
    chunks: int = field(init=False, default=0)

    def run(self) -> FDReport:
        self._join()
        self._vote()
        ufds, keys = self._trace() if self.terms.spec.protocol == "smfd" else self._search()
        return self._agree(ufds, keys)

    @property
    def _me(self) -> int:
        return self.channel.members.parties.index(self.channel.me)

    @property
    def _moderator(self) -> str:
        return self.channel.members.moderator

    @property
    def _first(self) -> str:
        return self.channel.members.workers[0]

    def _receive_document(self, step: str) -> Mapping[str, Any]:
        """Receive a JSON document of the moderator."""
        told = unpack_json(self.channel.receive(step, self._moderator))
        if not isinstance(told, dict):
            raise ProtocolError("bad_encoding", role=self._moderator, step=step)
        return told

    def _join(self) -> None:
        channel, members = self.channel, self.channel.members
        self.terms = parse_terms(self._receive_document("terms"))
        spec = self.terms.spec
        if len(members.parties) < 2 or len(members.workers) < 2:
            raise ProtocolError("policy_refused", role=channel.me)
        snapshot = self.open_rows(self.terms)
        if snapshot.columns != self.terms.columns or snapshot.rows < spec.min_rows:
            few = ProtocolError("policy_refused", role=channel.me)
            few.add_note(f"this table has fewer rows than the session's min_rows, {spec.min_rows}, or other columns")
            raise few
        agreed = bytes.fromhex(compute_digest(self.terms.to_dict()))
        self.data = PartyData(snapshot, channel.session, spec.most, spec.empty_lhs, self.group, agreed)
        salt = channel.state.get("salt") or secrets.token_bytes(32)  # allowed: salt of a commitment, no noise
        channel.state.put("salt", salt)
        joined = {
            "columns": compute_columns_digest(self.terms.columns),
            "size": self.data.compute_batch_size(rounded=spec.size_class),
            "commitment": self.data.compute_commitment(salt),
        }
        channel.send(self._moderator, "entry", pack_json(joined))
        for worker in members.workers:
            if not channel.is_sent(worker, "seed"):
                channel.send(worker, "seed", pack_bytes(load_seed(channel.state, f"with-{worker}")))
        self._share_canary_key()
        self.key = compute_joint_key(self.group, gather_proven_keys(channel, self.group, members.workers))
        told = self._receive_document("sizes")
        self.sizes = _parse_whole_numbers(told.get("sizes"))
        if len(self.sizes) != len(members.parties) or self.sizes[self._me] != joined["size"]:
            raise ProtocolError("planner_mismatch", role=self._moderator, step="sizes")

    def _share_canary_key(self) -> None:
        """Share the key of the synthetic values, drawn by the first party; workers and moderator never see it."""
        first, *others = self.channel.members.parties
        if self.channel.me == first:
            self.canary_key = load_seed(self.channel.state, "canary")
            for party in others:
                self.channel.send(party, "canary", pack_bytes(self.canary_key))
        else:
            self.canary_key = unpack_bytes(self.channel.receive("canary", first), 32)

    def _vote(self) -> None:
        """Vote round by round on the dependencies that hold in every party."""
        spec = self.terms.spec
        borders = LocalSearch(len(spec.columns), spec.most, spec.empty_lhs)
        told, heard = self._receive_document("v0/0"), compute_digest([self.terms.to_dict(), self.sizes])
        while candidates := borders.list_candidates():
            number, heard = borders.rounds, compute_digest([heard, told])
            with_twins = number == 0 and "keys" in spec.kinds
            kinds, places = self._vote_round(number, told, bytes.fromhex(heard), candidates, with_twins=with_twins)
            told = self._receive_document(f"v0/{number + 1}")
            verdicts = self._receive_verdicts(number, told, kinds, places)
            self.no_twins = verdicts.pop() if with_twins else self.no_twins
            borders.learn(candidates, verdicts)
            self.say(f"votes: round {borders.rounds}, {len(candidates)} candidates")
        self.cfds = borders.list_dependencies()
        self._check_own(self.cfds)

    def _vote_round(
        self, number: int, told: Mapping[str, Any], heard: bytes, candidates: Sequence[FD], *, with_twins: bool
    ) -> tuple[list[int], list[int]]:
        """Cast this party's ballots; return each canary's value, and the position of each candidate and canary."""
        if told.get("digest") != compute_digest(dump_candidates(candidates)):
            raise ProtocolError("planner_mismatch", role=self._moderator, step=f"v0/{number}")
        kinds: Any = told.get("canaries")
        real = len(candidates) + with_twins
        canaries = build_canary_ballots(kinds, self._me, len(self.sizes))
        if len(canaries) != count_vote_canaries(real, self.terms.spec.canaries):
            raise ProtocolError("planner_mismatch", role=self._moderator, step=f"v0/{number}")
        order = _parse_seed(told.get("order"))
        places = compute_vote_indices(real + len(canaries), order, self.channel.session, number)
        if self.channel.is_sent(self._first, f"v1/{number}"):
            return list(kinds), places
        own = [self.data.holds(lhs, right) for lhs, right in candidates]
        own += [self.data.has_no_duplicate_rows()] if with_twins else []
        cast = [vote for _, vote in sorted(zip(places, (*own, *canaries), strict=True))]
        tied = derive_vote_blinding(
            self.group, self.canary_key, self._me, len(self.sizes),
            session=self.channel.session, told=heard, level=number, count=len(cast),
        )  # fmt: skip
        seed = load_seed(self.channel.state, "own")
        ballots = self.data.encrypt_ballots(cast, self.key, seed=seed, level=number, tied=tied)
        self.channel.send(self._first, f"v1/{number}", pack_bytes(ballots))
        return list(kinds), places

    def _receive_verdicts(
        self, number: int, told: Mapping[str, Any], kinds: Sequence[int], places: Sequence[int]
    ) -> list[bool]:
        """Receive a round's verdicts from the moderator and the last worker, before comparing them with own rows.

        A false verdict refuted only by this party's rows would end the session under its name, and so reveal its
        vote.
        """
        workers = self.channel.members.workers
        step = f"v{len(workers) + 1}/{number}"
        said = select_real_verdicts(unpack_bytes(self.channel.receive(step, workers[-1])), kinds, places)
        if parse_bits(told.get("bits")) != said:
            raise ProtocolError("planner_mismatch", role=self._moderator, step=f"v0/{number + 1}")
        return said

    def _search(self) -> tuple[list[FD], list[int]]:
        """Search pass by pass for the dependencies over all rows together."""
        spec = self.terms.spec
        search = start_search(
            len(spec.columns), self.cfds, most=spec.most, empty_lhs=spec.empty_lhs, keys=self._wants_keys
        )
        answers, number, asked, last = ReplayedVerdicts(), 0, 0, -1
        while True:
            told = self._receive_document(f"u0/{number}")
            answers.bits += parse_bits(told.get("bits"))
            wanted = self._recompute_sets(search, answers, number)
            if not wanted:
                break
            asked += len(wanted)
            last = self._answer_pass(number, told, wanted, last)
            search.learn(wanted)
            number += 1
            self.say(f"pass {number}: {asked} sets asked")
            if asked > self.terms.most_sets:
                raise ProtocolError("planner_mismatch", role=self._moderator, step=f"u0/{number}")
        return search.knowledge.list_minimal(), self.keys

    @property
    def _wants_keys(self) -> bool:
        return "keys" in self.terms.spec.kinds and self.no_twins

    def _recompute_sets(self, search: Search, answers: ReplayedVerdicts, number: int) -> list[int]:
        """Recompute the sets of the next pass; every bit received must be used by the search."""
        wanted: list[int] | None = None
        with suppress(IndexError):
            wanted = search.list_requests(answers)
            if not wanted and self._wants_keys:
                self.keys = search.list_keys(answers)
        if wanted is None or not answers.exhausted:
            raise ProtocolError("planner_mismatch", role=self._moderator, step=f"u0/{number}")
        return wanted

    def _answer_pass(self, number: int, told: Mapping[str, Any], wanted: list[int], last: int) -> int:
        """Send the batches of one pass; return the last query's number."""
        step, state = f"u0/{number}", self.channel.state
        try:
            masks = {int(query): int(mask) for query, mask in told["queries"]}
            canaries = {int(query): (plan, int(like)) for query, plan, like in told["canaries"]}
            cut = [[int(query) for query in chunk] for chunk in told["chunks"]]
            (first,) = _parse_whole_numbers([told["chunk"]])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("bad_encoding", role=self._moderator, step=step) from None
        queries = [query for chunk in cut for query in chunk]
        if list(masks.values()) != wanted or sorted(masks | canaries) != queries or queries[0] <= last:
            raise ProtocolError("planner_mismatch", role=self._moderator, step=step)
        if first != self.chunks:
            raise ProtocolError("planner_mismatch", role=self._moderator, step=step)
        self.chunks += len(cut)
        for offset, chunk in enumerate(cut):
            if not self.channel.is_sent(self._first, f"c1/{first + offset}"):
                batches = [self._build_batch(query, masks, canaries, step) for query in chunk]
                self.channel.send(self._first, f"c1/{first + offset}", pack_bytes(join_batches(batches)))
        rotate_seeds(state, number, ("own", *(f"with-{worker}" for worker in self.channel.members.workers)))
        return queries[-1]

    def _build_batch(
        self, query: int, masks: Mapping[int, int], canaries: Mapping[int, tuple[Any, int]], step: str
    ) -> bytes:
        padded = self.terms.spec.protocol == "padded"
        size = self.sizes[self._me] if padded else None
        state = self.channel.state
        shared = [load_seed(state, f"with-{worker}") for worker in self.channel.members.workers]
        own = load_seed(state, "own")
        if query in masks:
            return self.data.build_batch(masks[query], size, query, shared=shared, own=own)
        plain, like = canaries[query]
        try:
            plan = parse_sharing_plan(plain, self.sizes)
            size = self.data.snapshot.count_distinct(masks[like]) if size is None else size
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("bad_encoding", role=self._moderator, step=step) from None
        size = max(size, sum(count for _, count in plan.list_held(self._me)))
        return self.data.build_canary_batch(plan, self._me, size, query, key=self.canary_key, shared=shared, own=own)

    def _trace(self) -> tuple[list[FD], list[int]]:
        """Run the thesis' traversal: every set once through the mix network, then one number per candidate."""
        spec, own = self.terms.spec, load_seed(self.channel.state, "own")
        traversal, number, first, chunk = LevelwiseSearch(len(spec.columns), spec.most), 0, 0, 0
        while candidates := traversal.list_candidates():
            told = self._receive_document(f"s0/{number}")
            sets = traversal.list_new_sets(candidates)
            # Reusing a query's number would reuse its random numbers for other values.
            asked = {"sets": sets, "digest": compute_digest(dump_candidates(candidates)), "first": first}
            if told != asked:
                raise ProtocolError("planner_mismatch", role=self._moderator, step=f"s0/{number}")
            second = first + len(sets)
            for queries in split_sets(first, len(sets), self.sizes):
                if not self.channel.is_sent(self._first, f"m1/{chunk}"):
                    lots = [self.data.encrypt_values(sets[q - first], self.key, q, own=own) for q in queries]
                    self.channel.send(self._first, f"m1/{chunk}", pack_bytes(join_batches(lots)))
                chunk += 1
            if not self.channel.is_sent(self._first, f"d1/{number}"):
                numbers = enumerate((self.data.compute_surplus(lhs, right) for lhs, right in candidates), start=second)
                pairs = b"".join(self.data.encrypt_number(value, self.key, query, own=own) for query, value in numbers)
                self.channel.send(self._first, f"d1/{number}", pack_bytes(pairs))
            verdicts = parse_bits(self._receive_document(f"s9/{number}").get("bits"))
            if len(verdicts) != len(candidates):
                raise ProtocolError("planner_mismatch", role=self._moderator, step=f"s9/{number}")
            traversal.learn(candidates, verdicts)
            number, first = number + 1, second + len(candidates)
            self.say(f"level {number}: {len(candidates)} candidates")
        found = traversal.list_minimal()
        # Judged by public knowledge, not by one party's rows, which would end the session under that party's name.
        implied = compute_closures(self.cfds, len(spec.columns))
        if any(not implied[lhs] >> right & 1 for lhs, right in found):
            raise ProtocolError("planner_mismatch", role=self._moderator, step=f"s9/{number - 1}")
        return found, []

    def _receive_report(self) -> FDReport:
        try:
            return parse_report(self._receive_document("report"))
        except ReleaseError:
            raise ProtocolError("bad_encoding", role=self._moderator, step="report") from None

    def _check_own(self, found: Sequence[FD]) -> None:
        """Check that the dependencies reported for every party hold on this party's rows."""
        if any(not self.data.holds(lhs, right) for lhs, right in found):
            raise ProtocolError("canary_failed", role=self._moderator)

    def _agree(self, ufds: list[FD], keys: list[int]) -> FDReport:
        """Compare the moderator's report with this party's own computation, then confirm it."""
        self._check_own(ufds)
        report = self._receive_report()
        spec = self.terms.spec
        same = (
            report.ufd == build_dependencies(ufds, spec.columns)
            and report.cfd == build_dependencies(self.cfds, spec.columns)
            and report.columns == self.terms.columns
            and set(report.keys) == {tuple(c for j, c in enumerate(spec.columns) if key >> j & 1) for key in keys}
            and tuple(size for _, size in report.parties) == tuple(self.sizes)
            and report.session == self.channel.session.hex()
        )
        if not same:
            raise ProtocolError("planner_mismatch", role=self._moderator, step="report")
        self.channel.send(self._moderator, "agreed", pack_json({"digest": report.compute_digest()}))
        if self._receive_document("final") != {"agreed": list(self.channel.members.parties)}:
            raise ProtocolError("planner_mismatch", role=self._moderator, step="final")
        return report.add_confirmations(self.channel.members.parties)


def build_canary_ballots(kinds: Any, me: int, parties: int) -> list[bool]:
    """Return the ballots of party number ``me`` on a round's canaries.

    Args:
        kinds: For each canary ``YES`` or the party that votes no.
    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if not isinstance(kinds, list) or any(type(kind) is not int or not YES <= kind < parties for kind in kinds):
        raise ProtocolError("bad_encoding")
    return [kind != me for kind in kinds]


def _parse_seed(text: Any) -> bytes:
    """Parse a seed in hex.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    try:
        found = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise ProtocolError("bad_encoding") from None
    if len(found) != SEED:
        raise ProtocolError("bad_encoding")
    return found


def _parse_whole_numbers(plain: Any) -> list[int]:
    """Parse a list of nonnegative integers.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if not isinstance(plain, list) or any(type(number) is not int or number < 0 for number in plain):
        raise ProtocolError("bad_encoding")
    return plain
