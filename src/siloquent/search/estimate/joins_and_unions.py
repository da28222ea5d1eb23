"""Features and rows in one search: each round takes the best addition, a joined feature or a table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.maths import normal_quantile
from siloquent.search.estimate import unions
from siloquent.search.estimate.greedy import BETA, ScoredCandidate, rank_candidates
from siloquent.search.estimate.joins import CandidatePool, pool_candidates
from siloquent.search.estimate.models import compute_r2, describe_kind, fit_line
from siloquent.search.estimate.search import (
    MAX_SHOWN,
    ResolvedRequest,
    build_added_feature,
    build_augmentation,
    find_like_tables,
    fit_with_features,
    list_notes,
    score_union,
    split_training,
)
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.offers import Offer
from siloquent.search.results import Augmentation, AugmentPlan, SearchResult

Floats = NDArray[np.float64]
Table = tuple[Offer, list[int], ReleasedSums]


@dataclass(frozen=True, slots=True, eq=False)
class ExtendedTable:
    """A request's own table, the rows added to it, and the joined features.

    Its last key has one value, shared by all rows, so that tables without keys can be added, too.
    """

    own: LocalRows | ReleasedSums
    rows: ReleasedSums | None = None
    features: tuple[tuple[int, Floats], ...] = ()

    def build_training(self) -> LocalRows | ReleasedSums:
        """Return the extended table as training data."""
        found = self.own if self.rows is None else self.rows
        for key, values in self.features:
            found = found.add_feature(key, values)
        return found

    def add_feature(self, key: int, values: Floats) -> ExtendedTable:
        """Return the table with one more feature."""
        return replace(self, features=(*self.features, (key, values)))

    def can_unite(self, other: ReleasedSums) -> bool:
        """Return whether all joined features are known for the other table's rows, by one key."""
        keys = {key for key, _ in self.features}
        return len(keys) < 2 and all(other.counts[key] is not None for key in keys)

    def unite(self, other: ReleasedSums) -> ExtendedTable:
        """Return the table with the rows of one more table."""
        mine = self.rows or (self.own if isinstance(self.own, ReleasedSums) else compute_row_sums_exactly(self.own))
        return replace(self, rows=mine.unite(other))


def compute_row_sums_exactly(rows: LocalRows) -> ReleasedSums:
    """Compute sums without noise from exact rows."""
    keys = [rows.compute_key_moments(key) for key in range(len(rows.sizes))]
    return ReleasedSums(
        tuple(key.counts for key in keys),
        tuple(key.sums for key in keys),
        rows.numbers.T @ rows.numbers,
        (0.0, 0.0, 0.0),
        True,
    )


def extract_offer_sums(asked: ResolvedRequest, offer: Offer, columns: Sequence[int]) -> ReleasedSums:
    """Extract an offer's sums by the request's keys, where it has exactly the same ones, and over all rows."""
    second = offer.compute_second_moments()
    assert second is not None
    zero, first, last = offer.deviations
    held = {key.digest: i for i, key in enumerate(offer.keys)}
    pairs = [offer.get_key_sums(held[key.digest]) if key.digest in held else None for key in asked.keys]
    counts, sums = offer.get_key_sums(0)
    times = float(np.sqrt(len(counts)))
    is_by_key = offer.measured.second is not None and offer.measured.second.ndim == 3
    return ReleasedSums(
        (*(None if pair is None else pair[0] for pair in pairs), counts.sum(keepdims=True)),
        (
            *(None if pair is None else pair[1][:, columns] for pair in pairs),
            sums[:, columns].sum(axis=0, keepdims=True),
        ),
        second[np.ix_(columns, columns)],
        (zero, first, last * (times if is_by_key else 1.0)),
        offer.is_halved,
        by_key_noise=(*((zero, first) for _ in pairs), (times * zero, times * first)),
    )


def _add_total_key(
    asked: ResolvedRequest, training: LocalRows | ReleasedSums, own: Offer | None
) -> LocalRows | ReleasedSums:
    if isinstance(training, ReleasedSums):
        assert own is not None
        return extract_offer_sums(asked, own, range(len(own.columns)))
    everywhere = np.zeros(len(training.numbers), dtype=np.int64)
    return replace(training, cells=(*training.cells, everywhere), sizes=(*training.sizes, 1))


