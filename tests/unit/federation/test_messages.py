"""Envelopes: one form, every altered byte refused, the same message again the same bytes, no nonce twice."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.channel_contract import code_of
from siloquent.errors import ProtocolError
from siloquent.federation.identity.seal import Keys, is_signed_by
from siloquent.federation.messages.journal import RoleJournal
from siloquent.federation.messages.message import (
    MAX_ENVELOPE,
    MAX_HEADER,
    PART_BYTES,
    Envelope,
    Header,
    compute_link,
    compute_pair_genesis,
    split_parts,
)
from siloquent.federation.messages.payload import (
    encode_canonical,
    pack_bytes,
    pack_json,
    pack_points,
    pack_words,
    parse,
    parse_kind,
    unpack_bytes,
    unpack_json,
    unpack_points,
    unpack_words,
)
from siloquent.federation.peer import Peer
from unit.federation.places import StoreNetwork

HEADER = Header("ab" * 32, "north", "w1", "u1/17", 0, 0, 1, 3, "cd" * 32, "ef" * 32, "json", 100, "01" * 32)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_json_goes_there_and_back_in_one_form(value: object) -> None:
    assert unpack_json(pack_json(value)) == value
    assert encode_canonical(parse(encode_canonical(value))) == encode_canonical(value)


@pytest.mark.parametrize("text", [b'{"a": 1}', b'{"b":1,"a":1}', b"[1.0e2]", b"[NaN]", b'{"a":1,"a":1}', b"", b"\xff"])
def test_another_spelling_of_json_is_not_read(text: bytes) -> None:
    assert code_of(lambda: parse(text)) == "bad_encoding"


def test_deep_json_is_refused_and_does_not_break() -> None:
    for text in (b"[" * 50 + b"]" * 50, b"[" * 100_000 + b"]" * 100_000):
        assert code_of(lambda text=text: parse(text)) == "bad_encoding"


def test_every_kind_of_payload_says_what_it_is_and_how_many() -> None:
    words = np.array([-1, 2**62], dtype=np.int64)
    assert unpack_words(pack_words(words), 2).view(np.int64).tolist() == words.tolist()
    assert unpack_points(pack_points(bytes(64)), 2) == bytes(64)
    assert unpack_bytes(pack_bytes(b"seed"), 4) == b"seed"
    assert [parse_kind(p) for p in (pack_words(words), pack_points(b""), pack_bytes(b""))] == [
        "words",
        "points",
        "bytes",
    ]


def test_another_kind_or_count_is_refused() -> None:
    assert code_of(lambda: unpack_points(pack_points(bytes(64)), 3)) == "batch_size"
    assert code_of(lambda: unpack_words(pack_points(bytes(64)))) == "bad_encoding"
    for broken in (b"", b"pt", b"pt\x00\x00\x00\x02" + bytes(32), b"zz\x00\x00\x00\x00", pack_json(1) + b" "):
        assert code_of(lambda broken=broken: parse_kind(broken)) == "bad_encoding"


def test_a_header_goes_there_and_back() -> None:
    assert Header.decode(HEADER.encode()) == HEADER
    assert len(HEADER.encode()) < MAX_HEADER


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": "AB" * 32}, {"session": "ab"}, {"sender": "North"}, {"receiver": ""}, {"step": "../x"},
        {"step": "a" * 60}, {"attempt": -1}, {"attempt": True}, {"part": 1}, {"parts": 0}, {"seq": 2**40},
        {"kind": "pickle"}, {"size": 3}, {"size": 2**30}, {"sha256": ""},
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    assert code_of(lambda: replace(HEADER, **wrong)) == "bad_encoding"  # type: ignore[arg-type]


def test_another_version_is_named_so() -> None:
    text = HEADER.encode().replace(b'"v":2', b'"v":1')
    assert code_of(lambda: Header.decode(text)) == "version_mismatch"
    assert code_of(lambda: Header.decode(b" " * (MAX_HEADER + 1))) == "too_large"


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_random_bytes_are_no_envelope(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        Header.decode(Envelope.decode(wire).header)


def test_a_long_payload_travels_in_parts() -> None:
    assert [len(part) for part in split_parts(bytes(PART_BYTES + 1))] == [PART_BYTES, 1]
    assert split_parts(b"") == [b""]
    assert code_of(lambda: Envelope.decode(bytes(MAX_ENVELOPE + 1))) == "too_large"


def test_sealing_again_gives_the_same_bytes_and_other_content_another_nonce() -> None:
    north, w1 = Keys.generate(), Keys.generate()
    context = HEADER.build_context()
    sealed = north.seal(w1.seal_key, context, b"content")
    assert north.seal(w1.seal_key, context, b"content") == sealed
    assert w1.open(north.seal_key, sealed) == b"content"
    others = [
        north.seal(w1.seal_key, context, b"Content"),
        north.seal(w1.seal_key, replace(HEADER, attempt=1).build_context(), b"content"),
        Keys(north.sign_seed, w1.seal_seed).seal(w1.seal_key, context, b"content"),
    ]
    assert len({one[:24] for one in (sealed, *others)}) == 4


def test_no_two_of_many_messages_share_a_nonce() -> None:
    keys = Keys.generate()
    secret, seen = keys._derive_nonce_key(), set()
    for number in range(100_000):  # the nonce alone: what seal() derives it from
        mac = hashlib.blake2b(number.to_bytes(4, "big"), key=secret, digest_size=64)
        seen.add(mac.digest()[:24])
    assert len(seen) == 100_000


def test_a_seal_opens_for_its_receiver_from_its_sender_alone() -> None:
    north, w1, w2 = Keys.generate(), Keys.generate(), Keys.generate()
    sealed = north.seal(w1.seal_key, b"", b"content")
    assert code_of(lambda: w2.open(north.seal_key, sealed)) == "bad_seal"
    assert code_of(lambda: w1.open(w2.seal_key, sealed)) == "bad_seal"
    for place in range(len(sealed)):
        altered = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert code_of(lambda altered=altered: w1.open(north.seal_key, altered)) == "bad_seal"


def test_a_signature_is_bound_to_its_label() -> None:
    keys = Keys.generate()
    mark = keys.sign(b"one", b"content")
    assert is_signed_by(keys.sign_key, b"one", b"content", mark)
    assert not is_signed_by(keys.sign_key, b"two", b"content", mark)
    assert not is_signed_by(keys.sign_key, b"one", b"content", mark[:-1])


def test_chains_of_pairs_and_sessions_begin_differently() -> None:
    starts = {compute_pair_genesis(s, a, b) for s in ("aa", "bb") for a, b in (("x", "y"), ("y", "x"))}
    assert len(starts) == 4
    assert compute_link(HEADER.encode()) != compute_link(replace(HEADER, seq=4).encode())


class Tampering:
    """A relay that changes what it hands out, once."""

    def __init__(self) -> None:
        self.network = StoreNetwork()
        self.network.open_channel("north").send("w1", "a", pack_json("content"))
        found = self.network.store.find_next("w1", 0)
        assert found is not None
        self.wire, self.peer = found.wire, self.network.peer("w1")

    def again(self) -> Peer:
        """w1 with an empty journal, to which nothing has come yet."""
        journal = RoleJournal(":memory:")
        known = self.network.journals["w1"].find_session(self.network.session)
        assert known is not None
        journal.add_session(known)
        self.network.journals["w1"] = journal
        return self.network.peer("w1")

    def hand_out(self, wire: bytes) -> str:
        """How the session stands after w1 took ``wire``."""
        self.peer._take(1, wire)
        known = self.network.journals["w1"].find_session(self.network.session)
        assert known is not None
        return known.code or known.state


def test_every_altered_byte_is_refused() -> None:
    intact = Tampering()
    assert intact.hand_out(intact.wire) == "running"
    assert intact.peer.list_arrived(intact.network.session) == {("north", "a", 0)}
    whole = Tampering()
    for place in range(len(whole.wire)):
        wire = whole.wire[:place] + bytes([whole.wire[place] ^ 1]) + whole.wire[place + 1 :]
        fresh = whole.again()
        fresh._take(1, wire)
        assert fresh.list_arrived(whole.network.session) == set(), place


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"roster": "0" * 64}, "roster_mismatch"),
        ({"seq": 1}, "bad_chain"),
        ({"prev": "0" * 64}, "bad_chain"),
        ({"receiver": "w2"}, "bad_encoding"),
        ({"size": 101}, "bad_encoding"),
        ({"sha256": "0" * 64}, "bad_seal"),
        ({"kind": "points"}, "running"),  # the kind is checked where the payload is read
        ({"sender": "river"}, "bad_signature"),
    ],
)
def test_each_check_has_its_own_code(change: dict[str, object], code: str) -> None:
    """The header is changed *and signed again* by its sender, so that only this one check can see it."""
    place = Tampering()
    envelope = Envelope.decode(place.wire)
    text = replace(Header.decode(envelope.header), **change).encode()  # type: ignore[arg-type]
    signature = place.network.keys["north"].sign(b"siloquent/msg/1", text)
    assert place.hand_out(Envelope(text, signature, envelope.sealed).encode()) == code


def test_a_repeat_is_ignored_and_a_foreign_session_too() -> None:
    place = Tampering()
    assert place.hand_out(place.wire) == "running"
    assert place.hand_out(place.wire) == "running"
    other = Tampering()
    assert place.hand_out(other.wire) == "running"


def test_a_second_content_under_one_key_ends_the_session() -> None:
    place = Tampering()
    assert place.hand_out(place.wire) == "running"
    envelope = Envelope.decode(place.wire)
    header = Header.decode(envelope.header)
    sealed = place.network.keys["north"].seal(place.network.keys["w1"].seal_key, b"other", b"content")
    text = replace(header, size=len(sealed), sha256=hashlib.sha256(sealed).hexdigest()).encode()
    signature = place.network.keys["north"].sign(b"siloquent/msg/1", text)
    assert place.hand_out(Envelope(text, signature, sealed).encode()) == "message_conflict"


def test_mutated_envelopes_never_break_and_are_never_taken() -> None:
    place = Tampering()
    choose = np.random.default_rng(5)
    for number in range(2_000):
        if number % 20 == 0:
            place.peer = place.again()  # a session that is over takes nothing: begin again
        wire = bytearray(place.wire)
        for _ in range(int(choose.integers(1, 6))):
            wire[int(choose.integers(len(wire)))] = int(choose.integers(256))
        cut = bytes(wire[: int(choose.integers(1, len(wire) + 1))])
        if cut != place.wire:
            place.peer._take(1, cut)
            assert place.peer.list_arrived(place.network.session) == set()
