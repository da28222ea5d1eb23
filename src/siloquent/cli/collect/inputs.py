"""Locations of a collection's files: its document, the epoch's key beside it, the reports, and devices' rows."""

from __future__ import annotations

import os
import re
import secrets  # allowed: an epoch's key, no noise
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.cli.base.paths import resolve_file, write_new
from siloquent.errors import RequestError, SchemaError, UnknownName
from siloquent.fixes import run
from siloquent.foreign import DocumentTooLarge, load_json, read_bounded, read_lines

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.collect import Collection, Counters, ReportStore

FOLDER = "collections"
MAX_TOML = 4 * 2**20
MAX_DOCUMENT = 4 * 2**20
MAX_LINE = 2**20
MAX_TABLE = 2**25
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def read_text(path: Path, most: int = MAX_TOML) -> str:
    """Return a file's text.

    Raises:
        RequestError: the file cannot be read, or is too large.
    """
    try:
        return read_bounded(path, most).decode("utf-8")
    except DocumentTooLarge:
        raise RequestError(f"{path} is too large.") from None
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"{path} cannot be read.", fix="name an existing file") from None


def resolve_collection_path(options: Options, text: str) -> Path:
    """Return a path with a / unchanged; resolve a plain name among the workspace's collections, if there are any."""
    folder = options.find_folder()
    if "/" in text or os.sep in text or folder is None:
        return Path(text)
    if not _NAME.fullmatch(text):
        raise RequestError(f"{text[:40]!r} is not a valid file name.", fix="letters, digits, '_', '.' and '-'")
    return folder / FOLDER / text


def write_new_collection(options: Options, made: Collection, output: str | None) -> tuple[Path, Path]:
    """Write the collection's document and a new key of its epoch, readable only by the owner; return their paths.

    Raises:
        RequestError: a file exists already, or cannot be written.
    """
    path = resolve_collection_path(options, output or f"{made.spec.name}-{made.spec.epoch}.json")
    path = path if path.suffix == ".json" else path.with_name(f"{path.name}.json")
    key = path.with_suffix(".key")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(made.to_json())
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")  # allowed: an epoch's key, no noise
    except FileExistsError:
        raise RequestError(
            f"{path} or its key already exists.", fix="choose another name with -o, or raise epoch"
        ) from None
    except OSError as failed:
        raise RequestError(f"Cannot write {path}: {failed.strerror}.", fix="name a file in another folder") from None
    return path, key


def load_collection(options: Options, name: str) -> tuple[Collection, Path]:
    """Return a collection and the path of its document.

    Raises:
        UnknownName: the workspace has no such collection. SchemaError: it was changed after it was made.
    """
    from siloquent.collect import read_collection

    path = resolve_collection_path(options, name if name.endswith(".json") else f"{name}.json")
    if not path.is_file():
        raise UnknownName(
            "collection",
            path.stem[:128],
            sorted(one.stem for one in path.parent.glob("*.json")) if path.parent.is_dir() else [],
            fix=run("collect design", "SPEC.toml"),
        )
    return read_collection(read_text(path, MAX_DOCUMENT)), path


def open_report_store(made: Collection, document: Path) -> ReportStore:
    """Open the reports beside a document; the store is created on first use."""
    from siloquent.collect import ReportStore

    return ReportStore(made, document.with_suffix(".reports"))


def ingest_file(store: ReportStore, path: Path) -> Counters:
    """Ingest the reports in a file: concatenated bytes, or a Parquet file with a binary column ``report``.

    Raises:
        OSError: the file cannot be read. RequestError: a Parquet file lacks that column.
    """
    if path.suffix != ".parquet":
        return store.ingest_file(path)
    from siloquent.foreign.tables import read_parquet

    try:
        table = read_parquet(path, ["report"])
    except ValueError:
        raise RequestError(f"{path} is not a readable Parquet file.", fix="name a file of reports") from None
    return store.ingest_arrow(table)


