"""The layout of one pass: the set of each query, the positions of the canaries, the division into messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from siloquent.profile.plan.canaries import SharingPlan, draw_sharing_plan, shuffle_order
from siloquent.profile.plan.sizes import split_queries


@dataclass(frozen=True, slots=True)
class QueryPass:
    """One pass; queries and messages are numbered consecutively over the whole session.

    ``masks``: the set of each real query. ``plans``: for each synthetic query the sharing plan, and a real query
    whose batch size it imitates where sizes are revealed.
    """

    number: int
    masks: Mapping[int, int]
    plans: Mapping[int, tuple[SharingPlan, int]]
    chunks: tuple[tuple[int, ...], ...]
    first_chunk: int


def lay_out_pass(
    wanted: Sequence[int],
    made_up: int,
    *,
    number: int,
    first_query: int,
    first_chunk: int,
    sizes: Sequence[int],
    seed: bytes,
    session: bytes,
) -> QueryPass:
    """Lay out a pass of ``wanted`` with ``made_up`` canaries among them, at positions derived from ``seed``."""
    total = len(wanted) + made_up
    hidden = set(shuffle_order(total, seed, session, "pass", number)[:made_up])
    real = [first_query + place for place in range(total) if place not in hidden]
    masks = dict(zip(real, wanted, strict=True))
    plans = {
        first_query + place: (draw_sharing_plan(sizes, seed, session, first_query + place), real[index % len(real)])
        for index, place in enumerate(sorted(hidden))
    }
    cut = split_queries(range(first_query, first_query + total), sum(sizes))
    return QueryPass(number, masks, plans, tuple(tuple(chunk) for chunk in cut), first_chunk)
