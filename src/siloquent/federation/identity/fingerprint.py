"""A digest as eight words that two people can compare over the telephone."""

from __future__ import annotations

import hashlib

CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"
WORDS = 8


def compute_fingerprint(content: bytes) -> str:
    """Return the first 128 bits of SHA-256 of ``content`` as eight words of five letters.

    Source:
        "A Proposal for Proquints: Identifiers that are Readable, Spellable, and Pronounceable" (2009): 16 bits a word.

    >>> compute_fingerprint(b"roster")
    'sipag-kutup-talah-topap-nojus-bafip-hotar-damas'
    """
    digest = hashlib.sha256(content).digest()
    return "-".join(_encode_word(int.from_bytes(digest[2 * k : 2 * k + 2], "big")) for k in range(WORDS))


def _encode_word(bits: int) -> str:
    letters = []
    for shift, alphabet in ((12, CONSONANTS), (10, VOWELS), (6, CONSONANTS), (4, VOWELS), (0, CONSONANTS)):
        letters.append(alphabet[bits >> shift & (len(alphabet) - 1)])
    return "".join(letters)
