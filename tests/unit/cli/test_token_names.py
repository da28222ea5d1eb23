"""A token is revoked by its id, or by its user's name while that is clear."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from siloquent.cli.app import run
from siloquent.server.access.tokens import Tokens
from siloquent.server.store import Store


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokens:
    sq.create_workspace(tmp_path / "w")
    monkeypatch.chdir(tmp_path / "w")
    found = Tokens(Store(tmp_path / "w" / "server.sqlite"))
    for name in ("ana", "bo", "bo"):
        found.create(name, "analyst")
    return found


def list_open(tokens: Tokens) -> list[str]:
    return sorted(str(one["name"]) for one in tokens.list() if not one["revoked"])


def test_a_user_with_one_open_token_is_named(tokens: Tokens) -> None:
    assert run(["token", "revoke", "ana"]) == 0
    assert list_open(tokens) == ["bo", "bo"]


def test_with_two_the_ids_are_told_and_none_is_revoked(tokens: Tokens, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "revoke", "bo"]) == 2
    said = capsys.readouterr().err
    ids = [str(one["id"]) for one in tokens.list() if one["name"] == "bo"]
    assert all(one in said for one in ids)
    assert list_open(tokens) == ["ana", "bo", "bo"]
    assert run(["token", "revoke", ids[0]]) == 0
    assert run(["token", "revoke", "bo"]) == 0
    assert list_open(tokens) == ["ana"]


def test_a_name_that_is_not_known_is_corrected(tokens: Tokens, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "revoke", "anna"]) == 2
    assert "Did you mean 'ana'?" in capsys.readouterr().err
    assert list_open(tokens) == ["ana", "bo", "bo"]
