"""The reports of many users' devices at once, for demos, tests and benchmarks.

The layer of a user is drawn here, where a device derives it from the epoch's key; the rest has a device's distribution,
drawn from the same words by compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.measure.wire import Batch, pack_bit_words
from siloquent.collect.spec.collection import WORDS, Collection, LayerPlan, ReportChannel
from siloquent.collect.spec.role import compute_point_places
from siloquent.privacy.noise.bits import Source, draw_words
from siloquent.privacy.noise.local import SYSTEM, HashDistribution, SetDistribution, draw_hashes, draw_sets

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All users' rows of one channel.

    Attributes:
        places: One row each, shape (rows, attributes): indices of the channel's sensitive attributes, in order; rows of
            one user are adjacent.
        ends: The end of each user's rows, shape (users + 1,), the first entry 0.
        public: Indices of the public attributes, shape (users, p).
    """

    places: Integers
    ends: Integers
    public: Integers | None = None

    @property
    def users(self) -> int:
        """The number of users, with or without rows."""
        return len(self.ends) - 1


def build_single_row_users(places: Integers) -> Rows:
    """Return the rows of users who have exactly one each."""
    return Rows(places, np.arange(len(places) + 1))


def perturb_all(collection: Collection, rows: Sequence[Rows], *, source: Source = SYSTEM) -> list[Batch]:
    """Draw one report of every user to every channel.

    Args:
        rows: One per channel, with the same users in the same order.
    Privacy:
        As one device's reports, for each user: local, pure epsilon-DP over all channels together.
    """
    users = rows[0].users
    tokens = draw_words(2 * users, source=source).view(np.int64).reshape(users, 2)
    words = draw_words(users, source=source) >> np.uint64(32)
    ends = np.cumsum([one.words for one in collection.assignments])
    chosen = np.searchsorted(ends, words.astype(np.int64), side="right")
    assert ends[-1] == WORDS
    layers = np.array([one.layers for one in collection.assignments])[chosen]
    return [
        _simulate_channel(number, channel, own, layers[:, number], tokens, _list_sizes(collection, number), source)
        for number, (channel, own) in enumerate(zip(collection.channels, rows, strict=True))
    ]


def _simulate_channel(
    number: int,
    channel: ReportChannel,
    rows: Rows,
    layers: Integers,
    tokens: Integers,
    sizes: Sequence[int],
    source: Source,
) -> Batch:
    bins, real = _compute_bins(channel, rows, _pick_rows(channel, rows, source), sizes, source)
    columns = np.zeros((rows.users, 3), dtype=np.int64)
    for at, layer in enumerate(channel.layers):
        mine = np.flatnonzero(layers == at)
        nodes = find_nodes(channel, layer, bins[mine], real[mine])
        columns[mine] = draw_reports(layer, nodes, source=source)
    public = np.zeros((rows.users, 0), dtype=np.int64) if rows.public is None else rows.public
    return Batch(number, layers, tokens, columns, public)


def _list_sizes(collection: Collection, number: int) -> list[int]:
    return [role.attribute.size for _, role in collection.list_sensitive_attributes(number)]


def _pick_rows(channel: ReportChannel, rows: Rows, source: Source) -> Integers:
    """Return the row that each user reports; -1 for an empty slot."""
    counts = np.diff(rows.ends)
    slots = np.maximum(counts, channel.slots)
    words = draw_words(rows.users, source=source) >> np.uint64(11)
    # 53 random bits to one of at most some thousand slots: off by less than 2^-40, and only in simulations.
    slot = (words.astype(np.float64) * 2.0**-53 * slots).astype(np.int64)
    return np.where(slot < counts, rows.ends[:-1] + slot, -1)


