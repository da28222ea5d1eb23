"""The operator's actions (create a CA, sign requests, renew, revoke) and each owner's responses.

``init`` makes all bundles in one place, for trials: the person who runs it has seen every private key. Otherwise each
owner runs ``create_request`` locally, the operator ``sign``, and each owner ``accept`` after comparing the roster's
eight words.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import NotAllowed, ProtocolError, SchemaError, WorkspaceError
from siloquent.federation.channel.base import RoleKind
from siloquent.federation.extra import require_extra
from siloquent.federation.identity.bundle import (
    BUNDLE,
    CA,
    ROSTER,
    TLS,
    TLS_KEY,
    Bundle,
    build_missing_bundle,
    make_folder,
    read_bundle,
    read_keys,
    read_small,
    refuse_loose_modes,
    write_private,
)
from siloquent.federation.identity.roster import KINDS, Roster, RosterEntry, read_roster, sign_roster
from siloquent.federation.identity.seal import Keys, is_signed_by
from siloquent.federation.messages.payload import encode_canonical, parse
from siloquent.fixes import UseOption, build_fix, run
from siloquent.foreign import load_toml

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_FOLDER, CA_KEY, ISSUED = "ca", "ca.key", "issued.json"
ANSWER = "answer.json"
REQUEST = b"siloquent/request/1"
DESCRIBED = (
    'write role = [{ name = "north", kind = "party", owner = "North Clinic" }], as in docs/tutorials/federation.md'
)


@dataclass(frozen=True, slots=True)
class FederationDescription:
    """The operator's file: the federation's name, its relay's address, and its roles."""

    name: str
    relay: str
    roles: tuple[tuple[str, RoleKind, str], ...]


@dataclass(frozen=True, slots=True)
class Authority:
    """The operator's own folder: the CA with its key, the roster, and the issued certificates by role."""

    folder: Path
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey
    roster: Roster
    issued: dict[str, list[str]]

    def issue(self, name: str, kind: RoleKind, public_key: Any) -> bytes:
        """Issue a certificate for a role and store its serial number so that it can be revoked."""
        from siloquent.federation.identity.certificates import encode_cert_pem, make_leaf, read_certificate_name

        leaf = make_leaf(self.certificate, self.key, public_key, kind=kind, name=name, host=self.roster.host)
        self.issued.setdefault(name, []).append(read_certificate_name(leaf).serial)
        return encode_cert_pem(leaf)

    def save(self) -> None:
        """Write the roster and the issued certificates; the roster last, since other processes read it."""
        write_private(self.folder / ISSUED, encode_canonical(self.issued))
        write_private(self.folder / ROSTER, sign_roster(self.roster, self.key))


def read_description(path: Path) -> FederationDescription:
    """Read the operator's TOML file.

    Raises:
        SchemaError: it is not valid; the message names the missing entry.
    """
    try:
        values = load_toml(read_small(path))
        roles = tuple((str(role["name"]), role["kind"], str(role["owner"])) for role in values.pop("role"))
        described = FederationDescription(str(values.pop("name")), str(values.pop("relay")), roles)
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        why = f"{wrong.args[0]} is missing" if isinstance(wrong, KeyError) else str(wrong)
        detail = f"{path} needs name, relay and role = [{{ name, kind, owner }}, ...]: {why}."
        raise SchemaError(detail, fix=DESCRIBED) from None
    if values:
        raise SchemaError(f"{path} has unknown keys: {', '.join(sorted(values))}.", fix=DESCRIBED)
    kinds, names = [kind for _, kind, _ in roles], [name for name, _, _ in roles]
    if any(kind not in KINDS for kind in kinds) or kinds.count("relay") > 1:
        told = f"{path}: a kind is one of {', '.join(KINDS)}, and there is at most one relay."
        raise SchemaError(told, fix=DESCRIBED)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"{path} names {', '.join(twice)} twice.", fix="give each role a name of its own")
    return described


def init(described: FederationDescription, folder: Path) -> Roster:
    """Create a whole federation at once: a CA and one bundle per role, in folders named after them.

    Raises:
        WorkspaceError: a folder already exists.
    """
    from siloquent.federation.identity.certificates import encode_key_pem, generate_key

    authority = create_authority(described, folder / CA_FOLDER)
    roles, with_relay = [], described.roles
    if "relay" not in [kind for _, kind, _ in described.roles]:
        with_relay = (*described.roles, ("relay", "relay", "operator"))
    for name, kind, owner in with_relay:
        keys, tls = Keys.generate(), generate_key()
        make_folder(folder / name, name, kind, keys, encode_key_pem(tls))
        write_private(folder / name / TLS, authority.issue(name, kind, tls.public_key()))
        roles.append(RosterEntry(name, kind, owner, keys.sign_key, keys.seal_key))
    authority = replace(authority, roster=replace(authority.roster, roles=tuple(roles)))
    authority.save()
    for name, _, _ in with_relay:
        _give(authority, folder / name)
    return authority.roster


