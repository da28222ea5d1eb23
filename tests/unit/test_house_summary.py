"""The closing line of continuous integration counts what ran, and a run without a pass is no success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import ci_summary

SUITE = '<testsuites><testsuite name="pytest" tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


@pytest.mark.parametrize(
    ("suites", "line", "status"),
    [
        ([(5, 0, 0, 1), (3, 0, 0, 0)], "7 passed, 0 failed, 1 skipped", 0),
        ([(5, 1, 1, 0)], "3 passed, 2 failed, 0 skipped", 1),
        ([(2, 0, 0, 2)], "0 passed, 0 failed, 2 skipped", 1),
        ([], "0 passed, 0 failed, 0 skipped", 1),
    ],
)
def test_totals_over_all_files(
    suites: list[tuple[int, ...]],
    line: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, counts in enumerate(suites):
        (tmp_path / f"{number}.xml").write_text(SUITE.format(*counts), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["ci_summary", str(tmp_path)])
    assert ci_summary.main() == status
    assert capsys.readouterr().out.strip() == line
