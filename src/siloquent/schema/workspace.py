"""The workspace file ``siloquent.toml``: where the ledger is and how named databases are reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.toml import read_toml

WORKSPACE_FILE = "siloquent.toml"
_KEYS = {"format", "ledger", "postgres", "spark", "server"}
_PASSWORD = re.compile(r"^[a-z0-9+]+://[^/@]*:[^/@]+@")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with ``siloquent.toml``, ``schemas/NAME.toml``, a ledger and ``releases/``.

    ``ledger``: a file name inside the folder, or a PostgreSQL URL. ``postgres``: (name, where, value).
    """

    folder: Path
    ledger: str = "ledger.sqlite"
    postgres: tuple[tuple[str, str, str], ...] = ()
    spark_master: str = "local[*]"

    @property
    def head(self) -> Path:
        """The file beside the ledger that remembers how far it was."""
        return self.folder / "ledger.head"

    @property
    def schemas(self) -> Path:
        """The folder of table files."""
        return self.folder / "schemas"

    @property
    def releases(self) -> Path:
        """The folder of releases."""
        return self.folder / "releases"

    def schema_file(self, table: str) -> Path:
        """The file that declares ``table``.

        Raises:
            UnknownName: there is none; it names those that there are.
        """
        known = self.table_names()
        if table not in known:
            raise UnknownName("table", table, known, fix="siloquent tables")
        return self.schemas / f"{table}.toml"

    def table_names(self) -> list[str]:
        """The declared tables, in alphabetical order."""
        return sorted(path.stem for path in self.schemas.glob("*.toml") if path.is_file())


def find_workspace(start: Path) -> Path:
    """The nearest folder at or above ``start`` that holds a workspace file.

    Raises:
        SchemaError: there is none.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / WORKSPACE_FILE).is_file():
            return folder
    raise SchemaError(f"No {WORKSPACE_FILE} here or above {start}.", fix="siloquent init DIR, or --workspace DIR")


def read_workspace(folder: Path) -> Workspace:
    """The workspace in ``folder``.

    Raises:
        SchemaError: the file is missing, not TOML, of another format, or holds unknown keys or a password.
    """
    path = folder / WORKSPACE_FILE
    if not path.is_file():
        raise SchemaError(f"{folder} is not a workspace: it has no {WORKSPACE_FILE}.", fix=f"siloquent init {folder}")
    raw = read_toml(path.read_text(encoding="utf-8", errors="surrogateescape"))
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise UnknownName(f"setting in {WORKSPACE_FILE}", unknown[0], _KEYS)
    if raw.get("format") != 1:
        raise SchemaError(f"{WORKSPACE_FILE} must say format = 1; this version reads no other.")
    ledger = _table(raw, "ledger", {"url"}).get("url", "ledger.sqlite")
    if not isinstance(ledger, str) or _PASSWORD.match(ledger):
        raise SchemaError(
            "[ledger] url is a file name or a PostgreSQL URL without a password.",
            fix="put the password into PGPASSWORD or ~/.pgpass",
        )
    return Workspace(
        folder=folder,
        ledger=ledger,
        postgres=tuple(_database(name, raw["postgres"][name]) for name in sorted(_table(raw, "postgres", None))),
        spark_master=str(_table(raw, "spark", {"master"}).get("master", "local[*]")),
    )


def _table(raw: dict[str, Any], key: str, allowed: set[str] | None) -> dict[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise SchemaError(f"[{key}] in {WORKSPACE_FILE} is a table.")
    unknown = sorted(set(value) - allowed) if allowed is not None else []
    if unknown:
        raise UnknownName(f"setting in [{key}]", unknown[0], allowed or ())
    return value


def _database(name: str, entry: object) -> tuple[str, str, str]:
    if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in ("dsn_env", "dsn_file"):
        raise SchemaError(
            f"[postgres.{name}] says where the connection text is kept, so that no password stands in this file.",
            fix='dsn_env = "NAME_OF_A_VARIABLE", or dsn_file = "a file that only you can read"',
        )
    key, value = next(iter(entry.items()))
    return name, key, str(value)
