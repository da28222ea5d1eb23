"""Labelled rows that resemble all silos' rows, from their marginals. Post-processing, free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.share.estimate.pool import Pool
from siloquent.share.estimate.shared import clean_tables
from siloquent.share.estimate.vote import draw_label_indices
from siloquent.share.spec.encoding import Encoding

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema import Attribute

Integers = NDArray[np.int64]
MAX_ROWS = 10**7


def draw_marginal_rows(pooled: Pool, rng: np.random.Generator, count: int | None = None) -> Integers:
    """Draw indices (rows, features + 1): a label by its share, then each feature independently, given the label.

    Args:
        count: The number of rows; None: the number estimated from the tables.
    Raises:
        RequestError: The releases are not marginals.
    """
    tables, encoding = clean_tables(pooled), pooled.encoding
    rows = min(tables.rows if count is None else count, MAX_ROWS)
    classes = rng.choice(encoding.classes, rows, p=tables.classes / tables.classes.sum())
    made = np.empty((rows, len(encoding.features) + 1), dtype=np.int64)
    made[:, -1] = draw_label_indices(encoding, classes, rng)
    for feature, (start, width) in enumerate(zip(encoding.starts, encoding.widths, strict=True)):
        cells = tables.cells[:, start : start + width]
        edges = np.cumsum(cells, axis=1) / cells.sum(axis=1, keepdims=True)
        drawn = (edges[classes] < rng.random((rows, 1))).sum(axis=1)
        made[:, feature] = _draw_indices(encoding, feature, np.minimum(drawn, width - 1), rng)
    return made


def _draw_indices(encoding: Encoding, feature: int, bins: Integers, rng: np.random.Generator) -> Integers:
    """Draw an index in each bin, uniformly; NULL's bin and a category's have one index."""
    attribute = encoding.features[feature]
    if not attribute.is_numeric:
        return bins
    edges = np.concatenate([[0], encoding.cuts[feature], [attribute.steps]])
    null = bins >= len(edges) - 1
    low, high = edges[np.where(null, 0, bins)], edges[np.where(null, 0, bins) + 1]
    return np.where(null, attribute.steps, rng.integers(low, high))


def build_table(encoding: Encoding, places: Integers) -> pa.Table:
    """Convert indices (rows, features + 1) to the values that they represent, the label last."""
    import pyarrow as pa

    attributes = (*encoding.features, encoding.label)
    return pa.table({a.name: pa.array(_decode_values(a, places[:, i])) for i, a in enumerate(attributes)})


def _decode_values(attribute: Attribute, places: Integers) -> Sequence[object]:
    distinct, back = np.unique(places, return_inverse=True)
    labels = np.empty(len(distinct), dtype=object)
    labels[:] = [attribute.label(int(place)) for place in distinct]
    return list(labels[back])
