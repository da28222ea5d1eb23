"""Parsing of options and files into specs, silos, tables and reports; every refusal names the option to change."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.cli.base.paths import read_toml, resolve_file, resolve_release_path
from siloquent.documents.federation import format_waiting_time
from siloquent.errors import RequestError, UnknownName
from siloquent.fixes import build_fix, run

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.cli.base.screen import Screen
    from siloquent.federation.channel import Channel
    from siloquent.maths.dependencies import DiscoveryProgress
    from siloquent.profile import FDReport, ProfileColumn, ProfileSpec

MAX_BYTES = 2**31
SILENCE_S = 5.0
_ROLE = re.compile(r"[a-z][a-z0-9-]{0,31}")


def read_profile_spec(options: Options, path: Path) -> ProfileSpec:
    """Return the profile described by a TOML file, here or in the workspace."""
    from siloquent.profile import parse_spec

    return parse_spec(read_toml(resolve_file(options, path)))


def split_names(text: str | None) -> list[str]:
    """Return comma-separated names; none for None."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def resolve_participants(
    options: Options, given: Sequence[str], bundle: Path | None, without: Sequence[str], workers: int
) -> tuple[dict[str, Path], int, int]:
    """Return the silos on this machine by name, and the numbers of parties and workers, here or in a federation.

    Raises:
        RequestError: both are given, or neither.
    """
    if (bundle is None) == (not given):
        raise RequestError(
            "A session runs over a federation or between workspaces on this machine.",
            fix="--bundle DIR, or --party north=silos/north --party river=silos/river",
        )
    if bundle is None:
        silos = resolve_silos(options, given)
        return silos, len(silos), workers
    from siloquent.federation.identity.bundle import read_bundle

    roles = [role for role in read_bundle(bundle).roster.roles if role.name not in without]
    kinds = [role.kind for role in roles]
    return {}, kinds.count("party"), kinds.count("worker")


def resolve_silos(options: Options, given: Sequence[str]) -> dict[str, Path]:
    """Return silos on this machine by role name, ``north=silos/north``; folders here or in the workspace.

    Raises:
        RequestError: one is malformed, or there are fewer than two.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not _ROLE.fullmatch(name) or name in found:
            raise RequestError(
                f"--party {text!r} must be NAME=DIR, with a name that is not used yet.", fix="--party north=silos/north"
            )
        found[name] = resolve_file(options, Path(folder))
    if len(found) < 2:
        raise RequestError(
            "A session needs at least two silos.", fix="--party north=silos/north --party river=silos/river"
        )
    return found


class WaitingLines:
    """Progress lines of a session: each step, and after some seconds of silence the awaited roles since when."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Print a completed step."""
        self._last = time.monotonic()
        self._screen.note(text)

    def look(self, channel: Channel) -> None:
        """Print the awaited roles after a silence; called about every two seconds."""
        status = channel.get_status()
        if status.waiting_for and time.monotonic() - self._last >= SILENCE_S:
            self._last = time.monotonic()
            names = ", ".join(status.waiting_for)
            self._screen.note(f"{status.step}: waiting for {names} {format_waiting_time(status.since_s)}")


def build_progress_reporter(screen: Screen) -> Callable[[DiscoveryProgress], None]:
    """Return a callback that prints the progress of a search for dependencies every few seconds."""
    last = time.monotonic()

    def tell(progress: DiscoveryProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= SILENCE_S:
            last = time.monotonic()
            screen.note(f"{progress.describe()}; press Ctrl-C to stop")

    return tell


def choose_release_folder(options: Options, output: str) -> Path:
    """Return the folder for a report."""
    return resolve_release_path(options, output)


def find_report(options: Options, name: str) -> tuple[FDReport, Path]:
    """Return a report by its release's id, or by the path of its folder or file."""
    from siloquent.profile import load_report

    path = Path(name) if "/" in name or os.sep in name or Path(name).is_file() else choose_release_folder(options, name)
    if not path.exists():
        known = sorted(found.name for found in path.parent.glob("f-*")) if path.parent.is_dir() else []
        raise UnknownName("report", name, known, fix=run("release list"))
    return load_report(path), path


def read_open_table(options: Options, path: Path, columns: Sequence[str]) -> Any:
    """Return a public table; an empty cell of a CSV file is NULL.

    Raises:
        RequestError: the file cannot be read or is too large. UnknownName: a column does not exist.
    """
    from siloquent.foreign.tables import read_table

    place = resolve_file(options, path)
    try:
        if place.stat().st_size > MAX_BYTES:
            raise RequestError(
                f"{path} is too large: the limit is 2 GiB.",
                fix=build_fix(run("init", "DIR"), ", and declare it as a table"),
            )
        table = read_table(place)
    except (OSError, ValueError):
        raise RequestError(f"{path} is not a readable table.", fix="a .csv or .parquet file") from None
    for name in columns:
        if name not in table.column_names:
            raise UnknownName(f"column in {path}", name, table.column_names, fix="--columns A,B")
    return table.select(list(columns)) if columns else table


def split_public_rows(
    options: Options, path: Path, spec: ProfileSpec, split: int
) -> tuple[list[Any], tuple[ProfileColumn, ...]]:
    """Return public rows split into ``split`` parties, in order, with every column read as text."""
    import pyarrow as pa

    from siloquent.profile import ProfileColumn

    if not 2 <= split <= 16:
        raise RequestError(f"--split must be between 2 and 16, not {split}.", fix="--split 3")
    table = read_open_table(options, path, spec.columns)
    texts = pa.table({name: table[name].cast(pa.string()) for name in spec.columns})
    ends = [texts.num_rows * part // split for part in range(split + 1)]
    parts = [texts.slice(a, b - a) for a, b in pairwise(ends)]
    return parts, tuple(ProfileColumn(name, "text") for name in spec.columns)
