"""From spec and declaration to columns, noise, event and price. No row is read."""

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