def create_authority(described: FederationDescription, folder: Path) -> Authority:
    """Create a CA with an empty roster.

    Raises:
        WorkspaceError: the folder exists and is not empty.
    """
    require_extra()
    from cryptography.hazmat.primitives import hashes

    from siloquent.federation.identity.certificates import encode_cert_pem, encode_key_pem, generate_key, make_ca

    if folder.exists() and any(folder.iterdir()):
        raise WorkspaceError(f"{folder} is not empty.", fix="choose another folder")
    key = generate_key()
    certificate = make_ca(described.name, key)
    roster = Roster(described.name, described.relay, 1, certificate.fingerprint(hashes.SHA256()).hex(), ())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_private(folder / CA, encode_cert_pem(certificate))
    write_private(folder / CA_KEY, encode_key_pem(key))
    authority = Authority(folder, certificate, key, roster, {})
    authority.save()
    return authority


def open_authority(folder: Path) -> Authority:
    """Open the operator's folder made by ``create_authority`` or ``init``.

    Raises:
        WorkspaceError: it has no CA.
        NotAllowed: other users of this machine could read its key.
    """
    require_extra()
    from siloquent.federation.identity.certificates import read_key
    from siloquent.foreign.certificates import load_certificate

    if not (folder / CA_KEY).is_file():
        raise WorkspaceError(
            f"{folder} does not contain a CA.",
            fix=build_fix(run("federation init", "FILE", "-o", "DIR"), ", then ", UseOption("ca", "DIR/ca")),
        )
    refuse_loose_modes(folder)
    pem = read_small(folder / CA)
    issued = parse(read_small(folder / ISSUED))
    roster = read_roster(read_small(folder / ROSTER), pem)
    return Authority(folder, load_certificate(pem), read_key(read_small(folder / CA_KEY)), roster, issued)


def create_request(name: str, kind: RoleKind, owner: str, folder: Path) -> bytes:
    """Create a role's keys and the request that the operator signs; no private key leaves the folder.

    Raises:
        WorkspaceError: the folder exists and is not empty.
    """
    require_extra()
    from siloquent.federation.identity.certificates import encode_key_pem, generate_key

    keys = Keys.generate()
    role = RosterEntry(name, kind, owner, keys.sign_key, keys.seal_key)
    make_folder(folder, name, kind, keys, encode_key_pem(generate_key()))
    return _build_request(role, keys, folder)


def renew(bundle: Path) -> bytes:
    """Create a request for a new certificate over a fresh TLS key; the other keys, and so the role, stay.

    The fresh key is stored beside the old one until ``accept`` receives its certificate.
    """
    require_extra()
    from siloquent.federation.identity.certificates import encode_key_pem, generate_key

    whole = read_bundle(bundle)
    write_private(bundle / f"next-{TLS_KEY}", encode_key_pem(generate_key()))
    role = whole.roster.get_role(whole.name)
    return _build_request(role, whole.keys, bundle, tls_key=f"next-{TLS_KEY}")


def sign(authority: Authority, requests: Iterable[bytes]) -> tuple[Authority, dict[str, bytes]]:
    """Add the requested roles to the roster, and return it with each role's response for ``accept``.

    Raises:
        SchemaError: an item is not a request, or is not signed by the keys that it names.
        NotAllowed: a role of this name exists with other keys: ``revoke`` it first.
    """
    read = [_read_request(text) for text in requests]
    for role, _ in read:
        old = next((known for known in authority.roster.roles if known.name == role.name), None)
        if old is not None and old != role:
            detail = f"Role {role.name} is in the roster with other keys, kind or owner."
            raise NotAllowed(detail, fix=run("federation revoke", role.name))
        if old is None:
            authority = replace(authority, roster=authority.roster.add_role(role))
    certificates = {role.name: authority.issue(role.name, role.kind, public_key) for role, public_key in read}
    authority.save()
    ca = read_small(authority.folder / CA).decode()
    roster = read_small(authority.folder / ROSTER).decode()
    answers = {
        name: encode_canonical({"format": 1, "name": name, "ca": ca, "tls": pem.decode(), "roster": roster})
        for name, pem in certificates.items()
    }
    return authority, answers


def revoke(authority: Authority, name: str) -> Authority:
    """Remove ``name`` from the roster; no relay with the new roster accepts its certificates."""
    roster = authority.roster.remove_role(name, tuple(authority.issued.get(name, ())))
    revoked = replace(authority, roster=roster)
    revoked.save()
    return revoked


