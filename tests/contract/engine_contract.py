"""What every engine keeps: the same whole numbers from the same rows, whatever runs beneath."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from siloquent.data import Engine, check
from siloquent.errors import DataError
from siloquent.schema import Block
from unit.data.clinic import clinic_schema, full_block, on_engine, places, visits, with_outside

Kernel = Callable[[pa.RecordBatch], NDArray[Any]]
USERS = '{ kind = "user", column = "patient", max_rows = 2 }'


class EngineContract:
    """A new engine inherits these tests and says only how it comes to hold the rows of an Arrow table."""

    def make(self, rows: pa.Table) -> Engine:
        raise NotImplementedError

    def test_counts_every_row_where_python_puts_it(self) -> None:
        schema, rows = clinic_schema(), visits(500)
        table, permit = on_engine(schema, self.make(rows))
        for attribute in ("age", "weight", "ward", "smoker", "day"):
            [counted] = table.count_by_cell([with_outside(schema, attribute)], permit)
            expected = np.bincount(places(schema, rows, attribute) % (schema.domain[attribute].size + 1))
            assert counted[: len(expected)].tolist() == expected.tolist(), attribute
            assert counted.sum() == 500

    def test_counts_several_blocks_as_if_they_came_alone(self) -> None:
        schema = clinic_schema()
        table, permit = on_engine(schema, self.make(visits(300)))
        blocks = [full_block(schema, "ward", "smoker"), full_block(schema, "age"), Block((), ())]
        together = table.count_by_cell(blocks, permit)
        alone = [table.count_by_cell([block], permit)[0] for block in blocks]
        assert [a.tolist() for a in together] == [b.tolist() for b in alone]
        assert together[2].tolist() == [300]

    def test_a_wide_product_is_counted_as_exactly_as_a_narrow_one(self) -> None:
        schema, rows = clinic_schema(), visits(300)
        table, permit = on_engine(schema, self.make(rows))
        halves = [np.append(np.arange(n) * 2 // n, -1) for n in (121, 3_002, 366)]
        wide = Block(("age", "weight", "day"), tuple(halves))  # 121 x 3,002 x 366 places are too many to group by
        expected = np.zeros(8, dtype=np.int64)
        found = [places(schema, rows, a) for a in wide.attributes]
        for cell in zip(*found, strict=True):
            if min(cell) >= 0:
                expected[int(np.ravel_multi_index([h[c] for h, c in zip(halves, cell, strict=True)], (2, 2, 2)))] += 1
        assert table.count_by_cell([wide], permit)[0].tolist() == expected.tolist()

    @pytest.mark.parametrize("wide", [False, True])
    def test_sums_places_of_rows_that_have_a_number(self, wide: bool) -> None:
        schema, rows = clinic_schema(), visits(400)
        table, permit = on_engine(schema, self.make(rows))
        block = with_outside(schema, "ward")
        if wide:  # 6 x 122 x 3,003 places are too many to group by
            block = Block(("ward", "age", "weight"), (*block.classes, np.zeros(122, int), np.zeros(3_003, int)))
        ward, weight = places(schema, rows, "ward"), places(schema, rows, "weight")
        [sums] = table.sum_by_cell([block], "weight", permit)
        number = (weight >= 0) & (weight < schema.domain["weight"].steps)  # NULL has a cell and is no number
        for cell in range(5):
            chosen = number & (ward == cell)
            assert (sums.index_sums[cell], sums.counts[cell]) == (weight[chosen].sum(), chosen.sum())

    def test_sums_of_numbers_with_many_steps_are_exact(self) -> None:
        attribute = '{ name = "v", type = "integer", lo = 0, hi = 1099511627775, outside = "clamp", null = "drop" }'
        values = [2**40, 2**40 - 1, 2**39 + 12_345, 2**20, 2**20 - 1, 7, None, -3]
        rows = pa.table({"v": pa.array(values * 5_000, pa.int64())})
        table, permit = on_engine(clinic_schema(attributes=attribute), self.make(rows))
        [sums] = table.sum_by_cell([Block((), ())], "v", permit)
        exact = 5_000 * sum(min(max(v, 0), 2**40 - 1) for v in values if v is not None)
        assert exact > 2**53  # doubles would not hold it
        assert (sums.index_sums.tolist(), sums.counts.tolist()) == ([exact], [35_000])

    def test_the_rows_of_a_user_are_the_same_in_every_question(self) -> None:
        schema, rows = clinic_schema(unit=USERS), visits(300)
        table, permit = on_engine(schema, self.make(rows))
        seen: list[tuple[object, ...]] = []
        for _ in range(2):
            batches = table.read_rows(["patient", "age", "weight", "ward", "smoker", "day"], permit)
            seen.append(tuple(sorted((tuple(r.values()) for b in batches for r in b.to_pylist()), key=repr)))
        assert seen[0] == seen[1]
        ages = table.count_by_cell([full_block(schema, "age")], permit)[0]
        kept = [row[1] for row in seen[0] if row[1] is not None]  # type: ignore[index]
        assert ages.tolist() == np.bincount(kept, minlength=121).tolist()
        users, counted = np.unique([str(row[0]) for row in seen[0]], return_counts=True)  # type: ignore[index]
        known = rows.column("patient").drop_null().to_pylist()
        assert sorted(users) == sorted({str(user) for user in known})
        assert counted.tolist() == [min(known.count(int(user)), 2) for user in users]

    def test_folds_batches_of_values_and_of_places(self) -> None:
        schema, rows = clinic_schema(), visits(250)
        table, permit = on_engine(schema, self.make(rows))
        expected = places(schema, rows, "age")
        assert table.fold(_rows_and_sum(), np.add, ["age"], permit, encoded=True).tolist() == [250, expected.sum()]
        inside = expected[expected >= 0]
        assert table.fold(_rows_and_sum(), np.add, ["age"], permit).tolist() == [250, inside.sum()]

    def test_without_rows_there_are_zeros(self) -> None:
        schema = clinic_schema(unit=USERS)
        table, permit = on_engine(schema, self.make(visits(0)))
        counted = table.count_by_cell([full_block(schema, "ward"), full_block(schema, "age", "day", "smoker")], permit)
        assert [c.sum() for c in counted] == [0, 0]
        assert [c.shape for c in counted] == [(5,), (121 * 366 * 2,)]
        [sums] = table.sum_by_cell([Block((), ())], "age", permit)
        assert (sums.index_sums.tolist(), sums.counts.tolist()) == ([0], [0])
        assert table.fold(_rows_and_sum(), np.add, ["age"], permit).tolist() == [0, 0]

    def test_long_lists_of_values_are_looked_up(self) -> None:
        listed = ", ".join(f'"w{i}"' for i in range(300))
        schema = clinic_schema(attributes=f'{{ name = "ward", type = "category", values = [{listed}], null = "cell" }}')
        rows = pa.table({"ward": ["w299", "w0", "w300", None, "W0", "w7", "w7"]})
        table, permit = on_engine(schema, self.make(rows))
        [counted] = table.count_by_cell([with_outside(schema, "ward")], permit)
        assert {i: int(n) for i, n in enumerate(counted) if n} == {0: 1, 7: 2, 299: 1, 300: 1, 301: 2}

    def test_a_check_finds_the_same_faults(self) -> None:
        constraint = """constraint = [
          { kind = "fd", lhs = ["ward"], rhs = "smoker" },
          { kind = "key", columns = ["patient", "day"] },
          { kind = "denial", not = "t1.ward = t2.ward and t1.age < t2.age and t1.weight > t2.weight" },
          { kind = "denial", not = "age < 18 and smoker = true and day > '2024-03-01'" },
        ]"""
        schema, rows = clinic_schema(unit=USERS, more=constraint), visits(200)
        report = check(on_engine(schema, self.make(rows))[0])
        counted = {f.subject.partition(" (")[0]: f.count for f in report.findings if f.kind == "violated"}
        assert counted == {f"constraint {i}": n for i, n in enumerate(_violations(rows.to_pylist()), 1) if n}
        found = {
            (f.kind, f.subject): f.count for f in report.findings if f.kind not in ("violated", "unreadable_lines")
        }
        patients = [p for p in rows.column("patient").to_pylist() if p is not None]
        users = {user: patients.count(user) for user in patients}
        assert (report.rows, report.counted) == (200, sum(min(n, 2) for n in users.values()))
        ages = rows.column("age").to_pylist()
        assert found["null", "attribute age"] == ages.count(None)
        assert found["outside", "attribute age"] == sum(a is not None and not 0 <= a <= 120 for a in ages)
        assert found["unlisted", "attribute ward"] == sum(w in ("D", "") for w in rows.column("ward").to_pylist())
        assert found["over_max_rows", "unit patient"] == sum(n > 2 for n in users.values())
        assert found["no_user", "unit patient"] == 200 - len(patients)

    def test_a_failing_kernel_says_nothing_of_the_rows(self) -> None:
        table, permit = on_engine(clinic_schema(), self.make(visits(20)))
        with pytest.raises(DataError) as caught:
            table.fold(_tells(), np.add, ["note"], permit)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert "stays charged" in str(caught.value)
        assert "xxx" not in str(caught.value)


def _violations(rows: list[dict[str, Any]]) -> list[int]:
    """How often the four constraints of the check are broken, counted one by one in Python."""
    smokers: dict[str, set[bool]] = {}
    days: dict[tuple[Any, Any], int] = {}
    for row in rows:
        if row["ward"] is not None and row["smoker"] is not None:
            smokers.setdefault(row["ward"], set()).add(row["smoker"])
        if row["patient"] is not None and row["day"] is not None:
            days[row["patient"], row["day"]] = days.get((row["patient"], row["day"]), 0) + 1
    full = [r for r in rows if None not in (r["ward"], r["age"], r["weight"]) and not math.isnan(r["weight"])]
    pairs = [(a, b) for a in full for b in full if a["ward"] == b["ward"]]
    young = [r for r in rows if r["age"] is not None and r["age"] < 18 and r["smoker"] and r["day"] is not None]
    return [
        sum(len(found) > 1 for found in smokers.values()),
        sum(n > 1 for n in days.values()),
        sum(a["age"] < b["age"] and a["weight"] > b["weight"] for a, b in pairs),
        sum(r["day"] > date(2024, 3, 1) for r in young),
    ]


def _rows_and_sum() -> Kernel:
    """A kernel that is written into what is sent, since workers cannot import tests."""

    def kernel(batch: pa.RecordBatch) -> NDArray[Any]:
        import numpy as np
        import pyarrow.compute as pc

        return np.array([batch.num_rows, pc.sum(batch.column("age")).as_py() or 0], dtype=np.int64)

    return kernel


def _tells() -> Kernel:
    def kernel(batch: pa.RecordBatch) -> NDArray[Any]:
        import numpy as np

        if batch.num_rows:
            raise ValueError(f"a note says {batch.column('note').to_pylist()}")
        return np.zeros(1, dtype=np.int64)

    return kernel
