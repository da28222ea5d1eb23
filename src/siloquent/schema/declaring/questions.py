"""The questions in plain words, in their order; the command line, Python and the web form ask the same ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from siloquent.errors import RequestError
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.declaring.draft import (
    ACCOUNTANTS,
    ADJACENCIES,
    NO,
    NO_PERSON,
    STEPS,
    YES,
    TableDraft,
    accept_proposals,
    say_columns,
)
from siloquent.schema.declaring.meanings import EXAMPLES
from siloquent.schema.declaring.names import HINTS, group_columns, is_person_like
from siloquent.schema.declaring.spelling import DAYS, POINT
from siloquent.schema.declaring.statements import format_subject, split_outside_quotes
from siloquent.schema.meaning import Meaning

MAX_NAMED = 6


@dataclass(frozen=True, slots=True)
class DeclarationQuestion:
    """One question: its key among the answers, its text, how an answer may look, and the meaning of no answer.

    ``default`` is None if an answer is needed. ``columns`` are those that an answer without a name is about.
    ``choices``: the only answers, if they are few.
    """

    key: str
    text: str
    hint: str = ""
    default: str | None = None
    columns: tuple[ColumnHeader, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The option of the command line that gives the answer."""
        if self.key == "accept":
            return "--accept"
        if self.key == "columns":
            return f"--column {shlex.quote(f'{format_subject(self.columns[0])} = ...')}"
        return f"--{self.key.replace('_', '-')}"


def find_next_question(draft: TableDraft) -> DeclarationQuestion | None:
    """Return the next open question; None if all are answered."""
    return next(list_open_questions(draft), None)


def list_open_questions(draft: TableDraft) -> Iterator[DeclarationQuestion]:
    """Yield the open questions in order, as far as they are known before the first of them is answered."""
    answers = draft.answers
    proposed = draft.proposed_columns if answers.accept is None else []
    if proposed:
        yield DeclarationQuestion(
            "accept",
            f"Are the proposals for {_name_columns(proposed)} right?",
            "Enter accepts them; or correct some and accept the others: age = 18..99; sex = F, M. no dismisses all."
            + _describe_wide(draft, proposed),
            "yes",
            tuple(proposed),
        )
    waiting = {column.name for column in proposed}
    for topic, columns in group_columns([one for one in draft.open_columns if one.name not in waiting]):
        yield DeclarationQuestion(
            "columns",
            f"What values are possible in {_name_columns(columns)}{_describe_types(columns)}".removesuffix("?") + "?",
            HINTS.get(topic, EXAMPLES),
            columns=tuple(columns),
        )
    counts = bool(draft.open_columns) or any(meaning.has_cells for meaning in draft.meanings.values())
    if answers.empty is None and counts:
        yield DeclarationQuestion(
            "empty",
            "What does an empty cell mean?",
            "group: empty cells are a group of their own; drop: the row does not count where the column is used; or a "
            "value. For some columns: age = drop; rest = group.",
            "a group of its own in lists, left out of numbers and dates",
        )
    yield from _list_spellings(draft)
    if answers.person is None:
        likely = _find_person(draft)
        yield DeclarationQuestion(
            "person",
            "If one person can have several rows, which column says whose row it is?",
            f"{_name_ids(draft)}none: each row is another person. What one person adds to the table is what stays "
            "hidden.",
            likely.name if likely else None if _has_id(draft) else "none, each row is another person",
        )
    elif draft.person is not None and answers.max_rows is None:
        yield DeclarationQuestion(
            "max_rows",
            f"How many rows of one {draft.person.shown} may count?",
            "More rows of one are left out; a larger number means more noise. Take what nearly all stay below.",
        )
    if answers.rows is None:
        yield DeclarationQuestion(
            "rows",
            "Roughly how many rows are there, as far as that is public?",
            "It is used for averages and written down for everybody.",
            "not known",
        )
    if answers.epsilon is None:
        yield DeclarationQuestion(
            "epsilon",
            "How much may all answers together reveal (epsilon)?",
            "0.1 is strict, 1 is common, above 5 is lax. It can be changed as long as nothing is asked.",
            "1",
        )
    is_pure = draft.accountant == "pure"
    if (
        answers.delta_events is None
        and not is_pure
        and any(meaning.type == "text" for meaning in draft.meanings.values())
    ):
        yield DeclarationQuestion(
            "delta_events",
            "May values of text columns be discovered later, those that many people share?",
            "That sets a tenth of delta aside: it bounds the probability that a value of only one person is shown. "
            "no: all of delta is for other answers.",
            "yes",
            choices=("yes", "no"),
        )


def _list_spellings(draft: TableDraft) -> Iterator[DeclarationQuestion]:
    """Yield how a file of texts writes days and decimals, where neither its types nor its settings say it."""
    if draft.answers.days is None and (columns := draft.list_spelled("date", "date_format")):
        yield DeclarationQuestion(
            "days",
            f"How does the file write the 31st of December 2024 in {_name_columns(columns)}?",
            f"{', '.join(DAYS)}, or a format such as %d.%m.%y.",
            DAYS[0],
        )
    if draft.answers.decimal is None and (columns := draft.list_spelled("real", "decimal")):
        yield DeclarationQuestion(
            "decimal",
            f"How does the file write twelve and a half in {_name_columns(columns)}?",
            "12.50 or 12,50; with separators of thousands 1,234.50 or 1.234,50.",
            POINT,
        )


