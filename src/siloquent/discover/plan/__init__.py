"""Plans of discoveries: noise, threshold and price, from the declaration and the request only. No row is read."""

from siloquent.discover.plan.planner import BoundsPlan, DiscoverPlan, KeysPlan, list_bin_starts, plan, restore_plan
from siloquent.discover.plan.threshold import compute_passing_probability, compute_threshold

__all__ = [
    "BoundsPlan",
    "DiscoverPlan",
    "KeysPlan",
    "compute_passing_probability",
    "compute_threshold",
    "list_bin_starts",
    "plan",
    "restore_plan",
]
