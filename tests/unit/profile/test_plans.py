"""Specs, plans, canaries, sizes: what is refused, what is said, what is hidden where."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from siloquent.errors import ReleaseError, RequestError, SchemaError
from siloquent.profile import ProfileColumn, ProfileSpec, check_report, explain, load_report, parse_report, save_report
from siloquent.profile.plan.canaries import (
    YES,
    compute_vote_indices,
    count_canaries,
    draw_sharing_plan,
    draw_vote_canaries,
    parse_sharing_plan,
    shuffle_order,
)
from siloquent.profile.plan.local_search import LocalSearch
from siloquent.profile.plan.passes import lay_out_pass
from siloquent.profile.plan.sizes import CHUNK_ELEMENTS, compute_size_class, split_queries
from siloquent.profile.spec import Dependency, parse_dependency, parse_spec
from siloquent.profile.task import adopt_constraints, build_constraint_entries, choose_dependencies
from unit.profile.lattice import random_parts, session

SEED, SESSION = bytes(32), bytes(32)


def test_a_size_class_is_at_most_a_sixteenth_more_and_small_numbers_are_exact() -> None:
    for rows in range(1, 5_000):
        assert rows <= compute_size_class(rows) <= rows * 17 / 16
    assert [compute_size_class(rows) for rows in range(1, 33)] == list(range(1, 33))
    assert len({compute_size_class(rows) for rows in range(1_000, 2_000)}) <= 17


def test_messages_hold_as_much_as_a_worker_can_begin_with() -> None:
    assert split_queries(range(10), CHUNK_ELEMENTS) == [[n] for n in range(10)]
    assert split_queries(range(5), CHUNK_ELEMENTS // 2) == [[0, 1], [2, 3], [4]]
    assert split_queries([], 10) == []


def test_made_up_values_fit_into_every_partys_batch_and_give_the_counts_that_are_expected() -> None:
    for query in range(200):
        sizes = [10 + query % 7, 40, 100]
        plan = draw_sharing_plan(sizes, SEED, SESSION, query)
        for party, size in enumerate(sizes):
            assert sum(count for _, count in plan.list_held(party)) <= size
        assert plan.compute_histogram(3).tolist() == [
            sum(count for group, count in plan.shares if group.bit_count() == k) for k in (2, 3)
        ]
        assert parse_sharing_plan(plan.to_list(), sizes) == plan


def test_every_made_up_request_shares_something() -> None:
    for size in (1, 2, 3, 8):
        assert all(draw_sharing_plan([size] * 3, SEED, SESSION, query).shares for query in range(200))


@pytest.mark.parametrize("plain", [[[1, 2]], [[3, 0]], [[3, 99]], [[8, 1]], [[3, 1], [3, 1]], [["a", 1]], 7, [[3]]])
def test_a_sharing_plan_that_cannot_be_is_refused(plain: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse_sharing_plan(plain, [5, 5, 5])


def test_canaries_are_there_from_the_first_pass_on_and_keep_their_share() -> None:
    share = Fraction(1, 20)
    assert [count_canaries(sets, share) for sets in (1, 20, 21, 200)] == [1, 1, 2, 10]
    kinds = draw_vote_canaries(100, 3, share, SEED, SESSION, 1)
    assert len(kinds) == 5
    assert YES in kinds
    assert set(kinds) - {YES} <= {0, 1, 2}


def test_ballots_lie_in_an_order_that_only_those_who_were_told_its_key_know() -> None:
    orders = [tuple(compute_vote_indices(30, bytes([key] * 32), SESSION, 0)) for key in range(20)]
    assert all(sorted(order) == list(range(30)) for order in orders)
    assert len(set(orders)) == 20
    assert compute_vote_indices(30, SEED, SESSION, 0) != compute_vote_indices(30, SEED, SESSION, 1)


def test_what_holds_everywhere_is_found_with_few_votes_where_little_or_nothing_does() -> None:
    """By the size of the set, 13 columns of which none depends on others take all 53,235 candidates."""
    borders, asked = LocalSearch(13, 13), 0
    while candidates := borders.list_candidates():
        asked += len(candidates)
        borders.learn(candidates, [False] * len(candidates))
    assert (asked, borders.rounds, borders.list_dependencies()) == (169, 1, [])


def test_rounds_of_votes_are_few_however_many_candidates_there_are() -> None:
    borders = LocalSearch(14, 5)
    while candidates := borders.list_candidates():
        borders.learn(candidates, [False] * len(candidates))
    assert borders.rounds <= 10


def test_a_pass_hides_its_canaries_among_the_queries_and_numbers_all_upwards() -> None:
    laid = lay_out_pass([3, 5, 6], 2, number=0, first_query=10, first_chunk=4, sizes=[8, 8], seed=SEED, session=SESSION)
    assert sorted({**laid.masks, **laid.plans}) == list(range(10, 15))
    assert list(laid.masks.values()) == [3, 5, 6]
    assert all(like in laid.masks for _, like in laid.plans.values())
    places = {tuple(sorted(shuffle_order(20, bytes([n] * 32), SESSION, "pass", 0)[:2])) for n in range(30)}
    assert len(places) > 20


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"columns": ("a",)}, "2 to 16"),
        ({"columns": ("a", "a")}, "distinct columns"),
        ({"kinds": ("rules",)}, "kinds must be chosen from"),
        ({"kinds": ()}, "kinds must be chosen from"),
        ({"nulls": "maybe"}, "nulls must be one of"),
        ({"max_lhs": 3}, "max_lhs must be between 1 and 2"),
        ({"canaries": 2}, "share between 0 and 1"),
        ({"min_rows": 1}, "at least 2"),
        ({"deadline": 0}, "seconds"),
        ({"max_sets": 0}, "at least 1"),
        ({"protocol": "smfd", "empty_lhs": True}, "neither empty"),
        ({"table": ""}, "needs a table"),
    ],
)
def test_a_spec_that_says_nothing_sensible_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        ProfileSpec(**{"table": "t", "columns": ("a", "b"), **given})  # type: ignore[arg-type]


def test_a_spec_survives_its_plain_form() -> None:
    spec = ProfileSpec("t", ("a", "b", "c"), max_lhs=2, canaries=Fraction(1, 7), kinds=("ufd", "keys"), deadline=60)
    assert parse_spec(spec.to_dict()) == spec
    assert ProfileSpec("t", tuple("abcdefghijklm")).most == 5
    assert ProfileSpec("t", tuple("abcdefghijkl")).most == 12
    for broken in ([], {"table": "t"}, {"table": "t", "columns": "ab"}, {"table": "t", "columns": ["a", "b"], "x": 1}):
        with pytest.raises(RequestError):
            parse_spec(broken)


def test_a_plan_warns_of_columns_that_name_people_and_counts_what_is_sent() -> None:
    spec = ProfileSpec("t", ("patient", "city"))
    columns = (ProfileColumn("patient", "text", names_people=True), ProfileColumn("city", "text"))
    planned = explain(spec, columns=columns, parties=3, workers=2, rows=100)
    assert "names people" in planned.warnings[0]
    assert planned.most_sets == 3
    assert planned.most_votes == 2
    assert planned.set_bytes == 32 * 3 * compute_size_class(100) * 2
    assert any("all 2 workers" in role for role, _ in planned.statement)


def test_a_report_survives_its_file_and_contradictions_are_found(tmp_path: Path) -> None:
    report = session(random_parts(2, columns=4))
    assert parse_report(report.to_dict()) == report
    folder = save_report(report, tmp_path / "rules", table="t")
    assert load_report(folder) == report
    assert save_report(report, folder, table="t") == folder
    assert check_report(report) == ()
    plain = report.to_dict()
    cases = {
        "has not confirmed": {"signatures": {}},
        "speaks of columns": {"ufd": [[["zzz"], "a"]]},
    }
    for words, change in cases.items():
        assert any(words in problem for problem in check_report(parse_report({**plain, **change})))
    for broken in ({}, {**plain, "format": 2}, {**plain, "id": "f-000000000000"}, {**plain, "ufd": [[1]]}):
        with pytest.raises(ReleaseError):
            parse_report(broken)
    with pytest.raises(ReleaseError, match="a different report"):
        save_report(session(random_parts(3, columns=4)), folder, table="t")


ARRAY = """\
format = 1
attribute = [
  { name = "supplier", type = "category", values = ["a ]", "b"], null = "drop" },
  { name = "city", type = "category", values = ["c", "d"], null = "drop" },
]
%s
[table]
name = "t"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
"""
NEW = [{"kind": "fd", "lhs": ["supplier"], "rhs": "city", "hard": True, "source": "profile:f-1"}]


@pytest.mark.parametrize(
    "held", ["", 'constraint = [\n  { kind = "key", columns = ["supplier"] }, # one\n]', "constraint = []"]
)
def test_a_found_dependency_is_written_into_any_form_of_table_file(held: str) -> None:
    from siloquent.schema.build import parse_schema

    text = ARRAY % held
    changed = adopt_constraints(text, NEW)
    constraints = parse_schema(changed).constraints
    assert len(constraints) == len(parse_schema(text).constraints) + 1
    assert any(getattr(one, "source", "") == "profile:f-1" for one in constraints)
    assert adopt_constraints(changed, NEW) == changed
    assert all(line in changed for line in text.splitlines() if not line.startswith("constraint"))


def test_a_file_that_cannot_be_changed_safely_is_left_alone() -> None:
    odd = ARRAY % "'constraint' = []"
    with pytest.raises(SchemaError, match="Cannot add"):
        adopt_constraints(odd, NEW)


def test_only_what_holds_over_all_rows_is_adopted() -> None:
    report = session([np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 0]])])
    assert report.ufd == ()
    with pytest.raises(RequestError, match="not over all rows"):
        choose_dependencies(report, ["a -> b"])
    same = session([np.array([[0, 0], [1, 1]]), np.array([[0, 0], [2, 1]])])
    assert choose_dependencies(same, ["a->b"]) == (Dependency(("a",), "b"),)
    assert build_constraint_entries(same, same.ufd)[0]["source"] == f"profile:{same.id}"
    assert parse_dependency(" c, b -> a ") == Dependency(("b", "c"), "a")