def _compute_bins(
    channel: ReportChannel, rows: Rows, picked: Integers, sizes: Sequence[int], source: Source
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the bin of each user's picked row on every tree, and whether there is such a row with nothing dropped."""
    real = picked >= 0
    kept = rows.places[np.where(real, picked, 0)] if len(rows.places) else np.full((len(picked), len(sizes)), -1)
    real &= (kept >= 0).all(axis=1)
    found = np.maximum(kept, 0)
    for at, (tree, points) in enumerate(zip(channel.trees, channel.points, strict=True)):
        found[:, at] = (
            _round_indices(found[:, at], sizes[at], points, source) if points else tree.map_to_bins()[found[:, at]]
        )
    return found, real


def _round_indices(places: Integers, size: int, points: int, source: Source) -> Integers:
    """Round each index to one of the two points around it, unbiased."""
    ends = compute_point_places(size, points)
    below = np.minimum(np.searchsorted(ends, places, side="right") - 1, points - 2)
    gap = ends[below + 1] - ends[below]
    uniform = (draw_words(len(places), source=source) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.asarray(below + (uniform * gap < places - ends[below]))


def find_nodes(channel: ReportChannel, layer: LayerPlan, bins: Integers, real: NDArray[np.bool_]) -> Integers:
    """Return the node of each row of ``bins`` (users, trees) on ``layer``; the last node where there is no row."""
    assert channel.padded or real.all()
    node = np.zeros(len(bins), dtype=np.int64)
    for at, level in zip(layer.attributes, layer.levels, strict=True):
        tree = channel.trees[at]
        node = node * tree.count_nodes(level) + bins[:, at] // (tree.bins // tree.count_nodes(level))
    return np.where(real, node, layer.nodes - 1) if channel.padded else node


def draw_reports(layer: LayerPlan, nodes: Integers, *, source: Source = SYSTEM) -> Integers:
    """Draw a report on each of ``nodes``, as columns: shape (n, 3).

    Privacy:
        Local, pure epsilon-DP in each node, for the epsilon that the layer's threshold was made for.
    """
    if layer.kind == "subset":
        return pack_bit_words(draw_sets(nodes, SetDistribution(layer.nodes, layer.size, layer.truth), source=source))
    return draw_hashes(nodes, HashDistribution(layer.nodes, layer.size, layer.truth), source=source)


def encode_batch(collection: Collection, batch: Batch) -> bytes:
    """Return the batch as devices would send it, concatenated reports."""
    from siloquent.collect.measure.device import HEAD, VERSION

    channel = collection.channels[batch.channel]
    length = collection.get_report_length(batch.channel)
    rows = np.zeros((len(batch.layers), length), dtype=np.uint8)
    rows[:, 0], rows[:, 1] = VERSION, batch.channel
    rows[:, 2], rows[:, 3] = batch.layers >> 8, batch.layers & 255
    rows[:, 4:8] = np.frombuffer(bytes.fromhex(collection.digest[:8]), dtype=np.uint8)
    rows[:, 8:HEAD] = batch.tokens.astype(">i8").view(np.uint8).reshape(-1, 16)
    for at, layer in enumerate(channel.layers):
        mine = batch.layers == at
        rows[mine, HEAD : HEAD + 16] = _encode_payload(layer, batch.columns[mine])
    rows[:, HEAD + 16 :] = batch.public.astype(">u4").view(np.uint8).reshape(len(rows), -1)
    return rows.tobytes()


def _encode_payload(layer: LayerPlan, columns: Integers) -> NDArray[np.uint8]:
    if layer.kind == "hash":
        four = np.concatenate([columns, np.zeros((len(columns), 1), dtype=np.int64)], axis=1)
        return four.astype(">u4").view(np.uint8).reshape(-1, 16)
    wide = columns.astype(np.uint64)
    low = wide[:, 0] | wide[:, 1] << np.uint64(43)
    high = wide[:, 1] >> np.uint64(21) | wide[:, 2] << np.uint64(22)
    return np.stack([low, high], axis=1).astype("<u8").view(np.uint8).reshape(-1, 16)
