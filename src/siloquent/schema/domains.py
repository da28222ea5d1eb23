"""Released domains: ``domains/NAME.toml`` in a workspace holds the public values of a category and their receipt."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Any

from siloquent.errors import SchemaError, UnknownName, WorkspaceError
from siloquent.fixes import RunCommand, build_fix, run
from siloquent.foreign import DocumentTooLarge, TomlError, load_toml
from siloquent.foreign.documents import read_text

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MAX_DOMAIN_BYTES = 2**24
MAX_DOMAIN_VALUES = 100_000
MAX_DOTS = 8


@dataclass(frozen=True, slots=True)
class ReleasedDomain:
    """The public values of a category, released from a column of a table.

    ``ledger``, ``account``, ``entry`` and ``hash`` are of its receipt; empty and None if it has none.
    """

    name: str
    table: str
    column: str
    values: tuple[str, ...]
    ledger: str = ""
    account: str = ""
    entry: int | None = None
    hash: str = ""


def check_domain_name(name: str) -> str:
    """Return ``name`` if it is a file name that cannot lead to another folder."""
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"The name of a released domain must be 1 to 64 letters, digits, '_', '.' and '-', not {name[:20]!r}.",
            fix='values = { released = "visits-diagnosis" }',
        )
    return name


def get_domain_file(folder: Path, name: str) -> Path:
    """Return the file of the released domain ``name`` in the workspace in ``folder``."""
    return folder / "domains" / f"{check_domain_name(name)}.toml"


class DomainFolder:
    """Declarations in ``folder``, a workspace, that table files refer to: released domains, units and other tables.

    ``unit_epoch``: read the units of linked tables as if they stated this epoch; None: as they are.
    """

    def __init__(self, folder: Path, *, unit_epoch: int | None = None) -> None:
        self.folder, self.unit_epoch = folder, unit_epoch
        self._read: dict[Path, object] = {}

    def read_file(self, file: Path) -> str | None:
        """Return the text of another declaration in the folder; None if there is none.

        Raises:
            SchemaError: it cannot be read as UTF-8, or is too large.
        """
        self._read[file] = _stamp(file)
        try:
            return read_text(file, MAX_DOMAIN_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, DocumentTooLarge):
            raise SchemaError(f"{file.parent.name}/{file.name} cannot be read as UTF-8.") from None

    def read(self, name: str, table: str, column: str) -> tuple[str, ...]:
        """Return the values of the released domain ``name``.

        Args:
            table, column: The attribute that uses it; for the fix if the file is missing.
        Raises:
            UnknownName: there is none. SchemaError: its file is invalid, or holds no values.
        """
        file = get_domain_file(self.folder, name)
        self._read[file] = _stamp(file)
        try:
            domain = read_domain(file)
        except FileNotFoundError:
            known = [path.stem for path in list_domain_files(self.folder)]
            fix = build_fix("if it was lost, this writes it again, free: ", suggest_restoring(table, column, name))
            raise UnknownName("released domain", name, known, fix=fix) from None
        if not domain.values:
            raise SchemaError(
                f"domains/{name}.toml contains no values: none was shared by enough people.",
                fix=build_fix(run("discover", domain.table, domain.column), " with a larger budget and another name"),
            )
        return domain.values

    def is_current(self) -> bool:
        """Return whether the files that were read are unchanged."""
        return all(_stamp(file) == stamp for file, stamp in self._read.items())


class LostDomains(DomainFolder):
    """The released domains of a workspace, with a placeholder for each whose file is missing."""

    def read(self, name: str, table: str, column: str) -> tuple[str, ...]:
        """Return the values of the released domain ``name``, or a placeholder if its file is missing."""
        try:
            return super().read(name, table, column)
        except UnknownName:
            return ("(lost)",)


def suggest_restoring(table: str, column: str, name: str) -> RunCommand:
    """Return the action that writes the lost file of a released domain again from the ledger."""
    words = ("--name", name, "--", table, column) if column.startswith("-") else (table, column, "--name", name)
    return RunCommand("discover", words, python=f"session.discover({table!r}, {column!r}, name={name!r})")


def list_domain_files(folder: Path) -> list[Path]:
    """Return the domain files of the workspace in ``folder``, by name."""
    return sorted(path for path in (folder / "domains").glob("*.toml") if _NAME.fullmatch(path.stem))


def read_domain(file: Path) -> ReleasedDomain:
    """Read a domain file.

    Raises:
        FileNotFoundError: there is none. SchemaError: it cannot be read, or is not one.
    """
    try:
        return parse_domain(read_text(file, MAX_DOMAIN_BYTES))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError, DocumentTooLarge):
        raise SchemaError(f"domains/{file.name} cannot be read.") from None


def _stamp(file: Path) -> object:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


def inline_domains(raw: Mapping[str, Any], domains: DomainFolder | None) -> dict[str, Any]:
    """Return a table file's entries with released values listed, as if they had been written there.

    A declaration's digest is that of the listed values, so it changes with them. Other values have their own cell.

    Raises:
        SchemaError, UnknownName: a released domain cannot be used.
    """
    attributes = raw.get("attribute")
    if not isinstance(attributes, list):
        return dict(raw)
    table = raw.get("table")
    name = str(table.get("name")) if isinstance(table, dict) else ""
    return {**raw, "attribute": [_inline_values(one, domains, name) for one in attributes]}


def list_used_domains(raw: Mapping[str, Any]) -> list[str]:
    """Return the names of the released domains that a table file uses."""
    return list(map_used_domains(raw).values())


def map_used_domains(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the released domains that a table file uses, by column."""
    attributes = raw.get("attribute")
    entries = [one for one in attributes if isinstance(one, dict)] if isinstance(attributes, list) else []
    named = [(str(one.get("name")), one["values"]) for one in entries if isinstance(one.get("values"), dict)]
    return {column: values["released"] for column, values in named if isinstance(values.get("released"), str)}


