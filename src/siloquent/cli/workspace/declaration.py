"""The owner's preparation: draft a declaration from public rows, check the private ones."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text, number_of
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.cli.workspace.reading import ReadingOption, parse_reading_lines, suggest_reading
from siloquent.documents.ledger import format_significant
from siloquent.documents.tables import (
    build_check_document,
    build_check_report,
    build_draft_document,
    build_refresh_document,
)
from siloquent.errors import NotAllowed, RequestError, SiloquentError
from siloquent.fixes import RunCommand, build_fix, run

if TYPE_CHECKING:
    pass

_SOURCE = re.compile(r"(csv|csv-records|xlsx|parquet|duckdb):")
PRIVATE_ROWS_WARNING = (
    "A draft's bounds and values come from the rows of this file and become public.\n"
    "From private rows that is a leak, however small the file."
)


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "draft", draft, panel="Owner")
    register_command(app, "check", check, panel="Owner")
    register_command(app, "refresh", refresh, panel="Owner")


def draft(
    options: Options,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A CSV or Parquet file, workbook or folder of public or invented rows."),
    ],
    public: Annotated[bool, typer.Option("--public", help="Confirm that these rows are public.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the table file here.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="The location of the private rows (default: this file).")
    ] = None,
    reading: ReadingOption = None,
) -> None:
    """Propose a table file from PUBLIC rows; correct it by hand before use."""
    from siloquent.cli.workspace.schema_draft import draft_schema
    from siloquent.schema.build import parse_schema
    from siloquent.schema.declaring import derive_table_name

    if not file.exists():
        raise RequestError(f"{file} is not a file or folder.", fix=run("draft", "ROWS.csv", "--public"))
    if not public:
        _require_public(options, file)
    if output and output.exists():
        raise RequestError(f"{output} already exists.", fix="name another file, or remove it")
    name = output.stem if output and output.suffix == ".toml" else derive_table_name(file)
    lines = parse_reading_lines(reading)
    with suggest_reading(options, lines):
        text = draft_schema(file, name=name, source=source or _format_source(options, file), reading=lines)
    parse_schema(text)
    if output:
        _write(output, text)
    if options.as_json:
        options.screen.write_document(build_draft_document(name, output, text))
    elif output:
        options.screen.write_line(f"Wrote a draft to {output}.")
    else:
        options.screen.write_line(text.rstrip("\n"))
    options.screen.note("This is a draft: correct every bound and value from what is known of the field, set the unit.")


def _format_source(options: Options, file: Path) -> str:
    """Return ``file`` as written in the table file: relative to its workspace, so that both can be moved together."""
    from siloquent.declaring import find_source

    folder, whole = options.find_folder(), file.resolve()
    address, _ = find_source(str(whole), folder or whole.parent)
    return address if folder is not None else f"{address.partition(':')[0]}:{whole}"


def _require_public(options: Options, file: Path) -> None:
    if options.screen.can_ask:
        options.screen.warn(PRIVATE_ROWS_WARNING)
        if options.screen.confirm(f"Are the rows of {file.name} public?"):
            return
    raise NotAllowed(
        f"{PRIVATE_ROWS_WARNING} {file.name} was not declared public.",
        fix=build_fix("write the table file by hand, or with public rows: ", run("draft", file, "--public")),
    )


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as failed:
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None


def check(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table (default: all).")] = None,
    reading: ReadingOption = None,
) -> int:
    """Compare rows with their declaration, exactly, for the owner only; exit 1 if they differ from it.

    With --reading, its settings are written into the table file first.
    """
    from siloquent.session.table_files import write_settings

    options.require_owner("A check")
    with options.open_session() as session:
        if reading:
            write_settings(session, table, parse_reading_lines(reading))
        names = [table] if table else session.list_tables()
        reports = [
            build_check_report(session, name, alone=table is not None, language=options.language) for name in names
        ]
    document = build_check_document(reports)
    status = 0 if document["clean"] else 1
    if options.as_json:
        options.screen.write_document(document)
        return status
    options.screen.note("Exact counts, for the owner only.")
    for report in reports:
        _show(options, report)
    if not reports:
        options.screen.note(f"No tables are declared. Next: {options.format_command('declare', 'ROWS.csv')}")
    return status


def refresh(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[NEWFILE]", help="The new rows (default: the source already has them)."),
    ] = None,
    despite_findings: Annotated[
        bool, typer.Option("--despite-findings", help="Accept rows in which check finds problems.")
    ] = False,
) -> None:
    """Replace a table's rows with those of a file that fits the declaration; earlier charges stay."""
    from siloquent.explore.answered_rows import format_minute

    options.require_owner("A refresh")
    if options.server is not None:
        document = _refresh_at_server(options, table, file, despite_findings=despite_findings)
    else:
        with options.open_session() as session:
            document = build_refresh_document(session.refresh(table, file, despite_findings=despite_findings))
    if options.as_json:
        options.screen.write_document(document)
        return
    options.screen.note("Exact counts, for the owner only.")
    _show(options, document)
    since = f", since {format_minute(document['at'])}" if document["at"] else ""
    options.screen.write_line(f"{clean_text(table)}: the rows are version {document['version']}{since}.")
    if document["entry"]:
        options.screen.note("What was spent stays spent. Earlier answers stay valid for the rows of their time.")
    else:
        options.screen.note("Nothing is charged to this table yet, so the ledger has nothing to record.")


