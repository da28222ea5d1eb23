"""In a database of any encoding, a text that has no equivalent is NULL in its own row, and no other row changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest

from siloquent.data import open_table
from siloquent.data.sources import encodings, postgres
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.errors import SchemaError, SiloquentError
from siloquent.ledger import MemoryLedger
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace

ENCODINGS = {"LATIN1": "iso8859-1", "WIN1252": "cp1252", "EUC_JP": "euc_jp", "EUC_JIS_2004": "euc_jis_2004"}
SCHEMA = """
format = 1
attribute = [
  { name = "n", type = "integer", lo = 0, hi = 999, outside = "clamp", null = "drop" },
  { name = "stra\u00dfe", type = "text" },
  { name = "ward", type = "category", values = ["A", "\u00e9", "\u3042"], other = "cell", null = "cell" },
]
[table]
name = "visits"
source = "postgres:clinic#visits"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
""".replace("stra\u00dfe", "street")


def texts(encoding: str, seed: int) -> list[bytes]:
    """Bytes that a database of ``encoding`` takes for a text, whether they stand for characters or not."""
    rng = np.random.default_rng(seed)
    if not encoding.startswith("EUC"):
        return [bytes(rng.integers(32, 256, rng.integers(1, 9)).astype(np.uint8)) for _ in range(80)]

    def character() -> bytes:
        high = rng.integers(0xA1, 0xFF, 2).astype(np.uint8).tobytes()
        return (b"", b"\x8f")[rng.integers(0, 2)] + high if rng.random() < 0.7 else bytes([rng.integers(32, 127)])

    return [b"".join(character() for _ in range(rng.integers(1, 4))) for _ in range(80)]


def rows_of(folder: Path) -> dict[int, tuple[str | None, int]]:
    """The text and the place of the category of each row."""
    schema = parse_schema(SCHEMA)
    workspace = Workspace(folder, postgres=(("clinic", "dsn_env", "CLINIC_DSN"),))
    table = open_table(schema, workspace, MemoryLedger(), salt="5a17")
    try:
        engine, columns, _ = table.open_for_owner()
        query = select_bounded_rows(columns, schema.unit, salt="5a17", wanted=columns)
        found = [
            row for batch in engine.read_batches(query) for row in zip(*(c.to_pylist() for c in batch), strict=True)
        ]
        return {row[0]: (row[1], row[2]) for row in found}
    finally:
        table.close()


@pytest.fixture
def database(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the database of an encoding, and its table."""
    plain = postgres_dsn.replace("+psycopg", "")
    made = []

    def make(encoding: str) -> Any:
        name = f"of_{encoding.lower()}"
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'".encode())
        dsn = plain.rpartition("/")[0] + "/" + name
        monkeypatch.setenv("CLINIC_DSN", dsn)
        connection = psycopg.connect(dsn, autocommit=True, client_encoding="UTF8")
        made.append((name, connection))
        connection.execute("CREATE TABLE visits (n int, street text, ward text)")
        return connection

    yield make
    for name, connection in made:
        connection.close()
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_text_without_an_equivalent_takes_no_other_along(encoding: str, database: Any, tmp_path: Path) -> None:
    connection, codec = database(encoding), ENCODINGS[encoding]
    connection.execute(f"SET client_encoding = '{encoding}'".encode())
    given = texts(encoding, seed=len(encoding))
    wards = [name.encode(codec) for name in ("A", "\u00e9", "\u3042") if _is_in(name, codec)] + given[:3]
    with connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN (FORMAT csv)") as copy:
        for number, raw in enumerate(given):
            quoted = b'"' + raw.replace(b'"', b'""') + b'"'
            copy.write(
                b"%d,%s,%s\n" % (number, quoted, wards[number % len(wards)].replace(b'"', b"x").replace(b",", b"x"))
            )
    found = rows_of(tmp_path)
    expected = {number: _read(raw, codec) for number, raw in enumerate(given)}
    assert None in expected.values() or encoding == "LATIN1"
    assert {number: text for number, (text, _) in found.items()} == expected
    assert [found[number][1] for number in range(len(wards) - 3)] == [
        place for place, name in enumerate(("A", "\u00e9", "\u3042")) if _is_in(name, codec)
    ]
    if encoding != "LATIN1":
        with patch.object(postgres, "find_codec", lambda encoding, table: "utf-8"):  # a planted fault
            assert {number: text for number, (text, _) in rows_of(tmp_path).items()} != expected


def _is_in(text: str, codec: str) -> bool:
    try:
        return bool(text.encode(codec))
    except UnicodeError:
        return False


def _read(raw: bytes, codec: str) -> str | None:
    try:
        text = raw.decode(codec)
        return text if text.encode(codec) == raw else None
    except UnicodeError:
        return None


@pytest.mark.postgres
def test_an_encoding_that_is_not_read_is_refused_before_rows_are(database: Any, tmp_path: Path) -> None:
    database("EUC_TW")
    with pytest.raises(SchemaError, match="EUC_TW") as refused:
        rows_of(tmp_path)
    assert "createdb --encoding UTF8" in str(refused.value)


@pytest.mark.postgres
def test_an_id_of_bytes_that_fills_a_gigabyte_as_text_is_null(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE visits (n int, who jsonb)")
        connection.execute("INSERT INTO visits VALUES (1, '7'), (2, to_jsonb(repeat('x', 70000)))")
        connection.commit()
        found = postgres.PostgresTable.__new__(postgres.PostgresTable)
        found.types, found._wanted, found._listed = {"who": ("other", "jsonb")}, ["who"], set()
        found._limits, found._relation, found._codec = postgres.ReadLimits(), ("public", "visits"), "utf-8"
        with connection.cursor() as cursor, cursor.copy(found._build_copy_statement()) as copy:
            assert b"".join(map(bytes, copy)) == b'"7"\n\n'


def test_every_codec_holds_ascii_as_it_is() -> None:
    ascii_bytes = bytes(range(128))
    for codec in set(encodings._CODECS.values()):
        assert ascii_bytes.decode(codec) == ascii_bytes.decode("ascii"), codec
    with pytest.raises(SiloquentError, match="MULE_INTERNAL"):
        encodings.find_codec("MULE_INTERNAL", table="visits")
