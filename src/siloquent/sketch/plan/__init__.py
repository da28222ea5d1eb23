"""From spec and declaration to hash functions, noise, event and price. No row is read; the seed is public."""

from siloquent.sketch.plan.planner import (
    SketchPlan,
    amount_of_budget,
    plan,
    read_hash_plan,
    sensitivity,
    variance_of,
)

__all__ = [
    "SketchPlan",
    "amount_of_budget",
    "plan",
    "read_hash_plan",
    "sensitivity",
    "variance_of",
]
