"""Declarations that many tests share, and rows of users who do not exist."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from siloquent.collect import Collection, Rows, build_single_row_users, design, parse_spec

PROFILE = """
[[service]]
name = "profile"
everyone = true
attribute = [
  { name = "age", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 } },
  { name = "region", type = "category", values = ["a", "b", "c"], other = "cell", null = "cell" },
]
"""
ORDERS = """
[[service]]
name = "orders"
per_user = 3
attribute = [
  { name = "amount", type = "integer", lo = 0, hi = 24, outside = "clamp", null = "drop", use = "both" },
  { name = "gift", type = "boolean", null = "drop" },
]
"""
WIDE = """
[[service]]
name = "wide"
everyone = true
attribute = [
  { name = "a", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 }, resolution = 5 },
  { name = "b", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 }, resolution = 5 },
  { name = "c", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 }, resolution = 5 },
  { name = "d", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 }, resolution = 5 },
]
"""
FINE = """
[[service]]
name = "fine"
attribute = [
  { name = "x", type = "integer", lo = 0, hi = 624, outside = "clamp", null = "drop", resolution = 625 },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-25, outside = "drop", null = "drop" },
]
"""


def text(*services: str, epsilon: str = "4", **settings: object) -> str:
    """A declaration of these services."""
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in settings.items()]
    return "\n".join(['format = 1\nname = "shop"', f'epsilon = "{epsilon}"', *lines, *services])


@lru_cache(maxsize=32)
def collection(*services: str, epsilon: str = "4", **settings: object) -> Collection:
    """The designed collection of these services."""
    return design(parse_spec(text(*services, epsilon=epsilon, **settings)))


def shoppers(users: int, seed: int) -> tuple[Rows, Rows]:
    """Profiles, and none to three orders each, whose amounts grow with age."""
    random = np.random.default_rng(seed)
    profile = np.column_stack([random.integers(0, 25, users), random.integers(0, 3, users)])
    orders = random.integers(0, 4, users)
    ages = np.repeat(profile[:, 0], orders)
    amount = np.clip(np.rint(ages / 2 + random.normal(6, 4, len(ages))), 0, 24).astype(np.int64)
    places = np.column_stack([amount, random.integers(0, 2, len(ages))])
    return build_single_row_users(profile), Rows(places, np.r_[0, np.cumsum(orders)])
