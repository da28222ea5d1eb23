"""ORDER BY and LIMIT of SELECT: of shown values, which is free, or of an aggregate that is not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import Derived, Measured
from siloquent.explore.spec.language.clauses import read_whole
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.derived import ValueReader
from siloquent.explore.spec.language.expressions.conditions import read_expression
from siloquent.explore.spec.language.refusals import AGGREGATES, LIMITS, OTHER_AGGREGATES, Refusal
from siloquent.explore.spec.predicate import Expression
from siloquent.explore.spec.presentation import Presentation, SortKey
from siloquent.explore.spec.query import Top

_OPERATORS = ("+", "-", "*", "/")
_HIDDEN = Refusal(
    "Only one aggregate that is not selected can sort the groups, and ties keep declared order.",
    "add COUNT(*) to the SELECT list: sorting is then free, by any keys",
)
_NOT_SHOWN = Refusal(
    "Groups keep declared order; they are sorted by GROUP BY keys, by selected aggregates, or by their names.",
    "ORDER BY COUNT(*) DESC, or ORDER BY ward",
)


@dataclass(frozen=True, slots=True)
class SelectList:
    """The columns by which an answer can be sorted: its keys with their names, and its values with theirs.

    ``values`` are made of the ``measured`` aggregates, which HAVING and ORDER BY may add to. ``hidden``: the values by
    which rows are only sorted. ``positions``: for each item as written, its place among the
    answer's columns, keys first.
    """

    keys: Sequence[Expression]
    names: Sequence[str]
    values: Sequence[Derived]
    aliases: Sequence[str]
    measured: list[Aggregate]
    positions: Sequence[int]
    hidden: list[Derived] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether the values are the measured aggregates themselves, in order."""
        return not self.hidden and list(self.values) == [Measured(place) for place in range(len(self.measured))]

    def build_reader(self, cursor: Cursor, unknown: Refusal) -> ValueReader:
        """Build a reader of expressions that knows the names of the values."""
        named = zip(self.aliases, self.values, strict=True)
        return ValueReader(cursor, list(self.measured), {alias.casefold(): v for alias, v in named if alias}, unknown)

    def find_name(self, name: str) -> int | None:
        """Find the column with this alias."""
        folded = [alias.casefold() for alias in (*self.names, *self.aliases)]
        return folded.index(name.casefold()) if name and name.casefold() in folded else None


@dataclass(frozen=True, slots=True)
class Sorting:
    """A key of ORDER BY; ``hidden``: an aggregate that is not selected, which has no place."""

    start: int
    key: SortKey
    hidden: Aggregate | None = None
    is_directed: bool = False


def read_order(cursor: Cursor, selected: SelectList) -> list[Sorting]:
    """Parse ``ORDER BY ward, n DESC NULLS LAST``."""
    if not cursor.take("ORDER"):
        return []
    cursor.expect("BY")
    found = [_read_sorting(cursor, selected)]
    while cursor.take(","):
        found.append(_read_sorting(cursor, selected))
    return found


def _read_sorting(cursor: Cursor, selected: SelectList) -> Sorting:
    start = cursor.token.start
    place, hidden = _read_sorted(cursor, selected)
    direction = cursor.take("ASC", "DESC")
    first = bool(cursor.take("NULLS")) and cursor.expect("FIRST", "LAST") == "FIRST"
    key = SortKey(-1 if place is None else place, direction == "DESC", first)
    return Sorting(start, key, hidden, bool(direction))


def _read_sorted(cursor: Cursor, selected: SelectList) -> tuple[int | None, Aggregate | None]:
    start = cursor.token.start
    if cursor.token.kind == "number" and cursor.following.word not in ("+", "-", "*", "//", "%"):
        return read_position(cursor, "ORDER BY", selected.positions), None
    is_computed = False
    if cursor.token.kind in ("word", "quoted") and cursor.following.word not in ("(", "."):
        place = selected.find_name(cursor.token.text)
        is_computed = place is not None and place >= len(selected.keys) and cursor.following.word in _OPERATORS
        if place is not None and not is_computed:
            cursor.advance()
            return place, None
    if is_computed or cursor.has_in_item((*AGGREGATES, *OTHER_AGGREGATES)):
        reader = selected.build_reader(cursor, _NOT_SHOWN)
        value = reader.read()
        if value in selected.values:
            return len(selected.keys) + list(selected.values).index(value), None
        if selected.values:
            selected.measured[:] = reader.measured
            if value not in selected.hidden:
                selected.hidden.append(value)
            return len(selected.keys) + len(selected.values) + selected.hidden.index(value), None
        if not isinstance(value, Measured):
            raise SyntaxProblem(
                "ORDER BY takes only an aggregate here, or an expression that is selected",
                position=start,
                fix="add it to the SELECT list",
            )
        return None, reader.measured[value.place]
    refusal = cursor.build_refusal(_NOT_SHOWN)
    expression = read_expression(cursor)
    if expression not in selected.keys:
        raise refusal
    return list(selected.keys).index(expression), None


