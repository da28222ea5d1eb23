"""Paths of a command's files: plain names are in the workspace, names with a / are paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import RequestError
from siloquent.foreign import DocumentTooLarge, load_toml, read_text

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.cli.base.command import Options
    from siloquent.schema.workspace import Workspace

MAX_TOML = 2**16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def load_workspace(options: Options) -> Workspace:
    """Return the named workspace, otherwise the nearest."""
    from siloquent.schema.workspace import find_workspace, read_workspace

    return read_workspace(options.workspace or find_workspace(Path.cwd()))


def resolve_file(options: Options, path: Path) -> Path:
    """Return an existing file, otherwise the one of that name in the workspace."""
    if not path.exists() and not path.is_absolute():
        folder = options.find_folder()
        if folder is not None and (folder / path).exists():
            return folder / path
    return path


def resolve_path(options: Options, name: str) -> Path:
    """Return the path of a file or folder: a plain name is one in the workspace, a name with a / a path.

    Raises:
        WorkspaceError: a plain name is given without a workspace. RequestError: the name is invalid.
    """
    return Path(name) if is_path(name) else load_workspace(options).folder / _require_name(name, "a file")


def resolve_release_path(options: Options, name: str) -> Path:
    """Return a release's folder: a plain name is one of the workspace's releases, a name with a / a path.

    Raises:
        WorkspaceError: a plain name is given without a workspace. RequestError: the name is invalid.
    """
    return Path(name) if is_path(name) else load_workspace(options).releases / _require_name(name, "a release")


def format_reuse_argument(output: str | None, folder: Path) -> str:
    """Return the argument for the release in ``folder`` that ``-o output`` chose: a path as given, otherwise its name.

    >>> format_reuse_argument("./a", Path("a")), format_reuse_argument(None, Path("north/releases/r-1"))
    ('./a', 'r-1')
    """
    return output if output is not None and is_path(output) else folder.name


def is_path(name: str) -> bool:
    """Return whether ``name`` is a path rather than a name in the workspace."""
    return "/" in name or os.sep in name


def _require_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise RequestError(f"{name!r} is not a valid name for {what}.", fix="letters, digits, '_', '.' and '-'")
    return name


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a small TOML file.

    Raises:
        RequestError: the file cannot be read, is too large, or is not TOML.
    """
    try:
        return load_toml(read_text(path, MAX_TOML))
    except DocumentTooLarge as wrong:
        raise RequestError(f"{path} must be valid TOML of at most {MAX_TOML // 2**10} KiB: {wrong}.") from None
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"{path} cannot be read.", fix="name an existing file") from None
    except ValueError as wrong:
        raise RequestError(f"{path} is not valid TOML: {wrong}.") from None


def require_svg(path: Path, option: str) -> None:
    """Refuse a chart's file name with an extension other than SVG's.

    Raises:
        RequestError: the extension differs; the fix has the same name with .svg.
    """
    if path.suffix.lower() != ".svg":
        told = f"{path.suffix} files" if path.suffix else "files without an ending"
        raise RequestError(
            f"Pictures can only be written as SVG, not as {told}.", fix=f"{option} {path.with_suffix('.svg')}"
        )


def write_new(path: Path, content: str | bytes) -> None:
    """Write a new file; a file with the same content may exist already.

    Raises:
        RequestError: another file exists, or the file cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise RequestError(f"{path} already exists.", fix="name another file, or remove it") from None
    except OSError as failed:
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None


def write_rows(path: Path, table: pa.Table) -> None:
    """Write rows as CSV, Parquet or Arrow, by the file's extension.

    Raises:
        RequestError: the file exists, or cannot be written. ReleaseError: the extension is unknown.
    """
    from siloquent.releases import write_table

    if path.exists():
        raise RequestError(f"{path} already exists.", fix="name another file, or remove it")
    try:
        write_table(path, table, path.suffix.removeprefix("."))
    except OSError as failed:
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None
