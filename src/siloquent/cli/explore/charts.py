"""Charts of an answer: on the terminal, and as SVG files."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from siloquent.charts.text import clean_text
from siloquent.cli.base.paths import require_svg, write_new
from siloquent.cli.base.screen import Screen
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.explore import Answer, Query

WIDEST = 120


def check_drawable(query: Query, file: Path | None, *, again: str, on_screen: bool) -> None:
    """Refuse, before any charge, a chart that could not be drawn or written afterwards.

    Args:
        again: The command without a chart.
        on_screen: Whether a chart on the terminal is wanted together with ``--json``.
    Raises:
        RequestError: the answer has only groups, or the file exists, or ``--json`` excludes drawing on the terminal.
    """
    from siloquent.explore.spec.answers.charts import has_values

    if not has_values(query):
        raise RequestError(
            "The answer has no values with intervals, so there is nothing to draw. "
            "Add COUNT(*) or SUM to the SELECT list.",
            fix=again,
        )
    if on_screen:
        raise RequestError("--json writes one document, and no picture.", fix="--chart-file answer.svg")
    if file is not None:
        require_svg(file, "--chart-file")
    if file is not None and file.exists():
        raise RequestError(f"{file} already exists.", fix="name another file with --chart-file")


def show_charts(screen: Screen, answer: Answer) -> None:
    """Print every chart of the answer below its name."""
    for picture in answer.pictures():
        screen.write_line()
        screen.write_line(clean_text(picture.words.title))
        width = min(get_terminal_size((100, 24)).columns, WIDEST)
        for line in picture.lines(width=width, ascii_only=screen.ascii_only):
            screen.write_line(line)


def write_charts(screen: Screen, answer: Answer, file: Path) -> None:
    """Write the first chart to ``file``, further ones beside it, numbered.

    Raises:
        RequestError: a file exists, or cannot be written.
    """
    for number, picture in enumerate(answer.pictures(), 1):
        path = file if number == 1 else file.with_name(f"{file.stem}-{number}{file.suffix}")
        write_new(path, picture.svg())
        screen.note(f"Wrote the picture to {path}.")
