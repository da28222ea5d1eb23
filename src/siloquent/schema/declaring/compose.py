"""The commented table file for a finished draft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from siloquent.errors import RequestError
from siloquent.schema.declaring.declared_table import compose_budget
from siloquent.schema.declaring.draft import TableDraft
from siloquent.schema.files.toml import quote_text
from siloquent.schema.meaning import compose_entry
from siloquent.schema.table import TableBudget

MIN_DELTA_DIGITS = 6
_COMMENTS = {
    "id": "An id tells whose row it is. It is never shown, and nothing can be grouped by it.",
    "integer": 'Whole numbers. Beyond lo and hi a value counts as the bound; outside = "drop" leaves it out instead.',
    "real": "Numbers, rounded to the grid. Beyond lo and hi a value counts as the bound.",
    "category": 'Listed values. Any other value counts as "(other)"; without other = "cell" it is left out.',
    "boolean": "true, yes, y, t and 1 are true; false, no, n, f and 0 are false.",
    "date": 'Days. A day before lo or after hi is left out; outside = "clamp" counts it as the bound.',
    "datetime": "Moments, rounded down to the grid. A moment before lo or after hi is left out.",
    "text": "Free text, to be asked about its length. `siloquent discover` finds values that many people share.",
}
HIDDEN = {
    "add-remove": "whether one person is in the table at all",
    "replace-one": "what the rows of one person say, but not how many people there are",
}
"""What stays hidden of a person, by adjacency."""
_OWN_WORDS = "Its words for true and false stand under [reading]."


def compose_table_file(draft: TableDraft, *, origin: str, budget: TableBudget | None = None) -> str:
    """Return the table file.

    Args:
        origin: Where the columns' names were read, in words.
        budget: Instead of the answers about epsilon and delta.
    Raises:
        RequestError: no column is declared.
    """
    declared = [column for column in draft.columns if draft.meanings[column.name].type]
    if not declared:
        raise RequestError("Every column is left out, so nothing could be asked.", fix="COLUMN = 0..120")
    return "\n".join([*_compose_head(draft, origin), *_compose_attributes(draft), *_compose_table(draft, budget), ""])


def choose_delta(rows: int | None) -> str:
    """Return a delta well below one in the number of rows.

    >>> choose_delta(None), choose_delta(25_000_000)
    ('1e-6', '1e-9')
    """
    return f"1e-{max(MIN_DELTA_DIGITS, len(str(rows)) + 1 if rows else 0)}"


def _compose_head(draft: TableDraft, origin: str) -> Iterator[str]:
    yield f"# Written by `siloquent declare` from the column names of {quote_text(origin)}; no row was read."
    yield "# Bounds and values are public statements: what values are possible, not which occur."
    yield f"# Correct them here, then: siloquent check {draft.name}"
    yield "format = 1"
    yield ""


def _compose_attributes(draft: TableDraft) -> Iterator[str]:
    yield "attribute = ["
    explained: set[str] = set()
    left_out = []
    nulls = False
    for column in draft.columns:
        meaning = draft.meanings[column.name]
        if not meaning.type:
            left_out.append(column.name)
            continue
        comment = _OWN_WORDS if meaning.words else _COMMENTS[meaning.type]
        if comment not in explained:
            yield f"  # {comment}"
            explained.add(comment)
        if meaning.has_cells and not nulls:
            yield '  # Empty cells: null = "cell" is a group, "drop" leaves them out, { value = ... } reads a value.'
            nulls = True
        null = draft.get_null(column.name) if meaning.has_cells else ""
        meaning = replace(meaning, null=null, outside=draft.get_outside(column.name))
        yield f"  {compose_entry(column.name, meaning)},"
    yield "]"
    for name in left_out[:50]:
        yield f"# Left out, so nobody can ask about it: {quote_text(name[:60])}"
    if len(left_out) > 50:
        yield f"# Left out as well: {len(left_out) - 50:,} more columns"


def _compose_reading(draft: TableDraft) -> Iterator[str]:
    """Yield the settings that were given; for a CSV file without, those that it may need, as comments."""
    spoken = [(column.name, words) for column in draft.columns if (words := draft.meanings[column.name].words)]
    if draft.source.reading or spoken:
        yield ""
        yield "# How the file is read, where it is not as every source."
        yield "[reading]"
        yield from draft.source.reading.splitlines()
        for name, (true, false) in spoken:
            yield f"columns.{quote_text(name)} = {{ true = [{quote_text(true)}], false = [{quote_text(false)}] }}"
    elif draft.source.address.startswith("csv"):
        yield ""
        yield "# If the file has 12,5 for 12.5, other dates, or words for missing values, remove the # of these lines:"
        yield "# [reading]"
        yield from (f"# {line}" for line in _READING)


_READING = ('encoding = "cp1252"', 'decimal = ","', 'date_format = "%d.%m.%Y"', 'missing = ["NA", "-"]')


def _compose_table(draft: TableDraft, budget: TableBudget | None) -> Iterator[str]:
    answers, person = draft.answers, draft.person
    rows = int(answers.rows) if answers.rows else None
    yield from _compose_reading(draft)
    yield ""
    yield "[table]"
    yield f"name = {quote_text(draft.name)}"
    if draft.source.address:
        yield f"source = {quote_text(draft.source.address)}"
    yield f"# Hidden is {HIDDEN[draft.adjacency]}."
    yield f"adjacency = {quote_text(draft.adjacency)}"
    if rows:
        yield "# Roughly, and publicly known."
        yield f"size_hint = {rows}"
    if person is None:
        yield "# Each row is another person."
        yield 'unit = { kind = "row" }'
    else:
        yield "# All rows of one person are hidden together; of one person, at most max_rows count."
        yield f'unit = {{ kind = "user", column = {quote_text(person.name)}, max_rows = {answers.max_rows} }}'
    yield ""
    yield "[budget]"
    yield "# What all answers together may reveal. `siloquent ledger show` says what is left."
    if budget is not None:
        yield from compose_budget(budget)
        return
    yield f"accountant = {quote_text(draft.accountant)}"
    yield f"epsilon = {quote_text(answers.epsilon or '1')}"
    delta, events = compute_deltas(draft)
    if delta:
        yield f"delta = {quote_text(format_small(delta))}"
    if events:
        yield "# The part of delta for discoveries: the probability that a value of only one person is shown."
        yield f"delta_events = {quote_text(format_small(events))}"


def compute_deltas(draft: TableDraft) -> tuple[Decimal, Decimal]:
    """Return delta and the part of it for discoveries; both are 0 for a pure accountant.

    Raises:
        RequestError: they do not go together, or not with the accountant.
    """
    answers = draft.answers
    said = answers.delta_events if answers.delta_events not in (None, "yes", "no") else None
    if draft.accountant == "pure":
        if answers.delta or said:
            raise RequestError("A pure accountant has no delta.", fix="leave out delta, or accountant = zcdp")
        return Decimal(0), Decimal(0)
    delta = Decimal(answers.delta or choose_delta(int(answers.rows) if answers.rows else None))
    events = Decimal(said) if said else Decimal(0) if answers.delta_events == "no" else delta / 10
    if events >= delta:
        raise RequestError(
            f"delta_events must be smaller than delta, {format_small(delta)}.", fix=format_small(delta / 10)
        )
    return delta, events


def format_small(amount: Decimal) -> str:
    """Return a small number as a table file has it.

    >>> format_small(Decimal("0.000001"))
    '1e-6'
    """
    return f"{amount.normalize():e}"
