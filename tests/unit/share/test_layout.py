"""What each method counts, and that no record moves it further than its price says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from siloquent.share.measure.counting import count_exactly
from siloquent.share.spec import build_agreement
from siloquent.share.spec.encoding import build_encoding
from siloquent.share.spec.layout import Layout
from unit.share.tables import encoded, random_places, schema, spec

CASES = {
    "marginals": ("marginals", "sick"),
    "marginals of three": ("marginals", "kind"),
    "marginals of a number": ("marginals", "cost"),
    "gram": ("gram", "sick"),
    "gram of three": ("gram", "kind"),
    "gram of a number": ("gram", "cost"),
    "moments": ("moments", "sick"),
    "moments of a number": ("moments", "cost"),
}


def layout(method: str, label: str) -> Layout:
    return Layout(method, encoded(label=label))


def inside(found: Layout, count: int, seed: int = 0) -> np.ndarray:
    places = random_places(found.encoding, count, seed)
    return places[found.encoding.find_inside(places)]


def test_bins_are_the_declared_ones_and_null_has_its_own() -> None:
    encoding = encoded()
    assert encoding.widths == (6, 7, 4, 2)  # five bins and NULL; 7 values; three wards and (other); false, true
    ages = np.array([0, 19, 20, 99, 100])
    assert encoding.compute_bins(0, ages).tolist() == [0, 0, 1, 4, 5]
    assert encoding.compute_codes(np.array([[100, 0, 3, 1]])).tolist() == [[5, 6, 16, 18]]
    assert encoding.compute_numbers(np.array([[100, 6, 3, 1], [0, 3, 0, 0]])).tolist() == [[0.0, 1.0], [-1.0, 0.0]]


def test_a_number_as_label_has_ten_buckets() -> None:
    encoding = encoded(label="cost")
    assert encoding.classes == 10
    assert encoding.find_classes(np.array([0, 99, 100, 999, 1000])).tolist() == [0, 0, 1, 9, 9]


def test_a_row_that_is_outside_anywhere_counts_nowhere() -> None:
    found = layout("gram", "sick")
    places = random_places(found.encoding, 500)
    kept = (places >= 0).all(axis=1)
    assert 0 < kept.sum() < 500
    assert np.array_equal(found.count(places), found.count(places[kept]))


def test_marginals_and_pairs_of_two_rows_by_hand() -> None:
    marginals, gram = layout("marginals", "sick"), layout("gram", "sick")
    rows = np.array([[0, 0, 0, 0, 1], [0, 0, 0, 1, 0]])
    tables = marginals.count(rows).reshape(2, 19)
    assert np.flatnonzero(tables[1]).tolist() == [0, 6, 13, 17]
    assert np.flatnonzero(tables[0]).tolist() == [0, 6, 13, 18]
    pairs, ones, weighted, total = np.split(gram.count(rows), np.cumsum(gram.list_lengths())[:-1])
    assert pairs.sum() == 2 * 6
    assert pairs.max() == 2
    assert ones[[0, 6, 13, 17, 18]].tolist() == [2, 2, 2, 1, 1]
    assert weighted[[0, 17, 18]].tolist() == [0, 1, -1]
    assert total.tolist() == [0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("replaced", [False, True], ids=["add-remove", "replace-one"])
def test_no_pair_of_neighbours_is_further_apart_than_the_sensitivity(case: tuple[str, str], replaced: bool) -> None:
    found = layout(*case)
    first, second = inside(found, 900, seed=1), inside(found, 900, seed=2)
    if not replaced:
        second = second[:0]
    for group, start in _starts(found, replaced):
        here = slice(start, start + group.length)
        weights = np.ones(group.length)
        weights[group.length - group.halved :] = 2
        far = [
            (abs(change).sum(), (weights * change**2).sum())
            for change in (_change(found, first, second, i)[here] for i in range(200))
        ]
        assert max(l1 for l1, _ in far) <= group.l1
        assert max(l2 for _, l2 in far) <= group.l2_squared


def _starts(found: Layout, replaced: bool) -> list[tuple[Any, int]]:
    groups = found.build_blocks(records=1, replaced=replaced)
    return list(zip(groups, np.cumsum([0, *(group.length for group in groups)]), strict=False))


def _change(found: Layout, first: np.ndarray, second: np.ndarray, i: int) -> np.ndarray:
    one = found.count(first[i : i + 1])
    return one - found.count(second[i : i + 1]) if len(second) else one


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c[0] != "moments"], ids=[c for c in CASES if "mom" not in c]
)
def test_the_sensitivity_is_reached(case: tuple[str, str]) -> None:
    found = layout(*case)
    one, other = np.array([[0, 0, 0, 0, 0]]), np.array([[99, 6, 1, 1, 1 if case[1] != "cost" else 1000]])
    (plain,), (replaced,) = (found.build_blocks(records=1, replaced=r) for r in (False, True))
    added = found.count(one)
    assert (abs(added).sum(), (added**2).sum()) == (plain.l1, plain.l2_squared)
    turned = added - found.count(other)
    assert (abs(turned).sum(), (turned**2).sum()) == (replaced.l1, replaced.l2_squared)


def test_all_rows_of_a_user_may_meet_in_one_cell() -> None:
    found = layout("gram", "sick")
    (group,) = found.build_blocks(records=3, replaced=False)
    added = found.count(np.array([[0, 0, 0, 0, 1]] * 3))
    assert (abs(added).sum(), (added**2).sum()) == (group.l1, group.l2_squared)


def test_the_first_order_of_adult_touches_120_cells() -> None:
    """14 features: 91 pairs, 14 bins twice, and the label: what the intercept row would add is not released again."""
    features = tuple(f"f{i}" for i in range(14))
    lines = ", ".join(f'{{ name = "{f}", type = "boolean", null = "drop" }}' for f in (*features, "y"))
    import siloquent as sq

    declared = sq.read_schema(
        f'format = 1\nattribute = [{lines}]\n[table]\nname = "patients"\nadjacency = "add-remove"\n'
        'unit = { kind = "row" }\n[budget]\naccountant = "pure"\nepsilon = "1"\n'
    )
    encoding = build_encoding(build_agreement(spec(label="y", features=features), declared))
    assert Layout("gram", encoding).build_blocks(records=1, replaced=False)[0].l1 == 120
    assert Layout("marginals", encoding).build_blocks(records=1, replaced=False)[0].l1 == 14


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_batches_and_silos_add_up_in_any_order(case: tuple[str, str]) -> None:
    found = layout(*case)
    places = random_places(found.encoding, 1_000, seed=3)
    whole = count_exactly(found, places)
    order = np.random.default_rng(1).permutation(1_000)
    parts = np.split(places[order], [10, 400, 401])
    assert np.array_equal(whole, sum(count_exactly(found, part) for part in parts))


def test_declarations_in_other_words_give_one_encoding() -> None:
    assert build_agreement(spec(), schema()).digest == build_agreement(spec(), schema(size=7)).digest
    assert build_agreement(spec(), schema()).digest != build_agreement(spec(), schema(outside="clamp")).digest
