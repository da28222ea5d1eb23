"""A permit is open while no entry settles it, and to look that up costs what came since the last look, not the age."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.trials.ledger import CHARGE, DIGEST, TABLE, Place, tamper
from siloquent.errors import ChainBroken, NotAllowed
from siloquent.ledger import Ledger, MemoryLedger, Permit, SettledAnswer, open_ledger, open_permits
from siloquent.privacy.accountants import Cost
from unit.ledger.places import raw

LATER = 120


class Reads:
    """How many entries were hashed and read for the sake of open permits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = open_permits.read_entry_body

        def counted(entry: object) -> object:
            self.count += 1
            return read(entry)  # type: ignore[arg-type]

        monkeypatch.setattr(open_permits, "read_entry_body", counted)

    def since(self) -> int:
        """Since the last call."""
        count, self.count = self.count, 0
        return count


def reserved(ledger: Ledger, key: str | None = None) -> Permit:
    permit = ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST)
    assert isinstance(permit, Permit)
    return permit


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if request.param == "memory":
        made: Ledger = MemoryLedger()
        made.open_account(TABLE, limit=Cost(10**6), accountant="pure", unit="row", adjacency="add-remove")
        return made
    place = Place.made(tmp_path, limit=10**6)
    return open_ledger(place.database, head=place.head)


def test_a_retry_reads_only_the_entries_since_the_last_one(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    old = reserved(ledger, "old")
    for _ in range(LATER):
        reserved(ledger)
    with closing(ledger):
        assert ledger.find_charge(TABLE, key="old", digest=DIGEST) == old
        assert reads.since() >= LATER, "the first look follows the chain to its end"
        for _ in range(5):
            assert ledger.reserve(TABLE, CHARGE, key="old", digest=DIGEST) == old
            ledger.require_open(old)
        assert reads.since() == 0
        reserved(ledger)
        stored = ledger.settle(old, CHARGE, b"answer")
        assert 0 < reads.since() <= 4
        assert ledger.find_charge(TABLE, key="old", digest=DIGEST) == stored


def test_an_ordinary_charge_reads_no_entries_for_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    with closing(ledger):
        for _ in range(5):
            permit = reserved(ledger)
            ledger.require_open(permit)
            ledger.settle(permit, CHARGE, b"answer")
    assert reads.since() == 0


@pytest.mark.parametrize("seed", range(12))
def test_whatever_was_looked_at_before_a_permit_is_what_the_chain_makes_of_it(seed: int) -> None:
    """Random walks of reservations, settlements, lost answers and looks, against what was done."""
    chance, ledger = random.Random(seed), MemoryLedger()
    ledger.open_account(TABLE, limit=Cost(10**6), accountant="pure", unit="row", adjacency="add-remove")
    permits: list[Permit] = []
    state: dict[int, str] = {}
    for _ in range(150):
        act = chance.random()
        open_now = [one for one in permits if state[one.seq] == "open"]
        if act < 0.35 or not permits:
            permits.append(reserved(ledger))
            state[permits[-1].seq] = "open"
        elif act < 0.55 and open_now:
            permit = chance.choice(open_now)
            ledger.settle(permit, CHARGE, b"answer")
            state[permit.seq] = "settled"
            if chance.random() < 0.3:
                del ledger._books._by_permit[permit.seq]
                state[permit.seq] = "lost"
        else:
            permit = chance.choice(permits)
            assert looked_at(ledger, permit) == state[permit.seq]
    assert {looked_at(ledger, one) == state[one.seq] for one in permits} == {True}
    assert set(state.values()) == {"open", "settled", "lost"}


def looked_at(ledger: Ledger, permit: Permit) -> str:
    try:
        ledger.require_open(permit)
    except NotAllowed:
        return "settled"
    except ChainBroken:
        return "lost"
    return "open"


def test_what_an_earlier_look_found_outlasts_the_entry_and_its_answer(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    with place.opened() as ledger:
        first, second = reserved(ledger), reserved(ledger)
        ledger.settle(first, CHARGE, b"answer")
        ledger.require_open(second)
        tamper(place.database, f"DELETE FROM answer WHERE permit = {first.seq}")
        tamper(place.database, f"UPDATE entry SET body = replace(body, 'settle', 'deny') WHERE seq = {first.seq + 2}")
        assert looked_at(ledger, first) == "lost"


def test_a_copy_put_in_its_place_while_it_is_open_is_looked_at_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(open_ledger(path, create=True)) as ledger:
        ledger.open_account(TABLE, limit=Cost(100), accountant="pure", unit="row", adjacency="add-remove")
        old, other = reserved(ledger, "old"), reserved(ledger)
        with raw(tmp_path / "backup") as backup, raw(path) as now:
            now.backup(backup)
        ledger.settle(old, CHARGE, b"answer")
        ledger.require_open(other)
        assert isinstance(ledger.find_charge(TABLE, key="old", digest=DIGEST), SettledAnswer)
        with raw(tmp_path / "backup") as backup, raw(path) as now:
            backup.backup(now)
        assert looked_at(ledger, old) == "open", "in this copy nothing settles it"
