"""What every session keeps, whether the workspace is a folder here or behind a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import siloquent as sq
from journeys.clinic import TOML, WARDS
from journeys.served import WIDE
from siloquent.api import Session
from siloquent.errors import (
    AccuracyUnreachable,
    BudgetExceeded,
    KeyReused,
    NotAllowed,
    RequestError,
    SyntaxProblem,
    UnknownName,
)
from siloquent.remote import RemoteSession

DEAR = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 40 CONFIDENCE 0.99 REUSE NONE"


class SessionContract(ABC):
    """A kind of session says how one is opened for ana over a table file, and inherits these tests."""

    @abstractmethod
    def open(self, folder: Path, toml: str) -> AbstractContextManager[Session | RemoteSession]: ...

    @pytest.fixture
    def session(self, tmp_path: Path) -> Iterator[Session | RemoteSession]:
        with self.open(tmp_path / "w", WIDE) as opened:
            yield opened

    def test_the_price_is_said_before_and_nothing_is_spent(self, session: Session | RemoteSession) -> None:
        before = session.get_remaining("visits")
        told = session.explain(WARDS)
        assert (told.account, told.symbol) == ("visits@1/ana", "rho")
        assert 0 < told.price < told.left_before
        assert told.left_after is not None
        assert told.to_json()["schema"] == "siloquent/explanation/2"
        assert session.get_remaining("visits") == before

    def test_price_answer_and_budget_read_as_text(self, session: Session | RemoteSession) -> None:
        told, before = session.explain(WARDS), session.get_budget("visits")
        assert str(told).startswith(told.promise)
        assert "Price: rho " in str(told)
        assert repr(told) == str(told)
        assert (before.spent, before.left) == (0, before.limit)
        answer = session.ask(WARDS, key="wards")
        after = session.get_budget("visits")
        assert (after.table, after.account, after.symbol) == ("visits", "visits@1/ana", "rho")
        assert 0 < after.spent == before.left - after.left
        assert "All answers together stay within it, for " in str(after)
        frame = answer.to_pandas()
        assert list(frame.columns) == ["ward", "count", "low", "high"]
        assert frame.attrs["units"]["count"] == "rows"
        assert frame.attrs["guarantee"] == answer.guarantee.describe()

    def test_an_answer_is_charged_once_and_free_again(self, session: Session | RemoteSession) -> None:
        first = session.ask(WARDS, key="wards")
        left = session.get_remaining("visits")
        again = session.ask(WARDS, key="wards")
        assert first.columns == ("ward", "count", "low", "high")
        assert [row[0] for row in first.rows] == ["A", "B", "=1+1", "icu"]
        assert (first.rows, first.receipt, first.promise) == (again.rows, again.receipt, again.promise)
        assert (first.replayed, again.replayed) == (False, True)
        assert session.get_remaining("visits") == left
        assert first.cost.amount > 0
        assert "so far amounts to" in first.guarantee.describe()
        assert first.table.column_names == ["ward", "count", "low", "high"]
        assert first.pictures()[0].svg().startswith("<svg")
        assert first.to_json()["id"] == first.id

    def test_a_question_is_text_or_a_query_or_a_builder(self, session: Session | RemoteSession) -> None:
        built = sq.count("visits").by("ward").within(rows=200, confidence=0.99)
        asked = [session.explain(one).price for one in (WARDS, sq.parse(WARDS), built)]
        assert len(set(asked)) == 1

    def test_a_key_of_another_question_is_refused(self, session: Session | RemoteSession) -> None:
        session.ask(WARDS, key="mine")
        with pytest.raises(KeyReused) as refused:
            session.ask(WARDS.replace("200", "300"), key="mine")
        assert refused.value.spent == "nothing"

    @pytest.mark.parametrize("key", ["", "x" * 65, "caf\xe9", "a\nb"])
    def test_what_cannot_be_a_key_is_refused(self, session: Session | RemoteSession, key: str) -> None:
        with pytest.raises(RequestError, match="1 to 64 printable"):
            session.ask(WARDS, key=key)

    @pytest.mark.parametrize(
        ("sql", "kind"),
        [
            ("SELEC 1", SyntaxProblem),
            ("SELECT wrad, COUNT(*) FROM visits GROUP BY wrad ERROR 9", UnknownName),
            ("SELECT COUNT(*) FROM vists ERROR 9", UnknownName),
            ("SELECT MIN(cost) FROM visits ERROR 1", RequestError),
        ],
    )
    def test_a_refusal_is_of_one_kind_says_the_fix_and_costs_nothing(
        self, session: Session | RemoteSession, sql: str, kind: type[Exception]
    ) -> None:
        with pytest.raises(kind) as refused:
            session.ask(sql)
        assert getattr(refused.value, "spent", "") == "nothing"

    def test_a_price_above_the_limit_is_refused(self, session: Session | RemoteSession) -> None:
        with pytest.raises(RequestError, match="more than the"):
            session.ask(WARDS, max_cost="0.000001")

    def test_a_budget_that_is_gone_and_an_error_that_cannot_be_are_told_apart(self, tmp_path: Path) -> None:
        with self.open(tmp_path / "w", TOML.replace('epsilon = "1"', 'epsilon = "0.5"')) as poor:
            poor.ask(DEAR)
            poor.ask(DEAR)
            with pytest.raises(BudgetExceeded, match="left"):
                poor.ask(DEAR)
            with pytest.raises(AccuracyUnreachable):
                poor.ask("SELECT COUNT(*) FROM visits ERROR 0.0001")

    def test_tables_and_accounts_are_told(self, session: Session | RemoteSession) -> None:
        assert session.list_tables() == ["visits"]
        session.ask(WARDS)
        account = session.get_account("visits")
        assert (account.name, account.parent, account.accountant) == ("visits@1/ana", "visits@1", "zcdp")
        assert account.left == session.get_remaining("visits")
        assert account.spent.amount > 0
        with pytest.raises(UnknownName, match="visits"):
            session.get_account("vists")

    def test_a_closed_session_asks_nothing(self, session: Session | RemoteSession) -> None:
        session.close()
        with pytest.raises(RequestError, match="closed"):
            session.ask(WARDS)

    def test_who_has_no_share_is_not_allowed(self, tmp_path: Path) -> None:
        with (
            self.open(tmp_path / "w", TOML.replace('ana = "1", ', "")) as stranger,
            pytest.raises(NotAllowed, match="share"),
        ):
            stranger.ask(WARDS)
