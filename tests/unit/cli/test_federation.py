"""Refusals about bundles name the bundle, so that they can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.cli.base.command import Options
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.cli.federation.commands import accept, find_session, request_certificate, revoke
from siloquent.cli.federation.roles import approve_session, refuse_session
from siloquent.errors import NotAllowed, RequestError, SchemaError, SiloquentError, UnknownName
from siloquent.federation.channel.base import RoleState
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import SessionRecord
from siloquent.federation.role_process import open_journal


def say(refused: SiloquentError) -> str:
    """The fix as the command line shows it."""
    return refused.remedy.render(CommandLanguage())


def test_a_session_that_is_not_there_is_looked_for_in_the_bundle_that_was_named() -> None:
    with pytest.raises(RequestError, match="no session '3f9a'") as refused:
        find_session([], "3f9a", Path("all bundles/north"))
    assert say(refused.value) == "siloquent federation status --bundle 'all bundles/north'"


def test_words_may_be_typed_with_blanks_and_in_capitals_and_must_be_given(tmp_path: Path) -> None:
    described = operator.FederationDescription("clinics", "https://relay.example.org:8443", ())
    authority = operator.create_authority(described, tmp_path / "ca")
    request = operator.create_request("north", "party", "North", tmp_path / "north")
    authority, answers = operator.sign(authority, [request])
    file = tmp_path / "answer.json"
    file.write_bytes(answers["north"])
    for words, told in ((None, "--words is missing"), ("other-words", "do not match the roster")):
        with pytest.raises(NotAllowed, match=told) as refused:
            accept(Options(quiet=True), file, tmp_path / "north", words)
        assert f"accept {file} --bundle {tmp_path / 'north'} --words" in say(refused.value)
    accept(Options(quiet=True), file, tmp_path / "north", authority.roster.words.replace("-", " ").upper())
    assert read_bundle(tmp_path / "north").roster == authority.roster


@pytest.mark.parametrize(
    ("decided", "state", "says"),
    [("refused", "invited", "already refused"), ("", "aborted", "already aborted"), ("approved", "running", "running")],
)
def test_what_was_decided_is_said_before_anybody_is_asked_for_a_yes(
    tmp_path: Path, decided: str, state: RoleState, says: str
) -> None:
    roles = (("relay", "relay", "R"), ("north", "party", "N"), ("office", "moderator", "O"))
    operator.init(operator.FederationDescription("clinics", "https://127.0.0.1:8443", roles), tmp_path / "all")
    bundle, session = tmp_path / "all" / "north", "ab" * 32
    asked = Invitation("echo/1", "test", service="echo", tables=("visits",), columns=("age",))
    told = {"invitation": asked.to_json(), "members": ["north", "office"], "deadline": 2**40}
    with open_journal(read_bundle(bundle)) as journal:
        journal.add_session(SessionRecord(session, ("north", "office"), "office", 2**40, told, "invited", 0.0))
        assert not decided or journal.decide(session, decided)
        journal.set_state(session, state)
    for decide in (approve_session, refuse_session):
        with pytest.raises(RequestError, match=says) as refused:
            decide(Options(quiet=True), session[:8], bundle)
        assert say(refused.value) == f"siloquent party list --bundle {bundle}"


def test_a_role_that_is_not_there_is_not_revoked_and_the_nearest_is_offered(tmp_path: Path) -> None:
    roles = (("relay", "relay", "R"), ("north", "party", "N"))
    operator.init(operator.FederationDescription("clinics", "https://127.0.0.1:8443", roles), tmp_path / "all")
    ca = tmp_path / "all" / "ca"
    for name, fix in (("nroth", "north"), ("nobody", "NAME")):
        with pytest.raises(UnknownName, match=f"No role named '{name}'") as refused:
            revoke(Options(quiet=True), name, ca)
        assert say(refused.value) == f"siloquent federation revoke {fix} --ca {ca}"


def test_a_name_that_is_none_is_answered_with_one_that_is(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="not a valid name of a role") as refused:
        request_certificate(
            Options(quiet=True), "North Clinic", "party", "North", tmp_path / "b", tmp_path / "request.json"
        )
    assert say(refused.value) == "call it north-clinic"
    assert not (tmp_path / "b").exists()
