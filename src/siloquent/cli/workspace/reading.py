"""The option ``--reading``: how a file is read, and the command with the setting that a refusal suggests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from siloquent.cli.base.command import Options
from siloquent.cli.base.fixes import leave_out
from siloquent.errors import SiloquentError

ReadingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reading", metavar="'KEY = VALUE'", help="A setting under reading in the table file; may be repeated."
    ),
]


def parse_reading_lines(reading: Sequence[str] | None) -> str:
    """Return the lines under ``[reading]`` that the option gives, also where they were copied from a fix."""
    return "\n".join(line.removesuffix(" under [reading]") for line in reading or ())


@contextmanager
def suggest_reading(options: Options, lines: str) -> Iterator[None]:
    """Let a refusal offer this command with the setting that reads the file: there is no table file to edit yet."""
    from siloquent.schema.formats.reading import add_suggested_setting

    try:
        yield
    except SiloquentError as wrong:
        if suggested := add_suggested_setting(lines, wrong.fix):
            typed = options.typed
            while "--reading" in typed:
                typed = leave_out(typed, "--reading")
            more = [word for line in suggested.splitlines() for word in ("--reading", line)]
            wrong.fix = options.format_command(*typed, *more)
        raise
