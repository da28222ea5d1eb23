"""A declaration in the making: the source's columns, and what its owner has said of them so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from types import MappingProxyType

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.declaring.answers import GivenAnswers
from siloquent.schema.declaring.columns import ColumnHeader, RawSource
from siloquent.schema.declaring.meanings import SKIPPED, ListFinder, parse_meaning, require_valid
from siloquent.schema.declaring.names import Proposal, propose_meaning
from siloquent.schema.declaring.spelling import (
    ISO_DAY,
    POINT,
    has_setting,
    read_day_format,
    read_decimal_signs,
    write_settings,
)
from siloquent.schema.declaring.statements import find_column, format_names, split_outside_quotes, split_statement
from siloquent.schema.files.toml import MAX_ENTRIES, quote_short, quote_text
from siloquent.schema.meaning import Meaning
from siloquent.schema.table import EXACT_KINDS

NO_PERSON = ("", "none", "no", "row", "rows", "nobody")
YES, NO = ("", "y", "yes", "ok"), ("n", "no", "none")
_GROUP = ("group", "own group", "cell", "null")
_DROP = ("drop", "leave out", "ignore", "do not count")
_CLAMP = ("clamp", "bound", "nearest", "count as the bound")
ADJACENCIES, ACCOUNTANTS = ("add-remove", "replace-one"), ("zcdp", "pure")
"""What may be declared, the default first."""
MAX_DELTA = Decimal("0.001")
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class TableDraft:
    """A table's columns and what is decided: their meanings, those of NULL, the unit, size and budget."""

    name: str
    source: RawSource
    proposals: Mapping[str, Proposal]
    find_list: ListFinder | None = None
    answers: GivenAnswers = field(default_factory=GivenAnswers)
    meanings: Mapping[str, Meaning] = field(default_factory=lambda: MappingProxyType({}))
    nulls: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    outsides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def columns(self) -> tuple[ColumnHeader, ...]:
        """The source's columns."""
        return self.source.columns

    @property
    def open_columns(self) -> list[ColumnHeader]:
        """The columns without a meaning."""
        return [column for column in self.columns if column.name not in self.meanings]

    @property
    def proposed_columns(self) -> list[ColumnHeader]:
        """The columns whose proposals wait for a confirmation."""
        return [] if self.answers.accept is False else [one for one in self.open_columns if one.name in self.proposals]

    @property
    def rest_columns(self) -> list[ColumnHeader]:
        """The columns that ``rest`` names: those with neither a meaning nor a proposal."""
        waiting = {column.name for column in self.proposed_columns}
        return [column for column in self.open_columns if column.name not in waiting]

    @property
    def person(self) -> ColumnHeader | None:
        """The column that says whose row it is; None while that is open, or if each row is another person."""
        said = self.answers.person
        return None if said is None or said.casefold() in NO_PERSON else find_column(said, self.columns)

    def get_null(self, name: str) -> str:
        """Return what NULL means in a column: as declared, or a group of its own in lists and left out of numbers."""
        meaning = self.meanings[name]
        default = '"cell"' if meaning.type in ("category", "boolean") else '"drop"'
        return self.nulls.get(name) or meaning.null or default

    @property
    def bounded_columns(self) -> list[ColumnHeader]:
        """The columns that have bounds."""
        return [one for one in self.columns if one.name in self.meanings and self.meanings[one.name].lo]

    def get_outside(self, name: str) -> str:
        """Return what becomes of values beyond a column's bounds: ``clamp`` or ``drop``."""
        return self.outsides.get(name) or self.meanings[name].outside

    def list_spelled(self, kind: str, setting: str) -> list[ColumnHeader]:
        """Return the columns of texts that hold days or numbers with decimals, if no ``setting`` says how."""
        if not self.source.address.startswith("csv") or has_setting(self.source.reading, setting):
            return []
        found = [one for one in self.columns if one.name in self.meanings and one.kind is None]
        return [one for one in found if self.meanings[one.name].type == kind]

    @property
    def adjacency(self) -> str:
        """The part of a person that stays hidden: ``add-remove`` or ``replace-one``."""
        return self.answers.adjacency or ADJACENCIES[0]

    @property
    def accountant(self) -> str:
        """The rule by which costs add up: ``zcdp`` or ``pure``."""
        return self.answers.accountant or ACCOUNTANTS[0]


