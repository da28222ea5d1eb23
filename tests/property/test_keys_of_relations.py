"""Questions about several linked tables are finished, and found again, as their tables were declared at the charge."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest

import siloquent as sq
from property.test_keys_of_every_account import list_charged
from property.test_keys_outlive_changes import KEY, Stopped
from siloquent.errors import KeyReused, SchemaError, UnknownName
from siloquent.ledger.base_ledger import BaseLedger
from unit.linked_shop import CU, LINES, ORDERS, write_shop
from unit.test_related_rows import BY_PERSON, LINED, NEVER, SOME

JOINED = "l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c"
QUESTIONS = {
    "join": f"SELECT seg, COUNT(*), SUM(q) FROM {JOINED} GROUP BY seg",
    "filtered join": f"SELECT COUNT(*) FROM {JOINED} WHERE q > 1 AND seg = 'A'",
    "join of two": "SELECT SUM(q - d) FROM l JOIN o ON l.o = o.o",
    "person's rows": f"SELECT SUM(m) FROM (SELECT cu.c, MAX(q) AS m FROM {JOINED} GROUP BY cu.c) t",
    "left join": "SELECT seg, COUNT(o.o) FROM cu LEFT JOIN o ON cu.c = o.c GROUP BY seg",
    "without a match": "SELECT COUNT(*) FROM cu LEFT JOIN o ON cu.c = o.c WHERE o.o IS NULL",
    "exists": SOME,
    "not exists": NEVER,
    "exists by a link": LINED,
    "exists by person": BY_PERSON,
    "exists of the same table": "SELECT SUM(q) FROM l WHERE EXISTS (SELECT 1 FROM l AS m WHERE m.customer = l.customer "
    "AND m.d >= 10)",
    "in": "SELECT SUM(q) FROM l WHERE customer IN (SELECT c FROM cu WHERE seg = 'A')",
    "join and exists": "SELECT SUM(q) FROM l JOIN o ON l.o = o.o WHERE EXISTS (SELECT 1 FROM cu WHERE cu.c = o.c AND "
    "seg = 'A')",
}
SEG = 'values = ["A", "B"]\nnull = "drop"'
Edit = tuple[str, str, str]
CHANGES: dict[str, list[Edit]] = {
    "bounds": [("l", "lo = 0\nhi = 10\n", "lo = 1\nhi = 5\n")],
    "wider bounds": [("l", "hi = 100", "hi = 200")],
    "outside": [("l", 'hi = 10\noutside = "clamp"', 'hi = 3\noutside = "drop"')],
    "values": [("cu", SEG, 'values = ["C", "A"]\nnull = "drop"')],
    "missing": [("cu", SEG, SEG.replace("drop", "cell"))],
    "two tables": [("cu", '["A", "B"]', '["B", "A"]'), ("l", "hi = 10\n", "hi = 12\n")],
    "another column": [("l", 'name = "d"\ntype = "integer"\nlo = 0', 'name = "d"\ntype = "integer"\nlo = -9')],
}
FILES = {"cu": CU, "o": ORDERS, "l": LINES}
EXACT = " BUDGET 30000 EPSILON"
"""So much that the noise of the largest sum is below one half, except once in e^16."""


def ask(folder: Path, question: str, key: str | None = KEY) -> set[tuple[str, ...]]:
    """The rows with whole numbers, without the ends of intervals."""
    with sq.open(folder) as session:
        answer = session.ask(f"{question}{EXACT}", key=key)
        shown = [place for place, name in enumerate(answer.columns) if not name.endswith(("low", "high"))]
        return {tuple(_round(row[place]) for place in shown) for row in answer.rows}


def _round(value: object) -> str:
    return f"{float(str(value)):.0f}" if not isinstance(value, str | None) else str(value)


def charge(folder: Path, question: str, *, is_settled: bool) -> None:
    def settle(*_: object, **more: object) -> None:
        raise Stopped

    if is_settled:
        ask(folder, question)
        return
    with patch.object(BaseLedger, "settle", settle), pytest.raises(Stopped):
        ask(folder, question)


def change(folder: Path, edits: list[Edit]) -> None:
    for table, old, new in edits:
        file = folder / "schemas" / f"{table}.toml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


PAIRS = list(product(QUESTIONS, CHANGES))[::2]
"""The number of changes is odd, so that each question meets half of them, and each change half of the questions."""


@pytest.mark.parametrize(("name", "changed"), PAIRS)
def test_a_charge_is_finished_by_the_declarations_of_then(name: str, changed: str, tmp_path: Path) -> None:
    question, is_settled = QUESTIONS[name], PAIRS.index((name, changed)) % 4 == 3
    expected = ask(write_shop(tmp_path / "then"), question, None)
    folder = write_shop(tmp_path / "w")
    charge(folder, question, is_settled=is_settled)
    charged = list_charged(folder)
    change(folder, CHANGES[changed])
    assert ask(folder, question) == expected
    assert list_charged(folder) == charged
    assert ask(folder, question) == expected
    ask(folder, question, "tuesday")  # today's, which is charged
    assert list_charged(folder)[2] > charged[2]


def test_a_charge_that_cannot_be_finished_fits_again_once_the_file_is_put_back(tmp_path: Path) -> None:
    """Other rows of a person count with another ``max_rows``, and the owner took a column back."""
    for number, edit in enumerate(
        [
            ("l", "max_rows = 9", "max_rows = 2"),
            ("cu", 'name = "seg"\ntype = "category"\nvalues = ["A", "B"]', 'name = "seg"\ntype = "boolean"'),
        ]
    ):
        folder = write_shop(tmp_path / f"w{number}")
        charge(folder, QUESTIONS["join"], is_settled=False)
        charged, file = list_charged(folder), folder / "schemas" / f"{edit[0]}.toml"
        text = file.read_text()
        change(folder, [edit])
        with pytest.raises((KeyReused, SchemaError, UnknownName)):
            ask(folder, QUESTIONS["join"])
        assert list_charged(folder) == charged
        file.write_text(text)
        assert ask(folder, QUESTIONS["join"])
        assert list_charged(folder) == charged
