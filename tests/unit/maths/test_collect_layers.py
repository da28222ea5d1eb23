"""Trees and the estimate over their layers: against dense least squares, and exact in what must be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.baselines.decomposition import find_canonical_nodes
from siloquent.maths.fieller import compute_fieller_interval
from siloquent.maths.local.consistency import (
    CombinedLayers,
    Layer,
    TreeBlock,
    compute_precision,
    list_components,
    optimise_shares,
)
from siloquent.maths.local.frequency_oracles import Oracle, choose_kind, choose_size, compute_ideal_truth
from siloquent.maths.local.hierarchy import Tree, build_flat_tree, build_tree
from siloquent.maths.local.max_entropy import compute_conjunction_probability

SMALL = Tree(4, (2, 2)), Tree(3, (3,))


def oracle(nodes: int, epsilon: float = 1.0) -> Oracle:
    kind = choose_kind(nodes)
    size = choose_size(kind, nodes, epsilon)
    return Oracle(kind, nodes, size, compute_ideal_truth(kind, nodes, size, epsilon))


@pytest.mark.parametrize(
    ("values", "resolution", "fanouts"),
    [(125, 25, (5, 5)), (125, None, (5, 5, 5)), (100, None, (4, 5, 5)), (120, None, (4, 5, 6)), (2, None, (2,))],
)
def test_trees_have_as_few_bins_as_equal_fanouts_allow(
    values: int, resolution: int | None, fanouts: tuple[int, ...]
) -> None:
    assert build_tree(values, resolution=resolution).fanouts == fanouts


@pytest.mark.parametrize("values", range(1, 200))
def test_every_value_has_one_bin_and_bins_are_in_order(values: int) -> None:
    made = build_tree(values)
    bins = made.map_to_bins()
    assert len(bins) == values
    assert (np.diff(bins) >= 0).all()
    assert bins.max() < made.bins
    assert made.bins >= values


def test_the_parts_of_weights_add_up_to_them_and_are_orthogonal() -> None:
    made = build_tree(100)
    weights = np.random.default_rng(1).normal(size=made.bins)
    parts = [np.repeat(part, made.bins // part.size) for part in made.split_details(weights)]
    assert np.allclose(sum(parts), weights)
    for i, j in product(range(len(parts)), repeat=2):
        if i != j:
            assert abs(parts[i] @ parts[j]) < 1e-9
    assert made.compute_energies(weights).sum() == pytest.approx(weights @ weights)


def test_a_range_is_made_of_the_fewest_nodes() -> None:
    made = build_tree(125)
    assert len(find_canonical_nodes(made, 0, 124)) == 1
    assert len(find_canonical_nodes(made, 11, 25)) == 7
    covered = [
        bin_
        for level, node in find_canonical_nodes(made, 3, 77)
        for bin_ in range(
            node * made.bins // made.count_nodes(level), (node + 1) * made.bins // made.count_nodes(level)
        )
    ]
    assert sorted(covered) == list(range(3, 78))
    assert build_flat_tree(7).fanouts == (7,)


def layers_of(blocks: tuple[TreeBlock, ...], seed: int) -> list[Layer]:
    """Layers with arbitrary supports: estimates are linear in them, whatever they are."""
    random = np.random.default_rng(seed)
    found = []
    per_block = [[lv for lv in list_components(block.trees) if block.count_nodes(lv) > 1] for block in blocks]
    for levels in product(*per_block):
        oracles = tuple(oracle(block.count_nodes(lv)) for block, lv in zip(blocks, levels, strict=True))
        shape = [block.count_nodes(lv) + 1 for block, lv in zip(blocks, levels, strict=True)]
        supports = random.integers(100, 400, shape)
        supports[(-1,) * len(blocks)] = random.integers(800, 1200)
        found.append(Layer(blocks, levels, oracles, supports))
    return found


@pytest.mark.parametrize("padded", [False, True])
def test_the_closed_form_is_dense_least_squares(padded: bool) -> None:
    blocks = (TreeBlock(SMALL, padded),)
    layers = layers_of(blocks, seed=3)
    users = sum(layer.reports for layer in layers)
    combined = CombinedLayers(layers, users)
    table = dense_least_squares(blocks[0], layers, users, pinned=not padded)
    random = np.random.default_rng(4)
    for _ in range(5):
        weights = [random.normal(size=one.bins) for one in SMALL]
        asked = combined.estimate_value(combined.build_question(weights))
        assert asked == pytest.approx(float(np.multiply.outer(*weights).ravel() @ table), rel=1e-6)


def dense_least_squares(block: TreeBlock, layers: list[Layer], users: int, *, pinned: bool) -> np.ndarray:
    """The table that minimises the whitened residuals of all layers, by a big matrix."""
    trees = block.trees
    rows, values = [], []
    for layer in layers:
        levels = layer.levels[0]
        sums = [
            np.kron(np.eye(t.count_nodes(lv)), np.ones(t.bins // t.count_nodes(lv)))
            for t, lv in zip(trees, levels, strict=True)
        ]
        design = np.kron(*sums)
        y = layer.compute_estimates().ravel() * users / layer.reports
        cells = len(y)
        # Noise has one variance along every direction but that of the sum: whiten both parts.
        spread = users**2 / layer.reports * (layer.oracles[0].spread + 1 / cells)
        total = users**2 / layer.reports * ((layer.oracles[0].variance if block.padded else 0.0) + 1) / cells
        total -= users**2 / layer.reports / cells
        mean = np.full((cells, cells), 1 / cells)
        whiten = (np.eye(cells) - mean) / np.sqrt(spread)
        if total > 0:
            whiten = whiten + mean / np.sqrt(total)
        rows.append(whiten @ design)
        values.append(whiten @ y)
    if pinned:
        rows.append(1e6 * np.ones((1, len(rows[0][0]))))
        values.append(np.array([1e6 * users]))
    found = np.linalg.lstsq(np.vstack(rows), np.concatenate(values), rcond=None)[0]
    return np.asarray(found)


def test_a_joint_layer_estimates_products_whatever_the_order_of_services() -> None:
    blocks = (TreeBlock(SMALL[:1], True), TreeBlock(SMALL[1:], False))
    layer = layers_of(blocks, seed=1)[-1]
    one, other = layer.oracles
    counts = layer.supports.astype(float)
    i, j = 2, 1
    by_hand = (counts[i, j] - other.q * counts[i, -1] - one.q * counts[-1, j] + one.q * other.q * counts[-1, -1]) / (
        (one.p - one.q) * (other.p - other.q)
    )
    assert layer.compute_estimates()[i, j] == pytest.approx(by_hand)


def test_layers_that_a_component_needs_are_kept_and_useless_ones_are_not() -> None:
    block = TreeBlock(SMALL, False)
    layers = [levels for levels in list_components(SMALL) if any(levels)]
    components = [levels for levels in list_components(SMALL) if any(levels)]
    known = np.array(
        [[compute_precision([block], [lv], [oracle(block.count_nodes(lv))], c) for lv in layers] for c in components]
    )
    only_first = np.array([1.0 if c == (1, 0) else 0.0 for c in components])
    shares = optimise_shares(known, only_first)
    assert shares.sum() == pytest.approx(1)
    assert shares[layers.index((1, 0))] > 0.99
    everything = optimise_shares(known, np.ones(len(components)))
    assert ((known @ everything) > 0).all()


def test_what_no_layer_knows_is_said() -> None:
    block = TreeBlock(SMALL, False)
    layer = next(layer for layer in layers_of((block,), seed=0) if layer.levels == ((1, 0),))
    assert (2, 1) in CombinedLayers([layer], layer.reports).list_unknown()


@pytest.mark.parametrize("seed", range(10))
def test_maximum_entropy_is_exact_for_independent_conditions(seed: int) -> None:
    single = np.random.default_rng(seed).uniform(0.1, 0.9, 4)
    assert compute_conjunction_probability(single, np.outer(single, single)) == pytest.approx(np.prod(single), rel=1e-6)


def test_maximum_entropy_brings_impossible_pairs_into_bounds() -> None:
    found = compute_conjunction_probability(np.array([0.3, 0.2, 1.2]), np.full((3, 3), 0.9))
    assert 0 <= found <= 0.2 + 1e-9


def test_the_interval_of_a_ratio_is_unbounded_where_the_bottom_may_be_nothing() -> None:
    assert compute_fieller_interval(10, 1, variance_top=1, variance_bottom=1, covariance=0, z=2) is None
    low, high = compute_fieller_interval(10, 5, variance_top=0.01, variance_bottom=0.01, covariance=0, z=2) or (0, 0)
    assert low < 2 < high
    assert high - low < 0.3


def test_ranges_that_cut_bins_are_exact_for_numbers_that_rise_evenly() -> None:
    one = build_tree(125, resolution=25)
    numbers = 3.0 + 0.5 * np.arange(125)
    bins = np.bincount(one.map_to_bins(), weights=numbers)
    for low, high in ((7, 60), (34, 34), (6, 116)):
        inside = np.zeros(125)
        inside[low : high + 1] = 1
        assert one.smooth_weights(inside) @ bins == pytest.approx(numbers[low : high + 1].sum(), rel=1e-3)
        assert abs(one.gather_weights(inside) @ bins - numbers[low : high + 1].sum()) > 0.05
    whole = np.zeros(125)
    whole[10:20] = 1
    assert np.allclose(one.smooth_weights(whole), one.gather_weights(whole))


def test_places_alone_have_bins_of_their_own_and_the_others_share_the_rest() -> None:
    one = build_tree(125, resolution=25, alone=(0, 40, 124))
    bins = one.map_to_bins()
    widths = np.bincount(bins)
    assert (len(widths), widths.min(), widths.max()) == (25, 1, 6)
    assert [int(widths[bins[place]]) for place in (0, 40, 124)] == [1, 1, 1]
    assert (np.diff(bins) >= 0).all()
    assert build_tree(20, resolution=25, alone=(0,)).alone == ()  # every place is alone anyway


@pytest.mark.parametrize(("values", "bins"), [(125, 25), (101, 25), (7, 5), (1000, 30), (5, 8)])
def test_bins_without_places_alone_are_the_whole_parts_of_place_times_bins_over_values(values: int, bins: int) -> None:
    wanted = [place if bins >= values else place * bins // values for place in range(values)]
    assert Tree(values, (bins,)).map_to_bins().tolist() == wanted


def test_places_alone_bend_no_slope() -> None:
    one = build_tree(125, resolution=25, alone=(0, 40, 124))
    numbers = 3.0 + 0.5 * np.arange(125)
    numbers[[0, 40, 124]] = 900, 50, 2000
    bins = np.bincount(one.map_to_bins(), weights=numbers)
    blind = build_tree(125, resolution=25)
    for low, high in ((1, 19), (3, 45), (39, 60), (102, 122)):
        inside = np.zeros(125)
        inside[low : high + 1] = 1
        truth = numbers[low : high + 1].sum()
        assert one.smooth_weights(inside) @ bins == pytest.approx(truth, rel=1e-9)
        if low < 5 or high > 119:  # the others cut no bin in which values crowd
            wrong = blind.smooth_weights(inside) @ np.bincount(blind.map_to_bins(), weights=numbers)
            assert wrong != pytest.approx(truth, rel=0.01)
