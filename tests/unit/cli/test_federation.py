"""Refusals about bundles name the bundle, so that they can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.cli.commands import Options
from siloquent.cli.federation import accept, find_session
from siloquent.errors import NotAllowed, RequestError
from siloquent.federation import operator
from siloquent.federation.bundle import read_bundle


def test_a_session_that_is_not_there_is_looked_for_in_the_bundle_that_was_named() -> None:
    with pytest.raises(RequestError, match="no session '3f9a'") as refused:
        find_session([], "3f9a", Path("all bundles/north"))
    assert refused.value.fix == "siloquent federation status --bundle 'all bundles/north'"


def test_words_may_be_typed_with_blanks_and_in_capitals_and_must_be_given(tmp_path: Path) -> None:
    described = operator.Described("clinics", "https://relay.example.org:8443", ())
    authority = operator.found(described, tmp_path / "ca")
    request = operator.request("north", "party", "North", tmp_path / "north")
    authority, answers = operator.sign(authority, [request])
    file = tmp_path / "answer.json"
    file.write_bytes(answers["north"])
    for words, told in ((None, "No words were given"), ("other-words", "not those that were given")):
        with pytest.raises(NotAllowed, match=told) as refused:
            accept(Options(quiet=True), file, tmp_path / "north", words)
        assert f"accept {file} --bundle {tmp_path / 'north'} --words" in refused.value.fix
    accept(Options(quiet=True), file, tmp_path / "north", authority.roster.words.replace("-", " ").upper())
    assert read_bundle(tmp_path / "north").roster == authority.roster
