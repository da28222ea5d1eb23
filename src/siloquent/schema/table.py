"""A table as its owner declares it: the privacy unit, the neighbour relation and the budget."""

from __future__ import annotations

import html
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from siloquent.errors import SchemaError
from siloquent.readable import Readable
from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.constraints import Constraint, check_names
from siloquent.schema.domain import Domain
from siloquent.schema.formats.reading import PLAIN_READING, Reading

if TYPE_CHECKING:
    from siloquent.schema.public_tables.loaded import PublicTable
    from siloquent.schema.related import RelatedColumn
    from siloquent.schema.unit_rows import UnitRows

PLUS, TILDE = "+", "~"
"""Between the names of joined tables, and before those of related ones."""
Adjacency = Literal["add-remove", "replace-one"]
MAX_LISTED = 60
EXACT_KINDS = ("id", "category", "text")
SOURCE_KINDS = ("csv", "csv-records", "xlsx", "parquet", "duckdb", "postgres", "spark")


@dataclass(frozen=True, slots=True)
class Unit:
    """The privacy unit: one row, or all rows of one user, of which ``max_rows`` count.

    ``of``: the unit that several linked tables share, of kind "shared"; ``max_rows`` is then of one of these tables.
    """

    kind: Literal["row", "user", "shared"] = "row"
    column: str = ""
    max_rows: int = 1
    of: str = ""

    @classmethod
    def person(cls, column: str, *, max_rows: int) -> Unit:
        """Return the unit of all rows of one person, named by ``column``, of which ``max_rows`` count."""
        return cls("user", column, max_rows)

    def __str__(self) -> str:
        return self.description

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(str(self))}</code>"

    def __post_init__(self) -> None:
        if self.kind not in ("row", "user", "shared") or (self.kind == "shared") != bool(self.of):
            raise SchemaError(
                f"A unit's kind must be row or user, not {str(self.kind)[:20]!r}.", fix="Unit.person(...)"
            )
        if self.kind == "user" and not self.column:
            raise SchemaError("A user unit needs the column that names the user, of type id.")
        if (
            type(self.max_rows) is not int
            or not 1 <= self.max_rows <= 10**6
            or (self.kind == "row" and self.max_rows != 1)
        ):
            raise SchemaError("max_rows must be 1 for row units and between 1 and 1,000,000 for user units.")

    @property
    def code(self) -> str:
        """One word for ledgers: ``row``, ``user:COLUMN:MAX_ROWS`` or ``shared:UNIT``."""
        if self.kind == "shared":
            return f"shared:{self.of}"
        return "row" if self.kind == "row" else f"user:{self.column}:{self.max_rows}"

    @classmethod
    def from_code(cls, code: str) -> Unit:
        """Return the unit of a ``code``.

        >>> Unit.from_code("user:patient:3").description
        'all rows of one patient (at most 3 count)'
        >>> Unit.from_code("shared:customer").description
        'all rows of one customer, in all tables linked to it'
        """
        if code.startswith("shared:"):
            return cls("shared", of=code.removeprefix("shared:"))
        column, _, rows = code.removeprefix("user:").rpartition(":")
        return cls() if code == "row" else cls("user", column, int(rows))

    @property
    def description(self) -> str:
        """A description of the unit for readers."""
        if self.kind == "row":
            return "one row"
        if self.kind == "shared":
            counted = f" (of this table, at most {self.max_rows} count)" if self.column else ""
            return f"all rows of one {self.of}, in all tables linked to it{counted}"
        return f"all rows of one {self.column} (at most {self.max_rows} count)"


