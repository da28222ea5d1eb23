"""A process that is copied while it charges: nothing is forgotten, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from scripts.postgres import fresh_database
from siloquent.ledger import Ledger, open_ledger
from siloquent.ledger.backends.forks import TransactionGate
from siloquent.privacy.accountants import Cost, build_limit
from siloquent.privacy.events import DiscreteLaplace

EVENT = DiscreteLaplace(Fraction(1000), l1=1)
PRICE = 10**6
PATIENCE_SECONDS = 20.0


def opened(address: str | Path, head: Path) -> Ledger:
    ledger = open_ledger(address, head=head, create=True)
    ledger.open_account("v@1", limit=build_limit("pure", "1000"), accountant="pure", unit="row", adjacency="add-remove")
    return ledger


def charge(ledger: Ledger) -> None:
    ledger.reserve("v@1", EVENT, key=None, digest="d")


def in_a_copy(act: Callable[[], None]) -> int:
    """The exit status of a fork of this process that does ``act``; killed when it takes too long."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def forks_while_others_charge(ledger: Ledger, forks: int) -> None:
    """Two threads charge without pause while the process is copied again and again; every charge is counted."""
    done, granted = threading.Event(), [0, 0]

    def work(number: int) -> None:
        while not done.is_set():
            charge(ledger)
            granted[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_a_copy(lambda: charge(ledger)) for _ in range(forks)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * forks
    assert ledger.get_account("v@1").spent == Cost((forks + sum(granted)) * PRICE)
    assert ledger.verify().ok


@pytest.mark.slow
def test_forks_amid_charges_to_a_file_neither_hang_nor_forget(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger.sqlite", tmp_path / "ledger.head")
    forks_while_others_charge(ledger, forks=15)
    ledger.close()


@pytest.mark.postgres
def test_forks_amid_charges_to_a_server_neither_hang_nor_forget(tmp_path: Path, postgres_dsn: str) -> None:
    ledger = opened(fresh_database(postgres_dsn), tmp_path / "ledger.head")
    forks_while_others_charge(ledger, forks=10)
    ledger.close()


def test_a_copy_goes_on_charging_after_its_parent_closed(tmp_path: Path) -> None:
    path, head = tmp_path / "ledger.sqlite", tmp_path / "ledger.head"
    ledger = opened(path, head)
    closed, told = os.pipe()

    def outlive() -> None:
        charge(ledger)
        os.read(closed, 1)
        charge(ledger)

    child = os.fork()
    if child == 0:
        try:
            outlive()
            # No farewell: SQLite must not need the copy to close its files in order.
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    charge(ledger)
    ledger.close()
    os.write(told, b"x")
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    again = open_ledger(path, head=head)
    assert again.get_account("v@1").spent == Cost(3 * PRICE)
    assert again.verify().ok


def test_no_transaction_begins_while_a_fork_waits() -> None:
    moments, order = TransactionGate(), []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with moments.enter_transaction():
            inside.set()
            leave.wait()
            with moments.enter_transaction():  # whoever is inside may go deeper
                order.append("first")

    def forking() -> None:
        with moments.exclude_transactions():
            order.append("fork")

    def late() -> None:
        with moments.enter_transaction():
            order.append("late")

    threads = [threading.Thread(target=first), threading.Thread(target=forking), threading.Thread(target=late)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while moments._closed_by is None:
        time.sleep(0.001)
    threads[2].start()
    time.sleep(0.02)
    assert order == []
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "fork", "late"]
