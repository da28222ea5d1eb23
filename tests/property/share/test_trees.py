"""Trees of any declaration: boxes part the domain, paths spend what they may, rows are drawn inside."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from siloquent.share import Budget as Price
from siloquent.share import ShareSpec, TreeSpec, plan
from siloquent.share.estimate.vote import fill_leaves, rebuild_tree
from siloquent.share.measure.tree import grow_on_rows
from siloquent.share.task import build_release


@st.composite
def features(draw: st.DrawFn) -> tuple[Attribute, ...]:
    count = draw(st.integers(1, 5))
    made = []
    for i in range(count):
        if draw(st.booleans()):
            null: Any = draw(st.sampled_from(["drop", "cell"]))
            hi = Decimal(draw(st.integers(1, 60)))
            made.append(Attribute(f"f{i}", "integer", lo=Decimal(0), hi=hi, grid=Decimal(1), null=null))
        else:
            values = tuple("abcdefg"[: draw(st.integers(2, 7))])
            made.append(Attribute(f"f{i}", "category", values=values))
    return tuple(made)


@settings(max_examples=40, deadline=None)
@given(
    features=features(),
    h=st.integers(2, 6),
    most=st.integers(2, 60),
    seed=st.integers(0, 2**64),
    variant=st.sampled_from(["ours", "aamas-2019"]),
)
def test_boxes_part_the_domain_and_paths_keep_the_price(
    features: tuple[Attribute, ...], h: int, most: int, seed: int, variant: Any
) -> None:
    label = Attribute("y", "boolean")
    schema = TableSchema("t", Domain((*features, label)), TableBudget("pure", epsilon=Fraction(100)))
    tree = TreeSpec(h=h, t=3, p=min(3, h), max_nodes=most, variant=variant)
    names = tuple(attribute.name for attribute in features)
    found = plan(ShareSpec("t", "y", names, Price(epsilon="1"), method="tree", tree=tree), schema, seed=seed)
    assert found.tree is not None
    random = np.random.default_rng(seed % 2**32)
    places = np.stack([random.integers(0, a.size if a is not label else 2, 80) for a in (*features, label)], axis=1)
    release = build_release(
        found,
        grow_on_rows(
            found.encoding,
            found.tree,
            places,
            select=lambda u, rate: random.integers(0, 3, len(u)),
            add=lambda counts, scale: counts + random.integers(-3, 4, counts.shape),
        ),
    )
    grown = rebuild_tree(release, found.encoding)
    leaves = grown.skeleton.leaves
    assert leaves.nodes <= max(most, 1)
    leaf = grown.skeleton.find_node(places[:, :-1], h - 1)
    assert ((leaves.low[leaf] <= places[:, :-1]) & (places[:, :-1] <= leaves.high[leaf])).all()
    assert grown.rows.min() >= 0
    for splits in leaves.splits:
        cuts = splits if variant == "ours" else 0
        spent = cuts * found.tree.split + 1 / found.tree.compute_leaf_scale(int(splits))
        assert spent <= Fraction(1, 2)
    rows = fill_leaves(grown, None, random)
    sizes = np.array([attribute.size for attribute in features])
    assert ((rows >= 0) & (rows < sizes)).all()
