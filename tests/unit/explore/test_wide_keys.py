"""GROUP BY a key of very many values: taken if it refers to a public table, refused with bins otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.tpch.random_tables import SCALE, write_tables
from benchmarks.tpch.workspace import build_workspace, connect
from siloquent.errors import RequestError

ASKED = "SELECT {key}, COUNT(*) AS n FROM lineitem GROUP BY {key} ERROR 1"


def test_a_key_that_refers_to_a_public_table_is_grouped_value_by_value(tmp_path: Path) -> None:
    write_tables(tmp_path, seed=3, customers=40)
    build_workspace(tmp_path / "w", tmp_path, SCALE * 2)
    with sq.open(tmp_path / "w") as session, connect(tmp_path) as plain:
        answer = session.ask(ASKED.format(key="l_partkey"))
        exact = dict(plain.execute("SELECT l_partkey, COUNT(*) FROM lineitem GROUP BY 1").fetchall())
        found = {int(row[0]): float(row[1]) for row in answer.rows}
        assert len(found) == 400  # more than an integer has as a code
        assert all(abs(value - exact.get(key, 0)) <= 1 for key, value in found.items())


def test_another_number_of_so_many_values_is_refused_with_coarser_groups(tmp_path: Path) -> None:
    write_tables(tmp_path, seed=3, customers=40)
    build_workspace(tmp_path / "w", tmp_path, SCALE * 2)
    schema = tmp_path / "w" / "schemas" / "lineitem.toml"
    kept = [line for line in schema.read_text().splitlines() if "part(p_partkey)" not in line]
    schema.write_text("\n".join(kept))
    with sq.open(tmp_path / "w") as session:
        with pytest.raises(RequestError) as refused:
            session.ask(ASKED.format(key="l_partkey"))
        session.explain(refused.value.fix)
