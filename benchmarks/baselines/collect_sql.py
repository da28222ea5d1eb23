"""Counting of supports inside an engine: SQL built by sqlglot in DuckDB's dialect, transpiled for others.

Only whole numbers leave the engine, so DuckDB and Spark agree exactly. Reports are in a relation with the columns of
``store.COLUMNS``, as returned by ``ReportStore.to_arrow``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp, parse_one

from benchmarks.baselines.decomposition import build_root_weights, cross_weights, decompose_canonical
from siloquent.collect.spec.collection import Collection, LayerPlan
from siloquent.errors import RequestError
from siloquent.maths.local.frequency_oracles import PRIME
from siloquent.maths.local.supports import WORD_BITS

if TYPE_CHECKING:
    import duckdb

MAX_NODES = 20_000
Wanted = Mapping[int, Sequence[int]]
"""Nodes by layer."""


def list_all_nodes(collection: Collection, channel: int) -> dict[int, range]:
    """Return every node of every layer."""
    return {at: range(layer.nodes) for at, layer in enumerate(collection.channels[channel].layers)}


def build_supports_query(
    collection: Collection, channel: int, wanted: Wanted, *, relation: str = "reports"
) -> exp.Query:
    """Return a query for the number of reports that support each wanted node: rows layer, node, support.

    Raises:
        RequestError: more than 20,000 nodes; these are counted faster in memory.
    """
    nodes = _render_values(collection, channel, wanted)
    text = f"""
        SELECT n.layer, n.node, SUM(CASE WHEN {_SUPPORTS.format(r="r", n="n")} THEN 1 ELSE 0 END) AS support
        FROM {relation} AS r JOIN (VALUES {nodes}) AS n(layer, node, word, shift, size) ON r.layer = n.layer
        GROUP BY n.layer, n.node
    """
    return _read(text)


def build_joint_query(
    collection: Collection, channels: tuple[int, int], wanted: tuple[Wanted, Wanted], *, relations: tuple[str, str]
) -> exp.Query:
    """Return a query for the users whose reports support each pair of wanted nodes: rows l1, l2, i, j, support."""
    first, second = (_render_values(collection, at, own) for at, own in zip(channels, wanted, strict=True))
    text = f"""
        SELECT n.layer AS l1, m.layer AS l2, n.node AS i, m.node AS j, COUNT(*) AS support
        FROM {relations[0]} AS r JOIN {relations[1]} AS s ON r.t0 = s.t0 AND r.t1 = s.t1
        JOIN (VALUES {first}) AS n(layer, node, word, shift, size) ON r.layer = n.layer
        JOIN (VALUES {second}) AS m(layer, node, word, shift, size) ON s.layer = m.layer
        WHERE {_SUPPORTS.format(r="r", n="n")} AND {_SUPPORTS.format(r="s", n="m")}
        GROUP BY n.layer, m.layer, n.node, m.node
    """
    return _read(text)


def build_decomposed_query(
    collection: Collection, channel: int, ranges: Sequence[tuple[int, int] | None], *, relation: str = "reports"
) -> exp.Query:
    """Return a query for a count of ranges of bins by their fewest nodes, in one scan: rows layer, reports, support.

    Args:
        ranges: A range of bins for each attribute of the channel's only set, or None.
    Raises:
        RequestError: the channel has several sets, or a layer needed by the nodes was not planned.
    """
    made = collection.channels[channel]
    if len(made.sets) != 1:
        raise RequestError("Only a channel with one set of attributes is asked by nodes.", fix='scope = "full"')
    trees = [made.trees[at] for at in made.sets[0]]
    parts = [
        build_root_weights(tree) if one is None else decompose_canonical(tree, *one)
        for tree, one in zip(trees, ranges, strict=True)
    ]
    cases, used = [], []
    for at, layer in enumerate(made.layers):
        weights = cross_weights(parts, layer.levels)
        if weights is not None:
            cases.append(f"WHEN {at} THEN {_render_hits(layer, np.flatnonzero(weights).tolist())}")
            used.append(at)
    needed = math.prod(sum(bool(part.any()) for part in one) for one in parts)
    if needed != len(used):
        raise RequestError("A layer that these nodes need was not planned.", fix="estimate from tallies")
    text = f"""
        SELECT layer, COUNT(*) AS reports, SUM(CASE layer {" ".join(cases)} ELSE 0 END) AS support
        FROM {relation} WHERE layer IN ({", ".join(map(str, used))}) GROUP BY layer
    """
    return _read(text)


def estimate_decomposed(
    collection: Collection, channel: int, rows: Sequence[tuple[int, int, int]], nodes: Mapping[int, int]
) -> float:
    """Return the count estimated from ``build_decomposed_query`` rows, scaled to the users on all layers.

    Args:
        rows: layer, reports, support.
        nodes: The number of nodes added up on each layer.
    """
    made = collection.channels[channel]
    shares = [0.0] * len(made.layers)
    for one in collection.assignments:
        shares[one.layers[channel]] += one.words / 2**32
    total = 0.0
    for layer, reports, support in rows:
        oracle = made.layers[layer].oracle
        total += (support - nodes[layer] * reports * oracle.q) / (oracle.p - oracle.q) / shares[layer]
    return total * made.slots


def run_duckdb(connection: duckdb.DuckDBPyConnection, query: exp.Query) -> list[tuple[Any, ...]]:
    """Return DuckDB's rows for the query."""
    found: list[tuple[Any, ...]] = connection.execute(query.sql("duckdb")).fetchall()
    return found


def render_spark(query: exp.Query) -> str:
    """Return the same query for Spark."""
    return query.sql("spark")


# A set's bit in one of three words, or a hash in BIGINT arithmetic of any engine. ``shift`` is -1 for hashes.
_SUPPORTS = (
    "CASE WHEN {n}.shift >= 0"
    " THEN ((CASE {n}.word WHEN 0 THEN {r}.c0 WHEN 1 THEN {r}.c1 ELSE {r}.c2 END) >> {n}.shift) & 1 = 1"
    f" ELSE (({{r}}.c0 * {{n}}.node + {{r}}.c1) % {PRIME}) % {{n}}.size = {{r}}.c2 END"
)


def _render_values(collection: Collection, channel: int, wanted: Wanted) -> str:
    layers = collection.channels[channel].layers
    if sum(len(nodes) for nodes in wanted.values()) > MAX_NODES:
        raise RequestError(f"A query counts at most {MAX_NODES:,} nodes.", fix="estimate from tallies")
    found = []
    for at, nodes in wanted.items():
        is_set = layers[at].kind == "subset"
        for node in nodes:
            word, shift = divmod(node, WORD_BITS) if is_set else (0, -1)
            # The first row gives the columns their type in every engine.
            found.append(f"({at}, CAST({node} AS BIGINT), {word}, {shift}, {layers[at].size})")
    return ", ".join(found)


def _render_hits(layer: LayerPlan, nodes: Sequence[int]) -> str:
    """Return an expression for the number of ``nodes`` that one report supports."""
    if layer.kind == "hash":
        return " + ".join(
            f"CASE WHEN ((c0 * {node} + c1) % {PRIME}) % {layer.size} = c2 THEN 1 ELSE 0 END" for node in nodes
        )
    masks = [0, 0, 0]
    for node in nodes:
        masks[node // WORD_BITS] |= 1 << node % WORD_BITS
    return " + ".join(f"BIT_COUNT(c{word} & {mask})" for word, mask in enumerate(masks) if mask)


def _read(text: str) -> exp.Query:
    query = parse_one(text, read="duckdb")
    assert isinstance(query, exp.Query)
    return query
