"""Certificates and public keys from others: short ones only, of kinds that are quick to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.foreign.documents import DocumentTooLarge

if TYPE_CHECKING:
    from cryptography import x509

MAX_CERTIFICATE = 2**16
MAX_KEY = 2**12


def load_certificate(pem: bytes) -> x509.Certificate:
    """The certificate in a PEM text.

    Raises:
        ValueError: it holds none; TooMuch: it is longer than any.
    """
    from cryptography import x509

    if len(pem) > MAX_CERTIFICATE:
        raise DocumentTooLarge(f"a certificate of more than {MAX_CERTIFICATE} bytes")
    return x509.load_pem_x509_certificate(pem)


def load_public_key(der: bytes) -> Any:
    """The public key in DER bytes, of any kind.

    Raises:
        ValueError: it is none; TooMuch: it is longer than any. UnsupportedAlgorithm: of a kind that is not known.
    """
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if len(der) > MAX_KEY:
        raise DocumentTooLarge(f"a key of more than {MAX_KEY} bytes")
    return load_der_public_key(der)