def start_draft(
    source: RawSource,
    *,
    name: str,
    find_list: ListFinder | None = None,
    declared: Mapping[str, str] | None = None,
) -> TableDraft:
    """Begin a declaration; columns whose names no attribute can have are left out.

    Args:
        declared: Columns of declared tables, as ``=TABLE.COLUMN`` by their folded names: proposals for their namesakes.
    """
    proposals = {}
    for column in source.columns:
        if column.is_declarable and (found := _propose(column, find_list, declared or {})):
            proposals[column.name] = found
    left_out = {one.name: SKIPPED for one in source.columns if not one.is_declarable}
    return TableDraft(name, source, MappingProxyType(proposals), find_list, meanings=MappingProxyType(left_out))


def _propose(column: ColumnHeader, find_list: ListFinder | None, declared: Mapping[str, str]) -> Proposal | None:
    """Return a namesake's declaration in the workspace if it fits, otherwise a proposal from name and type."""
    copied = declared.get(column.name.casefold())
    if copied is not None:
        try:
            parse_meaning(copied, column, find_list)
        except RequestError:
            return propose_meaning(column)
        return Proposal(copied, f"the table {copied[1:].partition('.')[0]}")
    return propose_meaning(column)


def say_columns(draft: TableDraft, text: str, asked: Iterable[ColumnHeader] = ()) -> TableDraft:
    """Take in statements about columns; one that names no columns is about those ``asked``.

    Raises:
        RequestError: a column or a meaning is not understood.
    """
    asked = list(asked)
    for statement in split_outside_quotes(text, ";"):
        if not statement.strip():
            continue
        named, said = split_statement(statement, draft.columns, draft.rest_columns)
        if named is None and not asked:
            raise RequestError(f"{quote_short(said)} does not name a column.", fix="COLUMN = 0..120")
        chosen = asked if named is None else named
        found = {column.name: parse_meaning(said, column, draft.find_list) for column in chosen}
        draft = set_meanings(draft, found)
        kept = f"{format_names(chosen)} = {said}" if chosen else statement.strip()
        draft = replace(draft, answers=replace(draft.answers, columns=(*draft.answers.columns, kept)))
    return draft


def accept_proposals(draft: TableDraft, accept: bool) -> TableDraft:
    """Confirm the proposals for columns that have no meaning yet, or dismiss them."""
    if accept:
        found = {
            one.name: parse_meaning(draft.proposals[one.name].meaning, one, draft.find_list)
            for one in draft.proposed_columns
        }
        draft = set_meanings(draft, found)
    return replace(draft, answers=replace(draft.answers, accept=accept))


def set_meanings(draft: TableDraft, found: Mapping[str, Meaning]) -> TableDraft:
    """Decide the meanings of columns.

    Raises:
        RequestError: more columns would be declared than a table has.
    """
    meanings = {**draft.meanings, **found}
    count = sum(bool(meaning.type) for meaning in meanings.values())
    if count > MAX_ENTRIES:
        raise RequestError(f"A table has at most {MAX_ENTRIES:,} attributes, not {count:,}.", fix="rest = skip")
    return replace(draft, meanings=MappingProxyType(meanings))


def say_empty(draft: TableDraft, text: str) -> TableDraft:
    """Take in what an empty cell (NULL) means: ``group``, ``drop``, or statements such as ``age = 0; rest = drop``.

    Raises:
        RequestError: a column or a value is not understood.
    """
    counted = [one for one in draft.columns if one.name in draft.meanings and draft.meanings[one.name].has_cells]
    nulls = dict(draft.nulls)
    for statement in split_outside_quotes(text, ";"):
        if not statement.strip():
            continue
        others = [one for one in counted if one.name not in nulls]
        named, said = split_statement(statement, draft.columns, others)
        for column in others if named is None else named:
            meaning = draft.meanings.get(column.name, SKIPPED)
            if meaning.has_cells:
                literal = parse_null(said, meaning)
                require_valid(column.name, replace(meaning, null=literal))
                nulls[column.name] = literal
    return replace(draft, nulls=MappingProxyType(nulls), answers=replace(draft.answers, empty=text))


