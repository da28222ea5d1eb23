"""The names, the order and the number of an answer's rows. Free: only released values are sorted and cut."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.errors import RequestError
from siloquent.explore.spec.derived import Kept, ShownValue, iter_conditions, iter_measured, iter_windows
from siloquent.explore.spec.predicate import check_name

MAX_ROWS_SHOWN = 2**40
MAX_SORTED = 64


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of ORDER BY: the position of a key, or after all keys that of a value. NULL comes last by default."""

    place: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Presentation:
    """The order, the number and the names of an answer's rows and columns.

    ``renamed``: a name for each key, empty for those that keep theirs; without any, empty. ``offset`` rows are skipped,
    and then at most ``limit`` are shown. ``shown``: the values, if they are not the measured aggregates themselves;
    ``kept``: the conditions of HAVING on them, all of which a row passes. ``hidden``: so many of the last values only
    sort, and are not in the answer.
    """

    renamed: tuple[str, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    shown: tuple[ShownValue, ...] = ()
    kept: tuple[Kept, ...] = ()
    hidden: int = 0

    def __post_init__(self) -> None:
        if not any(self.renamed):
            object.__setattr__(self, "renamed", ())
        for name in filter(None, self.renamed):
            check_name(name, "column")
        if self.limit is not None and not 1 <= self.limit <= MAX_ROWS_SHOWN:
            raise RequestError(f"LIMIT must be between 1 and {MAX_ROWS_SHOWN:,}.", fix="LIMIT 3")
        if not 0 <= self.offset <= MAX_ROWS_SHOWN:
            raise RequestError(f"OFFSET must be between 0 and {MAX_ROWS_SHOWN:,}.", fix="remove OFFSET")
        sides = [side for one in iter_conditions(self.kept) for side in (one.left, one.right)]
        if any(any(iter_windows(side)) for side in sides):
            raise RequestError(
                "HAVING chooses groups before windows are computed.", fix="HAVING COUNT(*) > 100, or LIMIT 3"
            )
        if len(self.order) > MAX_SORTED:
            raise RequestError(f"ORDER BY takes at most {MAX_SORTED} keys.", fix="remove some of them")

    @property
    def is_plain(self) -> bool:
        """Whether nothing differs from an answer without a presentation."""
        return self == Presentation()

    @property
    def computes(self) -> bool:
        """Whether values or conditions are computed from aggregates."""
        return bool(self.shown or self.kept)

    @property
    def measured(self) -> set[int]:
        """The positions of the aggregates in values and conditions."""
        sides = [side for one in iter_conditions(self.kept) for side in (one.left, one.right)]
        return {place for value in (*(one.value for one in self.shown), *sides) for place in iter_measured(value)}

    @property
    def selects(self) -> bool:
        """Whether rows are sorted or left out."""
        return bool(self.order) or self.limit is not None or bool(self.offset)
