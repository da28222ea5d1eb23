"""Conditions on a person's rows of another table: EXISTS, and IN with a subquery."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import Column, Compare, CompareOp, Predicate, Value, check_name
from siloquent.explore.spec.rewriting.normal_form import normalize_predicate

MAX_RELATED = 16
MAX_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Related:
    """``EXISTS (SELECT * FROM table WHERE ...)``: whether a row of ``table`` belongs to the same person and passes.

    ``name``: the boolean attribute that the query's conditions compare with TRUE. ``on``: the pairs of an attribute of
    the query's own rows and one of ``table`` that are equal. ``where``: the condition on the rows of ``table``.
    ``listed``: it was written with IN. ``compared``: an attribute of the query's own rows, the comparison, and the
    attribute of ``table`` that it is compared with; at most one such triple.
    """

    name: str
    table: str
    on: tuple[tuple[str, str], ...]
    where: Predicate | None = None
    listed: bool = False
    compared: tuple[tuple[str, CompareOp, str], ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "attribute")
        check_name(self.table, "table")
        for own, other in (*self.on, *((own, other) for own, _, other in self.compared)):
            check_name(own, "attribute")
            check_name(other, "attribute")
        if len(self.compared) > 1:
            raise RequestError(
                "A subquery of EXISTS compares at most one of its columns with a column of the query, besides those "
                "that tie it.",
                fix="leave the other comparisons out",
            )
        if self.where is not None:
            object.__setattr__(self, "where", normalize_predicate(self.where))
        if len(self.on) > MAX_PAIRS:
            raise RequestError(f"EXISTS compares at most {MAX_PAIRS} pairs of columns.", fix="compare fewer")

    @property
    def is_own(self) -> bool:
        """Whether it is met by each row itself that has a value in the columns: they are looked up in themselves."""
        return (
            bool(self.on) and self.where is None and not self.compared and all(own == other for own, other in self.on)
        )

    @property
    def test(self) -> Compare:
        """The condition that there is such a row."""
        return Compare(Column(self.name), "=", Value(True))


def name_related(place: int) -> str:
    """Return the name of the attribute of the condition at ``place``, which no table should have."""
    return f"EXISTS {place + 1}"


def is_related(name: str) -> bool:
    """Return whether ``name`` is that of a condition on another table's rows."""
    return name.startswith("EXISTS ") and name.removeprefix("EXISTS ").isdigit()