def list_settings(draft: TableDraft) -> Iterator[DeclarationQuestion]:
    """Yield what is decided by default without being asked, as questions for those who want it otherwise."""
    if draft.bounded_columns:
        yield DeclarationQuestion(
            "outside",
            "What becomes of values beyond the bounds?",
            "clamp: they count as the bound; drop: the row does not count where the column is used. For some columns: "
            "age = drop; rest = clamp.",
            "numbers count as the bound, days and moments are left out",
        )
    yield DeclarationQuestion(
        "adjacency",
        "What about one person stays hidden?",
        "add-remove: whether the person is in the table at all. replace-one: what the person's rows say, but not how "
        "many people there are.",
        ADJACENCIES[0],
        choices=ADJACENCIES,
    )
    yield DeclarationQuestion(
        "accountant",
        "How do the costs of answers add up?",
        "zcdp: many answers cost less together, and the guarantee fails with probability delta. pure: epsilons are "
        "added, without a delta; no values can be discovered.",
        ACCOUNTANTS[0],
        choices=ACCOUNTANTS,
    )
    if draft.accountant == "zcdp":
        yield DeclarationQuestion(
            "delta",
            "With what probability may the guarantee fail (delta)?",
            "It should be well below 1 divided by the number of rows, such as 1e-6.",
            "1e-6, or less for many rows",
        )


def answer_question(draft: TableDraft, question: DeclarationQuestion, text: str) -> TableDraft:
    """Take in the answer to ``question``; an empty text takes the default.

    Raises:
        RequestError: the answer is not understood; nothing has changed.
    """
    text = text.strip()
    if question.key == "accept":
        *corrections, last = split_outside_quotes(text, ";")
        decides = last.strip().casefold() in (*YES, *NO)
        said = ";".join(corrections) if decides else text
        return accept_proposals(say_columns(draft, said), last.strip().casefold() not in NO if decides else True)
    if question.key == "columns":
        return say_columns(draft, text or ";", question.columns) if text else _refuse_empty(draft, question)
    if question.key == "person" and not text:
        likely = _find_person(draft)
        if likely is None and _has_id(draft):
            raise RequestError(
                "With an id column, it must be said whose rows these are: this decides what stays hidden.",
                fix="name the column that identifies a person, or answer none",
            )
        text = likely.name if likely else NO_PERSON[1]
    return STEPS[question.key](draft, text)


def _refuse_empty(draft: TableDraft, question: DeclarationQuestion) -> TableDraft:
    from siloquent.schema.declaring.meanings import parse_meaning

    parse_meaning("", question.columns[0])
    return draft


def decide_defaults(draft: TableDraft) -> TableDraft:
    """Take the defaults of all open questions that have one, except the proposals."""
    for question in list(list_open_questions(draft)):
        if question.default is not None and question.key != "accept":
            draft = answer_question(draft, question, "")
    return draft


def _find_person(draft: TableDraft) -> ColumnHeader | None:
    """Return the id column whose name says that it is a person's, if there is one."""
    for column in draft.columns:
        meaning = draft.meanings.get(column.name, Meaning(""))
        if meaning.type == "id" and is_person_like(column.name):
            return column
    return None


def _describe_wide(draft: TableDraft, proposed: Sequence[ColumnHeader]) -> str:
    """Return a sentence about proposals that hold any date, since Enter would accept them unseen."""
    wide = [one for one in proposed if draft.proposals[one.name].is_any_date]
    if not wide:
        return ""
    example = f"{format_subject(wide[0])} = 2020-01-01..2025-12-31"
    return f" {_name_columns(wide)} may be any day of two centuries: nearer bounds make answers more exact: {example}."


def _name_ids(draft: TableDraft) -> str:
    """Return the id columns that may say whose row it is, as the beginning of a hint."""
    ids = [one for one in draft.columns if draft.meanings.get(one.name, Meaning("")).type == "id"]
    return f"{_name_columns(ids).replace(' and ', ' or ')}; " if ids else ""


def _has_id(draft: TableDraft) -> bool:
    """Return whether a column is an id: whether it is a person's decides the guarantee, so nobody guesses it."""
    return any(draft.meanings.get(column.name, Meaning("")).type == "id" for column in draft.columns)


def _name_columns(columns: Sequence[ColumnHeader]) -> str:
    names = [column.shown for column in columns[:MAX_NAMED]]
    if len(columns) > MAX_NAMED:
        return f"{', '.join(names)} and {len(columns) - MAX_NAMED:,} more columns"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _describe_types(columns: Sequence[ColumnHeader]) -> str:
    types = list(dict.fromkeys(column.holds for column in columns if column.holds))
    return f" ({', '.join(types[:3])})" if types else ""
