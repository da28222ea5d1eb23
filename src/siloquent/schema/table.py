"""A table as its owner declares it: whose privacy counts, how neighbours differ, what may be spent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from siloquent.errors import SchemaError
from siloquent.schema.constraints import Constraint, check_names
from siloquent.schema.domain import Domain

if TYPE_CHECKING:
    from siloquent.schema.public_table import PublicTable

Adjacency = Literal["add-remove", "replace-one"]
EXACT_KINDS = ("id", "category", "text")
SOURCE_KINDS = ("csv", "csv-records", "parquet", "duckdb", "postgres", "spark")


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose presence is hidden: one row, or all rows of one user, of which ``max_rows`` count."""

    kind: Literal["row", "user"] = "row"
    column: str = ""
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.kind == "user" and not self.column:
            raise SchemaError(
                "A user unit needs the column that names the user.", fix='unit = { column = "patient", .. }'
            )
        if not 1 <= self.max_rows <= 10**6 or (self.kind == "row" and self.max_rows != 1):
            raise SchemaError("max_rows is 1 for row units and 1 to 1,000,000 for user units.")

    @property
    def code(self) -> str:
        """One word for ledgers: ``row`` or ``user:COLUMN:MAX_ROWS``."""
        return "row" if self.kind == "row" else f"user:{self.column}:{self.max_rows}"

    @property
    def description(self) -> str:
        """The unit in words for people."""
        if self.kind == "row":
            return "one row"
        return f"all rows of one {self.column} (at most {self.max_rows} count)"


@dataclass(frozen=True, slots=True)
class TableBudget:
    """What may be spent on a table in one epoch. Exact fractions; ``shares``: of it that each analyst may spend.

    ``sharing``: whether an analyst's questions may draw from all earlier answers (pool) or from their own alone.
    ``reuse``: how questions without REUSE draw from them: with promises that hold whatever is asked
    (fresh-or-simultaneous), with those that suppose that no earlier noise chose the question too (any), or not (none).
    ``disclosures``: whether protocols may run that are outside differential privacy; each is recorded.
    """

    accountant: Literal["pure", "zcdp"]
    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction = Fraction(0)
    delta_events: Fraction = Fraction(0)
    epoch: int = 1
    shares: tuple[tuple[str, Fraction], ...] = ()
    sharing: Literal["pool", "own"] = "pool"
    reuse: Literal["fresh-or-simultaneous", "any", "none"] = "fresh-or-simultaneous"
    disclosures: bool = False

    def __post_init__(self) -> None:
        given = [amount for amount in (self.epsilon, self.rho) if amount is not None]
        if len(given) != 1 or given[0] <= 0:
            raise SchemaError("A budget is one of epsilon or rho, above 0.", fix='epsilon = "1" under [budget]')
        if self.accountant == "pure" and (self.rho is not None or self.delta):
            raise SchemaError("A pure budget is epsilon alone.", fix='accountant = "zcdp", or leave rho and delta out')
        if self.accountant == "zcdp" and not 0 < self.delta < 1:
            raise SchemaError(
                "A zcdp budget reports epsilon at a delta in (0, 1).", fix='delta = "1e-6" under [budget]'
            )
        if not 0 <= self.delta_events <= self.delta or (self.delta_events and self.delta_events == self.delta):
            raise SchemaError("delta_events is a part of delta, smaller than it.")
        if any(not 0 < share <= 1 for _, share in self.shares):
            raise SchemaError("An analyst's share is above 0 and at most 1.", fix='analysts = { ana = "0.5" }')
        if self.epoch < 1:
            raise SchemaError("Epochs count from 1.")


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Everything that is declared about one table; a value that exists is consistent.

    ``size_hint`` is public and rough. ``public``: the public tables that its foreign keys lead to, as they were read.
    ``digest`` is the SHA-256 of the canonical JSON of the file it was read from.
    """

    name: str
    domain: Domain
    budget: TableBudget
    source: str = ""
    adjacency: Adjacency = "add-remove"
    unit: Unit = Unit()
    version: int = 1
    size_hint: int | None = None
    constraints: tuple[Constraint, ...] = ()
    public: tuple[PublicTable, ...] = ()
    digest: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or len(self.name) > 64:
            raise SchemaError(f"A table's name is letters, digits and _, at most 64, not {self.name[:20]!r}.")
        if self.unit.kind == "user":
            self._check_unit()
        if self.size_hint is not None and self.size_hint < 1:
            raise SchemaError("size_hint is a rough public number of rows, at least 1.")
        if self.source and self.source.partition(":")[0] not in SOURCE_KINDS:
            raise SchemaError(f"A source begins with one of {', '.join(k + ':' for k in SOURCE_KINDS)}")
        check_names(self.constraints, self.domain.__getitem__)
        # From here on, who names an attribute that is none is told where the table's attributes are shown.
        object.__setattr__(self, "domain", replace(self.domain, table=self.name))

    def _check_unit(self) -> None:
        """A user is an exact value: numbers and moments are rounded or clamped as they are read, and two users melt."""
        column = self.domain[self.unit.column]
        if column.function:
            raise SchemaError("The unit's column must be in the source, not derived.")
        if column.kind not in EXACT_KINDS:
            raise SchemaError(
                f"The unit's column {column.name!r} is of type {column.kind}, whose values are rounded or clamped when "
                "they are read: two users could become one.",
                fix=f'{{ name = "{column.name}", type = "id" }}',
            )
        # Attributes are found whatever their case; from here on the unit's column has the declared one.
        object.__setattr__(self, "unit", replace(self.unit, column=column.name))

    @property
    def account(self) -> str:
        """The account that pays for this table: a new epoch has a new one, a new version keeps it."""
        return f"{self.name}@{self.budget.epoch}"

    @property
    def replace_one(self) -> bool:
        """Whether neighbours differ by a replaced unit (and the number of units is public)."""
        return self.adjacency == "replace-one"
