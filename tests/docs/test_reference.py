"""The reference is complete: every code, key, option and verb is there, and made pages are up to date."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts import make_reference

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_made_pages_are_up_to_date() -> None:
    assert make_reference.out_of_date() == []


def test_every_error_code_has_a_section_and_advice() -> None:
    codes = [kind.code for kind in make_reference.error_classes()]
    page = (REFERENCE / "errors.md").read_text("utf-8")
    assert len(codes) == len(set(codes))
    assert set(make_reference.ADVICE) == set(codes)
    assert [code for code in codes if f"\n## {code}\n" not in page] == []


def test_every_key_of_a_table_file_is_explained() -> None:
    from siloquent.schema.files import models as file_models

    models = [
        kind for kind in vars(file_models).values() if isinstance(kind, type) and issubclass(kind, file_models.Strict)
    ]
    keys = {name.rstrip("_") for model in models for name in model.model_fields}
    page = (REFERENCE / "table-file.md").read_text("utf-8")
    assert {"lo", "max_rows", "delta_events"} <= keys
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_every_key_of_a_workspace_file_is_explained() -> None:
    from siloquent.schema import workspace

    page = (REFERENCE / "workspace-file.md").read_text("utf-8")
    assert sorted(key for key in workspace._KEYS if f"`{key}`" not in page and f"`[{key}]`" not in page) == []


def test_every_term_that_a_table_file_or_an_answer_uses_is_in_the_glossary() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = [
        "unit",
        "adjacency",
        "account",
        "epoch",
        "receipt",
        "permit",
        "event",
        "workload",
        "sensitivity",
        "block",
        "cell",
        "index",
        "OUTSIDE",
    ]
    assert [term for term in terms if f"**{term}**" not in page] == []


@pytest.mark.skipif(find_spec("siloquent.cli") is None, reason="there is no command line yet")
def test_every_command_is_in_the_reference() -> None:
    import typer

    from siloquent.cli.app import app

    page = (REFERENCE / "cli.md").read_text("utf-8")
    found = [path for path, _ in make_reference.commands("siloquent", typer.main.get_command(app))]
    assert len(found) > 1
    assert [path for path in found if f"\n## {path}\n" not in page] == []


def test_a_missing_section_would_be_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stale = tmp_path / "errors.md"
    stale.write_text(make_reference.errors_page().replace("budget_exceeded", "budget_gone"), encoding="utf-8")
    monkeypatch.setattr(make_reference, "pages", lambda: {stale: make_reference.errors_page})
    assert make_reference.out_of_date() == ["errors.md"]
