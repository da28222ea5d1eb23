"""The report for a data protection officer: what is declared, who may ask, and what was spent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT
from siloquent.errors import RequestError, UnknownName
from siloquent.fixes import run


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    register_command(app, "report", report, panel="Owner")


def report(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table (default: all).")] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write one HTML page that can be read and printed anywhere.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the HTML page here.")
    ] = None,
) -> None:
    """Report what is declared, what columns reveal, who may ask and what was spent; reads no rows."""
    from siloquent.documents.reports.protection import list_sections

    options.require_owner("A report")
    if output is not None and not html:
        raise RequestError("Only the HTML page is written to a file.", fix=options.format_rerun("--html"))
    with options.open_queries() as session:
        if table is not None and table not in (names := session.list_tables()):
            raise UnknownName("table", table, names, fix=run("tables"))
        document = session.get_report(table)
    if options.as_json:
        options.screen.write_document(dict(document))
    elif html:
        _write_page(options, document, output)
    else:
        for section in list_sections(document):
            _show(options, section)


def _write_page(options: Options, document: Mapping[str, Any], output: Path | None) -> None:
    from siloquent.documents.reports.html import render_report_page

    page = render_report_page(document)
    if output is None:
        options.screen.write_line(page.rstrip("\n"))
        return
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as failed:
        raise RequestError(f"{output} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None
    options.screen.write_line(f"Wrote the report to {output}.")


def _show(options: Options, section: Any) -> None:
    screen = options.screen
    screen.write_line(f"\n{clean_text(section.title)}")
    screen.write_facts([(label, clean_text(said)) for label, said in section.facts])
    for caption, headings, rows in section.tables:
        screen.write_line(f"\n{caption}")
        screen.write_table([(one, LEFT) for one in headings], [tuple(map(clean_text, row)) for row in rows])
