"""A key that comes back with anything but the same request gives nobody another's answer, and costs nothing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from journeys.test_python_door import declared, opened
from siloquent.api import Session
from siloquent.charge import compute_request_digest
from siloquent.errors import KeyReused, RequestError
from siloquent.explore.spec import format_canonical, parse
from siloquent.ledger import Permit
from siloquent.privacy import Cost, DiscreteLaplace

QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50 REUSE NONE"


def test_a_key_of_ana_is_refused_to_bo_where_both_spend_from_one_account(tmp_path: Path) -> None:
    with opened(tmp_path / "w", declared(), analyst="ana") as ana:
        first = ana.ask(QUESTION, key="monday")
        left = ana.get_remaining("visits")
    with opened(tmp_path / "w", declared(), analyst="bo") as bo:
        with pytest.raises(KeyReused):
            bo.ask(QUESTION, key="monday")
        assert bo.get_remaining("visits") == left
        assert not bo.ask(QUESTION, key="tuesday").replayed
    with opened(tmp_path / "w", declared(), analyst="ana") as again:
        assert again.ask(QUESTION, key="monday") == first


def test_the_same_key_of_two_shares_is_two_keys(tmp_path: Path) -> None:
    text = declared(shares='analysts = { ana = "0.5", bo = "0.5" }')
    with opened(tmp_path / "w", text, analyst="ana") as ana:
        first = ana.ask(QUESTION, key="monday")
    with opened(tmp_path / "w", text, analyst="bo") as bo:
        other = bo.ask(QUESTION, key="monday")
        assert not other.replayed
        assert bo.get_account("visits").spent == Cost(-(-other.cost.amount * 10**9 // 1))
        assert other.receipt.seq > first.receipt.seq


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("hi = 99", "hi = 89", "SELECT ward, SUM(age) FROM visits GROUP BY ward ERROR 5000 REUSE NONE"),
        ('values = ["A", "B", "C"]', 'values = ["A", "B", "D"]', QUESTION),
    ],
)
def test_a_key_gives_the_answer_of_then_when_columns_are_declared_otherwise(
    tmp_path: Path, before: str, after: str, question: str
) -> None:
    with opened(tmp_path / "w", declared()) as session:
        first = session.ask(question, key="monday")
        left = session.get_remaining("visits")
    with opened(tmp_path / "w", declared().replace(before, after)) as changed:
        again = changed.ask(question, key="monday")
        assert (again.replayed, again.rows) == (True, first.rows)
        assert any("declared when it was charged" in note for note in again.notes)
        assert changed.get_remaining("visits") == left


@pytest.mark.parametrize(
    ("before", "after", "question"), [("size_hint = 3000", "size_hint = 3000\nversion = 2", QUESTION)]
)
def test_a_key_is_refused_when_the_rows_are_others(tmp_path: Path, before: str, after: str, question: str) -> None:
    with opened(tmp_path / "w", declared()) as session:
        first = session.ask(question, key="monday")
        left = session.get_remaining("visits")
    with opened(tmp_path / "w", declared().replace(before, after)) as changed:
        with pytest.raises(KeyReused):
            changed.ask(question, key="monday")
        assert changed.get_remaining("visits") == left
    with opened(tmp_path / "w", declared()) as restored:
        assert restored.ask(question, key="monday") == first


def charged(session: Session, factor: Fraction) -> Permit:
    """An open permit for ``QUESTION`` under the key monday, at ``factor`` times what this version would reserve."""
    account, schema = session.get_account("visits"), session.schema("visits")
    digest = compute_request_digest(session, account, schema, format_canonical(parse(QUESTION)))
    planned = session.explain(QUESTION).price
    event = DiscreteLaplace(scale=1 / (Fraction(planned) * factor), l1=1)
    session.open_account(account.name, event, table="visits")
    permit = session.ledger.reserve(account.name, event, key=f"{account.name}:monday", digest=digest)
    assert isinstance(permit, Permit)
    return permit


@pytest.mark.parametrize("factor", [Fraction(2), Fraction(1, 2)])
def test_a_charge_that_was_planned_otherwise_is_not_measured_with_and_stands(tmp_path: Path, factor: Fraction) -> None:
    with opened(tmp_path / "w", declared()) as session:
        permit = charged(session, factor)
        left = session.get_remaining("visits")
        with pytest.raises(RequestError, match="That charge stands") as refused:
            session.ask(QUESTION, key="monday")
        assert "new key" in refused.value.fix
        assert session.get_remaining("visits") == left
        assert session.ledger.get_permit(permit.id) == permit, "it is still open"
        assert list(session.ledger.iter_answers("visits@1")) == []
        assert not session.ask(QUESTION, key="tuesday").replayed
