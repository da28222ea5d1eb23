"""From options and files to specs and releases; every refusal names the option or file to change."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.cli.commands import Options
    from siloquent.share import ShareRelease, ShareSpec

MOST_TOML = 2**16
_OPTIONS = ("label", "method", "agents", "overlap")


def share_spec_of(table: str, given: Mapping[str, Any]) -> ShareSpec:
    """The release that a command line describes: a TOML file, or a table and options.

    Raises:
        RequestError: Something is missing, or is no number; the fix names the option.
    """
    from siloquent.share import spec_from_plain

    if table.endswith(".toml"):
        return spec_from_plain(_toml(Path(table)))
    plain = {name: given[name] for name in _OPTIONS if given[name] is not None}
    if "label" not in plain or not given["features"]:
        raise RequestError(
            "A release for sharing needs a label and features.",
            fix=f"siloquent share release {table} --label L --features A,B --epsilon 1",
        )
    if given["epsilon"] is None and given["rho"] is None:
        raise RequestError("A release for sharing needs a price.", fix="--epsilon 1")
    plain["features"] = [name.strip() for name in given["features"].split(",")]
    plain["budget"] = {name: given[name] for name in ("epsilon", "rho") if given[name] is not None}
    try:
        return spec_from_plain({"table": table, **plain})
    except RequestError as refused:
        refused.fix = "--epsilon 1" if "Budget(" in refused.fix else refused.fix.replace(' = "', " ").replace('"', "")
        raise


def table_of(options: Options, table: str) -> str:
    """The table that is meant: its name, or the one that a .toml file names."""
    if not table.endswith(".toml"):
        return table
    name = _toml(Path(table)).get("table")
    if not isinstance(name, str):
        raise RequestError(f"{table} names no table.", fix='table = ".."')
    return name


def _toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_TOML:
            raise RequestError(f"{path} is too large for the description of a release.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"{path} cannot be read.", fix="name a file that is there") from None
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise RequestError(f"{path} is no TOML: {wrong}.") from None


def releases_at(options: Options, names: Sequence[str]) -> list[ShareRelease]:
    """Releases in files or folders, or of this workspace by their ids.

    Raises:
        UnknownName, ReleaseError: There is none of that name, or it is none for sharing.
    """
    from siloquent.share import load_release

    return [load_release(_path_of(options, name)) for name in names]


def _path_of(options: Options, name: str) -> Path:
    from siloquent.releases import release_folder
    from siloquent.schema.workspace import find_workspace, read_workspace

    if "/" in name or os.sep in name or Path(name).exists():
        return Path(name)
    folder = options.folder()
    if folder is not None and (folder / name).exists():
        return folder / name
    return release_folder(read_workspace(options.workspace or find_workspace(Path.cwd())).releases, name)


def write_new(path: Path, data: bytes) -> None:
    """Write a new file; one with the same content may be there already.

    Raises:
        RequestError: Another file is there, or the disk refuses.
    """
    try:
        if path.exists() and path.read_bytes() == data:
            return
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise RequestError(f"{path} is there already.", fix="name another file, or remove it") from None
    except OSError as failed:
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None


def write_rows(path: Path, table: pa.Table) -> None:
    """Write rows as CSV, Parquet or Arrow, as the file's ending says.

    Raises:
        RequestError: A file is there, or the disk refuses. ReleaseError: Another ending.
    """
    from siloquent.releases import write_table

    if path.exists():
        raise RequestError(f"{path} is there already.", fix="name another file, or remove it")
    try:
        write_table(path, table, path.suffix.removeprefix("."))
    except OSError as failed:
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None
