"""Every role puts what it hands on into another order, so that no place says whose value, or which, an element is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from siloquent.federation.channel import MemoryNetwork
from siloquent.federation.crypto import chain, mixnet
from siloquent.federation.crypto.group import split
from siloquent.federation.messages.payload import parse_kind, unpack_bytes
from unit.profile.lattice import network
from unit.profile.roles import honest, run

ALIKE = np.column_stack([np.arange(24), np.arange(24) % 22])
"""Rows of every party: with the same values in the same order, only shuffling keeps places from telling."""


def batches(net: MemoryNetwork, sender: str, step: str, width: int = 32) -> list[list[bytes]]:
    """The batches in what ``sender`` sent at steps that begin with ``step``, as items of ``width`` bytes."""
    found = []
    for (who, _, name, _), raw in sorted(net.list_traffic().items()):
        if who == sender and name[0] == step and "/" in name and parse_kind(raw) == "bytes":
            content, at = unpack_bytes(raw), 0
            while at < len(content):
                size = 32 * int.from_bytes(content[at : at + 4], "big")
                items = content[at + 4 : at + 4 + size]
                found.append([items[i : i + width] for i in range(0, size, width)])
                at += 4 + size
    return found


def recorded(monkeypatch: pytest.MonkeyPatch, where: Any, *, shuffles: bool) -> list[tuple[list[bytes], list[bytes]]]:
    """Each batch before and after ``permuted`` in a session; without ``shuffles`` it is left as it is."""
    seen, real = [], where.permute_batch

    def permuted(batch: bytes, key: bytes, **width: int) -> bytes:
        done = real(batch, key, **width) if shuffles else batch
        seen.append((split(batch), split(done)))
        return bytes(done)

    monkeypatch.setattr(where, "permute_batch", permuted)
    return seen


@pytest.mark.parametrize("shuffles", [True, False])
@pytest.mark.parametrize(("protocol", "where"), [("padded", chain), ("fast", chain), ("smfd", mixnet)])
def test_each_role_shuffles_each_batch(
    monkeypatch: pytest.MonkeyPatch, protocol: str, where: Any, shuffles: bool
) -> None:
    net = network(3, 3)
    seen = recorded(monkeypatch, where, shuffles=shuffles)
    run(net, honest(net, [ALIKE] * 3, protocol=protocol))
    sent = {who: batches(net, who, "c" if where is chain else "m") for who in ("p1", "p2", "p3", "w1", "w2", "w3")}
    outputs = {b"".join(after) for _, after in seen}
    handed_on = [b"".join(one) for who in sent for one in sent[who] if who[0] == "w" or where is chain]
    assert handed_on
    assert set(handed_on) <= outputs  # what leaves is what came out of the shuffle, and nothing else
    large = [(before, after) for before, after in seen if len(before) >= 20]  # 1 order of 20!: below 1e-18
    assert len(large) >= 6
    assert all((before != after) == shuffles and sorted(before) == sorted(after) for before, after in large)


@pytest.mark.parametrize(("protocol", "where"), [("padded", chain), ("fast", chain), ("smfd", mixnet)])
def test_no_two_batches_are_shuffled_by_one_order(monkeypatch: pytest.MonkeyPatch, protocol: str, where: Any) -> None:
    """With the same order for every query, equal places would be the same value's, or the same row's."""
    net, keys, real = network(3, 3), [], where.permute_batch

    def permuted(batch: bytes, key: bytes, **width: int) -> bytes:
        keys.append(key)
        return bytes(real(batch, key, **width))

    monkeypatch.setattr(where, "permute_batch", permuted)
    run(net, honest(net, [ALIKE] * 3, protocol=protocol))
    assert len(keys) >= 6
    assert len(set(keys)) == len(keys)
