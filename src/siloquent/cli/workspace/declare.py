"""``siloquent declare``: from the column names of a private source to its table file, by questions in plain words."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text, number_of
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.cli.base.paths import load_workspace
from siloquent.cli.workspace.dialogue import ask_questions
from siloquent.cli.workspace.reading import ReadingOption, parse_reading_lines, suggest_reading
from siloquent.documents.tables import build_declaration_document
from siloquent.errors import NotAllowed, RequestError

if TYPE_CHECKING:
    from siloquent.documents.prices.first_query import FirstQuery
    from siloquent.schema import Attribute, TableSchema
    from siloquent.schema.declaring import GivenAnswers, RawSource, TableDraft
    from siloquent.schema.declaring.kept_files import DeclarationFiles


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    register_command(app, "declare", declare, panel="Owner")


def declare(
    options: Options,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A CSV, Parquet or DuckDB file (FILE#TABLE), or postgres:NAME#TABLE."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="The table's name (default: from the file's name).")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", metavar="FILE", help="Answers in TOML, as this command saves them.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="'NAME = MEANING'", help="The possible values of columns; repeatable."),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the proposals from names and types.")] = False,
    empty: Annotated[str | None, typer.Option("--empty", help="What empty cells mean: group, drop or a value.")] = None,
    person: Annotated[
        str | None,
        typer.Option("--person", metavar="COLUMN", help="The column that identifies the person of a row, or none."),
    ] = None,
    max_rows: Annotated[
        str | None, typer.Option("--max-rows", help="The number of rows per person that count.")
    ] = None,
    rows: Annotated[str | None, typer.Option("--rows", help="The approximate number of rows, if public.")] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The total budget of all answers.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="The budget's delta (default: by --rows).")] = None,
    delta_events: Annotated[
        str | None,
        typer.Option("--delta-events", help="The part of delta for discoveries: yes (a tenth), no, or an amount."),
    ] = None,
    outside: Annotated[
        str | None, typer.Option("--outside", help="What becomes of values beyond the bounds: clamp or drop.")
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option("--adjacency", help="What stays hidden of a person: add-remove (default) or replace-one."),
    ] = None,
    accountant: Annotated[
        str | None, typer.Option("--accountant", help="How costs add up: zcdp (default) or pure.")
    ] = None,
    days: Annotated[
        str | None, typer.Option("--days", metavar="31.12.2024", help="The 31st of December as the file writes it.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option("--decimal", metavar="12,50", help="A number with decimals as the file writes it.")
    ] = None,
    reading: ReadingOption = None,
    header: Annotated[bool, typer.Option("--header", help="The first line contains the column names.")] = False,
    replace_file: Annotated[
        bool, typer.Option("--replace", help="Replace the existing table file; the old one is kept beside it.")
    ] = False,
    afresh: Annotated[bool, typer.Option("--afresh", help="Ignore saved answers and start over.")] = False,
) -> None:
    """Declare a private table: reads its columns' names and types, never a row, and asks about each in plain words."""
    from siloquent.declaring import find_source, read_source
    from siloquent.schema.declaring import GivenAnswers, derive_table_name, start_draft
    from siloquent.schema.declaring.copying.lists import build_list_finder, list_declared_columns
    from siloquent.schema.declaring.kept_files import DeclarationFiles
    from siloquent.schema.formats.reading import read_settings

    options.require_owner("A declaration")
    workspace = load_workspace(options)
    address, origin = find_source(source, workspace.folder)
    place = DeclarationFiles(workspace, name or derive_table_name(Path(origin.rpartition("#")[2] or origin)))
    _require_free(place, replace_file)
    lines = parse_reading_lines(reading)
    with suggest_reading(options, lines):
        found = read_source(address, workspace, lines)
    _require_header(options, found, origin, header or bool(lines and read_settings(lines).names))
    draft = start_draft(
        found,
        name=place.table,
        find_list=build_list_finder(workspace, found.address),
        declared=list_declared_columns(workspace, place.table),
    )
    given = GivenAnswers(
        columns=tuple(column or ()),
        accept=accept or None,
        empty=empty,
        outside=outside,
        person=person,
        max_rows=max_rows,
        adjacency=adjacency,
        rows=rows,
        accountant=accountant,
        days=days,
        decimal=decimal,
        epsilon=epsilon,
        delta=delta,
        delta_events=delta_events,
    )
    draft = _take_given(options, draft, answers, given)
    if options.screen.can_ask:
        draft = ask_questions(options, place, draft, afresh)
    _finish(options, place, draft, origin)


def _require_free(place: DeclarationFiles, replace_file: bool) -> None:
    from siloquent.schema.declaring.kept_files import require_table_name

    require_table_name(place.table, fix="--name visits")
    if place.file.exists() and not replace_file:
        raise RequestError(
            f"schemas/{place.table}.toml already exists and is not overwritten.",
            fix="edit that file, or use --name for another table, or --replace, which keeps the old file beside it",
        )


def _require_header(options: Options, source: RawSource, origin: str, header: bool) -> None:
    """Refuse a first line that may be a person's row; its text is not shown."""
    from siloquent.schema.declaring.header import describe_header_doubt

    warning = "" if header else describe_header_doubt(source, clean_text(origin))
    if not warning:
        return
    if options.screen.can_ask:
        options.screen.warn(warning)
        if options.screen.confirm("Does the first line name the columns?"):
            return
    raise NotAllowed(
        f"{warning} Nothing of it was written.", fix="write a header line, or confirm that there is one: --header"
    )


