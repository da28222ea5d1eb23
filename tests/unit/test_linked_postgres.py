"""Links between PostgreSQL and files: owners and joins are the same whichever table is where."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest

import siloquent as sq
from unit.linked_shop import LINES, ORDERS, ROWS, ask_exactly, write_shop

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("there", [("o",), ("l",), ("o", "l")], ids="+".join)
def test_links_lead_into_a_database_and_out_of_it(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...]
) -> None:
    import psycopg

    tables = {"o": ORDERS, "l": LINES}
    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        for name in there:
            header, *rows = csv.reader(StringIO(ROWS[name]))
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} bigint' for column in header)})")
            for row in rows:
                connection.execute(
                    f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(row))})", [one or None for one in row]
                )
            tables[name] = tables[name].replace(f"csv:{name}.csv", f"postgres:shop#{name}")
    monkeypatch.setenv("SHOP_DSN", postgres_dsn)
    folder = write_shop(tmp_path / "w", **tables)
    with (folder / "siloquent.toml").open("a") as file:
        file.write('\n[postgres.shop]\ndsn_env = "SHOP_DSN"\n')
    with sq.open(folder) as session:
        assert ask_exactly(session, "SELECT COUNT(*) FROM l") == [(8,)]
        assert ask_exactly(session, "SELECT COUNT(DISTINCT customer) FROM l") == [(3,)]
        joined = "FROM l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c GROUP BY seg"
        assert ask_exactly(session, f"SELECT seg, COUNT(*) {joined}") == [("A", 5), ("B", 3)]