def read_position(cursor: Cursor, clause: str, positions: Sequence[int]) -> int:
    """Parse the position of an item of the SELECT list, from 1, and return its place."""
    start = cursor.token.start
    position = read_whole(cursor, f"A position in {clause}")
    if not 1 <= position <= len(positions):
        raise SyntaxProblem(
            f"{clause} {position} is not a position in the SELECT list, which has {len(positions)} items",
            position=start,
            fix=f"{clause} 1",
        )
    return positions[position - 1]


def read_limit(cursor: Cursor) -> tuple[int | None, int]:
    """Parse ``LIMIT 3 OFFSET 6``, ``OFFSET 6 ROWS FETCH FIRST 3 ROWS ONLY``, each at most once."""
    limit, offset, left = None, 0, list(LIMITS)
    while cursor.is_at(*left):
        word = cursor.advance().word
        left = [one for one in left if one != word and {one, word} != {"LIMIT", "FETCH"}]
        if word == "LIMIT":
            limit = None if cursor.take("ALL") else read_whole(cursor, "LIMIT")
        elif word == "OFFSET":
            offset = read_whole(cursor, "OFFSET")
            cursor.take("ROW", "ROWS")
        else:
            cursor.expect("FIRST", "NEXT")
            limit = 1 if cursor.is_at("ROW", "ROWS") else read_whole(cursor, "FETCH FIRST")
            cursor.expect("ROW", "ROWS")
            cursor.expect("ONLY")
    return limit, offset


def read_first(cursor: Cursor) -> int | None:
    """Parse ``TOP 3`` or ``TOP (3)`` after SELECT; None if there is none."""
    is_top = cursor.is_at("TOP") and (cursor.following.kind == "number" or cursor.following.word == "(")
    if not is_top:
        return None
    cursor.advance()
    in_parentheses = cursor.take("(")
    number = read_whole(cursor, "TOP")
    if in_parentheses:
        cursor.expect(")")
    return number


def parse_order(
    text: str, selected: SelectList, limit: int | None, offset: int, *, is_chosen: bool
) -> tuple[Top | None, Presentation]:
    """Parse keys by themselves, as after ORDER BY; return what ``build_choice`` does."""
    cursor = Cursor(f"ORDER BY {text}" if text else "")
    order = read_order(cursor, selected)
    cursor.finish()
    return build_choice(cursor, selected, order, limit, offset, is_chosen=is_chosen)


def build_choice(
    cursor: Cursor,
    selected: SelectList,
    order: Sequence[Sorting],
    limit: int | None,
    offset: int,
    *,
    is_chosen: bool,
) -> tuple[Top | None, Presentation]:
    """Return the paid choice of the largest groups, if there is one, and the free presentation.

    Args:
        is_chosen: Whether HAVING chooses groups already.
    """
    renamed = tuple(selected.names)
    hidden = [one for one in order if one.hidden is not None]
    single = order[0] if len(order) == 1 else None
    by_value = single is not None and single.key.place >= len(selected.keys) and not single.key.nulls_first
    if single is not None and by_value and selected.is_plain and limit is not None and not offset and not is_chosen:
        of = selected.measured[single.key.place - len(selected.keys)]
        return Top(limit, single.key.descending, of), Presentation(renamed)
    if hidden:
        if single is None or offset:
            raise cursor.build_refusal(_HIDDEN)
        if limit is None:
            raise cursor.build_refusal(
                Refusal(
                    "ORDER BY an aggregate that is not selected requires LIMIT.", "LIMIT 3, or select the aggregate"
                )
            )
        return Top(limit, single.key.descending), Presentation(renamed)
    return None, Presentation(renamed, tuple(one.key for one in order), limit, offset)