def _inline_values(raw: object, domains: DomainFolder | None, table: str) -> object:
    values = raw.get("values") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(values, dict) or set(values) != {"released"}:
        return raw
    name, where = values["released"], f"Attribute {str(raw.get('name'))[:60]!r}"
    if not isinstance(name, str):
        raise SchemaError(
            f"{where}: the name of a released domain must be a text.", fix='{ released = "visits-diagnosis" }'
        )
    if raw.get("other", "cell") != "cell":
        raise SchemaError(
            f"{where}: rows with values that were not released need a separate cell.", fix='other = "cell"'
        )
    if domains is None:
        raise SchemaError(f"{where}: released values can be used only in a workspace.", fix="list the values here")
    return {**raw, "values": list(domains.read(name, table, str(raw.get("name")))), "other": "cell"}


def render_domain(name: str, table: str, column: str, values: Sequence[str], release: Mapping[str, str | int]) -> str:
    """Render a domain file, one value a line."""
    head = {"name": name, "table": table, "column": column}
    return "\n".join(
        [
            "# Released with differential privacy; public from now on. Do not edit: the receipt is below.",
            "format = 1",
            *(f"{key} = {render_text(text)}" for key, text in head.items()),
            "values = [",
            *(f"  {_render_value(value)}," for value in values),
            "]",
            "",
            "[release]",
            *(f"{key} = {value if isinstance(value, int) else render_text(value)}" for key, value in release.items()),
            "",
        ]
    )


def render_text(text: str) -> str:
    """Render ``text`` as a TOML string.

    >>> print(render_text('a "b"'))
    "a \\"b\\""
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _render_value(value: str) -> str:
    """Render a value; many dots are escaped, since readers refuse text that could be a very long dotted key."""
    text = render_text(value)
    return text.replace(".", "\\u002e") if value.count(".") >= MAX_DOTS else text


def parse_domain(text: str) -> ReleasedDomain:
    """Parse a domain file.

    Raises:
        SchemaError: it is not one.
    """
    try:
        raw = load_toml(text, most=MAX_DOMAIN_BYTES)
    except (TomlError, DocumentTooLarge, ValueError) as wrong:
        raise SchemaError(f"This released domain cannot be read: {wrong}.") from None
    values = raw.get("values")
    texts = [raw.get(key) for key in ("name", "table", "column")]
    if type(raw.get("format")) is not int or raw["format"] != 1 or not all(isinstance(one, str) for one in texts):
        raise SchemaError("A released domain must state format = 1, name, table and column.")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SchemaError("A released domain must list its values as texts.")
    if len(values) > MAX_DOMAIN_VALUES:
        raise SchemaError(f"A released domain can have at most {MAX_DOMAIN_VALUES:,} values.")
    release = raw.get("release")
    receipt = release if isinstance(release, dict) else {}
    said = {key: receipt[key] for key in ("ledger", "account", "hash") if isinstance(receipt.get(key), str)}
    entry = receipt["seq"] if type(receipt.get("seq")) is int and 0 < receipt["seq"] < 2**62 else None
    return ReleasedDomain(str(texts[0]), str(texts[1]), str(texts[2]), tuple(values), **said, entry=entry)


def holds_release(file: Path, text: str) -> bool:
    """Return whether a domain file holds the values of ``text``, from the same entry of the ledger.

    The sentence of the guarantee is left out: it names the account's delta, which may have been declared anew since.
    A file that cannot be read or parsed holds something else.
    """
    try:
        found = [load_toml(one, most=MAX_DOMAIN_BYTES) for one in (read_text(file, MAX_DOMAIN_BYTES), text)]
    except (OSError, TomlError, DocumentTooLarge, ValueError):  # ValueError: also text that is not UTF-8
        return False
    for raw in found:
        release = raw.get("release")
        if isinstance(release, dict):
            release.pop("guarantee", None)
    return found[0] == found[1]


def write_domain(file: Path, text: str) -> bool:
    """Write a new domain file atomically and durably; return whether it is new. An existing file is kept as it is.

    Raises:
        WorkspaceError: the file cannot be written.
    """
    building = file.with_name(f".{file.name}.{os.getpid()}.{get_ident()}")
    try:
        file.parent.mkdir(exist_ok=True)
        with building.open("w", encoding="utf-8", newline="") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        return _name_new(building, file)
    except OSError as failed:
        in_the_way = file.parent.exists() and not file.parent.is_dir()
        fix = f"move {file.parent} away: it is not a folder" if in_the_way else "make the workspace's folder writable"
        raise WorkspaceError(f"{file} cannot be written: {failed.strerror}.", fix=fix) from None
    finally:
        with suppress(OSError):
            building.unlink()


def _name_new(building: Path, file: Path) -> bool:
    try:
        os.link(building, file)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if file.exists():
            return False
        os.replace(building, file)
    return True
