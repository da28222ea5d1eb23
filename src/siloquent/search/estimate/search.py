"""The chosen offers, the model and the plan, from a request's moments and all offers: only post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths import normal_quantile
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.estimate import curved, unions
from siloquent.search.estimate.greedy import BETA, GreedyRound, ScoredCandidate, select_greedily
from siloquent.search.estimate.joins import is_matching_key, pool_candidates
from siloquent.search.estimate.models import compute_r2, describe_kind, fit_model, turn_model
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.offers import Offer
from siloquent.search.results import AddedFeature, Augmentation, AugmentPlan, FittedModel, SearchResult
from siloquent.search.spec import RequestSpec

Floats = NDArray[np.float64]
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedRequest:
    """A request with its table's declaration: features with their units, the target last, and keys."""

    spec: RequestSpec
    features: tuple[Feature, ...]
    keys: tuple[JoinKey, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, the target's last."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def scale(self) -> tuple[tuple[float, float], ...]:
        """For each column (middle, half range) in its feature's unit."""
        return tuple(one for feature in self.features for one in feature.scale)


def require_candidates(asked: ResolvedRequest, offers: Sequence[Offer]) -> None:
    """Check that an offer can serve the request: only from declarations, before any charge.

    Raises:
        RequestError: No offer can be joined, or none has the request's columns for a union, or one in another unit.
    """
    kinds, target = asked.spec.kinds, asked.spec.target
    has_tables = bool(find_like_tables(asked, offers)) if "union" in kinds else False
    if "join" in kinds and not has_tables:
        useful = [offer for offer in offers if any(feature.name != target for feature in offer.features)]
        can_join = any(
            is_matching_key(mine, theirs) for offer in useful for theirs in offer.keys for mine in asked.keys
        )
        list_notes(asked, offers, pools_empty=not can_join)
    elif not has_tables and kinds == ("union",):
        raise build_no_table_error(asked)


def build_no_table_error(asked: ResolvedRequest) -> RequestError:
    """Build the error for a request to which no table's rows can be added."""
    order = asked.spec.order
    held = "second moments" if order == 2 else f"products of order {order}"
    return RequestError(
        f"No offer has all of {', '.join(feature.name for feature in asked.features)} with {held}.",
        fix='offers for unions are made without keys, or with second_moments = "total"'
        + ("" if order == 2 else f"; these with order = {order}"),
    )


def find_joins(
    asked: ResolvedRequest, offers: Sequence[Offer], training: LocalRows | ReleasedSums, rng: np.random.Generator
) -> SearchResult:
    """Find the features that improve the model most, taken one after the other.

    Raises:
        RequestError: No offer can be joined by any of the request's keys, or only the target itself.
    """
    spec = asked.spec
    pools = pool_candidates(offers, asked.keys, without=frozenset({spec.target}))
    notes = list_notes(asked, offers, pools_empty=not any(pool.candidates for pool in pools))
    learnt, tested = split_training(training, spec.test_share, rng)
    base = compute_r2(learnt, tested)
    rounds, _ = select_greedily(learnt, pools, most=spec.max_augmentations, least_gain=spec.min_gain, rng=rng)
    chosen: list[Augmentation] = []
    last, whole = base, training
    taken = [found.taken for found in rounds if found.taken is not None]
    for one in taken:
        key = one.candidate.own
        learnt, whole = learnt.add_feature(key, one.values), whole.add_feature(key, one.values)
        tested = None if tested is None else tested.add_feature(key, one.values)
        now = compute_r2(learnt, tested)
        chosen.append(build_augmentation(asked, one, None if tested is None else now - last))
        last = now
    if isinstance(training, ReleasedSums) and len(asked.keys) > 1 and chosen:
        notes.append("the features of further keys were not added: their counts together were not released")
    model = fit_with_features(asked, whole, taken, rng, key=taken[-1].candidate.own if taken else 0)
    if not isinstance(whole, LocalRows):  # own rows are fitted exactly
        notes += describe_kind(spec.model)
    if not chosen:
        notes.insert(0, "no augmentation is certain to help")
    return SearchResult(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(chosen),
        ranked=_rank_augmentations(asked, rounds),
        model=model,
        plan=AugmentPlan(spec.table, tuple(build_added_feature(asked, one) for one in taken)),
        base_r2=base,
        r2=last,
        candidates=rounds[0].looked_at if rounds else 0,
        notes=tuple(notes),
    )


def list_notes(asked: ResolvedRequest, offers: Sequence[Offer], *, pools_empty: bool) -> list[str]:
    """List the omitted offers; raise the refusal where nothing is left."""
    target = asked.spec.target
    holding = [offer.id for offer in offers if any(feature.name == target for feature in offer.features)]
    if not pools_empty:
        return [f"{one} holds the target itself, which is not a feature" for one in holding]
    if holding:
        raise RequestError(
            f"The only feature to join is the target {target!r} itself, from {', '.join(holding)}.",
            fix='kinds = ["union"] adds its rows instead',
        )
    theirs = sorted({key.name for offer in offers for key in offer.keys})
    raise RequestError(
        f"No offer shares half of the values of {', '.join(key.name for key in asked.keys)}. "
        f"Keys of the offers: {', '.join(theirs) or 'none'}.",
        fix="declare the key's values as the owners of the offers do",
    )


def split_training(
    training: LocalRows | ReleasedSums, share: float, rng: np.random.Generator
) -> tuple[LocalRows | ReleasedSums, LocalRows | None]:
    """Split the data into a part for scoring and held-out rows; a release cannot be split."""
    if isinstance(training, ReleasedSums) or share == 0:
        return training, None
    learnt, tested = training.split(share, rng)
    return learnt, tested


def fit_with_features(
    asked: ResolvedRequest,
    whole: LocalRows | ReleasedSums,
    taken: Sequence[ScoredCandidate],
    rng: np.random.Generator,
    *,
    key: int,
) -> FittedModel:
    """Fit the model of the request's own features and the taken ones; ``key``: the key of the sums for the fit."""
    names = [one.candidate.name for one in taken]
    scales = [one.candidate.offer.scale[one.candidate.column] for one in taken]
    return fit_model(
        whole,
        (*asked.columns[:-1], *names, asked.columns[-1]),
        (*asked.scale[:-1], *scales, asked.scale[-1]),
        asked.spec.model,
        rng,
        key=key,
    )


def build_augmentation(asked: ResolvedRequest, one: ScoredCandidate, realised: float | None) -> Augmentation:
    candidate = one.candidate
    return Augmentation(
        offer=candidate.offer.id,
        table=candidate.offer.table,
        kind="join",
        key=asked.keys[candidate.own].name,
        feature=candidate.offer.columns[candidate.column],
        gain=one.gain,
        low=one.low,
        high=one.high,
        realised=realised,
    )


def _rank_augmentations(asked: ResolvedRequest, rounds: Sequence[GreedyRound]) -> tuple[Augmentation, ...]:
    return tuple(build_augmentation(asked, one, None) for one in rounds[0].ranked[:MAX_SHOWN]) if rounds else ()


def build_added_feature(asked: ResolvedRequest, one: ScoredCandidate) -> AddedFeature:
    """Build the values and errors by own cell, in the feature's own unit; rows without a key get the overall mean."""
    middle, half = one.candidate.offer.scale[one.candidate.column]
    key = asked.keys[one.candidate.own]
    return AddedFeature(
        offer=one.candidate.offer.id,
        name=one.candidate.name,
        key=JoinKey(key.parts),
        values=middle + half * one.values,
        errors=half * np.sqrt(one.variances),
        other=float(middle + half * one.values.mean()),
        other_error=float(half * np.sqrt(one.values.var() + one.variances.mean())),
    )


def find_unions(
    asked: ResolvedRequest,
    offers: Sequence[Offer],
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    rng: np.random.Generator,
) -> SearchResult:
    """Find the offers whose rows improve the model of the request's own features.

    Raises:
        RequestError: An offer has a feature of the same name in another unit, or none has all features.
    """
    spec = asked.spec
    fitting = find_like_tables(asked, offers)
    if not fitting:
        raise build_no_table_error(asked)
    learnt, tested = split_training(training, spec.test_share, rng)
    total = unions.compute_own_moments(learnt, own)
    now = unions.fit_noisy_moments(total, rng)
    base = _compute_quality(now, tested)
    left, chosen = list(fitting), list[Augmentation]()
    ranked: tuple[Augmentation, ...] = ()
    while left and len(chosen) < spec.max_augmentations:
        scored = [score_union(offer, columns, total, now, tested, len(left), rng) for offer, columns in left]
        scored.sort(key=lambda pair: -pair[0].gain)
        ranked = ranked or tuple(one for one, _ in scored)
        best, moments = scored[0]
        if best.gain < spec.min_gain or best.low <= 0:
            break
        chosen.append(best)
        total, now = moments, unions.fit_noisy_moments(moments, rng)
        left = [(offer, columns) for offer, columns in left if offer.id != best.offer]
    taken = [(offer, columns) for offer, columns in fitting if offer.id in {one.offer for one in chosen}]
    model, words = _fit_union_model(asked, now, total, training, own, taken, rng)
    return SearchResult(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(chosen),
        ranked=ranked,
        model=model,
        plan=AugmentPlan(spec.table, ()),
        base_r2=base,
        r2=_compute_quality(now, tested),
        candidates=len(fitting),
        notes=(*(() if chosen else ("no augmentation is certain to help",)), *words),
    )


def find_like_tables(asked: ResolvedRequest, offers: Sequence[Offer]) -> list[tuple[Offer, list[int]]]:
    """Find the offers whose rows can be added, each with the indices of the request's columns.

    Raises:
        RequestError: An offer has a feature of the same name in another unit.
    """
    like = [(offer, columns) for offer in offers if (columns := unions.find_offer_columns(offer, asked.features))]
    return [
        (offer, columns)
        for offer, columns in like
        if offer.measured.second is not None and len(offer.measured.higher) >= asked.spec.order - 2
    ]


def _fit_union_model(
    asked: ResolvedRequest,
    now: unions.Slopes,
    total: unions.NoisyMoments,
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    taken: Sequence[tuple[Offer, list[int]]],
    rng: np.random.Generator,
) -> tuple[FittedModel, list[str]]:
    """Fit the linear model of the united rows, or one of another kind by its direction or by higher products."""
    spec = asked.spec
    if spec.model == "linear":
        return unions.build_union_model(now, asked.columns, asked.scale), []
    if spec.order == 2:
        means = total.moments.sums / max(total.moments.count, 1.0)
        half = (now.high - now.low) / 2
        model = turn_model(now.values, half, means, now.intercept, asked.columns, asked.scale, spec.model, now.r2)
        return model, describe_kind(spec.model)
    if isinstance(training, LocalRows):
        products = curved.compute_row_products(training, spec.order)
    else:
        assert own is not None
        mine = curved.extract_offer_products(own, range(len(own.columns)), spec.order)
        assert mine is not None
        products = mine
    for offer, columns in taken:
        more = curved.extract_offer_products(offer, columns, spec.order)
        assert more is not None
        products = products + more
    model, words = curved.fit_curved_model(products, spec.model, asked.columns, asked.scale, now.r2, rng)
    return model, [words]


def _compute_quality(slopes: unions.Slopes, tested: LocalRows | None) -> float:
    return slopes.r2 - slopes.risk if tested is None else tested.compute_r2(slopes.values, slopes.intercept)


def score_union(
    offer: Offer,
    columns: list[int],
    total: unions.NoisyMoments,
    now: unions.Slopes,
    tested: LocalRows | None,
    many: int,
    rng: np.random.Generator,
) -> tuple[Augmentation, unions.NoisyMoments]:
    """Score the rows of one offer: on held-out rows if there are any, otherwise by the model's expected error."""
    theirs = unions.compute_totals(offer, columns)
    both = total + theirs
    with_it = unions.fit_noisy_moments(both, rng)
    if tested is None:
        # Without test rows, an offer must at least be consistent with the request's own slopes.
        agrees = unions.is_consistent(unions.fit_noisy_moments(theirs, rng), now)
        gain = now.risk - with_it.risk if agrees else 0.0
        low, high = (gain, gain) if agrees else (0.0, 0.0)
    else:
        gain, error = tested.compute_improvement(now, with_it)
        half = normal_quantile(BETA / 2 / max(many, 1)) * error
        low, high = max(gain - half, 0.0), gain + half
    named = Augmentation(offer.id, offer.table, "union", "", "", gain, low, high)
    return replace(named, realised=None if tested is None else gain), both
