"""The workspace file says where things are, and never holds a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.files.toml import MAX_BYTES
from siloquent.schema.workspace import find_workspace, read_workspace


def workspace(folder: Path, text: str = "format = 1\n") -> Path:
    (folder / "siloquent.toml").write_text(text)
    (folder / "schemas").mkdir()
    (folder / "schemas" / "visits.toml").write_text("")
    return folder


def test_everything_has_its_place_in_the_folder(tmp_path: Path) -> None:
    databases = '[postgres]\nclinic = { dsn_env = "DSN" }\narchive = { dsn_file = "dsn" }\n'
    text = f'format = 1\n{databases}[spark]\nmaster = "local"\n'
    found = read_workspace(workspace(tmp_path, text))
    assert found.postgres == (("archive", "dsn_file", "dsn"), ("clinic", "dsn_env", "DSN"))
    assert (found.ledger, found.spark_master, found.head) == ("ledger.sqlite", "local", tmp_path / "ledger.head")
    assert found.list_table_names() == ["visits"]
    assert found.get_schema_file("visits") == tmp_path / "schemas" / "visits.toml"


def test_the_nearest_workspace_above_is_found(tmp_path: Path) -> None:
    deep = workspace(tmp_path) / "a" / "b"
    deep.mkdir(parents=True)
    assert find_workspace(deep) == tmp_path.resolve()
    with pytest.raises(SchemaError, match=r"siloquent\.create_workspace"):
        find_workspace(Path("/"))


def test_an_unknown_table_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'visits'"):
        read_workspace(workspace(tmp_path)).get_schema_file("visit")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("format = 2", "format = 1"),
        ("", "format = 1"),
        ("format = 1\nledgr = 1", "Did you mean 'ledger'"),
        ("format = 1\nledger = 1", r"\[ledger\] in siloquent.toml must be a table"),
        ("format = 1\n[ledger]\nuri = 'x'", "Did you mean 'url'"),
        ("format = 1\n[ledger]\nurl = 'postgresql://u:secret@h/d'", "PGPASSWORD"),
        ("format = 1\n[postgres.clinic]\ndsn = 'postgresql://u:secret@h/d'", "dsn_env"),
        ("format = 1\n[postgres]\nclinic = 'postgresql://u:secret@h/d'", "dsn_env"),
        ("format = ", "not valid TOML"),
        ("format = true", "format = 1"),
        ("format = 1.0", "format = 1"),
        ("format = 1\n[ledger]\nurl = 'POSTGRESQL://u:secret@h/d'", "PGPASSWORD"),
        ("format = 1\n[ledger]\nurl = 'postgresql://u:sec/ret:secret@h/d'", "PGPASSWORD"),
        ("format = 1\n[ledger]\nurl = 'postgresql://h/d?password=secret'", "PGPASSWORD"),
        ("format = 1\n[ledger]\nurl = 'host=h password = secret'", "PGPASSWORD"),
        ("format = 1\n[ledger]\nurl = ''", "a file name"),
        ('format = 1\n[ledger]\nurl = "a\\u0000b"', "a file name"),
        (f"format = 1\n[ledger]\nurl = '{'x' * 300}'", "a file name"),
        ("format = 1\n[postgres.clinic]\ndsn_env = 'postgresql://u:secret@h/d'", "dsn_env"),
        ("format = 1\n[postgres.clinic]\ndsn_env = 5", "dsn_env"),
        ("format = 1\n[postgres.clinic]\ndsn_file = 'host=h password=secret'", "dsn_file"),
        ("format = 1\n[spark]\nmaster = ['local']", "address of a Spark cluster"),
        ("format = 1\n" + "x" * 9_000 + " = 1", "setting in siloquent.toml"),
    ],
)
def test_a_wrong_file_is_refused_without_repeating_a_password(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what) as caught:
        read_workspace(workspace(tmp_path, text))
    assert "secret" not in str(caught.value)


def test_a_folder_without_the_file_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is not a workspace"):
        read_workspace(tmp_path)


def test_a_file_that_is_no_text_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    (folder / "siloquent.toml").write_bytes(b"format = 1\n# \xff\n")
    with pytest.raises(SchemaError, match="not UTF-8"):
        read_workspace(folder)
    (folder / "siloquent.toml").write_bytes(b"#" * (MAX_BYTES + 5))
    with pytest.raises(SchemaError, match="at most 4 MiB"):
        read_workspace(folder)
