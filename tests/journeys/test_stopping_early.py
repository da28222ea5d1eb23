"""An iceberg question that stops early: the worst is reserved, and the receipt shows what was charged."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import BudgetExceeded

SCHEMA = """
format = 1
attribute = [{{ name = "ward", type = "category", values = ["A", "B", "C"], null = "drop" }}]
[table]
name = "visits"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{accountant}"
{budget}
"""
ICEBERG = "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1500 ERROR 100 CONFIDENCE 0.999999"
EARLY = f"{ICEBERG} PREFER OPTIMISTIC"


def opened(folder: Path, accountant: str = "pure", budget: str = 'epsilon = "10"') -> Session:
    if not folder.exists():
        sq.create_workspace(folder)
    session = sq.open(folder)
    wards = np.repeat(["A", "B", "C"], [5_000, 20, 10])
    session.add_frame(sq.read_schema(SCHEMA.format(accountant=accountant, budget=budget)), pa.table({"ward": wards}))
    return session


def test_the_receipt_shows_what_the_deciding_look_cost_and_so_does_a_replay(tmp_path: Path) -> None:
    with opened(tmp_path / "w") as session:
        plan = session.explain(EARLY).to_json()
        worst = Decimal(plan["cost"]["epsilon"])
        (chosen,) = (c for c in plan["candidates"] if c["name"] == plan["chosen"])
        first = session.ask(EARLY, key="monday")
        document = first.to_json()
        paid = Decimal(document["cost"]["epsilon"])
        assert plan["chosen"] == document["mechanism"] == "multi-poking"
        assert first.rows == (("A",),)
        assert Decimal(chosen["min_cost"]) <= paid < worst / 3
        assert first.cost.left == 10 - first.cost.amount
        assert 0 <= first.cost.amount - first.guarantee.epsilon < Fraction(1, 10**9)
    with opened(tmp_path / "w") as later:
        again = later.ask(EARLY, key="monday")
        assert again.replayed
        assert again == first
        assert later.ledger.verify().ok


def test_the_worst_must_fit_although_less_would_be_charged(tmp_path: Path) -> None:
    with opened(tmp_path / "w") as session:
        plan = session.explain(EARLY).to_json()
    (chosen,) = (c for c in plan["candidates"] if c["name"] == plan["chosen"])
    between = (Decimal(chosen["min_cost"]) + Decimal(chosen["max_cost"])) / 2
    with opened(tmp_path / "x", budget=f'epsilon = "{chosen["max_cost"]}"') as session:
        session.ask(ICEBERG.replace("100", "1000"))
        with pytest.raises(BudgetExceeded):
            session.ask(EARLY)
        assert session.get_remaining("visits").amount > between * 10**9


def test_a_zcdp_account_keeps_the_worst_so_nothing_stops_early_there(tmp_path: Path) -> None:
    with opened(tmp_path / "w", "zcdp", 'rho = "10"\ndelta = "1e-6"') as session:
        plan = session.explain(EARLY).to_json()
        assert all(c["min_cost"] == c["max_cost"] for c in plan["candidates"])
        assert session.ask(EARLY).mechanism == "gaussian"