@dataclass(frozen=True, slots=True)
class TableBudget:
    """The budget of a table in one epoch, as exact fractions; ``shares``: the part that each analyst may spend.

    ``sharing``: whether an analyst's queries may use all earlier answers (pool) or only the analyst's own.
    ``reuse``: how queries without REUSE use them: with guarantees that hold for any query sequence
    (fresh-or-simultaneous), with those that assume that queries do not depend on earlier noise (any), or not (none).
    ``disclosures``: whether protocols outside differential privacy may run; each is recorded.
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

    @classmethod
    def of(cls, epsilon: str | int | Fraction, *, delta: str | Fraction | None = None) -> TableBudget:
        """Return a budget of ``epsilon``: pure without ``delta``, otherwise zCDP; amounts are texts such as "0.5".

        Raises:
            SchemaError: an amount is not a number above 0, or is binary (a float).

        >>> str(TableBudget.of("0.5", delta="1e-6"))
        'epsilon 0.5 at delta 0.000001'
        """
        whole = _parse_amount(epsilon, "epsilon")
        if delta is None:
            return cls("pure", epsilon=whole)
        return cls("zcdp", epsilon=whole, delta=_parse_amount(delta, "delta"))

    def __str__(self) -> str:
        key, amount = ("rho", self.rho) if self.epsilon is None else ("epsilon", self.epsilon)
        at = f" at delta {format_fraction(self.delta)}" if self.delta else ""
        return f"{key} {format_fraction(amount or Fraction(0))}{at}"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(str(self))}</code>"

    def __post_init__(self) -> None:
        given = [amount for amount in (self.epsilon, self.rho) if amount is not None]
        if len(given) != 1 or given[0] <= 0:
            raise SchemaError(
                "A budget must be either epsilon or rho, and above 0.", fix='epsilon = "1" under [budget]'
            )
        if self.accountant == "pure" and (self.rho is not None or self.delta):
            raise SchemaError("A pure budget takes only epsilon.", fix='accountant = "zcdp", or remove rho and delta')
        if self.accountant == "zcdp" and not 0 < self.delta < 1:
            raise SchemaError(
                "A zcdp budget needs a delta between 0 and 1 at which epsilon is reported.",
                fix='delta = "1e-6" under [budget]',
            )
        if not 0 <= self.delta_events <= self.delta or (self.delta_events and self.delta_events == self.delta):
            raise SchemaError("delta_events must be smaller than delta, of which it is a part.")
        if any(not 0 < share <= 1 for _, share in self.shares):
            raise SchemaError("An analyst's share must be above 0 and at most 1.", fix='analysts = { ana = "0.5" }')
        if self.epoch < 1:
            raise SchemaError("epoch must be at least 1.")


def _parse_amount(value: str | int | Fraction, key: str) -> Fraction:
    from siloquent.schema.files.toml import parse_finite

    if isinstance(value, float):
        raise SchemaError(f"{key} must be a text, since {value!r} is not exact in binary.", fix=f'{key}="{value}"')
    try:
        return value if isinstance(value, Fraction) else Fraction(parse_finite(str(value)))
    except (ValueError, ArithmeticError):
        text = str(value)[:40]
        comma = f" Did you mean {text.replace(',', '.')!r}?" if text.count(",") == 1 else ""
        raise SchemaError(f"{key} must be a number such as 0.5, not {text!r}.{comma}", fix=f'{key}="0.5"') from None


def list_tables_of(name: str) -> list[str]:
    """Return the tables of a relation by its name: the one whose rows count first.

    >>> list_tables_of("lines+orders~customers")
    ['lines', 'orders', 'customers']
    """
    return name.replace(TILDE, PLUS).split(PLUS)


def format_fraction(value: Fraction) -> str:
    """Return a fraction as an exact decimal number, or as a quotient if it has none.

    >>> format_fraction(Fraction(1, 8)), format_fraction(Fraction(1, 3))
    ('0.125', '1/3')
    """
    digits = next((digits for digits in range(60) if (value * 10**digits).denominator == 1), None)
    if digits is None:
        return str(value)
    whole = str(abs(int(value * 10**digits))).rjust(digits + 1, "0")
    text = f"{whole[: len(whole) - digits]}.{whole[len(whole) - digits :]}" if digits else whole
    return f"-{text}" if value < 0 else text


@dataclass(frozen=True, slots=True)
class Link:
    """A table's rows belong to the owners of the rows of ``parent`` that have the same key.

    ``on``: the pairs of this table's column and the parent's that are equal. ``columns``: the parent's columns that are
    joined to these rows, of a relation that a question joins; None: only owners are. ``owns``: whether the owners are
    the parent's; otherwise a column of this table names its own.
    """

    parent: TableSchema
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] | None = None
    owns: bool = True

    def __str__(self) -> str:
        return f"via {self.parent.name} on {', '.join(f'{own} = {other}' for own, other in self.on)}"


@dataclass(frozen=True, slots=True, repr=False)
class TableSchema(Readable):
    """Everything declared about one table; an existing value is consistent.

    ``size_hint`` is public and approximate. ``reading``: how the source is read.
    ``public``: the loaded public tables that its foreign keys refer to. ``defaults``: the accuracy of questions that
    state none. ``link``: the table through which its rows belong to the unit that it shares, unless a column of its own
    names that unit.
    ``digest`` is the SHA-256 of the canonical JSON of its file. ``extended``: the declaration to which a query added
    computed attributes, or whose units have a row each in ``grouped``. ``related``: the tables of the same unit whose
    rows a question's conditions look up; ``looked_up``: the attributes of a query that follow from these.
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
    reading: Reading = PLAIN_READING
    defaults: AccuracyDefaults | None = None
    link: Link | None = None
    related: tuple[TableSchema, ...] = ()
    digest: str = field(default="", compare=False)
    extended: TableSchema | None = field(default=None, compare=False, repr=False)
    grouped: UnitRows | None = field(default=None, compare=False, repr=False)
    looked_up: tuple[RelatedColumn, ...] = field(default=(), compare=False, repr=False)

    @property
    def declared(self) -> TableSchema:
        """The declaration itself, without what a query made of it."""
        return self.extended or self

    def __post_init__(self) -> None:
        is_joined = bool(self.related) or (self.link is not None and self.link.columns is not None)
        names = list_tables_of(self.name) if is_joined else [self.name]
        if not all(name.isidentifier() and len(name) <= 64 for name in names):
            raise SchemaError(f"A table's name must be 1 to 64 letters, digits and _, not {self.name[:20]!r}.")
        if self.unit.kind != "row":
            self._check_unit()
        if self.size_hint is not None and self.size_hint < 1:
            raise SchemaError("size_hint must be an approximate public number of rows, at least 1.")
        if self.source and self.source.partition(":")[0] not in SOURCE_KINDS:
            raise SchemaError(f"A source must begin with one of {', '.join(k + ':' for k in SOURCE_KINDS)}")
        if self.source and not self.reading.is_plain:
            self.reading.check_kind(self.source.partition(":")[0])
        check_names(self.constraints, self.domain.__getitem__)
        # From here on, errors about unknown attribute names say where the table's attributes are listed.
        object.__setattr__(self, "domain", replace(self.domain, table=self.name))

    def _check_unit(self) -> None:
        """Refuse inexact user columns: numbers and moments are rounded or clamped, which would merge two users."""
        column = self.domain[self.unit.column]
        if column.function:
            raise SchemaError("The unit's column must be in the source, not derived.")
        if column.kind not in EXACT_KINDS:
            raise SchemaError(
                f"The unit's column {column.name!r} is of type {column.kind}, whose values are rounded or clamped when "
                "they are read: two users could become one.",
                fix=f'{{ name = "{column.name}", type = "id" }}',
            )
        # Attributes are found regardless of case; from here on the unit's column has its declared spelling.
        object.__setattr__(self, "unit", replace(self.unit, column=column.name))

    def __str__(self) -> str:
        """Return the table's attributes, unit and budget, one a line."""
        attributes = list(self.domain)
        lines = [f"Table {self.name}: {len(attributes):,} columns{f' of {self.source}' if self.source else ''}"]
        lines += [f"  {attribute}" for attribute in attributes[:MAX_LISTED]]
        lines += [f"  and {len(attributes) - MAX_LISTED:,} more"] if len(attributes) > MAX_LISTED else []
        lines += [f"  hidden: {self.unit.description}", f"  budget: {self.budget}"]
        return "\n".join(lines)

    @property
    def account(self) -> str:
        """The account charged for this table; a new epoch has a new account, a new version keeps it."""
        return f"{self.payer}@{self.budget.epoch}"

    @property
    def payer(self) -> str:
        """The name of its accounts without their epochs: the table's, or ``unit.NAME`` for a unit that tables share."""
        return f"unit.{self.unit.of}" if self.unit.kind == "shared" else self.name.partition(TILDE)[0]

    @property
    def budget_file(self) -> str:
        """The file of the workspace that declares its budget."""
        return f"units/{self.unit.of}.toml" if self.unit.kind == "shared" else f"schemas/{self.payer}.toml"

    @property
    def ancestors(self) -> tuple[TableSchema, ...]:
        """The tables through which its rows belong to the unit that it shares, the nearest first; then related ones."""
        linked = () if self.link is None else (self.link.parent, *self.link.parent.ancestors)
        return (*linked, *(each for one in self.related for each in (one, *one.ancestors)))

    def list_referring(self) -> frozenset[str]:
        """List the attributes by which its rows, or those joined to them, refer to public tables."""
        return frozenset(one.key for one in self.public if one.via is None)

    @property
    def entry_name(self) -> str:
        """The name under which a shared account's entries are about this table; empty if the account is its own."""
        return self.name if self.unit.kind == "shared" else ""

    @property
    def replace_one(self) -> bool:
        """Whether neighbours differ by replacing a unit (the number of units is then public)."""
        return self.adjacency == "replace-one"
