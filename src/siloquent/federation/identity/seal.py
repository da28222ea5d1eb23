"""A role's two secret keys: Ed25519 to sign, X25519 to seal. The same message sealed again gives the same bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siloquent.errors import ProtocolError

if TYPE_CHECKING:
    from nacl.public import Box
    from nacl.signing import SigningKey

KEY_BYTES, NONCE_BYTES, SIGNATURE_BYTES = 32, 24, 64
SEAL_BYTES = NONCE_BYTES + 16  # the overhead of sealing: a nonce in front, an authenticator inside
MESSAGE, HEAD = b"siloquent/msg/1", b"siloquent/head/1"


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The secret keys of one role; never printed, never sent."""

    sign_seed: bytes
    seal_seed: bytes
    _signer: SigningKey = field(init=False, compare=False)
    _boxes: dict[str, Box] = field(init=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        from nacl.signing import SigningKey

        if len(self.sign_seed) != KEY_BYTES or len(self.seal_seed) != KEY_BYTES:
            raise ValueError("a key has 32 bytes")
        object.__setattr__(self, "_signer", SigningKey(self.sign_seed))

    @classmethod
    def generate(cls) -> Keys:
        """Generate keys from the system's random source."""
        return cls(os.urandom(KEY_BYTES), os.urandom(KEY_BYTES))  # allowed: keys, no noise

    @property
    def sign_key(self) -> str:
        """The public key that checks this role's signatures, in hex."""
        return bytes(self._signer.verify_key).hex()

    @property
    def seal_key(self) -> str:
        """The public key that others seal for, in hex."""
        from nacl.public import PrivateKey

        return bytes(PrivateKey(self.seal_seed).public_key).hex()

    def sign(self, label: bytes, content: bytes) -> bytes:
        """Sign ``label`` and ``content`` with this role's key; labels separate the uses of signatures."""
        signature: bytes = self._signer.sign(label + content).signature
        return signature

    def seal(self, to: str, context: bytes, plain: bytes) -> bytes:
        """Seal ``plain`` so that only the holder of the public key ``to`` can open it: nonce, then ciphertext.

        The nonce is a keyed hash of context and content: other content has another nonce, and a message that is sent
        again after a restart has the same bytes. ``context`` must be unambiguous (a header).
        """
        mac = hashlib.blake2b(key=self._derive_nonce_key(), digest_size=64)
        mac.update(len(context).to_bytes(4, "big") + context + plain)
        return bytes(self._build_box(to).encrypt(plain, mac.digest()[:NONCE_BYTES]))

    def open(self, sender: str, sealed: bytes) -> bytes:
        """Open a message that the holder of the public key ``sender`` sealed for this role.

        Raises:
            ProtocolError: ``bad_seal``: it was sealed otherwise, or was changed.
        """
        from nacl.exceptions import CryptoError

        try:
            return bytes(self._build_box(sender).decrypt(sealed))
        except (CryptoError, ValueError):
            raise ProtocolError("bad_seal") from None

    def _derive_nonce_key(self) -> bytes:
        return hashlib.blake2b(b"siloquent/nonce/1", key=self.seal_seed, digest_size=32).digest()

    def _build_box(self, peer: str) -> Box:
        from nacl.public import Box, PrivateKey, PublicKey

        if peer not in self._boxes:
            self._boxes[peer] = Box(PrivateKey(self.seal_seed), PublicKey(bytes.fromhex(peer)))
        return self._boxes[peer]


def is_signed_by(sign_key: str, label: bytes, content: bytes, signature: bytes) -> bool:
    """Return whether the holder of the public key ``sign_key`` signed ``content`` under ``label``."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(bytes.fromhex(sign_key)).verify(label + content, signature)
    except BadSignatureError:
        return False
    return True
