"""Any declaration, any rows: a synthesis keeps every hard constraint, the declared domain, and says nothing of rows."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siloquent.errors import ConstraintProblem
from siloquent.synth.estimate.enforce.constraints import count_violations
from unit.synth.people import opened, planned, schema, spec

COLUMNS = """\
  { name = "a", type = "integer", lo = 0, hi = 5, outside = "clamp", null = "drop" },
  { name = "b", type = "category", values = ["x", "y", "z"], null = "cell", other = "cell" },
  { name = "select", type = "integer", lo = -3, hi = 20, outside = "drop", null = "drop" },
  { name = "d e", type = "boolean", null = "drop" },
"""
RULES = (
    '{ kind = "fd", lhs = ["b"], rhs = "d e" }',
    '{ kind = "fd", lhs = ["a", "d e"], rhs = "b" }',
    '{ kind = "denial", not = \'t1.a > t2.a and t1."select" < t2."select"\' }',
    '{ kind = "denial", not = \'t1.b = t2.b and t1.a > t2.a and t1."select" > t2."select"\' }',
    '{ kind = "denial", not = \'a > 3 and "select" < 0\' }',
    '{ kind = "denial", not = "b = \'x\' and a = 0" }',
    '{ kind = "denial", not = \'t1.a != t2.a and t1.b = t2.b and t1."d e" != t2."d e"\' }',
)
VALUES = st.tuples(
    st.integers(-1, 7), st.sampled_from(["x", "y", "z", "w", None]), st.integers(-9, 30), st.sampled_from([True, False])
)


@given(
    rules=st.lists(st.sampled_from(RULES), unique=True, max_size=3),
    rows=st.lists(VALUES, max_size=40),
    number=st.integers(1, 120),
    accountant=st.sampled_from(["zcdp", "pure"]),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_hard_constraint_is_broken_whatever_the_rows(
    rules: list[str], rows: list[Any], number: int, accountant: str
) -> None:
    given_toml = {"columns": COLUMNS, "rules": f"constraint = [{', '.join(rules)}]", "size_hint": None}
    try:
        planned(schema(accountant=accountant, **given_toml), rows=number)
    except ConstraintProblem:  # refused before anything is spent: a contradiction
        return
    names = ["a", "b", "select", "d e"]
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.bool_()]
    table = pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], names=names)
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(f"{folder}/w", table, accountant=accountant, **given_toml) as s,
    ):
        made = s.synth.synthesize(spec(rows=number))
    cells = made.model.draw_cells(number, seed=0)
    assert all(v.pairs == 0 for v in count_violations(cells, made.model.plan.compiled).values())
    assert made.rows.num_rows == number
    sizes = np.array(made.model.plan.compiled.sizes)
    assert ((cells >= 0) & (cells < sizes)).all()
    plain = made.rows.to_pydict()
    assert set(plain["b"]) <= {"x", "y", "z", "(other)", None}
    assert all(isinstance(value, int) and -3 <= value <= 20 for value in plain["select"])
