"""Count tables against the scan of all stored rows, with rows coming and going."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from property.synth.test_zero_violations import NAMES, SCHEMA, denials, dependencies, orders
from siloquent.maths.pairs.counting import count_violations_per_row
from siloquent.schema.constraints import Constraint, DenialConstraint, parse_comparisons
from siloquent.synth.estimate.counting import build_pair_tables
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.plan.constraints import compile_constraints


@settings(max_examples=120, deadline=None)
@given(
    declared=st.lists(st.one_of(denials(), dependencies(), orders()), min_size=1, max_size=2),
    target=st.sampled_from(NAMES),
    seed=st.integers(0, 99),
)
@example(declared=[DenialConstraint(parse_comparisons("t1.c <= t2.c"))], target="c", seed=0)
def test_tables_count_what_a_scan_finds(declared: list[Constraint], target: str, seed: int) -> None:
    compiled = compile_constraints(SCHEMA, constraints=declared)
    forms = [one.form for one in compiled.constraints if one.form is not None and one.form.is_binary]
    assume(forms and len(forms) == len(declared))
    assume(all(len(test.attributes) == 1 for form in forms for test in (*form.first, *form.second)))
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(0, size, 30) for size in compiled.sizes], axis=1)
    tables = build_pair_tables(forms, compiled, target)
    tables.add(rows)
    tables.add(rows[:9], -1)
    stored, asking = rows[9:], rows[0].copy()
    found = tables.count_broken(asking)
    for value in range(compiled.sizes[compiled.find_column(target)]):
        asking[compiled.find_column(target)] = value
        together = np.concatenate([stored, asking[None]])
        codes = compiled.split_columns(together)
        expected = [int(count_violations_per_row(build_pair_rule(form, codes, len(together)))[-1]) for form in forms]
        assert found[:, value].tolist() == expected
