"""From spec and declaration to columns, noise, event and price. No row is read."""

from siloquent.search.plan.columns import feature_of, features_of, join_key
from siloquent.search.plan.planner import OfferPlan, deviation, plan

__all__ = [
    "OfferPlan",
    "deviation",
    "feature_of",
    "features_of",
    "join_key",
    "plan",
]