def _refresh_at_server(options: Options, table: str, file: Path | None, *, despite_findings: bool) -> dict[str, Any]:
    """Replace a table's rows at a server with those of a file here, or of a place that the server may read."""
    with options.connect() as session:
        if file is None or _SOURCE.match(str(file)):
            source = None if file is None else str(file)
            return session.refresh(table, source, despite_findings=despite_findings).to_json()
        sent, is_needed = session.upload(file), False
        try:
            return session.refresh(table, sent.source, despite_findings=despite_findings).to_json()
        except SiloquentError as wrong:  # it names the upload, which the caller has never seen
            is_needed = wrong.code == "source_not_allowed"  # its fix is a declaration that names the upload
            wrong.detail = wrong.detail.replace(sent.source.rpartition("/")[2], file.name)
            wrong.remedy = wrong.remedy.map(RunCommand, lambda one: _name_file(one, sent.source, file))
            raise
        finally:
            with suppress(SiloquentError):  # a table that names the upload keeps it
                if not is_needed:
                    session.delete_upload(sent.id)


def _name_file(action: RunCommand, source: str, file: Path) -> RunCommand:
    """Return the action with the caller's own file in place of its upload."""
    return replace(action, args=tuple(str(file) if one == source else one for one in action.args))


def _show(options: Options, report: dict[str, Any]) -> None:
    from siloquent.schema.files.reading_edits import list_reading_lines

    screen, findings = options.screen, report["findings"]
    if report["rows"] is not None:
        rows = number_of(report["rows"], "row", "rows")
        screen.write_line(
            f"{clean_text(report['table'])}: {rows}, of which {number_of(report['counted'], 'counts', 'count')}; "
            f"{number_of(report['complete'], 'row has', 'rows have')} a value in every column."
        )
    if findings:
        screen.write_table(
            [("", LEFT), ("where", LEFT), ("count", RIGHT), ("what", LEFT), ("fix", LEFT)],
            [
                (
                    "!" if one["problem"] else "",
                    clean_text(one["subject"]),
                    f"{one['count']:,}",
                    clean_text(one["sentence"]),
                    clean_text(one["fix"]),
                )
                for one in findings
            ],
        )
    screen.write_line(f"{clean_text(report['table'])}: {'as declared' if report['clean'] else 'not as declared'}.")
    if lines := list_reading_lines(one["fix"] for one in findings):
        words = [word for line in lines for word in ("--reading", line)]
        command = options.format_command("check", report["table"], *words)
        screen.note(f"If they are meant, this writes these settings:\n  {command}")
    if report.get("questions"):
        screen.note("Analysts could ask, for example:")
    for one in report.get("questions", ()):
        share = format_significant(Fraction(one["share"]) * 100, "up")
        screen.note(f"  {clean_text(one['query'])}  ({share} % of what is left)")
