"""Releases of an earlier revision are told apart from forged ones: what the ledger keeps is compared always."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from journeys.documents import faults
from siloquent.cli.app import run
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.documents.releases import build_release_document, build_release_verdict_document
from siloquent.errors import ReleaseError
from siloquent.releases import read_manifest, rules
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.rules import RULES, ReleaseRules
from unit.releases.earlier import (
    MEASURED,
    change_manifest,
    forge_arrays,
    forge_table,
    list_tasks,
    make_again,
    restore_workspace,
    rewrite,
    verify,
)

ANSWERS = ("r-000003", "r-000005", "r-000007", "r-000009", "r-000013")
SYNTHESIS, SKETCH, OFFER, SHARE = "r-000015", "r-000017", "r-000019", "r-000021"
RELEASES = (*ANSWERS, SYNTHESIS, SKETCH, OFFER, SHARE)
TABLES = {SYNTHESIS: "rows.parquet", SKETCH: "sizes.parquet", OFFER: "counts.parquet", SHARE: "numbers.parquet"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return restore_workspace(tmp_path / "stays")


def leaves(plain: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document."""
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    if not inner:
        yield path
    for key, value in inner:
        yield from leaves(value, *path, key)


def put(place: tuple[Any, ...], value: Any) -> Any:
    """A change of a document at one place."""

    def change(plain: Any) -> None:
        *outer, last = place
        for key in outer:
            plain = plain[key]
        plain[last] = value

    return change


def test_the_workspace_holds_releases_of_every_task(folder: Path) -> None:
    assert tuple(list_tasks(folder)) == RELEASES
    assert set(list_tasks(folder).values()) == RULES.keys() - {"profile"}
    assert all(not read_manifest(folder / "releases" / one).rules for one in RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_no_honest_release_of_an_earlier_version_is_condemned(folder: Path, release: str) -> None:
    verdict = verify(folder, folder / "releases" / release)
    assert verdict.problems == ()
    if release == SYNTHESIS:  # that revision wrote other names into model.npz
        assert (verdict.outcome, verdict.compared, verdict.uncompared) == ("other_rules", False, ("model.npz",))
        assert "made by siloquent 0.1.0 by other rules: 1 file was not compared (model.npz)" in verdict.checked
    else:
        assert (verdict.outcome, verdict.compared, verdict.uncompared) == ("verified", True, ())
    assert list(faults(build_release_verdict_document(verdict), json_schema("release-verdict"))) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_made_again_names_its_rules_and_is_compared_in_full(folder: Path, release: str) -> None:
    again = make_again(folder, release)
    manifest = read_manifest(again)
    assert manifest.rules == rules.dump_rules(manifest.task)
    assert sorted(manifest.rules) == ["fit", "measurement", "rendering"]
    assert list(faults(build_release_document(manifest), json_schema("release"))) == []
    assert verify(folder, again).outcome == "verified"
    change_manifest(again, lambda plain: [file.pop("rules") for file in plain["files"]])  # as an earlier version does
    assert read_manifest(again).rules == {}
    assert verify(folder, again).outcome == "verified"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "part", [("receipt", "hash"), ("receipt", "seq"), ("receipt", "ledger"), ("task",), ("schema",)]
)
def test_a_forged_receipt_task_or_declaration_is_condemned(folder: Path, release: str, part: tuple[str, ...]) -> None:
    path = folder / "releases" / release
    change_manifest(path, put(part, 1 if part[-1] == "seq" else "sha256:" + "0" * 64))
    if part == ("schema",) and release in ANSWERS:  # then its files are not rendered, and its request names another
        assert verify(folder, path).problems == (
            "The ledger does not confirm the declaration that its manifest names.",
        )
    assert verify(folder, path).outcome == "invalid"


@pytest.mark.parametrize("release", [SYNTHESIS, SKETCH, OFFER, SHARE])
def test_a_forged_measurement_is_condemned(folder: Path, release: str) -> None:
    path = folder / "releases" / release
    name = MEASURED[list_tasks(folder)[release]]
    rewrite(path, name, forge_arrays(path / name))
    assert verify(folder, path).problems == (f"{name} does not hold what the ledger keeps.",)


