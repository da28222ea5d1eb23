"""Features and rows in one search: each round takes what adds most, a feature by a key or the rows of a like table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.maths import normal_quantile
from siloquent.search.estimate import unions
from siloquent.search.estimate.finding import (
    MOST_SHOWN,
    Asked,
    augmentation,
    like_tables,
    model_with,
    notes_of,
    parted,
    step_of,
    union_of,
)
from siloquent.search.estimate.greedy import BETA, Scored, ranking
from siloquent.search.estimate.joins import Joined, joined
from siloquent.search.estimate.models import line_of, r2_of, words_of_kind
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.found import Augmentation, AugmentPlan, Found
from siloquent.search.offers import Offer

Floats = NDArray[np.float64]
Table = tuple[Offer, list[int], ReleasedSums]


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A request's own table, the rows that were added to it, and the features that were joined.

    Its last key has one value, which all rows share: tables without keys can be added by it, too.
    """

    own: LocalRows | ReleasedSums
    rows: ReleasedSums | None = None
    features: tuple[tuple[int, Floats], ...] = ()

    def training(self) -> LocalRows | ReleasedSums:
        """All of it, to be fitted."""
        found = self.own if self.rows is None else self.rows
        for key, values in self.features:
            found = found.with_feature(key, values)
        return found

    def with_feature(self, key: int, values: Floats) -> Built:
        """One more feature."""
        return replace(self, features=(*self.features, (key, values)))

    def can_unite(self, other: ReleasedSums) -> bool:
        """Whether all features that were joined are known of the other table's rows, by one key."""
        keys = {key for key, _ in self.features}
        return len(keys) < 2 and all(other.counts[key] is not None for key in keys)

    def united(self, other: ReleasedSums) -> Built:
        """The rows of one more table."""
        mine = self.rows or (self.own if isinstance(self.own, ReleasedSums) else sums_of_rows(self.own))
        return replace(self, rows=mine.united(other))


def sums_of_rows(rows: LocalRows) -> ReleasedSums:
    """Exact rows as sums without noise."""
    keys = [rows.by_key(key) for key in range(len(rows.sizes))]
    return ReleasedSums(
        tuple(key.counts for key in keys),
        tuple(key.sums for key in keys),
        rows.numbers.T @ rows.numbers,
        (0.0, 0.0, 0.0),
        True,
    )


def sums_of_offer(asked: Asked, offer: Offer, columns: Sequence[int]) -> ReleasedSums:
    """An offer's sums by the request's keys, as far as it has the very same ones, and over all rows."""
    second = offer.second()
    assert second is not None
    zero, first, last = offer.deviations
    held = {key.digest: i for i, key in enumerate(offer.keys)}
    pairs = [offer.by_key(held[key.digest]) if key.digest in held else None for key in asked.keys]
    counts, sums = offer.by_key(0)
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


def _with_one_for_all(asked: Asked, training: LocalRows | ReleasedSums, own: Offer | None) -> LocalRows | ReleasedSums:
    if isinstance(training, ReleasedSums):
        assert own is not None
        return sums_of_offer(asked, own, range(len(own.columns)))
    everywhere = np.zeros(len(training.numbers), dtype=np.int64)
    return replace(training, cells=(*training.cells, everywhere), sizes=(*training.sizes, 1))