def read_offer(text: bytes, folder: Path) -> Roster:
    """Read and check the roster in a response or roster file without accepting it: its words are to be compared first.

    Raises:
        NotAllowed: it was issued by another CA than the one accepted before, or older than the current roster.
        SchemaError: it is neither.
    """
    require_extra()
    _, _, ca, roster_text = _split_offer(text, folder)
    if (folder / CA).is_file() and read_small(folder / CA) != ca:
        raise NotAllowed("The roster belongs to another CA.", fix="make a new bundle for another federation")
    roster = read_roster(roster_text, ca)
    if (folder / ROSTER).is_file():
        here = read_roster(read_small(folder / ROSTER), ca)
        if here.version > roster.version:
            detail = f"The bundle has version {here.version} of the roster; this is version {roster.version}."
            raise NotAllowed(detail, fix="ask the operator for the newest one")
    return roster


def accept(text: bytes, folder: Path) -> Bundle:
    """Store the roster (and the certificate, if ``text`` is a response) in the bundle.

    Raises:
        NotAllowed, SchemaError: as ``read_offer``.
        ProtocolError: ``certificate_refused``: the certificate is not for this bundle's keys.
    """
    read_offer(text, folder)
    name, tls, ca, roster_text = _split_offer(text, folder)
    if tls:
        _take_certificate(folder, name, tls)
    write_private(folder / CA, ca)
    write_private(folder / ROSTER, roster_text)
    return read_bundle(folder)


def _give(authority: Authority, folder: Path) -> None:
    for file in (CA, ROSTER):
        shutil.copyfile(authority.folder / file, folder / file)


def _build_request(role: RosterEntry, keys: Keys, folder: Path, tls_key: str = TLS_KEY) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from siloquent.federation.identity.certificates import read_key

    public = read_key(read_small(folder / tls_key)).public_key()
    tls = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo).hex()
    body = {"format": 1, "role": role.to_json(), "tls": tls}
    signature = keys.sign(REQUEST, encode_canonical(body)).hex()
    return encode_canonical({"request": body, "signature": signature})


def _read_request(text: bytes) -> tuple[RosterEntry, Any]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec

    from siloquent.foreign.certificates import load_public_key

    try:
        document = parse(text.strip())
        body, signature = document["request"], bytes.fromhex(document["signature"])
        role = RosterEntry.from_json(body["role"])
        public_key = load_public_key(bytes.fromhex(body["tls"]))
    except (ProtocolError, KeyError, TypeError, ValueError, UnsupportedAlgorithm):
        raise SchemaError(
            "The file is not a request.", fix=run("federation request", "NAME", "--role", "KIND", "--owner", "OWNER")
        ) from None
    good = isinstance(public_key, ec.EllipticCurvePublicKey) and isinstance(public_key.curve, ec.SECP256R1)
    if not good or not is_signed_by(role.sign_key, REQUEST, encode_canonical(body), signature):
        raise SchemaError(f"The request of {role.name} is not signed by the keys that it names.")
    return role, public_key


def _split_offer(text: bytes, folder: Path) -> tuple[str, bytes, bytes, bytes]:
    """Return name, certificate, CA and roster; a bare roster has neither name nor certificate and needs a known CA."""
    try:
        document = parse(text.strip())
        if "tls" in document:
            name, tls, ca, roster = (str(document[key]) for key in ("name", "tls", "ca", "roster"))
            return name, tls.encode(), ca.encode(), roster.encode()
    except (ProtocolError, KeyError, TypeError):
        raise SchemaError("The file is neither an answer nor a roster.") from None
    if not (folder / CA).is_file():
        fix = run("federation accept", ANSWER, "--bundle", folder)
        raise WorkspaceError("This bundle knows no CA yet.", fix=fix)
    return "", b"", read_small(folder / CA), text.strip()


def _take_certificate(folder: Path, name: str, tls: bytes) -> None:
    from siloquent.federation.identity.certificates import read_certificate_name, read_key
    from siloquent.foreign.certificates import load_certificate

    if not (folder / BUNDLE).is_file():
        raise build_missing_bundle(folder)
    refuse_loose_modes(folder)
    read_keys(folder)
    certificate = load_certificate(tls)
    waiting = folder / f"next-{TLS_KEY}"
    for key in (waiting, folder / TLS_KEY):
        if key.is_file() and read_key(read_small(key)).public_key() == certificate.public_key():
            write_private(folder / TLS, tls)
            if key == waiting:
                waiting.replace(folder / TLS_KEY)
            return
    told = f"the answer is for {read_certificate_name(certificate).name}, with keys other than those in {folder}"
    raise ProtocolError("certificate_refused", role=name, where=told, fix="name the bundle that made the request")
