"""A bundle: the folder that makes a process one role of one federation. Its files are for its owner's eyes alone."""

from __future__ import annotations

import json
import os
import shlex
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import NotAllowed, ProtocolError, SchemaError, WorkspaceError
from siloquent.federation.channel.base import RoleKind
from siloquent.federation.extra import require_extra
from siloquent.federation.roster import KINDS, Roster, read_roster
from siloquent.federation.seal import KEY_BYTES, Keys

if TYPE_CHECKING:
    from siloquent.federation.certificates import Named

BUNDLE, CA, TLS, TLS_KEY, ROSTER = "bundle.toml", "ca.pem", "tls.pem", "tls.key", "roster.json"
IDENTITY_KEY, SEAL_KEY = "identity.key", "seal.key"
STATE = "state"
SECRET = (TLS_KEY, IDENTITY_KEY, SEAL_KEY)
MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Bundle:
    """One role's folder, read and checked: name, kind, keys, and the roster that it accepted."""

    folder: Path
    name: str
    kind: RoleKind
    keys: Keys
    roster: Roster

    @property
    def state(self) -> Path:
        """Where journal and mailbox live; made on first use, for the owner's eyes alone."""
        folder = self.folder / STATE
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def certificate(self) -> Named:
        """What this role's TLS certificate says."""
        from cryptography import x509

        from siloquent.federation.certificates import named

        return named(x509.load_pem_x509_certificate((self.folder / TLS).read_bytes()))

    def client_context(self) -> ssl.SSLContext:
        """TLS 1.3 to the relay: this federation's CA alone, never the system's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cafile=self.folder / CA)
        context.load_cert_chain(self.folder / TLS, self.folder / TLS_KEY)
        return context

    def warnings(self) -> list[str]:
        """What an operator should hear at every start: a certificate that will soon expire."""
        from siloquent.federation.certificates import WARN_DAYS

        days = self.certificate().days_left
        if days > WARN_DAYS:
            return []
        return [f"The certificate of {self.name} expires in {max(days, 0):.0f} days: siloquent federation renew"]


def read_bundle(folder: Path) -> Bundle:
    """The role that lives in ``folder``.

    Raises:
        WorkspaceError: no bundle, or one whose roster was not accepted yet.
        NotAllowed: another user of this machine could read its keys, or the roster is not this CA's.
        ProtocolError: ``certificate_refused``: keys, certificate and roster do not belong together.
    """
    require_extra()
    if not (folder / BUNDLE).is_file():
        raise WorkspaceError(f"{folder} holds no {BUNDLE}.", fix="siloquent federation init FILE -o DIR")
    refuse_loose_modes(folder)
    name, kind = _who(folder)
    for needed in (CA, TLS, ROSTER):
        if not (folder / needed).is_file():
            fix = f"siloquent federation accept ANSWER --bundle {shlex.quote(str(folder))}"
            raise WorkspaceError(f"The bundle of {name} has no {needed}: it is not part of a federation yet.", fix=fix)
    roster = read_roster(read_small(folder / ROSTER), read_small(folder / CA))
    bundle = Bundle(folder, name, kind, read_keys(folder), roster)
    _check_belongs(bundle)
    return bundle


def read_keys(folder: Path) -> Keys:
    """The two secret keys of a bundle.

    Raises:
        WorkspaceError: a file is missing or is no key.
    """
    seeds = []
    for file in (IDENTITY_KEY, SEAL_KEY):
        try:
            seed = bytes.fromhex(read_small(folder / file).decode().strip())
        except (OSError, ValueError):
            raise WorkspaceError(f"{folder / file} is no key.", fix="siloquent federation request NAME") from None
        if len(seed) != KEY_BYTES:
            raise WorkspaceError(f"{folder / file} is no key of {KEY_BYTES} bytes.")
        seeds.append(seed)
    return Keys(*seeds)


def make_folder(folder: Path, name: str, kind: RoleKind, keys: Keys, tls_key: bytes) -> None:
    """A new bundle with fresh keys in it, readable by its owner alone.

    Raises:
        WorkspaceError: the folder is there and not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise WorkspaceError(f"{folder} is not empty.", fix="name another folder, or move this one away")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_private(folder / BUNDLE, f"format = 1\nname = {json.dumps(name)}\nkind = {json.dumps(kind)}\n".encode())
    write_private(folder / IDENTITY_KEY, keys.sign_seed.hex().encode() + b"\n")
    write_private(folder / SEAL_KEY, keys.seal_seed.hex().encode() + b"\n")
    write_private(folder / TLS_KEY, tls_key)


def write_private(path: Path, content: bytes) -> None:
    """Put ``content`` in place of ``path`` at once, readable by its owner alone."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)


def read_small(path: Path) -> bytes:
    """A file of at most 1 MiB.

    Raises:
        SchemaError: it is larger.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise SchemaError(f"{path} is larger than {MOST_BYTES} bytes.")
    return content


def refuse_loose_modes(folder: Path) -> None:
    """Refuse a bundle whose secrets other users of this machine could read.

    Raises:
        NotAllowed: the folder or a key is open to others.
    """
    loose = [folder] if folder.stat().st_mode & 0o077 else []
    loose += [folder / file for file in SECRET if (folder / file).exists() and (folder / file).stat().st_mode & 0o077]
    if loose:
        quoted = shlex.quote(str(folder))
        fix = f"chmod 700 {quoted} && chmod 600 {quoted}/*.key"
        raise NotAllowed(f"Other users of this machine could read {', '.join(map(str, loose))}.", fix=fix)


def _who(folder: Path) -> tuple[str, RoleKind]:
    import tomllib

    try:
        values = tomllib.loads(read_small(folder / BUNDLE).decode())
        name, kind, form = str(values["name"]), values["kind"], values["format"]
    except (KeyError, ValueError):
        raise SchemaError(f"{folder / BUNDLE} does not name a role.") from None
    if form != 1 or kind not in KINDS:
        raise SchemaError(f"{folder / BUNDLE} is of another format.", fix="pip install --upgrade siloquent")
    return name, kind


def _check_belongs(bundle: Bundle) -> None:
    """Keys, certificate and roster entry are of one role; else peers would refuse it one by one."""
    certificate, role = bundle.certificate(), bundle.roster.role(bundle.name)
    fits = (
        (certificate.kind, certificate.name) == (bundle.kind, bundle.name)
        and role.kind == bundle.kind
        and (role.sign_key, role.seal_key) == (bundle.keys.sign_key, bundle.keys.seal_key)
        and certificate.serial not in bundle.roster.revoked
    )
    if not fits:
        raise ProtocolError("certificate_refused", role=bundle.name)
