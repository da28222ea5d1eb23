"""What every ledger keeps. A new ledger inherits these tests and says only how it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from siloquent.errors import BudgetExceeded, KeyReused, LedgerError, NotAllowed, RequestError, UnknownName
from siloquent.ledger import Checkpoint, Ledger, Permit, SettledAnswer, base_ledger
from siloquent.privacy.accountants import AccountantName, Cost, build_limit
from siloquent.privacy.events import (
    FREE,
    Composed,
    Disclosure,
    DiscreteGaussian,
    DiscreteLaplace,
    Disjoint,
    Event,
    GeometricTopK,
    NoiseReduction,
    SampledGaussian,
)

TABLE = "visits@1"
DIGEST = "sha256:" + "d" * 64
REDUCTION = NoiseReduction((Fraction(10), Fraction(5), Fraction(2)), l1=1)


def laplace(epsilon: Fraction | int | str) -> DiscreteLaplace:
    """An event that costs ``epsilon`` in a pure account."""
    return DiscreteLaplace(scale=1 / Fraction(epsilon), l1=1)


def sampled(delta: Fraction) -> SampledGaussian:
    """An event that has a delta."""
    return SampledGaussian(Fraction(1, 10), Fraction(5), steps=1, epsilon=Fraction(1, 100), delta=delta)


def open_visits(
    ledger: Ledger,
    limit: str = "1",
    *,
    name: str = TABLE,
    accountant: AccountantName = "pure",
    unit: str = "row",
    adjacency: str = "add-remove",
    delta: str = "0",
    disclosures: bool = False,
) -> None:
    """An account of a table, as most tests need it."""
    ledger.open_account(
        name,
        limit=build_limit(accountant, limit, delta),
        accountant=accountant,
        unit=unit,
        adjacency=adjacency,
        disclosures=disclosures,
    )


def reserved(ledger: Ledger, event: Event, key: str | None = None, account: str = TABLE) -> Permit:
    """A fresh permit for ``event``."""
    permit = ledger.reserve(account, event, key=key, digest=DIGEST)
    assert isinstance(permit, Permit)
    return permit


def kinds(ledger: Ledger) -> list[str]:
    """The kinds of all entries in order."""
    return [entry.kind for entry in ledger.iter_entries()]


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """The results of ``act(0)``, ``act(1)``, .. all started at the same moment in threads of their own."""
    gate = threading.Barrier(count)

    def started(number: int) -> Any:
        gate.wait()
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(started, range(count)))


class LedgerContract:
    """The promises of ``siloquent.ledger.Ledger``."""

    def make(self) -> Ledger:
        raise NotImplementedError

    @pytest.fixture
    def ledger(self) -> Any:
        made = self.make()
        yield made
        assert made.verify().ok, made.verify()  # whatever a test did, the chain tells the same story
        made.close()

    # Reserve, settle, replay

    def test_a_charge_stands_before_anything_is_measured(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, laplace("0.3"), "k")
        assert permit.cost == Cost(300_000_000)
        assert ledger.get_account(TABLE).spent == permit.cost
        assert ledger.get_account(TABLE).compute_remaining() == Fraction(7, 10)
        ledger.require_open(permit, account=TABLE)
        assert ledger.get_permit(permit.id) == permit

    def test_a_settled_answer_is_replayed_byte_for_byte(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, laplace("0.3"), "k")
        kept = ledger.settle(permit, permit.event, b"\x00noisy\xff")
        again = ledger.reserve(TABLE, laplace("0.3"), key="k", digest=DIGEST)
        assert again == kept
        assert kept.payload == b"\x00noisy\xff"
        assert (kept.spent_before, kept.spent_after) == (Cost(0), Cost(300_000_000))
        assert kept.receipt.seq == ledger.read_head().seq
        assert kept.receipt.hash == ledger.read_head().hash
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)

    def test_a_retry_gets_the_same_permit_and_pays_once(self, ledger: Ledger) -> None:
        open_visits(ledger)
        first = reserved(ledger, laplace("0.3"), "k")
        assert ledger.reserve(TABLE, laplace("0.3"), key="k", digest=DIGEST) == first
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)

    def test_a_retry_whose_plan_changed_gets_what_was_paid_for(self, ledger: Ledger) -> None:
        open_visits(ledger)
        first = reserved(ledger, laplace("0.3"), "k")
        assert ledger.reserve(TABLE, laplace("0.9"), key="k", digest=DIGEST) == first

    def test_the_first_payload_wins(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, laplace("0.3"))
        first = ledger.settle(permit, permit.event, b"first")
        assert ledger.settle(permit, permit.event, b"second") == first
        assert kinds(ledger).count("settle") == 1

    def test_a_key_of_another_request_is_refused(self, ledger: Ledger) -> None:
        open_visits(ledger)
        open_visits(ledger, name="staff@1")
        reserved(ledger, laplace("0.3"), "k")
        for account, digest in ((TABLE, "sha256:other"), ("staff@1", DIGEST)):
            with pytest.raises(KeyReused, match="another request"):
                ledger.reserve(account, laplace("0.3"), key="k", digest=digest)
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)
        assert ledger.get_account("staff@1").spent == Cost(0)

    def test_what_a_key_has_cost_is_its_own_accounts_alone_and_follows_the_charge(self, ledger: Ledger) -> None:
        open_visits(ledger)
        open_visits(ledger, name="staff@1")
        permit = reserved(ledger, REDUCTION, "k")
        assert ledger.cost_under(TABLE, "k") == permit.cost == ledger.get_account(TABLE).spent
        assert (ledger.cost_under("staff@1", "k"), ledger.cost_under(TABLE, "unknown")) == (None, None)
        ledger.settle(permit, replace(REDUCTION, stop=1), b"x")
        assert ledger.cost_under(TABLE, "k") == ledger.get_account(TABLE).spent == Cost(200_000_000)

    def test_requests_without_a_key_never_meet(self, ledger: Ledger) -> None:
        open_visits(ledger)
        assert reserved(ledger, laplace("0.1")).key != reserved(ledger, laplace("0.1")).key

    @pytest.mark.parametrize("key", ["", "  ", "a\nb", "\x1b[31m", "k" * 201])
    def test_a_key_that_cannot_be_shown_is_refused(self, ledger: Ledger, key: str) -> None:
        open_visits(ledger)
        with pytest.raises(RequestError):
            ledger.reserve(TABLE, laplace("0.1"), key=key, digest=DIGEST)
        assert ledger.get_account(TABLE).spent == Cost(0)

    def test_an_answer_that_reads_no_row_is_free_and_recorded(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, FREE)
        ledger.settle(permit, FREE, b"")
        assert ledger.get_account(TABLE).spent == Cost(0)
        assert kinds(ledger) == ["open-account", "reserve", "settle"]

    def test_the_time_of_settling_is_that_of_reserving(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        open_visits(ledger)
        hours = iter(range(24))  # by the clock that entries are dated by, an hour passes between any two
        monkeypatch.setattr(base_ledger, "format_current_time", lambda: f"2030-01-01T{next(hours):02}:00:00Z")
        permit = reserved(ledger, laplace("0.3"))
        ledger.settle(permit, permit.event, b"x")
        reserved(ledger, laplace("0.1"))
        reserve, settle, later = list(ledger.iter_entries())[-3:]
        assert reserve.at == settle.at < later.at

    # Limits

    def test_ten_tenths_fit_one_and_an_eleventh_does_not(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        for _ in range(10):
            reserved(ledger, laplace("0.1"))
        assert ledger.get_account(TABLE).left == Cost(0)
        with pytest.raises(BudgetExceeded):
            reserved(ledger, laplace(Fraction(1, 10**9)))

    def test_a_price_between_two_units_is_rounded_up(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        assert reserved(ledger, laplace(Fraction(1, 10**12))).cost == Cost(1)

    def test_a_denial_is_recorded_and_charges_nothing(self, ledger: Ledger) -> None:
        open_visits(ledger, "0.5")
        with pytest.raises(BudgetExceeded, match=r"0\.6") as refused:
            ledger.reserve(TABLE, laplace("0.6"), key="k", digest=DIGEST)
        assert refused.value.spent == "nothing"
        assert ledger.get_account(TABLE).spent == Cost(0)
        assert kinds(ledger) == ["open-account", "deny"]
        # The key was not used up: the owner may raise the limit, and the same request then goes through.
        ledger.set_limit(TABLE, build_limit("pure", "1"))
        assert reserved(ledger, laplace("0.6"), "k").cost == Cost(600_000_000)

    def test_delta_has_a_limit_of_its_own(self, ledger: Ledger) -> None:
        open_visits(ledger, "1", accountant="zcdp", delta="1e-6")
        reserved(ledger, sampled(Fraction(6, 10**7)))
        with pytest.raises(BudgetExceeded, match="delta"):
            reserved(ledger, sampled(Fraction(5, 10**7)))

    def test_what_no_mechanism_makes_any_more_is_refused_and_what_was_charged_for_it_stays_readable(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from siloquent.ledger import rules
        from siloquent.privacy.events import StabilityThreshold

        open_visits(ledger, "1", accountant="zcdp", delta="1e-6")
        old = StabilityThreshold(Fraction(1, 10**7))
        with monkeypatch.context() as earlier:
            earlier.setattr(rules, "require_current", lambda event: None)  # as an earlier version charged it
            stored = ledger.settle(reserved(ledger, old, "k"), old, b"kept")
            waiting = reserved(ledger, Composed((laplace("0.1"), old)), "waits")
        for event in (old, Composed((laplace("0.1"), old)), Disjoint((old, Composed((old,))))):
            with pytest.raises(NotAllowed, match="No mechanism in this version"):
                ledger.reserve(TABLE, event, key="new", digest=DIGEST)
        assert ledger.get_account(TABLE).spent.delta == 2 * 10**11
        assert ledger.reserve(TABLE, old, key="k", digest=DIGEST) == stored
        assert ledger.settle(waiting, waiting.event, b"late").payload == b"late"
        assert ledger.verify().ok

    def test_a_price_of_any_size_is_refused_in_one_short_entry(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        with pytest.raises(BudgetExceeded):
            reserved(ledger, DiscreteLaplace(Fraction(1, 10**400), l1=10**400))
        assert len(str(list(ledger.iter_entries())[-1].body)) < 1_000

    def test_a_limit_never_falls_below_what_is_spent(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        reserved(ledger, laplace("0.4"))
        with pytest.raises(RequestError, match=r"0\.4"):
            ledger.set_limit(TABLE, build_limit("pure", "0.39"))
        assert ledger.set_limit(TABLE, build_limit("pure", "0.4")).left == Cost(0)

    @pytest.mark.parametrize("limit", [0.5, "1", None, Cost(10**16)])
    def test_a_limit_that_is_no_whole_and_ordinary_amount_is_refused(self, ledger: Ledger, limit: Any) -> None:
        open_visits(ledger)
        with pytest.raises(RequestError):
            ledger.set_limit(TABLE, limit)
        with pytest.raises(RequestError):
            ledger.open_account("other@1", limit=limit, accountant="pure", unit="row", adjacency="add-remove")
        assert kinds(ledger) == ["open-account"]

    @pytest.mark.parametrize("amount", [-1, 0.5, float("nan"), float("inf"), True, "1"])
    def test_an_amount_that_is_not_whole_and_at_least_zero_cannot_exist(self, ledger: Ledger, amount: Any) -> None:
        with pytest.raises(RequestError):
            Cost(amount)

    # Sub-accounts

    def test_a_share_charges_the_table_too_and_the_table_always_holds(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        for analyst in ("ana", "bo"):
            ledger.open_account(f"{TABLE}/{analyst}", limit=build_limit("pure", "0.7"), parent=TABLE)
        reserved(ledger, laplace("0.6"), account=f"{TABLE}/ana")
        with pytest.raises(BudgetExceeded, match=TABLE):
            reserved(ledger, laplace("0.5"), account=f"{TABLE}/bo")
        spent = {account.name: account.spent.amount for account in ledger.list_accounts()}
        assert spent == {TABLE: 600_000_000, f"{TABLE}/ana": 600_000_000, f"{TABLE}/bo": 0}

    def test_a_permit_of_a_share_opens_the_table_and_not_the_neighbour(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        for analyst in ("ana", "an"):
            ledger.open_account(f"{TABLE}/{analyst}", limit=build_limit("pure", "1"), parent=TABLE)
        permit = reserved(ledger, laplace("0.1"), account=f"{TABLE}/ana")
        ledger.require_open(permit, account=TABLE)
        for other in (f"{TABLE}/an", "visits@2", "visits"):
            with pytest.raises(NotAllowed):
                ledger.require_open(permit, account=other)

    def test_a_stored_answer_tells_both_totals(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        ledger.open_account(f"{TABLE}/ana", limit=build_limit("pure", "1"), parent=TABLE)
        reserved(ledger, laplace("0.1"))
        permit = reserved(ledger, laplace("0.2"), account=f"{TABLE}/ana")
        kept = ledger.settle(permit, permit.event, b"x")
        assert (kept.spent_before, kept.spent_after) == (Cost(0), Cost(200_000_000))
        assert (kept.table_before, kept.table_after) == (Cost(100_000_000), Cost(300_000_000))

    def test_a_share_has_its_parents_settings(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")
        share, limit = f"{TABLE}/ana", build_limit("pure", "1")
        for other in ({"accountant": "zcdp"}, {"unit": "user:patient:3"}, {"adjacency": "replace-one"}):
            with pytest.raises(RequestError, match="parent"):
                ledger.open_account(share, limit=limit, parent=TABLE, **other)  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="disclosures"):
            ledger.open_account(share, limit=limit, parent=TABLE, disclosures=True)
        with pytest.raises(RequestError):
            ledger.open_account("elsewhere/ana", limit=limit, parent=TABLE)
        with pytest.raises(UnknownName):
            ledger.open_account("none@1/ana", limit=limit, parent="none@1")

    # Prices that hold only in some accounts

    @pytest.mark.parametrize(("unit", "adjacency"), [("row", "replace-one"), ("user:patient:3", "replace-one")])
    def test_a_monotone_price_is_refused_where_rows_are_replaced(
        self, ledger: Ledger, unit: str, adjacency: str
    ) -> None:
        open_visits(ledger, unit=unit, adjacency=adjacency)
        monotone = GeometricTopK(k=2, scale=Fraction(20), linf=1, monotone=True)
        for event in (monotone, Composed((monotone,)), Composed((Composed((laplace(1), monotone)),))):
            with pytest.raises(NotAllowed, match="added or removed"):
                reserved(ledger, event)
        assert reserved(ledger, replace(monotone, monotone=False)).cost == Cost(200_000_000)

    @pytest.mark.parametrize(
        ("unit", "adjacency"),
        [("row", "replace-one"), ("user:patient:3", "add-remove"), ("user:patient:3", "replace-one")],
    )
    def test_a_price_for_disjoint_cells_is_refused_outside_rows_added_or_removed(
        self, ledger: Ledger, unit: str, adjacency: str
    ) -> None:
        open_visits(ledger, unit=unit, adjacency=adjacency)
        with pytest.raises(NotAllowed, match="rows added or removed"):
            reserved(ledger, Disjoint((laplace("0.1"), laplace("0.2"))))
        assert kinds(ledger) == ["open-account"]

    def test_disjoint_cells_cost_the_dearest_for_rows_added_or_removed(self, ledger: Ledger) -> None:
        open_visits(ledger)
        assert reserved(ledger, Disjoint((laplace("0.1"), laplace("0.2")))).cost == Cost(200_000_000)

    def test_gaussian_noise_is_refused_in_a_pure_account(self, ledger: Ledger) -> None:
        open_visits(ledger)
        with pytest.raises(NotAllowed, match="zcdp"):
            reserved(ledger, DiscreteGaussian(variance=Fraction(4), l2_squared=1))

    def test_an_event_that_nobody_knows_is_refused_and_never_free(self, ledger: Ledger) -> None:
        class Homemade(DiscreteLaplace):
            pass

        open_visits(ledger)
        for unknown in (Homemade(Fraction(1), 1), object(), None):
            with pytest.raises(NotAllowed, match="not an event"):
                ledger.reserve(TABLE, unknown, key=None, digest=DIGEST)  # type: ignore[arg-type]
        assert kinds(ledger) == ["open-account"]

    def test_a_disclosure_is_recorded_only_where_the_owner_allows_it(self, ledger: Ledger) -> None:
        told = Disclosure(protocol="intersection", reveals="the size of the overlap")
        open_visits(ledger)
        with pytest.raises(NotAllowed, match="disclosures"):
            reserved(ledger, told)
        open_visits(ledger, name="open@1", disclosures=True)
        permit = reserved(ledger, told, account="open@1")
        assert permit.cost == Cost(0)
        assert ledger.settle(permit, told, b"").event == told

    # Settling with another event

    def test_settling_with_an_event_of_another_price_keeps_the_charge_and_stores_nothing(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, laplace("0.3"), "k")
        for other in (laplace("0.2"), laplace("0.4")):
            with pytest.raises(LedgerError, match="another price") as wrong:
                ledger.settle(permit, other, b"x")
            assert "stays charged" in wrong.value.spent
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)
        assert ledger.reserve(TABLE, laplace("0.3"), key="k", digest=DIGEST) == permit

    def test_stopping_early_gives_back_in_a_pure_account_without_delta(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, REDUCTION)
        assert permit.cost == Cost(500_000_000)
        kept = ledger.settle(permit, replace(REDUCTION, stop=1), b"x")
        assert (kept.spent_after, ledger.get_account(TABLE).spent) == (Cost(200_000_000), Cost(200_000_000))

    @pytest.mark.parametrize(("accountant", "delta"), [("zcdp", "0"), ("pure", "1e-6")])
    def test_stopping_early_gives_nothing_back_elsewhere(
        self, ledger: Ledger, accountant: AccountantName, delta: str
    ) -> None:
        open_visits(ledger, accountant=accountant, delta=delta)
        permit = reserved(ledger, REDUCTION)
        ledger.settle(permit, replace(REDUCTION, stop=0), b"x")
        assert ledger.get_account(TABLE).spent == permit.cost

    def test_stopping_another_reduction_is_not_stopping_early(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, REDUCTION)
        for other in (replace(REDUCTION, scales=(Fraction(20), Fraction(2)), stop=0), laplace("0.2")):
            with pytest.raises(LedgerError):
                ledger.settle(permit, other, b"x")
        assert ledger.get_account(TABLE).spent == permit.cost

    def test_stopping_early_gives_back_to_the_share_and_the_table(self, ledger: Ledger) -> None:
        open_visits(ledger)
        ledger.open_account(f"{TABLE}/ana", limit=build_limit("pure", "1"), parent=TABLE)
        permit = reserved(ledger, REDUCTION, account=f"{TABLE}/ana")
        ledger.settle(permit, replace(REDUCTION, stop=0), b"x")
        assert [account.spent for account in ledger.list_accounts()] == [Cost(100_000_000)] * 2

    # Permits

    def test_the_data_room_opens_for_no_foreign_altered_or_settled_permit(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, laplace("0.3"))
        altered = (
            replace(permit, event=laplace("0.9")),
            replace(permit, cost=Cost(1)),
            replace(permit, account="staff@1"),
            replace(permit, key="other"),
            replace(permit, digest="other"),
            replace(permit, id="p-000099"),
            replace(permit, seq=permit.seq + 1),
            replace(permit, seq=1),
        )
        for wrong in altered:
            with pytest.raises(NotAllowed):
                ledger.require_open(wrong)
            with pytest.raises(NotAllowed):
                ledger.settle(wrong, wrong.event, b"x")
        ledger.require_open(permit)
        ledger.settle(permit, permit.event, b"x")
        with pytest.raises(NotAllowed, match="settled"):
            ledger.require_open(permit)
        with pytest.raises(NotAllowed, match="settled"):
            ledger.get_permit(permit.id)

    @pytest.mark.parametrize("name", ["", "p-", "p-1x", "p-000999", "p-" + "9" * 30, "p-000001", "p--1", "p-²"])
    def test_a_permit_that_was_never_given_is_refused(self, ledger: Ledger, name: str) -> None:
        open_visits(ledger)
        with pytest.raises(NotAllowed):
            ledger.get_permit(name)

    def test_a_permit_of_another_ledger_is_refused(self, ledger: Ledger) -> None:
        other = self.make()
        for one in (ledger, other):
            open_visits(one)
        foreign = reserved(other, laplace("0.3"))
        with pytest.raises(NotAllowed):
            ledger.require_open(foreign)
        other.close()

    # Accounts and epochs

    def test_opening_again_with_the_same_settings_changes_nothing(self, ledger: Ledger) -> None:
        open_visits(ledger)
        reserved(ledger, laplace("0.3"))
        open_visits(ledger)
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)
        assert kinds(ledger) == ["open-account", "reserve"]

    @pytest.mark.parametrize(
        "other",
        [
            {"limit": "2"},
            {"delta": "1e-9"},
            {"accountant": "zcdp"},
            {"unit": "user:patient:3"},
            {"adjacency": "replace-one"},
            {"disclosures": True},
        ],
    )
    def test_opening_again_with_other_settings_is_refused(self, ledger: Ledger, other: dict[str, Any]) -> None:
        open_visits(ledger)
        with pytest.raises(LedgerError, match="exists with"):
            open_visits(ledger, **other)

    @pytest.mark.parametrize("name", ["", " ", "a/b", "visits@1/", "a\tb", "n" * 201])
    def test_a_table_account_has_a_plain_name(self, ledger: Ledger, name: str) -> None:
        with pytest.raises(RequestError):
            open_visits(ledger, name=name)

    @pytest.mark.parametrize("settings", [{"accountant": "renyi"}, {"unit": "user:patient:0"}, {"adjacency": "near"}])
    def test_a_setting_that_means_nothing_is_refused(self, ledger: Ledger, settings: dict[str, Any]) -> None:
        wanted = {"accountant": "pure", "unit": "row", "adjacency": "add-remove", **settings}
        with pytest.raises(RequestError):
            ledger.open_account(TABLE, limit=Cost(1), **wanted)

    def test_an_unknown_account_is_named_with_its_neighbours(self, ledger: Ledger) -> None:
        open_visits(ledger)
        for ask in (lambda: ledger.get_account("visit@1"), lambda: reserved(ledger, laplace(1), account="visit@1")):
            with pytest.raises(UnknownName, match="visits@1"):
                ask()

    def test_a_new_epoch_starts_at_nothing_and_closes_the_old_one(self, ledger: Ledger) -> None:
        open_visits(ledger)
        ledger.open_account(f"{TABLE}/ana", limit=build_limit("pure", "1"), parent=TABLE)
        before = reserved(ledger, laplace("0.3"), "k")
        new = ledger.open_epoch(TABLE, "visits@2", statement="these are the patients of 2027")
        assert (new.spent, new.limit) == (Cost(0), build_limit("pure", "1"))
        assert ledger.get_account(TABLE).successor == "visits@2"
        for closed in (TABLE, f"{TABLE}/ana"):
            with pytest.raises(NotAllowed, match="closed"):
                reserved(ledger, laplace("0.1"), account=closed)
        # What was paid for before is still answered.
        assert ledger.settle(before, before.event, b"x").payload == b"x"
        assert ledger.reserve(TABLE, before.event, key="k", digest=DIGEST).__class__ is SettledAnswer
        assert ledger.open_epoch(TABLE, "visits@2", statement="again") == new

    def test_an_early_stop_settles_lower_even_after_the_epoch_closed(self, ledger: Ledger) -> None:
        open_visits(ledger)
        permit = reserved(ledger, REDUCTION)
        ledger.open_epoch(TABLE, "visits@2", statement="new people")
        ledger.settle(permit, replace(REDUCTION, stop=0), b"x")
        assert ledger.get_account(TABLE).spent == Cost(100_000_000)

    def test_an_epoch_that_is_not_the_next_is_refused(self, ledger: Ledger) -> None:
        open_visits(ledger)
        open_visits(ledger, name="visits@3")
        for new in ("visits@1", "visits@0", "staff@2", "visits", "visits@2/ana", "visits@x"):
            with pytest.raises(RequestError):
                ledger.open_epoch(TABLE, new, statement="new people")
        with pytest.raises(LedgerError, match="is not the successor"):
            ledger.open_epoch(TABLE, "visits@3", statement="new people")
        with pytest.raises(RequestError, match="statement"):
            ledger.open_epoch(TABLE, "visits@2", statement=" ")
        ledger.open_epoch(TABLE, "visits@2", statement="new people")
        with pytest.raises(NotAllowed, match="already closed"):
            ledger.open_epoch(TABLE, "visits@4", statement="new people")

    # At the same time

    def test_two_retries_at_once_pay_once_and_get_the_payload_stored_first(self, ledger: Ledger) -> None:
        open_visits(ledger)

        def ask(number: int) -> SettledAnswer:
            held = ledger.reserve(TABLE, laplace("0.3"), key="k", digest=DIGEST)
            return held if isinstance(held, SettledAnswer) else ledger.settle(held, held.event, f"{number}".encode())

        first, second = together(2, ask)
        assert first == second
        assert ledger.get_account(TABLE).spent == Cost(300_000_000)
        assert kinds(ledger) == ["open-account", "reserve", "settle"]

    def test_racing_threads_are_granted_exactly_what_fits(self, ledger: Ledger) -> None:
        open_visits(ledger, "1")

        def ask(_: int) -> int:
            granted = 0
            for _ in range(5):
                try:
                    reserved(ledger, laplace("0.1"))
                    granted += 1
                except BudgetExceeded:
                    pass
            return granted

        assert sum(together(4, ask)) == 10
        assert ledger.get_account(TABLE).left == Cost(0)
        assert kinds(ledger).count("deny") == 10

    # Reading

    def test_entries_come_in_pages_after_any_place_and_by_account(self, ledger: Ledger) -> None:
        open_visits(ledger)
        open_visits(ledger, name="visits_1")  # an underscore matches any letter in LIKE
        open_visits(ledger, name="visitsA1")
        ledger.open_account("visits_1/ana", limit=Cost(1), parent="visits_1")
        ledger.open_account("visitsA1/ana", limit=Cost(1), parent="visitsA1")
        reserved(ledger, laplace("0.1"))
        assert [entry.seq for entry in ledger.iter_entries()] == [1, 2, 3, 4, 5, 6]
        assert [entry.seq for entry in ledger.iter_entries(after=4)] == [5, 6]
        assert [entry.seq for entry in ledger.iter_entries(account=TABLE)] == [1, 6]
        assert [entry.seq for entry in ledger.iter_entries(account="visits_1")] == [2, 4]
        assert [entry.seq for entry in ledger.iter_entries(after=2, account="visits_1")] == [4]
        assert list(ledger.iter_entries(account="none")) == []
        newest = list(ledger.iter_entries())[-1]
        assert (newest.seq, newest.hash) == (ledger.read_head().seq, ledger.read_head().hash)

    def test_stored_answers_of_a_tree_are_read_by_all_its_accounts(self, ledger: Ledger) -> None:
        open_visits(ledger)
        open_visits(ledger, name="staff@1")
        ledger.open_account(f"{TABLE}/ana", limit=build_limit("pure", "1"), parent=TABLE)
        kept = []
        for account in (TABLE, f"{TABLE}/ana", "staff@1"):
            permit = reserved(ledger, laplace("0.1"), account=account)
            kept.append(ledger.settle(permit, permit.event, account.encode()))
        for account in (TABLE, f"{TABLE}/ana"):
            assert list(ledger.iter_answers(account)) == kept[:2]
        assert list(ledger.iter_answers(TABLE, after_seq=kept[0].receipt.seq)) == kept[1:2]
        assert list(ledger.iter_answers("staff@1")) == kept[2:]

    def test_a_new_ledger_is_empty_and_well(self, ledger: Ledger) -> None:
        assert ledger.read_head().seq == 0
        assert ledger.list_accounts() == []
        assert list(ledger.iter_entries()) == []
        assert ledger.verify().entries == 0

    # Checking

    def test_a_checkpoint_holds_for_as_long_as_nothing_is_lost(self, ledger: Ledger) -> None:
        open_visits(ledger)
        reserved(ledger, laplace("0.1"))
        kept = ledger.create_checkpoint()
        assert kept.spent == {TABLE: Cost(100_000_000)}
        reserved(ledger, laplace("0.1"))
        assert ledger.verify(Checkpoint.from_json(kept.to_json())).ok
        wrong = {
            "missing": replace(kept, seq=99),
            "differs": replace(kept, hash="0" * 64),
            "totals": replace(kept, spent={TABLE: Cost(1)}),
            "another ledger": replace(kept, ledger="0" * 32),
        }
        for problem, checkpoint in wrong.items():
            verdict = ledger.verify(checkpoint)
            assert not verdict.ok
            assert problem in verdict.problem

    def test_verify_counts_every_entry(self, ledger: Ledger) -> None:
        open_visits(ledger)
        for _ in range(3):
            permit = reserved(ledger, laplace("0.1"))
            ledger.settle(permit, permit.event, b"x")
        verdict = ledger.verify()
        assert (verdict.ok, verdict.entries, verdict.first_bad_seq, verdict.problem) == (True, 7, None, "")
