"""Questions to services whose joint table is larger than any tally: answered user by user, as a tally would."""

from __future__ import annotations

import importlib
import tracemalloc

import numpy as np
import pytest

from siloquent.collect import Rows, build_single_row_users, estimate, perturb_all
from siloquent.collect.measure import ReportStore
from siloquent.maths.local.row_layers import RowReports
from unit.collect.shops import ORDERS, PROFILE, collection, shoppers


def service(name: str, first: int, second: int) -> str:
    """A service of two categories with so many values, which everyone uses."""
    values = [", ".join(f'"v{at}"' for at in range(size)) for size in (first, second)]
    lines = "".join(
        f'  {{ name = "{name}_{at}", type = "category", values = [{own}], other = "cell", null = "cell" }},\n'
        for at, own in zip("xy", values, strict=True)
    )
    return f'[[service]]\nname = "{name}"\neveryone = true\nattribute = [\n{lines}]\n'


SMALL = tuple(service(name, 3, 2) for name in ("one", "two", "three"))
ALL = "FROM one JOIN two USING (user) JOIN three USING (user)"
QUESTIONS = (
    f"SELECT COUNT(*) {ALL} WHERE one_x = 'v0' AND three_y = 'v1'",
    f"SELECT COUNT(*) {ALL} WHERE one_x = 'v1' OR two_y = 'v0'",
    f"SELECT two_x, COUNT(*) {ALL} WHERE three_x != 'v2' GROUP BY two_x",
)
SHOPS = (
    "SELECT COUNT(*) FROM orders JOIN profile USING (user) WHERE age BETWEEN 3 AND 17 AND amount > 9",
    "SELECT AVG(amount) FROM orders JOIN profile USING (user) WHERE region = 'a' OR age < 5",
    "SELECT gift, SUM(amount) FROM orders JOIN profile USING (user) WHERE age < 20 OR region = 'b' GROUP BY gift",
)


def uniform(users: int, sizes: tuple[int, ...], seed: int) -> tuple[Rows, ...]:
    """Rows of as many services of two attributes, the first of which goes with the first service's."""
    random = np.random.default_rng(seed)
    base = random.integers(0, sizes[0], users)
    found = []
    for _ in range(3):
        own = np.where(random.random(users) < 0.5, base, random.integers(0, sizes[0], users))
        found.append(build_single_row_users(np.column_stack([own, random.integers(0, sizes[1], users)])))
    return tuple(found)


@pytest.mark.parametrize(
    ("services", "questions"), [(SMALL, QUESTIONS), ((PROFILE, ORDERS), SHOPS)], ids=["three", "shops"]
)
def test_answers_user_by_user_are_those_of_the_tally(
    services: tuple[str, ...], questions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = collection(*services, epsilon="6")
    tallies = importlib.import_module("siloquent.collect.measure.tally")
    rows = uniform(6_000, (3, 2), 1) if services is SMALL else shoppers(6_000, 1)
    batches = perturb_all(made, rows)
    answers = []
    for most in (2**20, 0):
        monkeypatch.setattr(tallies, "MAX_COMBINATIONS", (most, most))
        with ReportStore(made) as store:
            store.add(batches)
            answers.append([estimate(store, one) for one in questions])
            kinds = {type(one) for one in store.tally(tuple(range(len(services)))).supports.values()}
            assert kinds == ({np.ndarray} if most else {RowReports})
    for counted, by_user in zip(*answers, strict=True):
        assert counted.labels == by_user.labels
        for mine, theirs in zip(counted.estimates, by_user.estimates, strict=True):
            for one, other in zip(mine, theirs, strict=True):
                assert other.value == pytest.approx(one.value, rel=1e-6, abs=1e-6)
                # Who has what counts in full as spread: never too little but for chance, and not far too much.
                assert 0.85 < other.standard_error / one.standard_error < 1.6


def test_three_services_of_five_hundred_combinations_are_counted_in_memory_that_follows_users() -> None:
    """Their joint table would have 1.2 x 10^8 cells, 1 GB."""
    users = 3_000
    made = collection(*(service(name, 25, 20) for name in ("one", "two", "three")), epsilon="12")
    rows = uniform(users, (25, 20), 2)
    with ReportStore(made) as store:
        store.add(perturb_all(made, rows))
        tracemalloc.start()
        found = estimate(store, QUESTIONS[1].replace("'v1'", "'v3'")).estimate
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    truth = int(((rows[0].places[:, 0] == 3) | (rows[1].places[:, 1] == 0)).sum())
    assert abs(found.value - truth) < 6.2 * found.standard_error  # wrong once in 10^9
    assert most < 64 * 2**20
