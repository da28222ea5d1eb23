"""Untrusted certificates and public keys: only short ones, of kinds that are fast to parse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.foreign.documents import DocumentTooLarge

if TYPE_CHECKING:
    from cryptography import x509

MAX_CERTIFICATE = 2**16
MAX_KEY = 2**12


def load_certificate(pem: bytes) -> x509.Certificate:
    """Return the certificate in a PEM text.

    Raises:
        ValueError: It holds none. DocumentTooLarge: It is longer than any certificate.
    """
    from cryptography import x509

    if len(pem) > MAX_CERTIFICATE:
        raise DocumentTooLarge(f"a certificate of more than {MAX_CERTIFICATE} bytes")
    return x509.load_pem_x509_certificate(pem)


def load_public_key(der: bytes) -> Any:
    """Return the public key in DER bytes, of any kind.

    Raises:
        ValueError: Not a key. DocumentTooLarge: Longer than any key. UnsupportedAlgorithm: An unknown kind of key.
    """
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if len(der) > MAX_KEY:
        raise DocumentTooLarge(f"a key of more than {MAX_KEY} bytes")
    return load_der_public_key(der)
