"""Domains know their names and sizes; blocks are products of classes within limits."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.errors import RequestError, SchemaError, UnknownName
from siloquent.schema import Attribute, Block, Domain

WARD = Attribute("ward", "category", values=("A", "B", "C"))
SMOKER = Attribute("smoker", "boolean", null="cell")
NOTE = Attribute("note", "text")


def test_a_domain_is_the_product_of_what_can_be_counted() -> None:
    domain = Domain((WARD, SMOKER, NOTE))
    assert domain.size == 9
    assert domain.count_cells(["smoker"]) == 3
    assert domain.project(["smoker", "ward"]).names == ("smoker", "ward")
    assert [attribute.name for attribute in domain] == ["ward", "smoker", "note"]


def test_names_that_differ_in_case_alone_are_one_name() -> None:
    with pytest.raises(SchemaError, match="declared twice"):
        Domain((WARD, Attribute("Ward", "boolean")))
    with pytest.raises(UnknownName, match="Known: ward"):
        Domain((WARD,))["xyz"]


def test_a_block_counts_its_classes_in_row_major_order() -> None:
    block = Block(("ward", "smoker"), (np.array([0, 1, 1, 2]), np.array([0, 1, -1, -1])))
    assert (block.shape, block.size) == ((3, 2), 6)
    assert (Block((), ()).shape, Block((), ()).size) == ((), 1)


def test_a_block_of_nothing_but_left_out_rows_has_no_cells() -> None:
    assert Block(("ward",), (np.full(4, -1),)).size == 0


def test_a_block_needs_one_map_for_each_attribute_and_stays_within_a_million_cells() -> None:
    with pytest.raises(RequestError, match="one class map for each attribute"):
        Block(("ward",), ())
    large = np.arange(1_001)
    with pytest.raises(RequestError, match="needs 1,002,001 cells of a, b"):
        Block(("a", "b"), (large, large))


def test_a_declared_value_in_an_attributes_place_is_recognised() -> None:
    domain = Domain((Attribute("ward", "category", values=("icu", "er")),))
    with pytest.raises(UnknownName, match="ward = 'icu' in single quotes"):
        domain["icu"]
