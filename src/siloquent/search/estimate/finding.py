"""From a request's moments and all offers to what is chosen, the model and the plan: post-processing alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths import normal_quantile
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.estimate import curved, unions
from siloquent.search.estimate.greedy import BETA, Round, Scored, greedy
from siloquent.search.estimate.joins import fits, joined
from siloquent.search.estimate.models import fitted_model, r2_of, turned_model, words_of_kind
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.found import Augmentation, AugmentPlan, FittedModel, Found, Step
from siloquent.search.offers import Offer
from siloquent.search.spec import RequestSpec

Floats = NDArray[np.float64]
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A request with what its table declares: features with their units, the target last, and keys."""

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


def require_candidates(asked: Asked, offers: Sequence[Offer]) -> None:
    """Refuse a request that no offer can serve: from declarations alone, before anything is paid for.

    Raises:
        RequestError: No offer can be joined, or none has the request's columns for a union, or one in another unit.
    """
    kinds, target = asked.spec.kinds, asked.spec.target
    has_tables = bool(like_tables(asked, offers)) if "union" in kinds else False
    if "join" in kinds and not has_tables:
        useful = [offer for offer in offers if any(feature.name != target for feature in offer.features)]
        can_join = any(fits(mine, theirs) for offer in useful for theirs in offer.keys for mine in asked.keys)
        notes_of(asked, offers, pools_empty=not can_join)
    elif not has_tables and kinds == ("union",):
        raise no_like_table(asked)


def no_like_table(asked: Asked) -> RequestError:
    """What to say where no table's rows can be added."""
    order = asked.spec.order
    held = "second moments" if order == 2 else f"products of order {order}"
    return RequestError(
        f"No offer has all of {', '.join(feature.name for feature in asked.features)} with {held}.",
        fix='offers for unions are made without keys, or with second_moments = "total"'
        + ("" if order == 2 else f"; these with order = {order}"),
    )


def find_joins(
    asked: Asked, offers: Sequence[Offer], training: LocalRows | ReleasedSums, rng: np.random.Generator
) -> Found:
    """The features that add most to the model, taken one after the other.

    Raises:
        RequestError: No offer can be joined by any of the request's keys, or what could is the target itself.
    """
    spec = asked.spec
    pools = joined(offers, asked.keys, without=frozenset({spec.target}))
    notes = notes_of(asked, offers, pools_empty=not any(pool.candidates for pool in pools))
    learnt, tested = parted(training, spec.test_share, rng)
    base = r2_of(learnt, tested)
    rounds, _ = greedy(learnt, pools, most=spec.max_augmentations, least_gain=spec.min_gain, rng=rng)
    chosen: list[Augmentation] = []
    last, whole = base, training
    taken = [found.taken for found in rounds if found.taken is not None]
    for one in taken:
        key = one.candidate.own
        learnt, whole = learnt.with_feature(key, one.values), whole.with_feature(key, one.values)
        tested = None if tested is None else tested.with_feature(key, one.values)
        now = r2_of(learnt, tested)
        chosen.append(augmentation(asked, one, None if tested is None else now - last))
        last = now
    if isinstance(training, ReleasedSums) and len(asked.keys) > 1 and chosen:
        notes.append("the features of further keys were not added: their counts together were not released")
    model = model_with(asked, whole, taken, rng, key=taken[-1].candidate.own if taken else 0)
    if not isinstance(whole, LocalRows):  # one's own rows are fitted exactly
        notes += words_of_kind(spec.model)
    if not chosen:
        notes.insert(0, "no augmentation surely helps")
    return Found(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(chosen),
        ranked=_ranked(asked, rounds),
        model=model,
        plan=AugmentPlan(spec.table, tuple(step_of(asked, one) for one in taken)),
        base_r2=base,
        r2=last,
        candidates=rounds[0].looked_at if rounds else 0,
        notes=tuple(notes),
    )


def notes_of(asked: Asked, offers: Sequence[Offer], *, pools_empty: bool) -> list[str]:
    """What was left out, and the refusal where nothing is left."""
    target = asked.spec.target
    holding = [offer.id for offer in offers if any(feature.name == target for feature in offer.features)]
    if not pools_empty:
        return [f"{one} holds the target itself, which is no feature" for one in holding]
    if holding:
        raise RequestError(
            f"All that could be joined is the target {target!r} itself, from {', '.join(holding)}.",
            fix='kinds = ["union"] adds its rows instead',
        )
    theirs = sorted({key.name for offer in offers for key in offer.keys})
    raise RequestError(
        f"No offer shares half of the values of {', '.join(key.name for key in asked.keys)}. "
        f"Keys of the offers: {', '.join(theirs) or 'none'}.",
        fix="declare the key's values as the owners of the offers do",
    )


def parted(
    training: LocalRows | ReleasedSums, share: float, rng: np.random.Generator
) -> tuple[LocalRows | ReleasedSums, LocalRows | None]:
    """What to score on, and rows kept aside; a release cannot be parted."""
    if isinstance(training, ReleasedSums) or share == 0:
        return training, None
    learnt, tested = training.split(share, rng)
    return learnt, tested


def model_with(
    asked: Asked, whole: LocalRows | ReleasedSums, taken: Sequence[Scored], rng: np.random.Generator, *, key: int
) -> FittedModel:
    """The model of the request's own features and those that were taken; ``key``: whose sums it is fitted to."""
    names = [one.candidate.name for one in taken]
    scales = [one.candidate.offer.scale[one.candidate.column] for one in taken]
    return fitted_model(
        whole,
        (*asked.columns[:-1], *names, asked.columns[-1]),
        (*asked.scale[:-1], *scales, asked.scale[-1]),
        asked.spec.model,
        rng,
        key=key,
    )