def find_both(
    asked: ResolvedRequest,
    offers: Sequence[Offer],
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    rng: np.random.Generator,
) -> SearchResult:
    """Find the features and tables that improve the model most, one per round.

    Raises:
        RequestError: Nothing can be joined and no table has the request's columns, or one has them in another unit.
    Source:
        Saibot, section 3: each round of greedy search tries every candidate, unions and joins.
    """
    spec = asked.spec
    pools = [*pool_candidates(offers, asked.keys, without=frozenset({spec.target})), _build_empty_pool()]
    tables = [
        (offer, columns, extract_offer_sums(asked, offer, columns))
        for offer, columns in find_like_tables(asked, offers)
    ]
    has_joins = any(pool.candidates for pool in pools)
    notes = list_notes(asked, offers, pools_empty=not has_joins) if has_joins or not tables else []
    base = _add_total_key(asked, training, own)
    learnt_rows, tested = split_training(base, spec.test_share, rng)
    learnt, whole, ranked, looked_at = ExtendedTable(learnt_rows), ExtendedTable(base), list[Augmentation](), 0
    first_r2 = last = compute_r2(learnt_rows, tested)
    chosen: list[Option] = []
    while len(chosen) < spec.max_augmentations:
        options, many = _list_options(asked, pools, tables, learnt, chosen, tested, own, rng)
        if not chosen:
            looked_at, ranked = many, sorted((one.named for one in options), key=lambda one: (-one.low, -one.gain))
        sure = [one for one in options if one.named.gain >= spec.min_gain and one.named.low > 0]
        if not sure:
            break
        best = max(sure, key=lambda one: one.named.gain)
        learnt, whole = best.extend_table(learnt), best.extend_table(whole)
        if tested is not None and best.feature is not None:
            tested = tested.add_feature(best.feature.candidate.own, best.feature.values)
        now = compute_r2(learnt.build_training(), tested)
        chosen.append(replace(best, named=replace(best.named, realised=None if tested is None else now - last)))
        last = now
    features = [one.feature for one in chosen if one.feature is not None]
    final = whole.build_training()
    key = final.first_key if isinstance(final, ReleasedSums) else len(asked.keys)
    return SearchResult(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(one.named for one in chosen),
        ranked=tuple(ranked[:MAX_SHOWN]),
        model=fit_with_features(asked, final, features, rng, key=key),
        plan=AugmentPlan(spec.table, tuple(build_added_feature(asked, one) for one in features)),
        base_r2=first_r2,
        r2=last,
        candidates=looked_at,
        notes=(
            *(() if chosen else ("no augmentation is certain to help",)),
            *notes,
            *(() if isinstance(final, LocalRows) else describe_kind(spec.model)),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A possible choice of a round: a feature, or a table's rows."""

    named: Augmentation
    feature: ScoredCandidate | None = None
    rows: ReleasedSums | None = None

    def extend_table(self, built: ExtendedTable) -> ExtendedTable:
        """Return the table with this option added."""
        if self.feature is not None:
            return built.add_feature(self.feature.candidate.own, self.feature.values)
        assert self.rows is not None
        return built.unite(self.rows)


def _list_options(
    asked: ResolvedRequest,
    pools: Sequence[CandidatePool],
    tables: Sequence[Table],
    learnt: ExtendedTable,
    chosen: Sequence[Option],
    tested: LocalRows | None,
    own: Offer | None,
    rng: np.random.Generator,
) -> tuple[list[Option], int]:
    """List all current options, and the number of candidates."""
    taken = [one.feature.candidate for one in chosen if one.feature is not None]
    united = [one.named.offer for one in chosen if one.feature is None]
    scored, many = rank_candidates(learnt.build_training(), pools, rng)
    options = [Option(build_augmentation(asked, one, None), one) for one in scored if one.candidate not in taken]
    left = [one for one in tables if one[0].id not in united and learnt.can_unite(one[2])]
    # Without held-out rows, rows are judged as in a search for unions only: by the request's own features.
    mine = None if tested is not None else unions.compute_own_moments(learnt.own, own)
    for offer, columns, _ in tables:
        if mine is not None and offer.id in united:
            mine = mine + unions.compute_totals(offer, columns)
    for offer, columns, sums in left:
        if mine is not None:
            named = score_union(offer, columns, mine, unions.fit_noisy_moments(mine, rng), None, len(left), rng)[0]
        else:
            assert tested is not None
            named = _try_table(offer, learnt, sums, tested, len(left))
        options.append(Option(named, rows=sums))
    return options, many + len(left)


def _try_table(offer: Offer, learnt: ExtendedTable, sums: ReleasedSums, tested: LocalRows, many: int) -> Augmentation:
    """Score the rows of a table on held-out rows, by the model with all features so far."""
    before, after = fit_line(learnt.build_training()), fit_line(learnt.unite(sums).build_training())
    gain, error = tested.compute_improvement(before, after)
    half = normal_quantile(BETA / 2 / many) * error
    return Augmentation(offer.id, offer.table, "union", "", "", gain, max(gain - half, 0.0), gain + half)


def _build_empty_pool() -> CandidatePool:
    return CandidatePool((), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0))
