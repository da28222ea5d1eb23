"""Batches of elements: what is refused, and what the group does with the rest."""

from __future__ import annotations

import hashlib

import pytest

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import IDENTITY, POINT, Ristretto, split
from siloquent.federation.crypto.hashing import expand_message, hash_to_group
from siloquent.federation.crypto.points import check_points

GROUP = Ristretto()
P = 2**255 - 19
SOME = hash_to_group(GROUP, [b"one", b"two", b"three"], b"test")


def encoded(number: int) -> bytes:
    return number.to_bytes(POINT, "little")


@pytest.mark.parametrize(
    "bad",
    [
        encoded(P),
        encoded(P + 1),
        encoded(2**255 - 2),
        encoded(2**255 - 1),
        encoded(2**255 | 4),
        encoded(5),
        IDENTITY,
        bytes(31),
        bytes(33),
        SOME[:31],
        SOME[:33],
    ],
    ids=["p", "p+1", "2^255-2", "2^255-1", "top bit", "odd", "identity", "31", "33", "cut", "longer"],
)
def test_a_batch_with_a_bad_encoding_is_refused(bad: bytes) -> None:
    for batch in (bad, SOME + bad, bad + SOME):
        with pytest.raises(ProtocolError, match="does not have the form"):
            check_points(batch)


def test_the_largest_canonical_number_is_not_refused_by_its_size() -> None:
    check_points(encoded(P - 1))


def test_an_element_comes_once_in_a_batch() -> None:
    check_points(SOME)
    with pytest.raises(ProtocolError, match="twice"):
        check_points(SOME + SOME[:POINT])
    check_points(SOME + SOME[:POINT], distinct=False)


def test_an_empty_batch_is_fine() -> None:
    check_points(b"")


def test_a_canonical_number_that_is_no_element_is_found_at_its_first_use() -> None:
    no_element = next(encoded(n) for n in range(2, 100, 2) if not decodes(encoded(n)))
    check_points(no_element)
    scalar = GROUP.reduce_wide(bytes(63) + b"\7")
    with pytest.raises(ProtocolError):
        GROUP.multiply_points(no_element, scalar)
    with pytest.raises(ProtocolError):
        GROUP.require_decodable(no_element)


def decodes(element: bytes) -> bool:
    try:
        GROUP.require_decodable(element)
    except ProtocolError:
        return False
    return True


# RFC 9496, appendix A.1: multiples of the generator.
MULTIPLES = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
]


def test_multiples_of_the_base_point_are_those_of_rfc_9496() -> None:
    scalars = b"".join(n.to_bytes(32, "little") for n in range(4))
    assert [element.hex() for element in split(GROUP.multiply_base(scalars))] == MULTIPLES


def test_the_map_of_uniform_bytes_is_that_of_rfc_9496() -> None:
    # Appendix A.3: SHA-512 of a sentence, mapped.
    digest = hashlib.sha512(b"Ristretto is traditionally a short shot of espresso coffee").digest()
    mapped = GROUP.from_uniform(digest).hex()
    assert mapped == "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46"


# RFC 9380, appendix K.3: expand_message_xmd with SHA-512, 32 bytes.
K3_TAG = b"QUUX-V01-CS02-with-expander-SHA512-256"
K3 = {
    b"": "6b9a7312411d92f921c6f68ca0b6380730a1a4d982c507211a90964c394179ba",
    b"abc": "0da749f12fbe5483eb066a5f595055679b976e93abe9be6f0f6318bce7aca8dc",
    b"abcdef0123456789": "087e45a86e2939ee8b91100af1583c4938e0f5fc6c9db4b107b83346bc967f58",
}


@pytest.mark.parametrize(("message", "expected"), K3.items())
def test_messages_are_expanded_as_in_rfc_9380(message: bytes, expected: str) -> None:
    assert expand_message(message, K3_TAG, 32).hex() == expected


@pytest.mark.parametrize(
    ("message", "blind", "blinded"),
    [
        (
            b"\0",
            "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706",
            "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
        ),
        (
            b"\x5a" * 17,
            "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706",
            "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
        ),
    ],
)
def test_hashed_and_blinded_values_are_those_of_rfc_9497(message: bytes, blind: str, blinded: str) -> None:
    # Appendix A.1.1, OPRF(ristretto255, SHA-512): the same hash under its own tag, times the blind.
    hashed = hash_to_group(GROUP, [message], b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512")
    assert GROUP.multiply_points(hashed, bytes.fromhex(blind)).hex() == blinded


def test_long_outputs_chain_their_blocks() -> None:
    long = expand_message(b"abc", K3_TAG, 200)
    assert len(long) == 200
    assert long[:64] != long[64:128]


def test_products_and_inverses_of_scalars_cancel_on_elements() -> None:
    a, b = (GROUP.reduce_wide(hashlib.sha512(bytes([n])).digest()) for n in (1, 2))
    there = GROUP.multiply_points(SOME, GROUP.multiply_scalars(a, b))
    assert GROUP.multiply_points(GROUP.multiply_points(there, GROUP.invert_scalar(a)), GROUP.invert_scalar(b)) == SOME
    assert GROUP.multiply_each(SOME, a * 3) == GROUP.multiply_points(SOME, a)


def test_sums_follow_scalars() -> None:
    a, b = (GROUP.reduce_wide(hashlib.sha512(bytes([n])).digest()) for n in (3, 4))
    assert GROUP.multiply_base(GROUP.add_scalars(a, b)) == GROUP.add_points(
        GROUP.multiply_base(a), GROUP.multiply_base(b)
    )
    assert GROUP.multiply_base(GROUP.subtract_scalars(a, b)) == GROUP.subtract_points(
        GROUP.multiply_base(a), GROUP.multiply_base(b)
    )
