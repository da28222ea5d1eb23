"""The roster: the roles of a federation and their keys; public, signed by its CA, the same file for every role."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from siloquent.errors import NotAllowed, ProtocolError, SchemaError, UnknownName
from siloquent.federation.channel.base import NAME, Member, Members, RoleKind
from siloquent.federation.identity.fingerprint import compute_fingerprint
from siloquent.federation.messages.payload import encode_canonical, parse
from siloquent.fixes import UseOption, run

FORMAT = 1
KINDS: tuple[RoleKind, ...] = ("party", "worker", "moderator", "relay")
KEY = re.compile(r"[0-9a-f]{64}")
MAX_ROLES = 256
MAX_TEXT = 200
_ADDRESS = re.compile(r"https://(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9a-f:]+\]):(?P<port>[0-9]{1,5})")


def _find_near_name(text: str) -> str:
    """Find a valid role name close to ``text``.

    >>> _find_near_name("North Clinic"), _find_near_name("2")
    ('north-clinic', 'role-2')
    """
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (slug if slug[:1].isalpha() else f"role-{slug}".strip("-"))[:32].strip("-")


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """One entry: name, kind, owner, and its two public keys in hex (Ed25519 to sign, X25519 to seal)."""

    name: str
    kind: RoleKind
    owner: str
    sign_key: str
    seal_key: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            told = f"{self.name!r} is not a valid name of a role: a-z, 0-9 and -, a letter first, at most 32."
            raise SchemaError(told, fix=f"call it {_find_near_name(str(self.name))}")
        if self.kind not in KINDS:
            raise SchemaError(f"Role {self.name!r} is a {self.kind!r}, not one of {', '.join(KINDS)}.")
        if not isinstance(self.owner, str) or not 0 < len(self.owner) <= MAX_TEXT or not self.owner.isprintable():
            told = f"Role {self.name!r} must name an owner of 1 to {MAX_TEXT} printable characters."
            raise SchemaError(told, fix=UseOption("owner", "North Clinic"))
        if not all(isinstance(key, str) and KEY.fullmatch(key) for key in (self.sign_key, self.seal_key)):
            raise SchemaError(f"Role {self.name!r} lacks a key of 32 bytes in hex.")

    def to_json(self) -> dict[str, str]:
        """Return the entry as stored in the roster's file."""
        return {"name": self.name, "kind": self.kind, "owner": self.owner, "sign": self.sign_key, "seal": self.seal_key}

    @classmethod
    def from_json(cls, entry: Any) -> RosterEntry:
        """Parse the role that an entry describes.

        Raises:
            SchemaError: it is not a valid entry.
        """
        if not isinstance(entry, Mapping) or set(entry) != {"name", "kind", "owner", "sign", "seal"}:
            raise SchemaError("A role holds name, kind, owner, sign and seal.")
        return cls(entry["name"], entry["kind"], entry["owner"], entry["sign"], entry["seal"])


