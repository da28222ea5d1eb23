"""Bundles and rosters: keys made at home, eight words, renewals, revocations, and files that others may not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from siloquent.cli.base.fixes import CommandLanguage
from siloquent.errors import NotAllowed, ProtocolError, SchemaError, SiloquentError, UnknownName, WorkspaceError
from siloquent.federation.connection_check import check_certificate_days
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import read_bundle, read_small, write_private
from siloquent.federation.identity.certificates import encode_cert_pem, make_leaf, parse_uri_name, read_key
from siloquent.federation.identity.operator import FederationDescription
from siloquent.federation.identity.roster import Roster, RosterEntry, read_roster, sign_roster
from siloquent.federation.role_process import open_peer

DESCRIBED = FederationDescription(
    "clinics",
    "https://relay.example.org:8443",
    (("north", "party", "North"), ("w1", "worker", "University"), ("office", "moderator", "Registry")),
)


def say(refused: SiloquentError) -> str:
    """The fix as the command line shows it."""
    return refused.remedy.render(CommandLanguage())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    operator.init(DESCRIBED, tmp_path / "all")
    return tmp_path / "all"


def test_init_makes_a_bundle_for_each_role_and_a_relay(made: Path) -> None:
    roles = {folder.name: read_bundle(folder).kind for folder in made.iterdir() if folder.name != "ca"}
    assert roles == {"north": "party", "w1": "worker", "office": "moderator", "relay": "relay"}
    assert len({read_bundle(made / name).roster.digest for name in roles}) == 1


def test_secrets_are_their_owners_alone(made: Path) -> None:
    folder = made / "north"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o077 for path in folder.glob("*.key")} == dict.fromkeys(
        ("tls.key", "identity.key", "seal.key"), 0
    )
    (folder / "seal.key").chmod(0o640)
    with pytest.raises(NotAllowed, match="could read") as refused:
        read_bundle(folder)
    assert "chmod" in say(refused.value)


def test_the_way_of_real_use_ends_with_keys_that_nobody_else_saw(made: Path, tmp_path: Path) -> None:
    request = operator.create_request("hill", "party", "Hill", tmp_path / "hill")
    for secret in ("tls.key", "identity.key", "seal.key"):
        assert (tmp_path / "hill" / secret).read_bytes().strip() not in request
    with pytest.raises(WorkspaceError, match="not part of a federation yet"):
        read_bundle(tmp_path / "hill")
    authority, answers = operator.sign(operator.open_authority(made / "ca"), [request])
    offered = operator.read_offer(answers["hill"], tmp_path / "hill")
    assert offered.words == authority.roster.words
    assert len(offered.words.split("-")) == 8
    hill = operator.accept(answers["hill"], tmp_path / "hill")
    assert (hill.kind, hill.roster.version) == ("party", 2)
    north = operator.accept(read_small(made / "ca" / "roster.json"), made / "north")
    assert north.roster.get_role("hill") == hill.roster.get_role("hill")


def test_an_answer_of_another_role_is_refused(made: Path, tmp_path: Path) -> None:
    requests = [operator.create_request(name, "party", "X", tmp_path / name) for name in ("hill", "lake")]
    _, answers = operator.sign(operator.open_authority(made / "ca"), requests)
    with pytest.raises(ProtocolError, match="certificate"):
        operator.accept(answers["lake"], tmp_path / "hill")


def test_a_roster_of_another_ca_or_an_older_one_is_refused(made: Path, tmp_path: Path) -> None:
    operator.init(DESCRIBED, tmp_path / "other")
    with pytest.raises(NotAllowed, match="not signed"):
        operator.accept(read_small(tmp_path / "other" / "ca" / "roster.json"), made / "north")
    old = read_small(made / "ca" / "roster.json")
    operator.revoke(operator.open_authority(made / "ca"), "w1")
    operator.accept(read_small(made / "ca" / "roster.json"), made / "north")
    with pytest.raises(NotAllowed, match="version 2"):
        operator.accept(old, made / "north")


def test_an_edited_roster_is_refused(made: Path) -> None:
    text = read_small(made / "north" / "roster.json").replace(b"University", b"Universitx")
    with pytest.raises(NotAllowed, match="not signed"):
        read_roster(text, read_small(made / "north" / "ca.pem"))


def test_a_request_that_its_keys_did_not_sign_is_refused(made: Path, tmp_path: Path) -> None:
    request = operator.create_request("hill", "party", "Hill", tmp_path / "hill").replace(b'"Hill"', b'"Hall"')
    with pytest.raises(SchemaError, match="not signed"):
        operator.sign(operator.open_authority(made / "ca"), [request])


def test_a_name_that_is_taken_is_not_given_to_other_keys(made: Path, tmp_path: Path) -> None:
    request = operator.create_request("north", "party", "Thief", tmp_path / "thief")
    with pytest.raises(NotAllowed, match="other keys"):
        operator.sign(operator.open_authority(made / "ca"), [request])


def test_renewing_gives_a_fresh_tls_key_and_leaves_the_role(made: Path) -> None:
    before = read_bundle(made / "north")
    serial = before.read_certificate().serial
    key = (made / "north" / "tls.key").read_bytes()
    _, answers = operator.sign(operator.open_authority(made / "ca"), [operator.renew(made / "north")])
    after = operator.accept(answers["north"], made / "north")
    assert (made / "north" / "tls.key").read_bytes() != key
    assert after.read_certificate().serial != serial
    assert after.roster.digest == before.roster.digest
    assert after.keys == before.keys


def test_a_revoked_role_is_gone_and_all_its_certificates_are_named(made: Path) -> None:
    serial = read_bundle(made / "w1").read_certificate().serial
    roster = operator.revoke(operator.open_authority(made / "ca"), "w1").roster
    assert serial in roster.revoked
    with pytest.raises(UnknownName):
        roster.get_role("w1")
    with pytest.raises(UnknownName, match="No role"):
        operator.revoke(operator.open_authority(made / "ca"), "w9")


def test_keys_of_another_bundle_do_not_belong(made: Path) -> None:
    write_private(made / "north" / "seal.key", read_small(made / "w1" / "seal.key"))
    with pytest.raises(ProtocolError, match="certificate was rejected"):
        read_bundle(made / "north")


@pytest.mark.parametrize(("days", "state", "warned"), [(60, "good", 0), (10, "warn", 1), (2, "bad", 1), (-1, "bad", 1)])
def test_a_certificate_that_ends_soon_is_told(made: Path, days: float, state: str, warned: int) -> None:
    authority = operator.open_authority(made / "ca")
    key = read_key(read_small(made / "north" / "tls.key"))
    now = datetime.now(UTC) - timedelta(days=30)
    leaf = make_leaf(
        authority.certificate, authority.key, key.public_key(), kind="party", name="north", days=days + 30, now=now
    )
    from siloquent.federation.identity.certificates import encode_cert_pem

    write_private(made / "north" / "tls.pem", encode_cert_pem(leaf))
    bundle = read_bundle(made / "north")
    assert check_certificate_days(bundle).state == state
    assert len(bundle.list_warnings()) == warned


def test_one_owner_of_all_workers_is_warned_of() -> None:
    def role(name: str, kind: str, owner: str) -> RosterEntry:
        return RosterEntry(name, kind, owner, "0" * 64, "0" * 64)  # type: ignore[arg-type]

    roster = Roster("x", "https://a:1", 1, "0" * 64, (role("n", "party", "N"), role("w1", "worker", "U")))
    assert "owns all workers" in roster.list_warnings()[0]
    fair = replace(roster, roles=(*roster.roles, role("w2", "worker", "I")))
    assert fair.list_warnings() == []
    near = replace(roster, roles=(*roster.roles, role("w2", "worker", "N")))
    assert "all workers but 1" in near.list_warnings()[0]


@pytest.mark.parametrize(
    "text",
    ["", "name = 'x'", "name = 'x'\nrelay = 'https://a:1'\nrole = 3", "nonsense ="],
)
def test_a_file_that_describes_no_federation_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(SchemaError):
        operator.read_description(tmp_path / "f.toml")


@pytest.mark.parametrize("name", ["North", "", "a b", "1a", "a" * 33, "../x"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(SchemaError):
        RosterEntry(name, "party", "X", "0" * 64, "0" * 64)


def test_a_uri_of_another_form_is_nobody() -> None:
    assert parse_uri_name("silo:worker:w1") == ("worker", "w1")
    assert [parse_uri_name(u) for u in ("silo:boss:w1", "http:worker:w1", "silo:worker:", "silo:worker:W")] == [
        None
    ] * 4


def test_a_folder_that_is_not_empty_is_left_alone(made: Path) -> None:
    with pytest.raises(WorkspaceError, match="not empty"):
        operator.init(DESCRIBED, made)
    roster = read_bundle(made / "north").roster
    authority = operator.open_authority(made / "ca")
    assert read_roster(sign_roster(roster, authority.key), read_small(made / "ca" / "ca.pem")) == roster


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "answer.json", tmp_path):
        with pytest.raises(WorkspaceError, match="cannot be read") as refused:
            read_small(path)
        assert str(path) in refused.value.detail


def test_a_folder_without_a_bundle_names_those_that_are_near(made: Path) -> None:
    with pytest.raises(WorkspaceError, match="does not contain bundle") as refused:
        read_bundle(made / "nort")
    assert say(refused.value) == f"the same command with --bundle {made / 'north'}"


def test_a_folder_far_from_bundles_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkspaceError, match="does not contain bundle") as refused:
        read_bundle(Path("bundle"))
    assert say(refused.value).startswith("siloquent federation request NAME --role KIND --owner OWNER --bundle bundle")


@pytest.mark.parametrize("file", ["tls.pem", "tls.key"])
@pytest.mark.parametrize("other", ["w1", "clinics2"])
def test_files_of_another_role_or_federation_are_refused_and_named(
    made: Path, tmp_path: Path, file: str, other: str
) -> None:
    operator.init(DESCRIBED, tmp_path / "clinics2")
    source = made / "w1" if other == "w1" else tmp_path / "clinics2" / "north"
    write_private(made / "north" / file, (source / file).read_bytes())
    with pytest.raises(ProtocolError, match=r"tls\.pem (is|was) ") as refused:
        read_bundle(made / "north")
    assert refused.value.code == "certificate_refused"
    assert f"accept ANSWER --bundle {made / 'north'}" in say(refused.value)


@pytest.mark.parametrize(
    ("file", "told"),
    [("tls.pem", "not a certificate"), ("tls.key", "not a private key"), ("identity.key", "not a key")],
)
def test_files_that_hold_something_else_are_refused(made: Path, file: str, told: str) -> None:
    write_private(made / "north" / file, b"junk")
    with pytest.raises(SchemaError, match=told):
        read_bundle(made / "north")
    (made / "north" / file).unlink()
    with pytest.raises(SchemaError):
        read_bundle(made / "north")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('name = "clinics\n', "Illegal character|Unterminated"),
        ('name = "c"\nrelay = "https://x:1"\nrole = [{ name = "a", kind = "party" }]', "owner is missing"),
        ('name = "c"\nrelay = "https://x:1"', "role is missing"),
        ('name = "c"\nrelay = "https://x:1"\nrole = [{ name = "a", kind = "party", owner = "A" },'
         ' { name = "a", kind = "worker", owner = "B" }]', "a twice"),
    ],
)  # fmt: skip
def test_a_wrong_description_is_refused_before_a_folder_is_made(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "clinics.toml"
    file.write_text(text)
    with pytest.raises(SchemaError, match=told) as refused:
        operator.read_description(file)
    assert "Error:" not in refused.value.detail


def test_an_expired_certificate_ends_a_role_before_it_waits_for_a_relay(made: Path) -> None:
    authority = operator.open_authority(made / "ca")
    key = read_key(read_small(made / "office" / "tls.key")).public_key()
    before = datetime.now(UTC) - timedelta(days=91)
    leaf = make_leaf(authority.certificate, authority.key, key, kind="moderator", name="office", now=before)
    write_private(made / "office" / "tls.pem", encode_cert_pem(leaf))
    office = read_bundle(made / "office")
    assert "has expired" in office.list_warnings()[0]
    with pytest.raises(ProtocolError) as refused, open_peer(office):
        pass
    assert (refused.value.code, say(refused.value)) == (
        "certificate_expired",
        f"siloquent federation renew --bundle {made / 'office'}",
    )
