"""The .ic grammar: what it says, what it refuses, and that the TOML reads back."""

from __future__ import annotations

import tomllib

import pytest

from siloquent.errors import SyntaxProblem
from siloquent.schema.constraints import DenialConstraint, FunctionalDependency, parse_comparisons
from siloquent.synth.spec.constraint_text import parse_ic, render_constraints_toml


def test_equal_on_some_and_different_on_one_is_a_dependency() -> None:
    (found,) = parse_ic("t1&t2&EQ(t1.State,t2.State)&EQ(t1.HasChild,t2.HasChild)&IQ(t1.ChildExemp,t2.ChildExemp)\n")
    assert found == FunctionalDependency(("State", "HasChild"), "ChildExemp")


def test_every_operator_and_names_with_dashes_are_read() -> None:
    (found,) = parse_ic("t1&t2&LTE(t1.a-b,t2.a-b)&GTE(t1.c,t2.d)&LT(t1.e,t2.e)&GT(t1.f,t2.f)")
    assert isinstance(found, DenialConstraint)
    assert found.text == 't1."a-b" <= t2."a-b" and t1.c >= t2.d and t1.e < t2.e and t1.f > t2.f'
    assert parse_comparisons(found.text) == found.comparisons


@pytest.mark.parametrize(("written", "meant"), [('"x y"', "'x y'"), ('"17"', "17"), ("3.50", "3.50"), ("'it'", "'it'")])
def test_constants_are_numbers_where_they_read_as_numbers(written: str, meant: str) -> None:
    (found,) = parse_ic(f"t1&EQ(t1.a,{written})")
    assert isinstance(found, DenialConstraint)
    assert found.text == f"t1.a = {meant}"


def test_the_toml_is_what_a_table_file_takes() -> None:
    text = render_constraints_toml(
        parse_ic('t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)\n# no\n\nt1&t2&LT(t1.c-d,t2.c-d)&EQ(t1.e,"o\'k")', hard=False)
    )
    first, second = tomllib.loads(text)["constraint"]
    assert first == {"kind": "fd", "lhs": ["a"], "rhs": "b", "hard": False}
    assert second == {"kind": "denial", "not": "t1.\"c-d\" < t2.\"c-d\" and t1.e = 'o''k'", "hard": False}
    assert len(parse_comparisons(second["not"])) == 2


@pytest.mark.parametrize("line", ["t1&t2", "t1&t2&EQ(t1.a,t3.a)", "t1&t2&LIKE(t1.a,t2.a)", "nonsense", "t1&EQ(t1.a"])
def test_what_cannot_be_read_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse_ic(f"# first\n{line}")
    assert refused.value.position >= 8
