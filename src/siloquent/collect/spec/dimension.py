"""Public tables referenced by rows, such as products in orders: a star schema, joined on the device."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.collect.spec.role import NAME
from siloquent.errors import SchemaError
from siloquent.fixes import UseOption


@dataclass(frozen=True, slots=True)
class Dimension:
    """A public table on every device, one row per key: it adds its values to rows before reporting.

    Attributes:
        key: The row's value by which the table is looked up; it is not reported itself.
        public: True, or the declaration is refused. To join with secret rows, every pair of user and row would have to
            report: some users times rows reports, as "Collecting and Analyzing Data Jointly from
            Multiple Services under Local Differential Privacy" (PVLDB 2020), section 8.2, counts them.
    """

    name: str
    key: str
    public: bool = False

    def __post_init__(self) -> None:
        for named in (self.name, self.key):
            if not isinstance(named, str) or not NAME.fullmatch(named):
                raise SchemaError(
                    "A dimension has a name and a key, of letters, digits and '_'.", fix=UseOption("key", "product")
                )
        if self.public is not True:
            raise SchemaError(
                f"The table {self.name!r} is not public: what it holds cannot be added on devices, and a report for "
                "each pair of a user and one of its rows would be needed.",
                fix="public = true, if the table is public",
            )
