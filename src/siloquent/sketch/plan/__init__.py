"""Hash functions, noise, event and price from spec and declaration. No row is read; the seed is public."""

from siloquent.sketch.plan.planner import (
    SketchPlan,
    compute_counter_sensitivity,
    compute_noise_variance,
    convert_budget,
    plan,
    read_hash_plan,
)

__all__ = [
    "SketchPlan",
    "compute_counter_sensitivity",
    "compute_noise_variance",
    "convert_budget",
    "plan",
    "read_hash_plan",
]
