"""The workspace file ``siloquent.toml``: the ledger's location and the connections of named databases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.errors import SchemaError, UnknownName, WorkspaceError
from siloquent.fixes import UseOption, build_fix, run
from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.files.toml import MAX_BYTES, MAX_SHOWN, read_toml

WORKSPACE_FILE = "siloquent.toml"
LAST_BACKUP = ".last-backup"
"""An empty file that each backup touches; its age is the age of the newest backup."""
_KEYS = {"format", "ledger", "postgres", "spark", "server", "defaults"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Where SQLAlchemy and libpq expect one: USER:PASSWORD@ in an address, ?password= after it, password= in a list.
_PASSWORD = re.compile(r"//[^:/]*:[^@]*@|password\s*=", re.IGNORECASE)
MAX_FILE_NAME_BYTES = 200  # file systems allow 255, and a lock file has a longer name
MAX_TEXT = 2_000
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with ``siloquent.toml``, ``schemas/NAME.toml``, a ledger and ``releases/``.

    ``ledger``: a file name inside the folder, or a PostgreSQL URL. ``postgres``: (name, where, value). ``server``: the
    contents of ``[server]``, which the server validates. ``defaults``: the accuracy of questions that state none.
    """

    folder: Path
    ledger: str = "ledger.sqlite"
    postgres: tuple[tuple[str, str, str], ...] = ()
    spark_master: str = "local[*]"
    server: tuple[tuple[str, object], ...] = ()
    defaults: AccuracyDefaults | None = None

    @property
    def head(self) -> Path:
        """The file next to the ledger that records the ledger's newest state."""
        return self.folder / "ledger.head"

    @property
    def mark_key(self) -> Path:
        """The secret for the marks that show whether a source has changed since a ledger entry."""
        return self.folder / "ledger.marks"

    @property
    def schemas(self) -> Path:
        """The folder of table files."""
        return self.folder / "schemas"

    @property
    def releases(self) -> Path:
        """The folder of releases."""
        return self.folder / "releases"

    def get_schema_file(self, table: str) -> Path:
        """Return the file that declares ``table``.

        Raises:
            UnknownName: there is none; the message lists the existing tables.
        """
        known = self.list_table_names()
        if table not in known:
            raise UnknownName("table", table, known, fix=run("tables"))
        return self.schemas / f"{table}.toml"

    def find_public_file(self, table: str) -> Path | None:
        """Return the file that declares the public table ``table``, or None; its name cannot lead to another folder."""
        path = self.folder / "public" / f"{table}.toml"
        return path if table.isidentifier() and path.is_file() else None

    def list_table_names(self) -> list[str]:
        """Return the names of the declared tables, in alphabetical order."""
        return sorted(path.stem for path in self.schemas.glob("*.toml") if path.is_file())


def find_workspace(start: Path) -> Path:
    """Return the nearest folder at or above ``start`` that contains a workspace file.

    Raises:
        SchemaError: there is none.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / WORKSPACE_FILE).is_file():
            return folder
    raise WorkspaceError(
        f"No {WORKSPACE_FILE} here or above {start}.",
        fix=build_fix(run("init", "DIR"), ", or ", UseOption("workspace", "DIR", 'siloquent.open("DIR")')),
    )


def read_workspace(folder: Path) -> Workspace:
    """Read the workspace in ``folder``.

    Raises:
        SchemaError: the file is missing, is not TOML, has another format, or contains unknown keys or a password.
    """
    path = folder / WORKSPACE_FILE
    if not path.is_file():
        raise WorkspaceError(
            f"{folder} is not a workspace: it has no {WORKSPACE_FILE}.",
            fix=run("init", folder),
        )
    raw = read_toml(_read_text(path))
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise UnknownName(f"setting in {WORKSPACE_FILE}", unknown[0][:MAX_SHOWN], _KEYS)
    if type(raw.get("format")) is not int or raw["format"] != 1:
        raise SchemaError(f"{WORKSPACE_FILE} must state format = 1, the only supported format.")
    ledger = _get_section(raw, "ledger", {"url"}).get("url", "ledger.sqlite")
    if not _is_plain(ledger) or _PASSWORD.search(ledger) or _is_no_file(ledger):
        raise SchemaError(
            "[ledger] url must be a file name or a PostgreSQL URL without a password.",
            fix="put the password into PGPASSWORD or ~/.pgpass",
        )
    master = _get_section(raw, "spark", {"master"}).get("master", "local[*]")
    if not _is_plain(master):
        raise SchemaError("[spark] master must be the address of a Spark cluster.", fix='master = "local[*]"')
    return Workspace(
        folder=folder,
        ledger=ledger,
        postgres=tuple(
            _parse_database(name, raw["postgres"][name]) for name in sorted(_get_section(raw, "postgres", None))
        ),
        spark_master=master,
        server=tuple(sorted(_get_section(raw, "server", None).items())),
        defaults=AccuracyDefaults.from_dict(_get_section(raw, "defaults", None)) if "defaults" in raw else None,
    )


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise SchemaError(f"{WORKSPACE_FILE} is not UTF-8.") from None
    except OSError as failed:
        raise WorkspaceError(
            f"{path} cannot be read: {failed.strerror}.",
            fix=build_fix("correct its permissions, or ", UseOption("workspace", "DIR", 'siloquent.open("DIR")')),
        ) from None


def _is_plain(text: object) -> bool:
    """Return whether it is a single-line text short enough for an address or a file name."""
    return isinstance(text, str) and 0 < len(text) <= MAX_TEXT and not _UNPRINTED.search(text)


def _is_no_file(ledger: str) -> bool:
    return "://" not in ledger and len(ledger.encode()) > MAX_FILE_NAME_BYTES


def _get_section(raw: dict[str, Any], key: str, allowed: set[str] | None) -> dict[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise SchemaError(f"[{key}] in {WORKSPACE_FILE} must be a table.")
    unknown = sorted(set(value) - allowed) if allowed is not None else []
    if unknown:
        raise UnknownName(f"setting in [{key}]", unknown[0][:MAX_SHOWN], allowed or ())
    return value


def _parse_database(name: str, entry: object) -> tuple[str, str, str]:
    key, value = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else ("", "")
    if not (
        # The name is shown later, with advice to export it, so it must not be a connection string entered by mistake.
        (key == "dsn_env" and isinstance(value, str) and _VARIABLE.fullmatch(value))
        or (key == "dsn_file" and _is_plain(value) and "://" not in value and not _PASSWORD.search(value))
    ):
        raise SchemaError(
            f"[postgres.{name[:MAX_SHOWN]}] must state where the connection text is kept, "
            "so that this file contains no password.",
            fix='dsn_env = "NAME_OF_A_VARIABLE", or dsn_file = "a file that only you can read"',
        )
    return name, key, str(value)