def say_outside(draft: TableDraft, text: str) -> TableDraft:
    """Take in what becomes of values beyond the bounds: ``clamp``, ``drop``, or ``age = drop; rest = clamp``.

    Raises:
        RequestError: a column is not known or has no bounds, or the text is neither.
    """
    outsides: dict[str, str] = {}
    for statement in split_outside_quotes(text, ";"):
        if not statement.strip():
            continue
        others = [one for one in draft.bounded_columns if one.name not in outsides]
        named, said = split_statement(statement, draft.columns, others)
        folded = said.casefold()
        if folded not in (*_CLAMP, *_DROP):
            raise RequestError(f"A value beyond the bounds is not {quote_short(said)}.", fix="clamp, or drop")
        bounded = {one.name for one in draft.bounded_columns}
        if named is not None and (free := [one for one in named if one.name not in bounded]):
            raise RequestError(f"{quote_short(free[0].name)} has no bounds.", fix="clamp, or drop")
        for column in others if named is None else named:
            outsides[column.name] = "clamp" if folded in _CLAMP else "drop"
    return replace(draft, outsides=MappingProxyType(outsides), answers=replace(draft.answers, outside=text))


def say_adjacency(draft: TableDraft, text: str) -> TableDraft:
    """Take in what stays hidden of a person; empty means whether the person is in the table at all."""
    return replace(draft, answers=replace(draft.answers, adjacency=_parse_choice(text, "adjacency", ADJACENCIES)))


def say_accountant(draft: TableDraft, text: str) -> TableDraft:
    """Take in how costs add up; empty means zCDP."""
    return replace(draft, answers=replace(draft.answers, accountant=_parse_choice(text, "accountant", ACCOUNTANTS)))


def _parse_choice(text: str, key: str, choices: tuple[str, ...]) -> str:
    folded = re.sub(r"[\s_/]+", "-", text.strip().casefold())
    if folded and folded not in choices:
        near = get_close_matches(folded, choices, n=1) or [choices[0]]
        raise RequestError(f"{key} must be {' or '.join(choices)}, not {quote_short(text)}.", fix=near[0])
    return folded or choices[0]


def parse_null(text: str, meaning: Meaning) -> str:
    """Return what NULL means, as a table file says it: ``group`` or ``cell``, ``drop``, or a value.

    Raises:
        RequestError: it is neither.
    """
    folded = text.casefold()
    if folded in _GROUP or folded in _DROP:
        return '"cell"' if folded in _GROUP else '"drop"'
    if meaning.type == "category":
        return f"{{ value = {quote_text(text.strip(chr(34)))} }}"
    if meaning.type == "boolean" and folded in ("true", "yes", "1", "false", "no", "0"):
        return f"{{ value = {'true' if folded in ('true', 'yes', '1') else 'false'} }}"
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return f"{{ value = {text} }}"
    raise RequestError(f"An empty cell is not {quote_short(text)}.", fix="group, drop, or a declared value")


def say_days(draft: TableDraft, text: str) -> TableDraft:
    """Take in how the file writes days: as it would write the 31st of December, or as a format; empty means ISO."""
    form = read_day_format(text.strip())
    lines = write_settings(draft.source.reading, ("date_format",), {"date_format": form} if form else {})
    answers = replace(draft.answers, days=text.strip() or ISO_DAY)
    return replace(_set_reading(draft, lines), answers=answers)


def say_decimal(draft: TableDraft, text: str) -> TableDraft:
    """Take in how the file writes numbers with decimals; empty means with a point."""
    lines = write_settings(draft.source.reading, ("decimal", "thousands"), read_decimal_signs(text.strip()))
    answers = replace(draft.answers, decimal=text.strip() or POINT)
    return replace(_set_reading(draft, lines), answers=answers)


def _set_reading(draft: TableDraft, lines: str) -> TableDraft:
    from siloquent.schema.formats.reading import read_settings

    if lines:
        try:
            read_settings(lines)
        except SchemaError as wrong:
            raise RequestError(wrong.detail, fix=wrong.remedy) from None
    return replace(draft, source=replace(draft.source, reading=lines))


def say_person(draft: TableDraft, text: str) -> TableDraft:
    """Take in which column says whose row it is; a number becomes an id, since numbers are rounded as they are read.

    Raises:
        RequestError: there is no such column.
    """
    draft = replace(draft, answers=replace(draft.answers, person=text.strip()))
    person = draft.person
    if person is None:
        return draft
    if draft.meanings.get(person.name, SKIPPED).type not in EXACT_KINDS:
        draft = set_meanings(draft, {person.name: Meaning("id")})
    return draft


def say_max_rows(draft: TableDraft, text: str) -> TableDraft:
    """Take in how many rows of one person count."""
    count = _parse_count(text, "The rows of one person that count are", most=10**6, example="4")
    return replace(draft, answers=replace(draft.answers, max_rows=str(count)))


