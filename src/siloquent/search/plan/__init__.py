"""Columns, noise, event and price from spec and declaration. No row is read."""

from siloquent.search.plan.columns import build_feature, build_features, build_join_key
from siloquent.search.plan.planner import OfferPlan, compute_deviation, plan

__all__ = [
    "OfferPlan",
    "build_feature",
    "build_features",
    "build_join_key",
    "compute_deviation",
    "plan",
]
