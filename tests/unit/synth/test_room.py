"""Rows that do not fit into memory, and references of other people, are refused before anything is paid."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from siloquent.errors import RequestError
from siloquent.schema import Attribute
from siloquent.synth import references
from siloquent.synth.plan import memory_limit
from unit.synth.test_before_spending import asked, number, numbers, opened

ATTRIBUTES = (
    Attribute("zip", "integer", lo=Decimal(0), hi=Decimal(9), grid=Decimal(1)),
    Attribute("city", "category", values=("a", "b,c", "d\ne")),
)


@pytest.mark.parametrize(("rows", "columns", "memory"), [(10**6, 40, 9 * 10**8), (100, 3, 7_000), (1, 1, 23)])
def test_rows_that_need_more_memory_than_there_is_are_refused_with_what_fits(
    rows: int, columns: int, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "find_memory_limit", lambda: memory)
    with pytest.raises(RequestError, match=r"GB of memory.*rows=[1-9]"):
        memory_limit.require_memory(rows, columns)
    monkeypatch.setattr(memory_limit, "find_memory_limit", lambda: rows * columns * memory_limit.CELL_BYTES)
    memory_limit.require_memory(rows, columns)
    memory_limit.require_memory(None, columns)


def test_memory_is_at_most_that_of_the_machine() -> None:
    import os

    assert 0 < memory_limit.find_memory_limit() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_reference_is_read_as_places(tmp_path: Path) -> None:
    file = tmp_path / "zips.csv"
    file.write_text('city,more,zip\n"b,c",x,3\na,,\n"d\ne",y,9\nz,,5\na\n')
    found = references._read_indices(file, ATTRIBUTES)
    outside = ATTRIBUTES[0].index(None)
    assert [one.tolist() for one in found] == [
        [3, outside, 9, 5, outside],
        [1, 0, 2, ATTRIBUTES[1].index("z"), 0],
    ]
    assert found[0].dtype == np.int64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zip,town\n1,a\n", "lacks the column city"),
        ("x" * (2**20 + 1), "not a CSV file in UTF-8"),
        ("", "lacks the column"),
    ],
)
def test_a_file_that_is_no_reference_is_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "zips.csv"
    file.write_text(text)
    with pytest.raises(RequestError, match=words):
        references._read_indices(file, ATTRIBUTES)


@pytest.mark.parametrize("engine", ["tree", "best"])
def test_a_table_of_more_rows_than_memory_holds_still_gets_its_answer(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(3_000, "a", "b"), hint=3_000)
    spec = asked(quality="fast" if engine == "tree" else engine)
    monkeypatch.setattr(memory_limit, "find_memory_limit", lambda: 1_000 * 2 * memory_limit.CELL_BYTES)
    made = session.synth.synthesize(spec, key="k")
    assert made.rows.num_rows == 500
    assert any("500 of about" in note and "fit in memory here" in note for note in made.report.known)
    assert session.synth.synthesize(spec, key="k").rows.equals(made.rows)
    monkeypatch.setattr(memory_limit, "find_memory_limit", lambda: 10**12)
    assert abs(session.synth.synthesize(spec, key="k").rows.num_rows - 3_000) < 500


def test_rows_that_fit_leave_half_of_the_memory() -> None:
    assert memory_limit.limit_rows(10, 3) == 10
    assert memory_limit.limit_rows(10**15, 3) * 3 * memory_limit.CELL_BYTES <= memory_limit.find_memory_limit() / 2
