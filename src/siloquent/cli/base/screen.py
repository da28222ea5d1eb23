"""Output: tables and documents to standard output, progress and notes to standard error."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal, TextIO

from siloquent.charts.text import clean_text
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from rich.console import RenderableType

Side = Literal["left", "right"]
LEFT: Side = "left"
RIGHT: Side = "right"
_LINES = "\n\t"
_CONTROLS = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_OBEYED = {code: None for code in _CONTROLS if chr(code) not in _LINES}
"""Terminal control characters, from any source: colours, cursor, titles, text direction."""
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 127}


@dataclass(frozen=True, slots=True)
class Screen:
    """A person's terminal or a program's pipe; with ``as_json`` it prints one document and no text."""

    as_json: bool = False
    quiet: bool = False

    def write_document(self, document: dict[str, Any]) -> None:
        """Write the command's one JSON document, UTF-8, on a line of its own."""
        text = json.dumps(document, ensure_ascii=False).translate(_ESCAPED)
        _write((text + "\n").encode("utf-8", "replace"))

    def write_table(self, columns: Sequence[tuple[str, Side]], rows: Iterable[Sequence[str]]) -> None:
        """Write a table on standard output.

        Args:
            columns: (heading, "left" or "right"); every text is shown verbatim, never as markup.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading, justify in columns:
            table.add_column(Text(clean_text(heading)), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell.translate(_OBEYED)) for cell in row))
        self.show(table)

    def write_facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Write pairs of a label and its text, one below the other, on standard output."""
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for word, meaning in facts:
            table.add_row(Text(word.translate(_OBEYED)), Text(meaning.translate(_OBEYED)))
        self.show(table)

    def write_line(self, text: str = "") -> None:
        """Write lines on standard output, never wrapped by us: commands copied from them must work."""
        from rich.text import Text

        self.show(Text(text.translate(_OBEYED)), soft_wrap=True)

    def show(self, what: RenderableType, *, soft_wrap: bool = False) -> None:
        """Write any rich renderable on standard output."""
        text = _render_text(sys.stdout, what, soft_wrap=soft_wrap)
        if self.ascii_only:
            text = text.replace("─", "-").replace("…", "~")
        _write(text.encode(_get_encoding(sys.stdout), "replace"))

    def note(self, text: str, *, style: str = "") -> None:
        """Write a note on standard error; none with --quiet or --json."""
        if not self.quiet and not self.as_json:
            self.warn(text, style=style)

    def warn(self, text: str, *, style: str = "") -> None:
        """Write a warning on standard error, also with --quiet."""
        from rich.text import Text

        with suppress(OSError):  # standard error is closed: that is not a reason to stop
            words = Text(text.translate(_OBEYED), style=style)
            sys.stderr.write(_render_text(sys.stderr, words, soft_wrap=True))
            sys.stderr.flush()

    @property
    def draws(self) -> bool:
        """Whether charts are drawn: a terminal of 80 columns or more."""
        return not self.as_json and sys.stdout.isatty() and get_terminal_size().columns >= 80

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal cannot show block characters."""
        return not _get_encoding(sys.stdout).lower().startswith("utf")

    @property
    def can_ask(self) -> bool:
        """Whether a person can confirm at the terminal."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def confirm(self, question: str) -> bool:
        """Ask once, on standard error; no is the default."""
        import typer

        return typer.confirm(question, default=False, err=True)

    def ask_for(self, question: str) -> str:
        """Return a line of text from the person, prompted for on standard error."""
        import typer

        return str(typer.prompt(question, err=True))

    def ask_line(self, question: str) -> str:
        """Return a line of text from the person, which may be empty, prompted for on standard error."""
        import typer

        return str(typer.prompt(question, default="", show_default=False, prompt_suffix=" ", err=True))


def _render_text(stream: TextIO, what: RenderableType, *, soft_wrap: bool) -> str:
    """Return what rich would write to ``stream``, as text; a pipe is 100 columns wide unless COLUMNS says otherwise."""
    from rich.console import Console

    width = None if "COLUMNS" in os.environ else get_terminal_size().columns if stream.isatty() else 100
    paper = io.StringIO()
    Console(file=paper, force_terminal=stream.isatty(), highlight=False, width=width).print(what, soft_wrap=soft_wrap)
    return paper.getvalue()


def _get_encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"


def _write(data: bytes) -> None:
    """Write to standard output; a full disk is an ordinary refusal, a closed pipe is passed on.

    Raises:
        RequestError: standard output cannot be written.
    """
    try:
        sys.stdout.flush()
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            binary.write(data)
            binary.flush()
    except OSError as failed:
        if failed.errno == errno.EPIPE:
            raise
        raise RequestError(f"Standard output cannot be written: {failed.strerror}.", fix="free disk space") from None