def find_both(
    asked: Asked,
    offers: Sequence[Offer],
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    rng: np.random.Generator,
) -> Found:
    """The features and tables that add most to the model, one a round, whichever it is.

    Raises:
        RequestError: Nothing can be joined and no table has the request's columns, or one has them in another unit.
    Source:
        Saibot, section 3: each round of greedy search tries every candidate, unions and joins.
    """
    spec = asked.spec
    pools = [*joined(offers, asked.keys, without=frozenset({spec.target})), _nothing()]
    tables = [(offer, columns, sums_of_offer(asked, offer, columns)) for offer, columns in like_tables(asked, offers)]
    has_joins = any(pool.candidates for pool in pools)
    notes = notes_of(asked, offers, pools_empty=not has_joins) if has_joins or not tables else []
    base = _with_one_for_all(asked, training, own)
    learnt_rows, tested = parted(base, spec.test_share, rng)
    learnt, whole, ranked, looked_at = Built(learnt_rows), Built(base), list[Augmentation](), 0
    first_r2 = last = r2_of(learnt_rows, tested)
    chosen: list[Option] = []
    while len(chosen) < spec.max_augmentations:
        options, many = _options(asked, pools, tables, learnt, chosen, tested, own, rng)
        if not chosen:
            looked_at, ranked = many, sorted((one.named for one in options), key=lambda one: (-one.low, -one.gain))
        sure = [one for one in options if one.named.gain >= spec.min_gain and one.named.low > 0]
        if not sure:
            break
        best = max(sure, key=lambda one: one.named.gain)
        learnt, whole = best.added_to(learnt), best.added_to(whole)
        if tested is not None and best.feature is not None:
            tested = tested.with_feature(best.feature.candidate.own, best.feature.values)
        now = r2_of(learnt.training(), tested)
        chosen.append(replace(best, named=replace(best.named, realised=None if tested is None else now - last)))
        last = now
    features = [one.feature for one in chosen if one.feature is not None]
    final = whole.training()
    key = final.first_key if isinstance(final, ReleasedSums) else len(asked.keys)
    return Found(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(one.named for one in chosen),
        ranked=tuple(ranked[:MOST_SHOWN]),
        model=model_with(asked, final, features, rng, key=key),
        plan=AugmentPlan(spec.table, tuple(step_of(asked, one) for one in features)),
        base_r2=first_r2,
        r2=last,
        candidates=looked_at,
        notes=(
            *(() if chosen else ("no augmentation surely helps",)),
            *notes,
            *(() if isinstance(final, LocalRows) else words_of_kind(spec.model)),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """What a round may take: a feature, or a table's rows."""

    named: Augmentation
    feature: Scored | None = None
    rows: ReleasedSums | None = None

    def added_to(self, built: Built) -> Built:
        """The table with it."""
        if self.feature is not None:
            return built.with_feature(self.feature.candidate.own, self.feature.values)
        assert self.rows is not None
        return built.united(self.rows)


def _options(
    asked: Asked,
    pools: Sequence[Joined],
    tables: Sequence[Table],
    learnt: Built,
    chosen: Sequence[Option],
    tested: LocalRows | None,
    own: Offer | None,
    rng: np.random.Generator,
) -> tuple[list[Option], int]:
    """All that can be taken now, and how many candidates that is."""
    taken = [one.feature.candidate for one in chosen if one.feature is not None]
    united = [one.named.offer for one in chosen if one.feature is None]
    scored, many = ranking(learnt.training(), pools, rng)
    options = [Option(augmentation(asked, one, None), one) for one in scored if one.candidate not in taken]
    left = [one for one in tables if one[0].id not in united and learnt.can_unite(one[2])]
    # Without rows kept aside, rows are judged as in a search for unions alone: by the request's own features.
    mine = None if tested is not None else unions.own_moments(learnt.own, own)
    for offer, columns, _ in tables:
        if mine is not None and offer.id in united:
            mine = mine + unions.totals_of(offer, columns)
    for offer, columns, sums in left:
        if mine is not None:
            named = union_of(offer, columns, mine, unions.fitted(mine, rng), None, len(left), rng)[0]
        else:
            assert tested is not None
            named = _tried(offer, learnt, sums, tested, len(left))
        options.append(Option(named, rows=sums))
    return options, many + len(left)


def _tried(offer: Offer, learnt: Built, sums: ReleasedSums, tested: LocalRows, many: int) -> Augmentation:
    """What a table's rows add to the model with all features so far, on rows kept aside."""
    before, after = line_of(learnt.training()), line_of(learnt.united(sums).training())
    gain, error = tested.improvement(before, after)
    half = normal_quantile(BETA / 2 / many) * error
    return Augmentation(offer.id, offer.table, "union", "", "", gain, max(gain - half, 0.0), gain + half)


def _nothing() -> Joined:
    return Joined((), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0))
