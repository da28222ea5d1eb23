"""A declared table for the planner's tests."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.spec import parse
from siloquent.privacy import Cost
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema, Unit

D = Decimal
ATTRIBUTES = (
    Attribute("who", "id"),
    Attribute("age", "integer", lo=D(0), hi=D(99), grid=D(1), outside="clamp"),
    Attribute("cost", "real", lo=D("-50"), hi=D("200000"), grid=D("0.5"), outside="clamp"),
    Attribute("ward", "category", values=tuple("ABCDEFGH"), other="cell", null="cell"),
    Attribute("sex", "category", values=("f", "m")),
    Attribute("day", "date", lo=datetime(2024, 1, 1), hi=datetime(2024, 12, 31), grid=D(86_400)),
)
PLENTY = Cost(10**16)


def table(accountant: str = "pure", *, limit: Fraction | int = 1_000, users: int = 0, **more: Any) -> TableSchema:
    """``users``: how many rows one user has at most; 0 for row units."""
    budget = (
        TableBudget("pure", epsilon=Fraction(limit))
        if accountant == "pure"
        else TableBudget("zcdp", rho=Fraction(limit), delta=Fraction(1, 10**6))
    )
    unit = Unit("user", "who", users) if users else Unit()
    return TableSchema("visits", Domain(ATTRIBUTES), budget, unit=unit, **more)


def planned(text: str, accountant: str = "pure", *, left: Cost = PLENTY, **more: Any) -> Plan:
    return plan(parse(text), table(accountant, **more), left=left)
