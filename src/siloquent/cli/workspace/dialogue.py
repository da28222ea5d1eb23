"""The dialogue of ``siloquent declare`` at a terminal: one question after the other, each answer kept at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.cli.base.problems import Interrupted, clean_lines
from siloquent.errors import RequestError, SchemaError

if TYPE_CHECKING:
    from siloquent.schema.declaring import DeclarationQuestion, TableDraft
    from siloquent.schema.declaring.kept_files import DeclarationFiles

MAX_SHOWN = 40
HELP = """\
State the values that a column could have, not the values that it has.
  0..120                   whole numbers         0.00..9999.99   numbers with two decimals
  F, M, unknown            a list of values      codes 1..7      a list of whole numbers
  2019-01-01..2024-12-31   days                  yes/no   id   text 200   skip
  @month                   a built-in list: {lists};
                           @FILE of the workspace, one public value per line; =TABLE.COLUMN of a declared table
Several columns, several answers: BILL_AMT* = 0..10000; sex, gender = F, M; rest = skip
Ctrl-C saves your answers; run the same command to continue."""


def ask_questions(options: Options, place: DeclarationFiles, draft: TableDraft, afresh: bool) -> TableDraft:
    """Ask what is open, keeping each answer; then show the whole and let it be corrected."""
    from siloquent.schema.declaring.copying.code_lists import CODE_LISTS
    from siloquent.schema.declaring.questions import find_next_question

    screen = options.screen
    draft = draft if afresh else _resume(options, place, draft)
    screen.note(f"{len(draft.columns):,} columns, by name and type; no rows are read.")
    screen.note("One answer may be about several columns: price, fee = 0.00..999.99; rest = skip.")
    screen.note("? explains more. Ctrl-C stops and saves the answers.")
    lists = ", ".join(f"@{one}" for one in CODE_LISTS)
    try:
        while (question := find_next_question(draft)) is not None:
            _show_question(options, draft, question)
            draft = _take_answer(options, place, draft, question, HELP.format(lists=lists))
        return _confirm(options, place, draft)
    except (typer.Abort, KeyboardInterrupt):
        kept = (
            f"Your answers are saved in schemas/{place.kept.name}" if place.kept.exists() else "No answers were given"
        )
        raise Interrupted("nothing", f"{kept}; to continue: {options.format_rerun()}") from None


def _resume(options: Options, place: DeclarationFiles, draft: TableDraft) -> TableDraft:
    from siloquent.schema.declaring.draft import apply_answers
    from siloquent.schema.declaring.kept_files import read_answers_file

    if not place.kept.is_file():
        return draft
    try:
        draft, faults = apply_answers(draft, read_answers_file(place.kept))
    except (RequestError, SchemaError) as wrong:
        options.screen.warn(f"schemas/{place.kept.name} is not used: {clean_lines(wrong.detail)}")
        return draft
    options.screen.note(f"Continuing with the answers in schemas/{place.kept.name}; --afresh starts over.")
    for fault in faults:
        options.screen.warn(f"Left out: {clean_lines(fault.detail)}")
    return draft


def _show_question(options: Options, draft: TableDraft, question: DeclarationQuestion) -> None:
    screen = options.screen
    screen.note("")
    if question.key == "accept":
        width = max(len(column.shown) for column in question.columns[:MAX_SHOWN])
        for column in question.columns[:MAX_SHOWN]:
            proposal = draft.proposals[column.name]
            meaning, reason = clean_text(proposal.meaning), clean_text(proposal.reason)
            screen.note(f"  {column.shown:{width}}  {meaning}  (from {reason})")
        if len(question.columns) > MAX_SHOWN:
            screen.note(f"  ... and {len(question.columns) - MAX_SHOWN:,} more")
    screen.note(clean_text(question.text), style="bold")
    if question.hint:
        screen.note(f"  {clean_text(question.hint)}", style="dim")


def _take_answer(
    options: Options, place: DeclarationFiles, draft: TableDraft, question: DeclarationQuestion, help_text: str
) -> TableDraft:
    from siloquent.schema.declaring.questions import answer_question

    default = f" [{clean_text(question.default)[:60]}]" if question.default is not None else ""
    while True:
        text = options.screen.ask_line(f">{default}").strip()
        if text == "?":
            options.screen.note(help_text)
            continue
        try:
            draft = answer_question(draft, question, text)
        except RequestError as wrong:
            _show_fault(options, wrong)
            continue
        place.keep(draft)
        return draft


def _show_fault(options: Options, wrong: RequestError) -> None:
    fix = f" For example: {clean_lines(wrong.remedy.render(CommandLanguage()))}" if wrong.remedy else ""
    options.screen.warn(f"{clean_lines(wrong.detail)}{fix}", style="red")


def _confirm(options: Options, place: DeclarationFiles, draft: TableDraft) -> TableDraft:
    """Show what will be written, and take corrections until it is confirmed."""
    from siloquent.schema.declaring.draft import say_correction

    screen = options.screen
    _show_draft(options, draft)
    while True:
        screen.note(f"Write schemas/{place.file.name}?", style="bold")
        screen.note(
            "  Enter writes it; or correct: age = 18..99; note = skip; outside = drop; adjacency = replace-one; "
            "delta = 1e-7; accountant = pure",
            style="dim",
        )
        text = screen.ask_line("> [write]").strip()
        if not text or text.casefold() in ("y", "yes", "write"):
            return draft
        try:
            draft = say_correction(draft, text)
        except RequestError as wrong:
            _show_fault(options, wrong)
            continue
        place.keep(draft)
        _show_draft(options, draft)


def _show_draft(options: Options, draft: TableDraft) -> None:
    from siloquent.schema.declaring.summary import describe_columns, describe_table

    screen = options.screen
    screen.note("")
    columns = describe_columns(draft)
    for name, meaning, empty in columns[:MAX_SHOWN]:
        screen.note(f"  {name} = {clean_text(meaning)}{f'; {clean_text(empty)}' if empty else ''}")
    if len(columns) > MAX_SHOWN:
        screen.note(f"  ... and {len(columns) - MAX_SHOWN:,} more columns")
    for line in describe_table(draft):
        screen.note(f"  {clean_text(line)}")
