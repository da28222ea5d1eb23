"""Reports as bytes and as columns, validated in bulk; each refused one is counted under its code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.measure.device import HEAD, VERSION
from siloquent.collect.spec.collection import Collection, ReportChannel
from siloquent.collect.spec.counters import Counters
from siloquent.maths.local.frequency_oracles import PRIME
from siloquent.maths.local.supports import WORD_BITS

Integers = NDArray[np.int64]
_BYTES = NDArray[np.uint8]
_LOW = (1 << WORD_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Valid reports of one channel, in order of arrival.

    ``tokens``: shape (n, 2). ``columns``: shape (n, 3), as ``maths.supports`` reads them. ``public``: shape (n, p).
    """

    channel: int
    layers: Integers
    tokens: Integers
    columns: Integers
    public: Integers


def read_reports(collection: Collection, data: bytes, length: int | None = None) -> tuple[list[Batch], Counters]:
    """Return the valid reports in ``data``, and the counts of the others.

    Args:
        length: Of each report. All reports of one file have one length, by default that of its first report's channel:
            services whose reports differ in length (public attributes make them longer) send separate files.
    """
    lengths = {at: collection.get_report_length(at) for at in range(len(collection.channels))}
    if length is None:
        length = find_report_length(collection, data)
    whole = len(data) // length
    rows = np.frombuffer(data, dtype=np.uint8, count=whole * length).reshape(whole, length)
    fate = _classify_reports(collection, rows, lengths)
    batches = []
    for number, channel in enumerate(collection.channels):
        mine = np.flatnonzero((fate == 0) & (rows[:, 1] == number)) if lengths[number] == length else np.empty(0, int)
        if mine.size:
            batch, wrong = _build_batch(collection, number, channel, rows[mine])
            fate[mine[wrong]] = _CODES.index("bad_payload")
            batches.append(batch)
    counted = np.bincount(fate, minlength=len(_CODES))
    refused = {code: int(counted[at]) for at, code in enumerate(_CODES) if code != "accepted"}
    refused["bad_length"] += len(data) % length > 0
    return batches, Counters(**refused)


def find_report_length(collection: Collection, data: bytes) -> int:
    """Return the length of each report in a file that begins with ``data``, by the channel of the first one."""
    return collection.get_report_length(data[1]) if len(data) > 1 and data[1] < len(collection.channels) else 40


_CODES = ("accepted", "bad_version", "wrong_digest", "unknown_service", "bad_length", "bad_layer", "bad_payload")


def _classify_reports(collection: Collection, rows: _BYTES, lengths: dict[int, int]) -> NDArray[np.int64]:
    """Return the code of each report, from its head only, as an index into ``_CODES``; the first fault counts."""
    digest = np.frombuffer(bytes.fromhex(collection.digest[:8]), dtype=np.uint8)
    layers = rows[:, 2].astype(np.int64) << 8 | rows[:, 3]
    known = np.array([len(channel.layers) for channel in collection.channels])
    channels = np.minimum(rows[:, 1], len(known) - 1)
    own_length = np.array([lengths[at] for at in range(len(known))])[channels]
    faults = [
        rows[:, 0] != VERSION,
        (rows[:, 4:8] != digest).any(axis=1),
        rows[:, 1] >= len(known),
        own_length != rows.shape[1],
        layers >= known[channels],
    ]
    return np.select(faults, list(range(1, 6)), 0)


def _build_batch(collection: Collection, number: int, channel: ReportChannel, rows: _BYTES) -> tuple[Batch, Integers]:
    """Return the reports of one channel, and which of ``rows`` have a payload that no client draws."""
    layers = rows[:, 2].astype(np.int64) << 8 | rows[:, 3]
    columns = np.zeros((len(rows), 3), dtype=np.int64)
    valid = np.zeros(len(rows), dtype=np.bool_)
    for at, layer in enumerate(channel.layers):
        mine = layers == at
        payload = np.ascontiguousarray(rows[mine, HEAD : HEAD + 16])
        if layer.kind == "subset":
            columns[mine], valid[mine] = _decode_sets(payload, layer.nodes, layer.size)
        else:
            columns[mine], valid[mine] = _decode_hashes(payload, layer.size)
    sizes = [role.attribute.size for _, role in collection.list_public_attributes(number)]
    public = np.ascontiguousarray(rows[:, HEAD + 16 :]).view(">u4").astype(np.int64).reshape(len(rows), len(sizes))
    valid &= (public < np.array(sizes, dtype=np.int64)).all(axis=1)
    tokens = np.ascontiguousarray(rows[:, 8:HEAD]).view(">i8").astype(np.int64)
    batch = Batch(number, layers[valid], tokens[valid], columns[valid], public[valid])
    return batch, np.flatnonzero(~valid)


def _decode_sets(payload: _BYTES, nodes: int, size: int) -> tuple[Integers, NDArray[np.bool_]]:
    words = payload.view("<u8")
    columns = pack_bit_words(words)
    held = np.bitwise_count(words).sum(axis=1)
    beyond = [max(0, min(64, nodes - 64 * at)) for at in range(2)]
    inside = [words[:, at] >> np.uint64(bits) == 0 if bits < 64 else True for at, bits in enumerate(beyond)]
    return columns, (held == size) & inside[0] & inside[1]


def pack_bit_words(words: NDArray[np.uint64]) -> Integers:
    """Return 128 bits in two words as three columns of ``WORD_BITS``, shape (n, 3)."""
    low, high = words[:, 0], words[:, 1]
    mask = np.uint64(_LOW)
    first = low & mask
    second = (low >> np.uint64(WORD_BITS) | high << np.uint64(64 - WORD_BITS)) & mask
    third = high >> np.uint64(2 * WORD_BITS - 64)
    return np.stack([first, second, third], axis=1).astype(np.int64)


def _decode_hashes(payload: _BYTES, size: int) -> tuple[Integers, NDArray[np.bool_]]:
    words = payload.view(">u4").astype(np.int64)
    a, b, y, rest = words.T
    return words[:, :3], (a >= 1) & (a < PRIME) & (b < PRIME) & (y < size) & (rest == 0)
