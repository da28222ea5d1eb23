"""Any order of owner's acts, questions, retries and settlements leaves what a model of whole numbers says."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from siloquent.errors import BudgetExceeded, KeyReused, NotAllowed, RequestError
from siloquent.ledger import Ledger, MemoryLedger, Permit, SettledAnswer, open_ledger
from siloquent.privacy.accountants import NANO, Cost
from siloquent.privacy.events import DiscreteLaplace, Event, NoiseReduction

TABLE = "t@1"
NAMES = (TABLE, f"{TABLE}/ana", f"{TABLE}/bo", f"{TABLE}/ana/trial")


@dataclass
class Asked:
    """A key that was granted: where, for what, at which price, and the payload once there is one."""

    account: str
    digest: str
    cost: int
    permit: Permit
    payload: bytes | None = None


@dataclass
class Model:
    """The ledger as a few whole numbers."""

    limit: dict[str, int]
    spent: dict[str, int]
    asked: dict[str, Asked] = field(default_factory=dict)
    entries: int = len(NAMES)

    def line(self, name: str) -> list[str]:
        return [other for other in NAMES if f"{name}/".startswith(f"{other}/")]

    def fits(self, name: str, cost: int) -> bool:
        return all(self.spent[above] + cost <= self.limit[above] for above in self.line(name))

    def charge(self, name: str, cost: int) -> None:
        for above in self.line(name):
            self.spent[above] += cost


class LedgerMachine(RuleBasedStateMachine):
    def make(self) -> Ledger:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.make()
        limits = {TABLE: 100, f"{TABLE}/ana": 70, f"{TABLE}/bo": 60, f"{TABLE}/ana/trial": 20}
        self.model = Model(limits, dict.fromkeys(NAMES, 0))
        self.closed = False
        for name, limit in limits.items():
            if name == TABLE:
                self.ledger.open_account(name, limit=Cost(limit), accountant="pure", unit="row", adjacency="add-remove")
            else:
                self.ledger.open_account(name, limit=Cost(limit), parent=name.rpartition("/")[0])

    @rule(
        name=st.sampled_from(NAMES),
        cost=st.integers(0, 45),
        early=st.booleans(),
        key=st.sampled_from("abcdefgh"),
        digest=st.sampled_from(("one", "two")),
    )
    def ask(self, name: str, cost: int, early: bool, key: str, digest: str) -> None:
        event = _event(cost, early)
        known = self.model.asked.get(key)
        if known is not None and (known.account, known.digest) != (name, digest):
            with pytest.raises(KeyReused):
                self.ledger.reserve(name, event, key=key, digest=digest)
        elif known is not None:
            held = self.ledger.reserve(name, event, key=key, digest=digest)
            if known.payload is None:
                assert held == known.permit
            else:
                assert isinstance(held, SettledAnswer)
                assert held.payload == known.payload
        elif self.closed:
            with pytest.raises(NotAllowed):
                self.ledger.reserve(name, event, key=key, digest=digest)
        elif not self.model.fits(name, cost):
            with pytest.raises(BudgetExceeded):
                self.ledger.reserve(name, event, key=key, digest=digest)
            self.model.entries += 1
        else:
            held = self.ledger.reserve(name, event, key=key, digest=digest)
            assert isinstance(held, Permit)
            assert held.cost == Cost(cost)
            self.model.charge(name, cost)
            self.model.asked[key] = Asked(name, digest, cost, held)
            self.model.entries += 1

    @precondition(lambda self: self.model.asked)
    @rule(pick=st.integers(0, 7), payload=st.binary(max_size=4), stop=st.integers(0, 1))
    def settle(self, pick: int, payload: bytes, stop: int) -> None:
        asked = list(self.model.asked.values())[pick % len(self.model.asked)]
        event, back = asked.permit.event, 0
        if isinstance(event, NoiseReduction):
            event = replace(event, stop=stop)
            back = asked.cost - 1 if stop == 0 else 0
        kept = self.ledger.settle(asked.permit, event, payload)
        if asked.payload is None:
            asked.payload = payload
            self.model.charge(asked.account, -back)
            self.model.entries += 1
        assert kept.payload == asked.payload

    @rule(name=st.sampled_from(NAMES), limit=st.integers(0, 150))
    def set_limit(self, name: str, limit: int) -> None:
        if limit < self.model.spent[name]:
            with pytest.raises(RequestError):
                self.ledger.set_limit(name, Cost(limit))
        else:
            self.ledger.set_limit(name, Cost(limit))
            self.model.limit[name] = limit
            self.model.entries += 1

    @precondition(lambda self: len(self.model.asked) > 5 and not self.closed)
    @rule()
    def close_the_epoch(self) -> None:
        self.ledger.open_epoch(TABLE, "t@2", statement="new people")
        self.closed = True
        self.model.entries += 1

    @invariant()
    def the_book_says_what_the_model_says(self) -> None:
        book = {account.name: account for account in self.ledger.list_accounts() if account.name in NAMES}
        assert {name: account.spent.amount for name, account in book.items()} == self.model.spent
        assert {name: account.limit.amount for name, account in book.items()} == self.model.limit
        assert self.ledger.read_head().seq == self.model.entries

    @invariant()
    def an_open_permit_opens_the_data_and_a_settled_one_does_not(self) -> None:
        for asked in self.model.asked.values():
            if asked.payload is None:
                self.ledger.require_open(asked.permit)
            else:
                with pytest.raises(NotAllowed):
                    self.ledger.require_open(asked.permit)

    def teardown(self) -> None:
        assert self.ledger.verify().ok, self.ledger.verify()
        answers = [kept.payload for kept in self.ledger.iter_answers(TABLE)]
        assert sorted(answers) == sorted(a.payload for a in self.model.asked.values() if a.payload is not None)
        self.ledger.close()


def _event(cost: int, early: bool) -> Event:
    """An event of ``cost`` coins; with ``early`` one that may stop at a price of one coin."""
    if cost == 0:
        return DiscreteLaplace(Fraction(1), l1=0)
    if early and cost > 1:
        return NoiseReduction((Fraction(NANO), Fraction(NANO, cost)), l1=1)
    return DiscreteLaplace(Fraction(NANO, cost), l1=1)


class InMemory(LedgerMachine):
    def make(self) -> Ledger:
        return MemoryLedger()


class InSQLite(LedgerMachine):
    def make(self) -> Ledger:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        return open_ledger(path / "ledger.sqlite", head=path / "ledger.head", create=True)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


def test_a_ledger_in_memory_does_what_the_model_does() -> None:
    run_state_machine_as_test(InMemory, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


def test_a_ledger_in_sqlite_does_what_the_model_does() -> None:
    run_state_machine_as_test(InSQLite, settings=settings(max_examples=10, stateful_step_count=25, deadline=None))


def test_the_model_notices_a_ledger_that_gives_back_too_much() -> None:
    class Generous(MemoryLedger):
        def settle(self, permit: Permit, event: Event, payload: bytes) -> SettledAnswer:
            cheap = replace(event, stop=0) if isinstance(event, NoiseReduction) else event
            return super().settle(permit, cheap, payload)

    class WithGenerous(LedgerMachine):
        def make(self) -> Ledger:
            return Generous()

    unshrunk = settings(max_examples=200, stateful_step_count=30, deadline=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(WithGenerous, settings=unshrunk)
