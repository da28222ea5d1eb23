"""A finished draft in words, to be read once more before it is written."""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import RequestError
from siloquent.schema.declaring.compose import HIDDEN, compute_deltas, format_small
from siloquent.schema.declaring.draft import TableDraft
from siloquent.schema.meaning import describe_meaning

MAX_NAMED = 4
_EMPTY = {"": "", '"cell"': "empty cells are a group", '"drop"': "without empty cells"}


def describe_columns(draft: TableDraft) -> list[tuple[str, str, str]]:
    """Return each column's name as shown, its meaning and what an empty cell means; empty if that is not asked."""
    told = []
    for column in draft.columns:
        meaning = draft.meanings[column.name]
        null = draft.get_null(column.name) if meaning.has_cells else ""
        told.append((column.shown, describe_meaning(meaning), _EMPTY.get(null, f"empty: {null}")))
    return told


def describe_table(draft: TableDraft, *, budget: str = "") -> list[str]:
    """Return what stays hidden, the budget, and what becomes of values beyond bounds: also where that is the default.

    Args:
        budget: The budget in words, if it is not that of the answers.
    """
    person = draft.person
    unit = f"all rows of one {person.shown}, of which {draft.answers.max_rows} count" if person else "one row"
    lines = [
        f"hidden: {HIDDEN[draft.adjacency]} (adjacency {draft.adjacency}); a person is {unit}",
        f"budget: {budget or _describe_budget(draft)}",
    ]
    kept = [one.shown for one in draft.bounded_columns if draft.get_outside(one.name) == "clamp"]
    lost = [one.shown for one in draft.bounded_columns if draft.get_outside(one.name) == "drop"]
    parts = [f"{_name(kept)} as the bound (outside clamp)"] if kept else []
    parts += [f"{_name(lost)} not at all (outside drop)"] if lost else []
    return [*lines, f"values beyond the bounds count: {'; '.join(parts)}"] if parts else lines


def _describe_budget(draft: TableDraft) -> str:
    epsilon = f"epsilon {draft.answers.epsilon or 1}"
    try:
        delta, events = compute_deltas(draft)
    except RequestError as wrong:  # it is refused when the file is written
        return f"{epsilon}. {wrong.detail}"
    told = f" at delta {format_small(delta)}" if delta else ""
    told += f", of which {format_small(events)} is for discoveries" if events else ""
    return f"{epsilon}{told} (accountant {draft.accountant})"


def _name(names: Sequence[str]) -> str:
    more = [f"{len(names) - MAX_NAMED:,} more"] if len(names) > MAX_NAMED else []
    *first, last = [*names[:MAX_NAMED], *more]
    return f"{', '.join(first)} and {last}" if first else last