def say_rows(draft: TableDraft, text: str) -> TableDraft:
    """Take in how many rows there are, roughly and publicly; empty if that is not known."""
    count = str(_parse_count(text, "The rows of the table are", most=10**15, example="1000")) if text.strip() else ""
    return replace(draft, answers=replace(draft.answers, rows=count))


def say_epsilon(draft: TableDraft, text: str) -> TableDraft:
    """Take in the budget; empty means epsilon 1."""
    return replace(
        draft, answers=replace(draft.answers, epsilon=_parse_amount(text, "epsilon") if text.strip() else "1")
    )


def say_delta(draft: TableDraft, text: str) -> TableDraft:
    """Take in delta, the probability with which the guarantee may fail; empty means one by the number of rows."""
    if not text.strip():
        return replace(draft, answers=replace(draft.answers, delta=None))
    delta = _parse_amount(text, "delta")
    if Decimal(delta) > MAX_DELTA:
        raise RequestError(
            f"delta is the probability that the guarantee fails: at most {MAX_DELTA}, not {quote_short(text)}.",
            fix="1e-6",
        )
    return replace(draft, answers=replace(draft.answers, delta=delta))


def say_delta_events(draft: TableDraft, text: str) -> TableDraft:
    """Take in the part of delta for discoveries: empty or yes for a tenth, no for none, or an amount."""
    folded = text.strip().casefold()
    said = "yes" if folded in YES else "no" if folded in NO else _parse_amount(text, "delta_events")
    return replace(draft, answers=replace(draft.answers, delta_events=said))


def _parse_count(text: str, subject: str, *, most: int, example: str) -> int:
    plain = re.sub(r"[,_' ]", "", text.strip())
    if not re.fullmatch(r"[0-9]{1,16}", plain) or not 1 <= int(plain) <= most:
        digits = plain.replace(".", "")
        meant = digits if re.fullmatch(r"[1-9][0-9]{0,2}(\.[0-9]{3})+", plain) and int(digits) <= most else example
        raise RequestError(f"{subject} a whole number from 1 to {most:,}, not {quote_short(text)}.", fix=meant)
    return int(plain)


def _parse_amount(text: str, key: str) -> str:
    text = text.strip()
    if re.fullmatch(r"[0-9]+,[0-9]+", text):
        text = text.replace(",", ".")
        raise RequestError(f"{key} has a decimal point. Did you mean {text}?", fix=text)
    if not _AMOUNT.fullmatch(text) or len(text) > 30 or not float(text) > 0:
        raise RequestError(f"{key} must be a number above 0, such as 1 or 0.5, not {quote_short(text)}.", fix="1")
    return text


STEPS: dict[str, Callable[[TableDraft, str], TableDraft]] = {
    "empty": say_empty,
    "outside": say_outside,
    "days": say_days,
    "decimal": say_decimal,
    "person": say_person,
    "max_rows": say_max_rows,
    "adjacency": say_adjacency,
    "rows": say_rows,
    "accountant": say_accountant,
    "epsilon": say_epsilon,
    "delta": say_delta,
    "delta_events": say_delta_events,
}
"""The function that takes in each answer, in the order of the questions."""


def say_correction(draft: TableDraft, text: str) -> TableDraft:
    """Take in corrections of a finished draft: of columns, or of the whole table, such as ``delta = 1e-7``.

    Raises:
        RequestError: a column, a setting or a value is not understood; nothing has changed.
    """
    columns = {column.name.casefold() for column in draft.columns}
    for statement in split_outside_quotes(text, ";"):
        subject, equals, said = statement.partition("=")
        key = re.sub(r"[\s-]+", "_", subject.strip().casefold())
        if not equals or key not in STEPS or subject.strip().casefold() in columns:
            draft = say_columns(draft, statement)
            continue
        if key == "empty":
            draft = replace(draft, nulls=MappingProxyType({}))
        draft = STEPS[key](draft, said.strip())
    return draft


def apply_answers(draft: TableDraft, answers: GivenAnswers) -> tuple[TableDraft, list[RequestError]]:
    """Take in all answers; those that do not fit are left out, and their faults returned."""
    faults: list[RequestError] = []
    for text in answers.columns:
        try:
            draft = say_columns(draft, text)
        except RequestError as wrong:
            faults.append(wrong)
    try:
        draft = draft if answers.accept is None else accept_proposals(draft, answers.accept)
    except RequestError as wrong:
        faults.append(wrong)
    for key, say in STEPS.items():
        text = getattr(answers, key)
        try:
            draft = draft if text is None else say(draft, text)
        except RequestError as wrong:
            faults.append(wrong)
    return draft, faults