def _take_given(options: Options, draft: TableDraft, file: Path | None, given: GivenAnswers) -> TableDraft:
    """Take in the answers of options and of a file; all faults are reported at once."""
    from siloquent.schema.declaring.draft import apply_answers
    from siloquent.schema.declaring.kept_files import read_answers_file

    faults: list[RequestError] = []
    if file is not None:
        draft, faults = apply_answers(draft, read_answers_file(file))
    draft, more = apply_answers(draft, given)
    faults += more
    if faults:
        told = [
            f"{one.detail}{f' Fix: {one.remedy.render(CommandLanguage())}.' if one.remedy else ''}"
            for one in faults[:20]
        ]
        told += [f"And {len(faults) - 20} more."] if len(faults) > 20 else []
        raise RequestError("\n".join(told), fix="correct these answers; the others are understood")
    return draft


def _finish(options: Options, place: DeclarationFiles, draft: TableDraft, origin: str) -> None:
    """Write the table file, and tell the price of a first query."""
    from siloquent.documents.prices.first_query import price_first_query
    from siloquent.schema.build import parse_schema
    from siloquent.schema.declaring import compose_table_file

    draft = _require_answers(options, draft)
    text = compose_table_file(draft, origin=origin)
    schema = parse_schema(text)
    old = place.write(text)
    first = price_first_query(place.workspace, schema)
    left_out = [column.name for column in draft.columns if not draft.meanings[column.name].type]
    if options.as_json:
        document = build_declaration_document(
            schema, place.file, left_out, text, None if first is None else first.to_json()
        )
        options.screen.write_document(document)
        return
    if old:
        options.screen.note(f"The earlier declaration is kept in schemas/{old.name}; its constraints are not copied.")
    _show_end(options, schema, first, len(left_out))


def _require_answers(options: Options, draft: TableDraft) -> TableDraft:
    """Return the draft with defaults for the questions that have one; refuse it if others are open."""
    from siloquent.schema.declaring.questions import decide_defaults, list_open_questions

    while True:
        needed = [one for one in list_open_questions(draft) if one.default is None or one.key == "accept"]
        if needed:
            told = [f"{question.text} {question.option}" for question in needed[:20]]
            told += [f"And {len(needed) - 20} more questions."] if len(needed) > 20 else []
            raise RequestError(
                "These questions are open, and standard input is not a terminal:\n" + "\n".join(map(clean_text, told)),
                fix=options.format_rerun(*_suggest_answers(draft, {question.key for question in needed})),
            )
        if draft.answers.epsilon is not None and not list(list_open_questions(draft)):
            return draft
        draft = decide_defaults(draft)


def _suggest_answers(draft: TableDraft, keys: set[str]) -> list[str]:
    """Return options that answer the open questions, with the table's own columns."""
    from siloquent.schema.declaring.names import is_person_like, suggest_meaning
    from siloquent.schema.declaring.statements import format_names

    ids = [column.name for column in draft.columns if (told := draft.meanings.get(column.name)) and told.type == "id"]
    columns = draft.rest_columns
    meanings = {column.name: suggest_meaning(column) for column in columns}
    kept = "; ".join(
        f"{format_names([one for one in columns if meanings[one.name] == meaning])} = {meaning}"
        for meaning in dict.fromkeys(meanings.values())
    )
    suggested = {
        "accept": ["--accept"],
        "columns": ["--column", kept],
        "person": ["--person", next((one for one in ids if is_person_like(one)), ids[-1] if ids else "none")],
        "max_rows": ["--max-rows", "4"],
    }
    return [word for key, words in suggested.items() if key in keys for word in words]


def _spans_centuries(attribute: Attribute) -> bool:
    return attribute.hi.year - attribute.lo.year > 100  # type: ignore[union-attr]


def _show_end(options: Options, schema: TableSchema, first: FirstQuery | None, left_out: int) -> None:
    from siloquent.documents.ledger import format_delta, format_significant

    screen = options.screen
    count = number_of(len(schema.domain.names), "column", "columns")
    screen.write_line(f"schemas/{schema.name}.toml declares {count}; {left_out:,} left out.")
    events = f", delta_events {format_delta(schema.budget.delta_events)}" if schema.budget.delta_events else ""
    amount = format_significant(schema.budget.epsilon or Fraction(0), "down")
    budget = f"epsilon {amount}, delta {format_delta(schema.budget.delta)}{events}"
    wide = [one.name for one in schema.domain if one.is_temporal and _spans_centuries(one)]
    if wide:
        names = clean_text(", ".join(wide[:4]))
        screen.note(f"{names}: any day from 1900 to 2099. Write nearer bounds, lo and hi, if you know them.")
    screen.note(f"Hidden: {schema.unit.description}. Budget: {budget}.")
    screen.note(f"Compare the rows with it, for the owner only:\n  {options.format_command('check', schema.name)}")
    if first is None:
        screen.note("No first query could be priced: see `siloquent explain`.")
        return
    screen.note(f"{first.describe()}:")
    screen.note(f"  {options.format_command('ask', first.text)}")