def augmentation(asked: Asked, one: Scored, realised: float | None) -> Augmentation:
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


def _ranked(asked: Asked, rounds: Sequence[Round]) -> tuple[Augmentation, ...]:
    return tuple(augmentation(asked, one, None) for one in rounds[0].ranked[:MOST_SHOWN]) if rounds else ()


def step_of(asked: Asked, one: Scored) -> Step:
    """The values and errors by own cell, in the feature's own unit; rows without a key get the mean of all."""
    middle, half = one.candidate.offer.scale[one.candidate.column]
    key = asked.keys[one.candidate.own]
    return Step(
        offer=one.candidate.offer.id,
        name=one.candidate.name,
        key=JoinKey(key.parts),
        values=middle + half * one.values,
        errors=half * np.sqrt(one.variances),
        other=float(middle + half * one.values.mean()),
        other_error=float(half * np.sqrt(one.values.var() + one.variances.mean())),
    )


def find_unions(
    asked: Asked,
    offers: Sequence[Offer],
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    rng: np.random.Generator,
) -> Found:
    """The offers whose rows make the model of the request's own features better.

    Raises:
        RequestError: An offer has a feature of the same name in another unit, or none has all features.
    """
    spec = asked.spec
    fitting = like_tables(asked, offers)
    if not fitting:
        raise no_like_table(asked)
    learnt, tested = parted(training, spec.test_share, rng)
    total = unions.own_moments(learnt, own)
    now = unions.fitted(total, rng)
    base = _quality(now, tested)
    left, chosen = list(fitting), list[Augmentation]()
    ranked: tuple[Augmentation, ...] = ()
    while left and len(chosen) < spec.max_augmentations:
        scored = [union_of(offer, columns, total, now, tested, len(left), rng) for offer, columns in left]
        scored.sort(key=lambda pair: -pair[0].gain)
        ranked = ranked or tuple(one for one, _ in scored)
        best, moments = scored[0]
        if best.gain < spec.min_gain or best.low <= 0:
            break
        chosen.append(best)
        total, now = moments, unions.fitted(moments, rng)
        left = [(offer, columns) for offer, columns in left if offer.id != best.offer]
    taken = [(offer, columns) for offer, columns in fitting if offer.id in {one.offer for one in chosen}]
    model, words = _model_of_union(asked, now, total, training, own, taken, rng)
    return Found(
        table=spec.table,
        scoring=spec.scoring,
        chosen=tuple(chosen),
        ranked=ranked,
        model=model,
        plan=AugmentPlan(spec.table, ()),
        base_r2=base,
        r2=_quality(now, tested),
        candidates=len(fitting),
        notes=(*(() if chosen else ("no augmentation surely helps",)), *words),
    )


def like_tables(asked: Asked, offers: Sequence[Offer]) -> list[tuple[Offer, list[int]]]:
    """The offers whose rows can be added, each with where it holds the request's columns.

    Raises:
        RequestError: An offer has a feature of the same name in another unit.
    """
    like = [(offer, columns) for offer in offers if (columns := unions.columns_for(offer, asked.features))]
    return [
        (offer, columns)
        for offer, columns in like
        if offer.measured.second is not None and len(offer.measured.higher) >= asked.spec.order - 2
    ]


def _model_of_union(
    asked: Asked,
    now: unions.Slopes,
    total: unions.NoisyMoments,
    training: LocalRows | ReleasedSums,
    own: Offer | None,
    taken: Sequence[tuple[Offer, list[int]]],
    rng: np.random.Generator,
) -> tuple[FittedModel, list[str]]:
    """The linear model of the united rows, or one of another kind by its direction or by higher products."""
    spec = asked.spec
    if spec.model == "linear":
        return unions.model_of(now, asked.columns, asked.scale), []
    if spec.order == 2:
        means = total.moments.sums / max(total.moments.count, 1.0)
        half = (now.high - now.low) / 2
        model = turned_model(now.values, half, means, now.intercept, asked.columns, asked.scale, spec.model, now.r2)
        return model, words_of_kind(spec.model)
    if isinstance(training, LocalRows):
        products = curved.products_of_rows(training, spec.order)
    else:
        assert own is not None
        mine = curved.products_of(own, range(len(own.columns)), spec.order)
        assert mine is not None
        products = mine
    for offer, columns in taken:
        more = curved.products_of(offer, columns, spec.order)
        assert more is not None
        products = products + more
    model, words = curved.curved_model(products, spec.model, asked.columns, asked.scale, now.r2, rng)
    return model, [words]


def _quality(slopes: unions.Slopes, tested: LocalRows | None) -> float:
    return slopes.r2 - slopes.risk if tested is None else tested.r2_of(slopes.values, slopes.intercept)


def union_of(
    offer: Offer,
    columns: list[int],
    total: unions.NoisyMoments,
    now: unions.Slopes,
    tested: LocalRows | None,
    many: int,
    rng: np.random.Generator,
) -> tuple[Augmentation, unions.NoisyMoments]:
    """What one offer's rows would add: on rows kept aside where there are such, else by the model's expected error."""
    theirs = unions.totals_of(offer, columns)
    both = total + theirs
    with_it = unions.fitted(both, rng)
    if tested is None:
        # Without rows to test on, an offer must at least agree with what the request's own slopes surely are.
        agrees = unions.agree(unions.fitted(theirs, rng), now)
        gain = now.risk - with_it.risk if agrees else 0.0
        low, high = (gain, gain) if agrees else (0.0, 0.0)
    else:
        gain, error = tested.improvement(now, with_it)
        half = normal_quantile(BETA / 2 / max(many, 1)) * error
        low, high = max(gain - half, 0.0), gain + half
    named = Augmentation(offer.id, offer.table, "union", "", "", gain, low, high)
    return replace(named, realised=None if tested is None else gain), both
