"""X.509 for the connections: a P-256 CA per federation, a short-lived certificate per role, ``silo:KIND:NAME``."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from siloquent.errors import SchemaError
from siloquent.federation.channel.base import NAME, RoleKind

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

LEAF_DAYS, CA_DAYS = 90, 730
WARN_DAYS, FAIL_DAYS = 14, 3
SKEW = timedelta(minutes=5)  # certificates are valid at once on machines whose clocks are slightly late


@dataclass(frozen=True, slots=True)
class CertificateName:
    """The content of a certificate: role, kind and expiry."""

    kind: str
    name: str
    serial: str
    until: datetime

    @property
    def days_left(self) -> float:
        """The days until it expires; negative afterwards."""
        return (self.until - datetime.now(UTC)) / timedelta(days=1)


def generate_key() -> EllipticCurvePrivateKey:
    """Generate a P-256 key."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def encode_key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """Encode a private key as the PEM file that TLS reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(pem: bytes) -> EllipticCurvePrivateKey:
    """Read the P-256 key in a file.

    Raises:
        SchemaError: another kind of key, or not a key.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)  # allowed: a bundle's own key
    except ValueError:
        raise SchemaError("The file is not a private key.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SchemaError("The private key is not a P-256 key.")
    return key


def encode_cert_pem(certificate: x509.Certificate) -> bytes:
    """Encode a certificate as the PEM file that TLS reads."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def make_ca(name: str, key: EllipticCurvePrivateKey, *, now: datetime | None = None) -> x509.Certificate:
    """Create a federation's self-signed CA certificate, valid for two years; it can sign only leaves."""
    from cryptography import x509

    issuer = _build_subject(f"siloquent federation {name}")
    builder = _create_builder(issuer, issuer, key.public_key(), CA_DAYS, now or datetime.now(UTC))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _sign_certificate(builder.add_extension(_build_usage(signs=True), critical=True), key)


def make_leaf(
    ca: x509.Certificate,
    ca_key: EllipticCurvePrivateKey,
    public_key: EllipticCurvePublicKey,
    *,
    kind: RoleKind,
    name: str,
    host: str = "",
    days: float = LEAF_DAYS,
    now: datetime | None = None,
) -> x509.Certificate:
    """Create a role's certificate; only a relay's is valid for a server, and only at ``host``."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"silo:{kind}:{name}")]
    if kind == "relay":
        names += [_build_host_name(host)]
        if host in ("127.0.0.1", "localhost", "::1"):
            names += [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    use = ExtendedKeyUsageOID.SERVER_AUTH if kind == "relay" else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = _create_builder(_build_subject(name), ca.subject, public_key, days, now or datetime.now(UTC))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_build_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=True)
    return _sign_certificate(builder.add_extension(x509.SubjectAlternativeName(names), critical=False), ca_key)


def read_certificate_name(certificate: x509.Certificate) -> CertificateName:
    """Read the role, kind and expiry of a certificate.

    Raises:
        SchemaError: its name is not of the form ``silo:KIND:NAME``.
    """
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise SchemaError("The certificate has no name of a role.") from None
    for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
        who = parse_uri_name(uri)
        if who is not None:
            serial = format(certificate.serial_number, "x")
            return CertificateName(who[0], who[1], serial, certificate.not_valid_after_utc)
    raise SchemaError("The certificate has no name of a role.")


def is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Return whether ``ca`` signed ``certificate``; does not check whether they have expired."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def parse_uri_name(uri: str) -> tuple[str, str] | None:
    """Parse kind and name in ``silo:KIND:NAME``; None if it has another form.

    >>> parse_uri_name("silo:party:north")
    ('party', 'north')
    """
    scheme, _, rest = uri.partition(":")
    kind, _, name = rest.partition(":")
    is_ours = scheme == "silo" and kind in ("party", "worker", "moderator", "relay") and NAME.fullmatch(name)
    return (kind, name) if is_ours else None


def _build_subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _create_builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, days: float, now: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - SKEW).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _sign_certificate(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(issued_by, critical=False).sign(key, hashes.SHA256())


def _build_usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _build_host_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