@dataclass(frozen=True, slots=True)
class Roster:
    """All roles of a federation. ``version`` grows with every change; ``revoked`` holds serial numbers of certificates.

    ``ca`` is the SHA-256 of the CA's certificate: a roster of another CA belongs to another federation.
    """

    name: str
    relay: str
    version: int
    ca: str
    roles: tuple[RosterEntry, ...]
    revoked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SchemaError(
                f"{self.name!r} is not a valid federation name: use a-z, 0-9 and -, starting with a letter."
            )
        if not isinstance(self.relay, str) or not _ADDRESS.fullmatch(self.relay):
            raise SchemaError(f"relay = {self.relay!r} is not an address such as 'https://relay.example.org:8443'.")
        if not isinstance(self.version, int) or self.version < 1 or len(self.roles) > MAX_ROLES:
            raise SchemaError(f"A roster has a version from 1 and at most {MAX_ROLES} roles.")
        names = [role.name for role in self.roles]
        if len(set(names)) != len(names):
            raise SchemaError("Two roles have the same name.", fix="name every role differently")
        if sum(role.kind == "relay" for role in self.roles) > 1:
            raise SchemaError("A federation needs exactly one relay.")

    @property
    def digest(self) -> str:
        """The SHA-256 over the signed part, in hex, as carried by headers."""
        return hashlib.sha256(self.encode_body()).hexdigest()

    @property
    def words(self) -> str:
        """The eight words that owners compare before they accept."""
        return compute_fingerprint(self.encode_body())

    @property
    def host(self) -> str:
        """The relay's host name or address."""
        found = _ADDRESS.fullmatch(self.relay)
        assert found is not None
        return found["host"].strip("[]")

    @property
    def port(self) -> int:
        """The relay's port."""
        return int(self.relay.rpartition(":")[2])

    def get_role(self, name: str) -> RosterEntry:
        """Return the role with this name.

        Raises:
            UnknownName: there is no such role.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownName("role", name, [role.name for role in self.roles])

    def list_by_kind(self, kind: RoleKind) -> tuple[RosterEntry, ...]:
        """Return all roles of one kind, in order."""
        return tuple(role for role in self.roles if role.kind == kind)

    def build_members(self, names: tuple[str, ...]) -> Members:
        """Return the members of a session, in the roster's order.

        Raises:
            UnknownName: one of ``names`` is not in the roster.
        """
        for name in names:
            self.get_role(name)
        chosen = [Member(role.name, role.kind, role.owner) for role in self.roles if role.name in names]
        return Members(tuple(chosen))

    def add_role(self, role: RosterEntry) -> Roster:
        """Return this roster with ``role`` added, or replacing the role with its name; one version later."""
        known = [role if old.name == role.name else old for old in self.roles]
        if role not in known:
            known.append(role)
        return replace(self, roles=tuple(known), version=self.version + 1)

    def remove_role(self, name: str, serials: tuple[str, ...]) -> Roster:
        """Return this roster without a role, whose certificates are revoked; one version later."""
        self.get_role(name)
        left = tuple(role for role in self.roles if role.name != name)
        revoked = tuple(sorted({*self.revoked, *serials}))
        return replace(self, roles=left, revoked=revoked, version=self.version + 1)

    def encode_body(self) -> bytes:
        """Encode the part that the CA signs, in canonical form."""
        return encode_canonical(
            {
                "format": FORMAT,
                "name": self.name,
                "relay": self.relay,
                "version": self.version,
                "ca": self.ca,
                "roles": [role.to_json() for role in self.roles],
                "revoked": list(self.revoked),
            }
        )

    def list_warnings(self) -> list[str]:
        """Return weaknesses of the ownership: one owner of all workers, or a party that owns all workers but one."""
        workers, parties = self.list_by_kind("worker"), self.list_by_kind("party")
        owners = [role.owner for role in workers]
        told = []
        if workers and len(set(owners)) == 1:
            told.append(f"{owners[0]} owns all workers: together they can test guesses about values.")
        for party in parties:
            others = len(owners) - owners.count(party.owner)
            if party.owner in owners and others <= 1 and len(workers) > 1:
                told.append(f"{party.owner} owns party {party.name} and all workers but {others}.")
        return told


def sign_roster(roster: Roster, ca_key: Any) -> bytes:
    """Build the roster's file: its body and the CA's signature over it."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature: bytes = ca_key.sign(b"siloquent/roster/1" + roster.encode_body(), ec.ECDSA(hashes.SHA256()))
    return encode_canonical({"roster": parse(roster.encode_body()), "signature": signature.hex()})


def read_roster(text: bytes, ca_pem: bytes) -> Roster:
    """Read the roster in a file after checking its signature against the CA that this role already trusts.

    Raises:
        NotAllowed: unsigned or signed by another CA.
        SchemaError: not a roster.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from siloquent.foreign.certificates import load_certificate

    roster, signature = _read(text)
    ca = load_certificate(ca_pem)
    key = ca.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SchemaError("The CA's key is not a P-256 key.")
    try:
        key.verify(signature, b"siloquent/roster/1" + roster.encode_body(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise NotAllowed("The roster is not signed by this federation's CA.", fix="get it from the operator") from None
    if roster.ca != ca.fingerprint(hashes.SHA256()).hex():
        raise NotAllowed("The roster names another CA.", fix="get it from the operator")
    return roster


def _read(text: bytes) -> tuple[Roster, bytes]:
    try:
        document = parse(text.strip())
        body, signature = document["roster"], bytes.fromhex(document["signature"])
        if body["format"] != FORMAT or set(body) != {"format", "name", "relay", "version", "ca", "roles", "revoked"}:
            raise SchemaError("The roster has a different format.", fix="pip install --upgrade siloquent")
        roles = tuple(RosterEntry.from_json(entry) for entry in body["roles"])
        revoked = tuple(str(serial) for serial in body["revoked"])
        return Roster(body["name"], body["relay"], body["version"], body["ca"], roles, revoked), signature
    except (ProtocolError, KeyError, TypeError, ValueError):
        raise SchemaError("The file is not a roster.", fix=run("federation accept", "roster.json")) from None