@pytest.mark.parametrize("release", [SKETCH, OFFER, SHARE])
@pytest.mark.parametrize("field", ["ledger", "seq", "hash", "account"])
def test_a_forged_receipt_inside_a_measurement_is_condemned(folder: Path, release: str, field: str) -> None:
    path = folder / "releases" / release
    name = MEASURED[list_tasks(folder)[release]]
    _, words = unpack((path / name).read_bytes(), (".*",))
    part = {**(words["parts"][0] if "parts" in words else words["part"]), field: 2 if field == "seq" else "x"}
    rewrite(path, name, forge_arrays(path / name, words={"parts": [part]} if "parts" in words else {"part": part}))
    assert verify(folder, path).problems == (f"{name} does not hold what the ledger keeps.",)


@pytest.mark.parametrize("release", ANSWERS)
def test_forged_answers_are_condemned(folder: Path, release: str) -> None:
    path = folder / "releases" / release
    rewrite(path, "answer.parquet", forge_table(path / "answer.parquet"))
    assert verify(folder, path).problems == ("answer.parquet does not hold what the ledger keeps.",)


@pytest.mark.parametrize("release", [SKETCH, OFFER, SHARE])
def test_forged_tables_of_measurements_are_condemned(folder: Path, release: str) -> None:
    path, name = folder / "releases" / release, TABLES[release]
    rewrite(path, name, forge_table(path / name))
    assert verify(folder, path).problems == (f"{name} does not hold what the ledger keeps.",)


def test_forged_rows_of_unknown_rules_never_pass_in_full_and_are_named(folder: Path) -> None:
    path = folder / "releases" / SYNTHESIS
    rewrite(path, "rows.parquet", forge_table(path / "rows.parquet"))
    verdict = verify(folder, path)
    assert (verdict.outcome, verdict.uncompared) == ("other_rules", ("rows.parquet", "model.npz"))


def test_a_report_with_another_receipt_is_condemned(folder: Path) -> None:
    path = folder / "releases" / SYNTHESIS
    report = json.loads((path / "report.json").read_text())
    rewrite(path, "report.json", json.dumps({**report, "receipt": ["00", 5, "00"]}).encode())
    assert verify(folder, path).problems == ("report.json does not hold what the ledger keeps.",)


@pytest.mark.parametrize("release", [ANSWERS[0], pytest.param(SYNTHESIS, marks=pytest.mark.slow), SKETCH, OFFER, SHARE])
def test_every_value_of_a_manifest_is_compared_or_named(folder: Path, release: str) -> None:
    path = folder / "releases" / release
    text = (path / "manifest.json").read_text()
    worded = {"sentence", "unit", "promise", "query", "known", "constraints", "rows", "columns", "grid"}
    passed = []
    for place in leaves(json.loads(text)):
        if any(isinstance(key, int) and key > 0 for key in place):
            continue  # of a list, its first value is tried
        change_manifest(path, put(place, "other"))
        with suppress(ReleaseError):  # a manifest that cannot be read
            verdict = verify(folder, path)
            if verdict.outcome != "invalid":
                passed.append(place)
                assert "manifest.json" in verdict.uncompared or place == ("package",), place
        (path / "manifest.json").write_text(text)
    assert ("package",) in passed
    assert [place for place in passed if not worded & {str(key) for key in place}] == [("package",)]
    assert ("guarantee", "account") not in passed


