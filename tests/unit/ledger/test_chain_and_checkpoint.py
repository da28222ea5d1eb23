"""What is hashed has one form, a checkpoint survives only as itself, amounts are told exactly, tables hold no gaps."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from siloquent.errors import LedgerError
from siloquent.ledger import Checkpoint, open_ledger
from siloquent.ledger.chain import compute_genesis_hash, format_canonical_json, seal
from siloquent.ledger.rules import format_cost
from siloquent.privacy.accountants import ATTO, AccountantName, Cost, get_accountant

KEPT = Checkpoint("ab" * 16, 7, "c" * 64, {"visits@1": Cost(3, 4), "visits@1/änne": Cost(0)})


def test_an_entrys_hash_is_the_documented_one() -> None:
    prev = compute_genesis_hash("ab" * 16)
    assert prev == hashlib.sha256(b"ab" * 16).hexdigest()
    body = format_canonical_json({"kind": "deny", "account": "visits@1"})
    assert body == '{"account":"visits@1","kind":"deny"}'
    expected = hashlib.sha256(b"\x00" + bytes.fromhex(prev) + b"\x00" * 7 + b"\x01" + body.encode()).hexdigest()
    assert seal(prev, 1, body) == expected


@pytest.mark.parametrize("value", [0.5, None, True, b"x", float("nan"), {"inner": [1, 0.5]}, (1, 2)])
def test_what_has_several_texts_is_never_hashed(value: Any) -> None:
    with pytest.raises(LedgerError, match="whole numbers and strings"):
        format_canonical_json({"value": value})


def test_the_form_does_not_hang_on_the_order_of_keys() -> None:
    assert format_canonical_json({"a": 1, "b": {"d": "ü", "c": [2]}}) == format_canonical_json(
        {"b": {"c": [2], "d": "ü"}, "a": 1}
    )


def test_a_checkpoint_is_read_back_as_it_was_written() -> None:
    assert Checkpoint.from_json(KEPT.to_json()) == KEPT
    assert "\n" not in KEPT.to_json()


def test_a_checkpoint_has_one_text_whatever_the_order_of_its_accounts() -> None:
    turned = Checkpoint(KEPT.ledger, KEPT.seq, KEPT.hash, dict(reversed(KEPT.spent.items())))
    assert turned.to_json() == KEPT.to_json()
    assert list(json.loads(KEPT.to_json())) == ["format", "hash", "ledger", "seq", "spent"]


@pytest.mark.parametrize(
    "changes",
    [{"format": 2}, {"format": None}, {"spent": None}, {"spent": {"a": [1]}}, {"spent": {"a": [-1, 0]}}, {"seq": "x"}],
)
def test_what_is_no_checkpoint_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="checkpoint"):
        Checkpoint.from_json(json.dumps({**json.loads(KEPT.to_json()), **changes}))


@pytest.mark.parametrize("text", ["", "[]", "7", "null", '"x"', "{}", "[" * 100_000, "\x00"])
def test_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(LedgerError, match="not a ledger checkpoint"):
        Checkpoint.from_json(text)


@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize("times", [0, 1, 2, 15, 99, 100, 150, 188, 199, 10**3, 123_456_789, 10**8 + 1, 10**11 + 7])
def test_an_amount_is_told_exactly_and_in_plain_decimals_from_a_millionth_on(name: AccountantName, times: int) -> None:
    """``times``: in hundredths of a millionth."""
    amount = times * get_accountant(name).scale // 10**8
    told, delta = format_cost(name, Cost(amount, times * ATTO // 10**8), delta=True).split(" and delta ")
    for text in (told.split()[1], delta):
        assert Fraction(text) == Fraction(times, 10**8)
        assert ("e" in text) == (0 < times < 100)


def test_every_place_of_a_ledgers_tables_holds_something(tmp_path: Path) -> None:
    """But for the parent of a table's account, and the successor of one whose epoch goes on."""
    open_ledger(tmp_path / "l.sqlite", create=True).close()
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        empty = {
            (table, column)
            for table in tables
            for _, column, _, not_null, _, _ in file.execute(f"SELECT * FROM pragma_table_info('{table}')")
            if not not_null
        }
    assert {"account", "entry", "permit", "answer"} <= set(tables)
    assert empty == {("account", "parent"), ("account", "successor")}
