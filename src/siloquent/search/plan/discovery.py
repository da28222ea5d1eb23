"""Discovery of matching keys: short signatures of public key domains, fast enough for hundreds of thousands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh import Jaccard
from siloquent.maths.lsh.minhash import MinHashes, draw_minhashes
from siloquent.search.domains import JoinKey
from siloquent.search.plan.columns import build_join_key
from siloquent.search.spec import MAX_CELLS, KeyOf

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.search.catalogue import Catalogue

Signatures = NDArray[np.int32]
LENGTH = 128
MIN_CONTAINED = 0.5
_BITS = 30
_SEED = 20_230_704
"""Public and fixed: signatures made anywhere can be compared."""


@lru_cache(maxsize=1)
def _draw_key_hashes() -> MinHashes:
    return draw_minhashes(Jaccard(), rows=LENGTH, seed=_SEED, width=2**_BITS)


def compute_signature(key: JoinKey) -> Signatures:
    """Compute the signature of a key's declared values, (128,); no rows are involved."""
    labels = ["\x1f".join(parts) for parts in _list_values(key)]
    tokens = np.array([_compute_token(label) for label in labels], dtype=np.uint32)
    found = _draw_key_hashes().compute_buckets(tokens, np.array([0, len(tokens)], dtype=np.int64))
    return np.asarray(found[0], dtype=np.int32)


def _list_values(key: JoinKey) -> list[tuple[str, ...]]:
    found = []
    for cell in range(key.cells):
        labels = key.get_labels(cell)
        if None not in labels:
            found.append(tuple(str(label) for label in labels))
    return found


def _compute_token(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=4).digest(), "little")


def estimate_containment(
    own: Signatures, size: int, others: Signatures, sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Estimate the share of a key's ``size`` values that each other key contains, shape (others,).

    Args:
        others: Signatures, shape (others, 128).
    """
    similar = (others == own).mean(axis=1)
    return np.asarray(np.minimum(similar * (size + sizes) / ((1 + similar) * size), 1.0))


def find_matching_keys(own: JoinKey, others: Sequence[JoinKey]) -> list[tuple[int, float]]:
    """Return the keys that share at least half of ``own``'s values, by index, with the estimated share; most first."""
    if not others:
        return []
    sizes = np.array([len(_list_values(other)) for other in others], dtype=np.int64)
    shares = estimate_containment(
        compute_signature(own), len(_list_values(own)), np.stack([compute_signature(o) for o in others]), sizes
    )
    order = np.argsort(-shares, kind="stable")
    return [(int(i), float(shares[i])) for i in order if shares[i] >= MIN_CONTAINED]


def find_matching_offers(schema: TableSchema, catalogue: Catalogue) -> list[tuple[str, str, str, float]]:
    """Return the offers that share a key with a table: (offer, its key, own attribute, estimated share of own values).

    Only declarations and releases are compared; no row is read.
    """
    keys = [(offer.id, key) for offer in catalogue.offers for key in offer.keys if len(key.parts) == 1]
    found: list[tuple[str, str, str, float]] = []
    for attribute in schema.domain:
        if attribute.is_countable and attribute.steps <= MAX_CELLS:
            own = build_join_key(KeyOf(attribute.name), schema)
            kin = [(offer, key) for offer, key in keys if key.parts[0].kind == own.parts[0].kind]
            matches = find_matching_keys(own, [key for _, key in kin])
            found += [(kin[i][0], kin[i][1].name, attribute.name, share) for i, share in matches]
    return found
