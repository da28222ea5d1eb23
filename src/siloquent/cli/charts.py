"""An answer's pictures: on the terminal, and as SVG files."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from siloquent.charts.text import clean_text
from siloquent.cli.paths import require_svg, write_new
from siloquent.cli.screen import Screen
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.explore import Answer, Query

WIDEST = 120


def check_drawable(query: Query, file: Path | None, *, again: str, on_screen: bool) -> None:
    """Refuse, before anything is spent, what could not be drawn or written afterwards.

    Args:
        again: The command without a picture.
        on_screen: Whether a picture is wanted where a document was asked for.
    Raises:
        RequestError: Only groups are asked for, or the file is there, or ``--json`` leaves no screen to draw on.
    """
    from siloquent.explore.spec.charts import has_values

    if not has_values(query):
        raise RequestError(
            "The answer has no values with intervals, so there is nothing to draw. "
            "With COUNT(*) or SUM among the items there is.",
            fix=again,
        )
    if on_screen:
        raise RequestError("--json writes one document, and no picture.", fix="--chart-file answer.svg")
    if file is not None:
        require_svg(file, "--chart-file")
    if file is not None and file.exists():
        raise RequestError(f"{file} is there already.", fix="name another file with --chart-file")


def show_charts(screen: Screen, answer: Answer) -> None:
    """Every picture of the answer below its name."""
    for picture in answer.pictures():
        screen.write_line()
        screen.write_line(clean_text(picture.words.title))
        width = min(get_terminal_size((100, 24)).columns, WIDEST)
        for line in picture.lines(width=width, ascii_only=screen.ascii_only):
            screen.write_line(line)


def write_charts(screen: Screen, answer: Answer, file: Path) -> None:
    """The first picture as ``file``; further ones beside it, numbered.

    Raises:
        RequestError: A file is there, or the disk refuses.
    """
    for number, picture in enumerate(answer.pictures(), 1):
        path = file if number == 1 else file.with_name(f"{file.stem}-{number}{file.suffix}")
        write_new(path, picture.svg())
        screen.note(f"The picture is in {path}.")
