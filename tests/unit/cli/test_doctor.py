"""The doctor says what is there, what is missing and what must be mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.cli.workspace.doctor import PACKAGES, examine
from siloquent.session import create_workspace


def found(folder: Path | None) -> dict[str, tuple[str, str]]:
    return {finding.what: (finding.state, finding.fix) for finding in examine(folder)}


def test_a_machine_without_a_workspace_is_well() -> None:
    seen = found(None)
    assert {*PACKAGES, "Python", "clock", "random source", "Java", "extra postgres", "extra spark"} <= set(seen)
    assert seen["workspace"] == ("missing", "siloquent init DIR")
    assert [what for what, (state, _) in seen.items() if state == "bad"] == []


def test_a_missing_java_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    state, fix = found(None)["Java"]
    assert (state, "openjdk" in fix) == ("missing", True)


def test_rows_that_others_may_read_are_named(tmp_path: Path) -> None:
    folder = create_workspace(tmp_path / "clinic").folder
    folder.chmod(0o755)
    (folder / "data").mkdir()
    rows = folder / "data" / "visits.csv"
    rows.write_text("x")
    rows.chmod(0o644)
    (folder / "ledger.sqlite").chmod(0o600)
    assert found(folder)["file modes"] == ("missing", f"chmod o-rwx {folder}")
    folder.chmod(0o750)
    assert found(folder)["file modes"] == ("good", "")


def test_a_ledger_that_does_not_open_must_be_mended(tmp_path: Path) -> None:
    folder = create_workspace(tmp_path / "clinic").folder
    assert found(folder)["ledger"][0] == "good"
    (folder / "ledger.sqlite").write_bytes(b"no database at all")
    state, fix = found(folder)["ledger"]
    assert state == "bad"
    assert fix


def test_a_bundles_certificate_is_looked_at(tmp_path: Path) -> None:
    from siloquent.federation.identity import operator

    folder = create_workspace(tmp_path / "clinic").folder
    roles = (("north", "party", "North"), ("office", "moderator", "Registry"))
    operator.init(operator.FederationDescription("clinics", "https://127.0.0.1:9", roles), folder / "bundles")
    assert found(folder)["bundle north"] == ("good", "")
    (folder / "bundles" / "north" / "seal.key").chmod(0o644)
    state, fix = found(folder)["bundle north"]
    assert (state, "chmod" in fix) == ("bad", True)