@pytest.mark.parametrize("release", [ANSWERS[0], pytest.param(SYNTHESIS, marks=pytest.mark.slow), SKETCH, OFFER, SHARE])
@pytest.mark.parametrize("later", ["rendering", "fit"])
def test_a_later_version_compares_what_its_own_rules_give(
    folder: Path, release: str, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_again(folder, release)
    task = read_manifest(path).task
    now = RULES[task]
    raised = ReleaseRules(now.measurement, now.fit + (later == "fit"), now.rendering + (later == "rendering"))
    monkeypatch.setitem(rules.RULES, task, raised)  # type: ignore[arg-type]
    assert verify(folder, path).outcome == "verified"  # nothing differs after all
    change_manifest(path, put(("known", 0), "said otherwise"))
    verdict = verify(folder, path)
    assert (verdict.outcome, verdict.uncompared) == ("other_rules", ("manifest.json",))
    assert any(note.startswith("The guarantee by the ledger: ") for note in verdict.notes)
    table = TABLES.get(release, "answer.parquet")
    rewrite(path, table, forge_table(path / table))
    verdict = verify(folder, path)
    if later == "rendering":
        assert verdict.problems == (f"{table} does not hold what the ledger keeps.",)
    else:
        assert (verdict.outcome, verdict.uncompared) == ("other_rules", (table, "manifest.json"))


def test_other_words_of_a_synthesis_pass_and_other_figures_do_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_again(folder, SYNTHESIS)
    monkeypatch.setitem(rules.RULES, "synth", ReleaseRules(2, RULES["synth"].fit, RULES["synth"].rendering + 1))  # type: ignore[arg-type]
    report, page = json.loads((path / "report.json").read_text()), (path / "report.html").read_text()
    rewrite(path, "report.html", page.replace("Privacy", "The promise").encode())
    rewrite(path, "report.json", json.dumps({**report, "known": ["another sentence"]}).encode())
    rewrite(path, "model.npz", forge_arrays(path / "model.npz", words={"sentence": "another sentence"}))
    verdict = verify(folder, path)
    assert (verdict.outcome, verdict.uncompared) == ("other_rules", ("model.npz", "report.html", "report.json"))
    for name, forged in (
        ("report.json", json.dumps({**report, "rows": report["rows"] + 1}).encode()),
        ("model.npz", forge_arrays(path / "model.npz")),
    ):
        before = (path / name).read_bytes()
        rewrite(path, name, forged)
        assert verify(folder, path).problems == (f"{name} does not hold what the ledger keeps.",)
        rewrite(path, name, before)


def scale_beliefs(path: Path, factor: float) -> bytes:
    """The model's file with every probability times ``factor``."""
    arrays, words = unpack(path.read_bytes(), (".*",))
    return pack({**arrays, "beliefs": arrays["beliefs"] * factor}, words)


def test_a_model_of_another_processor_is_the_same_up_to_rounding(folder: Path) -> None:
    path = make_again(folder, SYNTHESIS)
    model, rows = (path / "model.npz").read_bytes(), forge_table(path / "rows.parquet")
    rewrite(path, "model.npz", scale_beliefs(path / "model.npz", 1 + 1e-12))
    assert (path / "model.npz").read_bytes() != model
    verdict = verify(folder, path)
    assert (verdict.outcome, verdict.uncompared) == ("verified", ())
    assert "Another processor or library made model.npz: its real numbers agree up to rounding." in verdict.notes
    rewrite(path, "rows.parquet", rows)  # which may be drawn otherwise from such a model, or forged
    verdict = verify(folder, path)
    assert (verdict.outcome, verdict.uncompared) == ("other_rules", ("rows.parquet",))
    rewrite(path, "model.npz", scale_beliefs(path / "model.npz", 1.001))
    assert set(verify(folder, path).problems) == {
        f"{name} does not hold what the ledger keeps." for name in ("rows.parquet", "model.npz")
    }
    rewrite(path, "model.npz", model)
    assert verify(folder, path).problems == ("rows.parquet does not hold what the ledger keeps.",)


def test_a_measurement_that_this_version_cannot_read_is_still_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "releases" / SYNTHESIS
    monkeypatch.setattr("siloquent.synth.spec.measurements.RULES", 3)
    verdict = verify(folder, path)
    assert verdict.outcome == "other_rules"
    assert verdict.uncompared == ("rows.parquet", "model.npz", "report.html", "manifest.json")
    rewrite(path, "measurements.npz", forge_arrays(path / "measurements.npz"))
    assert verify(folder, path).problems == ("measurements.npz does not hold what the ledger keeps.",)


def test_the_command_has_an_exit_status_of_its_own(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = ("--workspace", str(folder), "verify", SYNTHESIS)
    assert run(at) == 9
    said = capfd.readouterr()
    assert "by other rules: 1 file was not compared (model.npz)." in said.out
    assert "repeat the query with its key" in said.err
    assert "Do not use" not in said.err
    assert run((*at, "--json")) == 9
    told = json.loads(capfd.readouterr().out)
    assert (told["ok"], told["outcome"], told["uncompared"]) == (True, "other_rules", ["model.npz"])
    assert run(("--workspace", str(folder), "verify", SKETCH)) == 0
