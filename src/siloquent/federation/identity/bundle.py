"""A bundle: the folder that makes a process one role of one federation. Its files are readable only by its owner."""

from __future__ import annotations

import json
import os
import shlex
import ssl
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import NotAllowed, ProtocolError, SchemaError, WorkspaceError
from siloquent.federation.channel.base import RoleKind
from siloquent.federation.extra import require_extra
from siloquent.federation.identity.roster import KINDS, Roster, read_roster
from siloquent.federation.identity.seal import KEY_BYTES, Keys
from siloquent.fixes import RunCommand, UseOption, build_fix, run
from siloquent.foreign import load_toml

if TYPE_CHECKING:
    from cryptography import x509

    from siloquent.federation.identity.certificates import CertificateName

BUNDLE, CA, TLS, TLS_KEY, ROSTER = "bundle.toml", "ca.pem", "tls.pem", "tls.key", "roster.json"
IDENTITY_KEY, SEAL_KEY = "identity.key", "seal.key"
STATE = "state"
SECRET = (TLS_KEY, IDENTITY_KEY, SEAL_KEY)
MAX_BYTES = 2**20
MAX_NAMED = 8
"""The number of nearby bundles named by a refusal."""
MAX_REFUSALS = 3
"""A relay that stops in a first exchange looks like one that refuses a certificate, but not three times in a row."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """One role's folder, read and checked: name, kind, keys, and the accepted roster."""

    folder: Path
    name: str
    kind: RoleKind
    keys: Keys
    roster: Roster

    @property
    def state(self) -> Path:
        """The folder of journal and mailbox; made on first use, readable only by the owner."""
        folder = self.folder / STATE
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def read_certificate(self) -> CertificateName:
        """Read the name, kind and expiry in this role's TLS certificate."""
        from siloquent.federation.identity.certificates import read_certificate_name

        return read_certificate_name(read_certificate(self.folder / TLS))

    def build_client_context(self) -> ssl.SSLContext:
        """Build the TLS 1.3 context for the relay: it trusts only this federation's CA, never the system's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cafile=self.folder / CA)
        context.load_cert_chain(self.folder / TLS, self.folder / TLS_KEY)
        return context

    def list_warnings(self) -> list[str]:
        """Return warnings to show an operator at every start: a certificate that will soon expire."""
        from siloquent.federation.identity.certificates import WARN_DAYS

        days = self.read_certificate().days_left
        if days > WARN_DAYS:
            return []
        told = "has expired" if days <= 0 else f"expires in {days:.0f} days"
        return [f"The certificate of {self.name} {told}: {self._renew()}"]

    def require_valid(self) -> None:
        """Check that the certificate has not expired, before anything waits for a relay that would refuse it.

        Raises:
            ProtocolError: ``certificate_expired``.
        """
        if self.read_certificate().days_left <= 0:
            raise ProtocolError("certificate_expired", role=self.name, fix=self._renew())

    def explain_refusal(self, failed: ProtocolError, times: int) -> ProtocolError | None:
        """Return the error that ends this role when its relay answered ``failed`` that many times; None: wait.

        A relay's own certificate may have expired, or its process may have ended: its operator fixes that.
        """
        if failed.code not in ("certificate_expired", "certificate_refused"):
            return None
        if self.read_certificate().days_left <= 0:
            return ProtocolError("certificate_expired", role=self.name, fix=self._renew())
        if failed.code == "certificate_expired" or times < MAX_REFUSALS:
            return None
        check = run("federation check", "--bundle", self.folder)
        fix = build_fix(check, f"; ask the operator whether {self.name} was revoked")
        return ProtocolError("certificate_refused", role=self.name, where=self.roster.relay, fix=fix)

    def _renew(self) -> RunCommand:
        return run("federation renew", "--bundle", self.folder)


def read_bundle(folder: Path) -> Bundle:
    """Read the role's bundle in ``folder``.

    Raises:
        WorkspaceError: no bundle, or one whose roster was not accepted yet.
        NotAllowed: another user of this machine could read its keys, or the roster is not this CA's.
        ProtocolError: ``certificate_refused``: keys, certificate and roster do not belong together.
    """
    require_extra()
    if not (folder / BUNDLE).is_file():
        raise build_missing_bundle(folder)
    refuse_loose_modes(folder)
    name, kind = _read_identity(folder)
    for needed in (CA, TLS, ROSTER):
        if not (folder / needed).is_file():
            fix = _accept(folder)
            raise WorkspaceError(f"The bundle of {name} has no {needed}: it is not part of a federation yet.", fix=fix)
    roster = read_roster(read_small(folder / ROSTER), read_small(folder / CA))
    bundle = Bundle(folder, name, kind, read_keys(folder), roster)
    _check_belongs(bundle)
    return bundle


def build_missing_bundle(folder: Path) -> WorkspaceError:
    """Build the error for a missing bundle: it names bundles nearby, or how to create one."""
    places = (folder.parent, folder, Path("bundles"))
    near = sorted({str(found.parent) for place in places for found in place.glob(f"*/{BUNDLE}")})
    if not near:
        fix = run("federation request", "NAME", "--role", "KIND", "--owner", "OWNER", "--bundle", folder)
        return WorkspaceError(f"{folder} does not contain {BUNDLE}.", fix=fix)
    meant = next(iter(get_close_matches(str(folder), near, n=1)), near[0])
    told = f"{folder} does not contain {BUNDLE}. There are bundles in {', '.join(near[:MAX_NAMED])}."
    return WorkspaceError(told, fix=build_fix("the same command with ", UseOption("bundle", meant)))


def read_certificate(path: Path) -> x509.Certificate:
    """Read the certificate in a bundle's file.

    Raises:
        WorkspaceError: it has no certificate.
    """
    from siloquent.foreign.certificates import load_certificate

    try:
        return load_certificate(read_small(path))
    except ValueError:
        raise WorkspaceError(f"{path} is not a certificate.", fix=_accept(path.parent)) from None


def read_keys(folder: Path) -> Keys:
    """Read the two secret keys of a bundle.

    Raises:
        WorkspaceError: a file is missing or is not a key.
    """
    seeds = []
    for file in (IDENTITY_KEY, SEAL_KEY):
        try:
            seed = bytes.fromhex(read_small(folder / file).decode().strip())
        except (SchemaError, ValueError):
            raise WorkspaceError(
                f"{folder / file} is not a key.",
                fix=run("federation request", "NAME", "--role", "KIND", "--owner", "OWNER"),
            ) from None
        if len(seed) != KEY_BYTES:
            raise WorkspaceError(f"{folder / file} is not a key of {KEY_BYTES} bytes.")
        seeds.append(seed)
    return Keys(*seeds)


def make_folder(folder: Path, name: str, kind: RoleKind, keys: Keys, tls_key: bytes) -> None:
    """Create a bundle with fresh keys, readable only by its owner.

    Raises:
        WorkspaceError: the folder exists and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise WorkspaceError(f"{folder} is not empty.", fix="choose another folder, or move this one")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_private(folder / BUNDLE, f"format = 1\nname = {json.dumps(name)}\nkind = {json.dumps(kind)}\n".encode())
    write_private(folder / IDENTITY_KEY, keys.sign_seed.hex().encode() + b"\n")
    write_private(folder / SEAL_KEY, keys.seal_seed.hex().encode() + b"\n")
    write_private(folder / TLS_KEY, tls_key)


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` with ``content`` atomically, readable only by its owner."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)


def read_small(path: Path) -> bytes:
    """Read a file of at most 1 MiB.

    Raises:
        WorkspaceError: it cannot be read. SchemaError: it is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as failed:
        told = f"{path} cannot be read: {failed.strerror}."
        raise WorkspaceError(told, fix="name an existing file that you may read") from None
    if len(content) > MAX_BYTES:
        raise SchemaError(f"{path} is too large: the limit is {MAX_BYTES} bytes.")
    return content


def refuse_loose_modes(folder: Path) -> None:
    """Check that no other user of this machine can read a bundle's secrets.

    Raises:
        NotAllowed: the folder or a key is open to others.
    """
    loose = [folder] if folder.stat().st_mode & 0o077 else []
    loose += [folder / file for file in SECRET if (folder / file).exists() and (folder / file).stat().st_mode & 0o077]
    if loose:
        quoted = shlex.quote(str(folder))
        fix = f"chmod 700 {quoted} && chmod 600 {quoted}/*.key"
        raise NotAllowed(f"Other users of this machine could read {', '.join(map(str, loose))}.", fix=fix)


def _read_identity(folder: Path) -> tuple[str, RoleKind]:
    try:
        values = load_toml(read_small(folder / BUNDLE))
        name, kind, form = str(values["name"]), values["kind"], values["format"]
    except (KeyError, ValueError):
        raise SchemaError(f"{folder / BUNDLE} does not name a role.") from None
    if form != 1 or kind not in KINDS:
        raise SchemaError(f"{folder / BUNDLE} has a different format.", fix="pip install --upgrade siloquent")
    return name, kind


def _check_belongs(bundle: Bundle) -> None:
    """Check that keys, certificate and roster entry belong to one role; otherwise every peer would refuse it."""
    from siloquent.federation.identity.certificates import is_issued_by, read_certificate_name, read_key

    folder = bundle.folder
    found, role = read_certificate(folder / TLS), bundle.roster.get_role(bundle.name)
    certificate = read_certificate_name(found)
    fits = {
        f"{TLS} is another role's": (certificate.kind, certificate.name) == (bundle.kind, bundle.name),
        f"{TLS} was issued by another CA": is_issued_by(found, read_certificate(folder / CA)),
        f"{TLS} is not of {TLS_KEY}": read_key(read_small(folder / TLS_KEY)).public_key() == found.public_key(),
        f"the roster has another kind for {bundle.name}": role.kind == bundle.kind,
        f"the roster has other keys for {bundle.name}": (role.sign_key, role.seal_key)
        == (bundle.keys.sign_key, bundle.keys.seal_key),
        f"{TLS} is revoked": certificate.serial not in bundle.roster.revoked,
    }
    for wrong, is_well in fits.items():
        if not is_well:
            fix = build_fix(_accept(folder), f", with the operator's newest answer for {bundle.name}")
            raise ProtocolError("certificate_refused", role=bundle.name, where=wrong, fix=fix)


def _accept(folder: Path) -> RunCommand:
    return run("federation accept", "ANSWER", "--bundle", folder)
