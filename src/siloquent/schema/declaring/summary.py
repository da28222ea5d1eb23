"""A finished draft in words, to be read once more before it is written."""

from __future__ import annotations

from siloquent.schema.declaring.draft import TableDraft
from siloquent.schema.meaning import describe_meaning

_EMPTY = {"": "", '"cell"': "empty cells are a group", '"drop"': "without empty cells"}


def describe_columns(draft: TableDraft) -> list[tuple[str, str, str]]:
    """Return each column's name as shown, its meaning and what an empty cell means; empty if that is not asked."""
    told = []
    for column in draft.columns:
        meaning = draft.meanings[column.name]
        null = draft.get_null(column.name) if meaning.has_cells else ""
        told.append((column.shown, describe_meaning(meaning), _EMPTY.get(null, f"empty: {null}")))
    return told


def describe_rest(draft: TableDraft) -> str:
    """Return what stays hidden and the budget."""
    person = draft.person
    unit = f"all rows of one {person.name}, {draft.answers.max_rows} of which count" if person else "one row"
    return f"hidden: {unit}; budget: epsilon {draft.answers.epsilon}"