def write_bytes(options: Options, output: str, data: bytes) -> Path:
    """Write a new file of reports.

    Raises:
        RequestError: the file exists already, or cannot be written.
    """
    path = resolve_collection_path(options, output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise RequestError(f"Cannot write {path}: {failed.strerror}.", fix="name a file in another folder") from None
    write_new(path, data)
    return path


def build_reports(
    options: Options,
    made: Collection,
    document: Path,
    *,
    rows: Path | None,
    service: str | None,
    secret: Path | None,
    memory: Path | None,
    tables: Mapping[str, Mapping[Any, Any]],
) -> bytes:
    """Return the reports of all users in a file of JSON lines, each made as by a device of its own.

    They are on disk before this returns; other processes wait for that, and then send the same bytes.

    Raises:
        RequestError: a line is not a user with rows; the error names the line number, never its content.
        UnknownName: the collection has no such service. SchemaError: devices refuse the document.
    """
    from siloquent.collect import Client, Device, UserMemory, join_dimensions, lock_memories

    if service is None:
        if made.spec.client == "separate" and len(made.spec.services) > 1:
            raise RequestError(
                "Each service reports separately: name the service that holds these rows.", fix="--service NAME"
            )
        service = made.spec.services[0].name
    service = made.spec.get_service(service).name
    try:
        key = bytes.fromhex(read_text(secret or document.with_suffix(".key")).strip())
    except ValueError:
        raise RequestError("The epoch's key must be hexadecimal text.", fix="--secret FILE") from None
    plain = load_json(made.to_json())
    try:
        client = Client(plain)
    except ValueError as wrong:
        raise SchemaError(f"Devices would reject this document: {wrong}.", fix=_DESIGN) from None
    asked = list(_read_users(options, rows))  # before other processes have to wait: standard input may take long
    # Always kept: a device that forgot its reports would draw, and pay epsilon, a second time. They are stored for the
    # account, whatever file the document is in, and in the document's folder, which may move to another machine.
    kept = [memory] if memory else [_get_memory_path(made), document.with_suffix(".sent")]
    found = []
    try:
        kept[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_memories(*kept) as sent:
            for number, user, own in asked:
                device = Device(user, key, UserMemory(sent, user))
                with _name_line(number, made.spec.epoch):
                    found.append(client.report(service, join_dimensions(plain, service, own, tables), device))
    except ValueError as wrong:
        raise RequestError(f"{wrong}.", fix="--memory FILE") from None
    except OSError as failed:
        where = failed.filename or kept[0]
        raise RequestError(f"Cannot write {where}: {failed.strerror}; nothing was sent.", fix="--memory FILE") from None
    return b"".join(found)


@contextmanager
def _name_line(number: int, epoch: int) -> Iterator[None]:
    """Reraise a device's refusal with the line number; it never shows a value of the line."""
    from siloquent.collect import AnotherDesign

    try:
        yield
    except AnotherDesign as wrong:
        raise RequestError(
            f"Line {number}: {wrong}. A second report would spend the user's epsilon twice.",
            fix=f"epoch = {epoch + 1} in the design",
        ) from None
    except ValueError as wrong:  # the client's own words, which hold no value
        raise RequestError(f"Line {number}: {wrong}.", fix=_LINE) from None
    except (AttributeError, TypeError, IndexError, KeyError):
        raise RequestError(f"Line {number} is not an object with a user and rows.", fix=_LINE) from None


_DESIGN = "siloquent collect design SPEC.toml -o C.json"


def _get_memory_path(made: Collection) -> Path:
    """Return the file of reports sent from this account for this collection and epoch."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "siloquent" / "sent" / f"{made.spec.name}-{made.spec.epoch}.json"


def read_public_tables(options: Options, made: Collection, given: Sequence[str]) -> dict[str, dict[Any, Any]]:
    """Return the devices' public tables by name: rows by their keys.

    Raises:
        UnknownName: the collection has no such table. RequestError: a table is missing, or a file cannot be read.
    """
    found: dict[str, dict[Any, Any]] = {}
    for one in given:
        name, _, file = one.partition("=")
        dimension = made.spec.find_dimension(name)
        if dimension is None:
            raise UnknownName("public table", name[:64], [known.name for known in made.spec.dimensions])
        try:
            lines = read_text(resolve_file(options, Path(file)), MAX_TABLE).splitlines()
            rows = load_json(f"[{','.join(filter(str.strip, lines))}]")  # as one text: the total size is limited
            found[dimension.name] = {row[dimension.key]: row for row in rows}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RequestError(
                f"{file} contains no rows with {dimension.key!r}.", fix=f'lines like {{"{dimension.key}": "a", ...}}'
            ) from None
    for dimension in made.spec.dimensions:
        if dimension.name not in found:
            raise RequestError(
                f"Rows already contain values of the public table {dimension.name!r}.",
                fix=f"--table {dimension.name}=rows.jsonl",
            )
    return found


_LINE = '{"user": "u1", "rows": [{"age": 34}]}'


def _read_users(options: Options, rows: Path | None) -> Iterator[tuple[int, str, Any]]:
    try:
        lines = sys.stdin if rows is None else resolve_file(options, rows).open(encoding="utf-8")
        with lines:
            for number, line in enumerate(read_lines(lines, MAX_LINE), start=1):
                if line.strip():
                    yield number, *_parse_user(number, line)
    except DocumentTooLarge:
        raise RequestError(f"A line of the rows exceeds {MAX_LINE:,} characters.", fix=_LINE) from None
    except (OSError, UnicodeDecodeError):
        source = "The rows on standard input" if rows is None else str(rows)
        raise RequestError(f"{source} cannot be read.", fix="name an existing file of JSON lines") from None


def _parse_user(number: int, line: str) -> tuple[str, Any]:
    try:
        plain: Any = load_json(line)
        user, own = plain["user"], plain["rows"]
        if not isinstance(user, str | int) or not isinstance(own, list | dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RequestError(f"Line {number} is not an object with a user and rows.", fix=_LINE) from None
    return str(user), own
