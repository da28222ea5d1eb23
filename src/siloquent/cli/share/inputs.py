"""Parsing of options and files into specs and releases; every refusal names the option or file to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.cli.base.paths import is_path, load_workspace, read_toml, resolve_file
from siloquent.errors import RequestError
from siloquent.fixes import run

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.share import ShareRelease, ShareSpec

_OPTIONS = ("label", "method", "agents", "overlap")


def build_share_spec(options: Options, table: str, given: Mapping[str, Any]) -> ShareSpec:
    """Return the release described by a command line: a TOML file, or a table and options.

    Raises:
        RequestError: something is missing, or is not a number; the fix names the option.
    """
    from siloquent.share import parse_spec

    if table.endswith(".toml"):
        return parse_spec(read_toml(resolve_file(options, Path(table))))
    plain = {name: given[name] for name in _OPTIONS if given[name] is not None}
    if "label" not in plain or not given["features"]:
        raise RequestError(
            "A release for sharing needs a label and features.",
            fix=run("share release", table, "--label", "L", "--features", "A,B", "--epsilon", "1"),
        )
    if given["epsilon"] is None and given["rho"] is None:
        raise RequestError("A release for sharing needs a price.", fix="--epsilon 1")
    plain["features"] = [name.strip() for name in given["features"].split(",")]
    plain["budget"] = {name: given[name] for name in ("epsilon", "rho") if given[name] is not None}
    return parse_spec({"table": table, **plain})


def find_table_name(options: Options, table: str) -> str:
    """Return the table's name: as given, or named by a .toml file."""
    if not table.endswith(".toml"):
        return table
    name = read_toml(resolve_file(options, Path(table))).get("table")
    if not isinstance(name, str):
        raise RequestError(f"{table} does not name a table.", fix='table = "..."')
    return name


def load_releases(options: Options, names: Sequence[str]) -> list[ShareRelease]:
    """Return releases in files or folders, or of this workspace by their ids.

    Raises:
        UnknownName, ReleaseError: there is no such release, or it is not one for sharing.
    """
    from siloquent.share import load_release

    return [load_release(_resolve_release(options, name)) for name in names]


def _resolve_release(options: Options, name: str) -> Path:
    from siloquent.releases import get_release_folder

    here = resolve_file(options, Path(name))
    return here if is_path(name) or here.exists() else get_release_folder(load_workspace(options).releases, name)
