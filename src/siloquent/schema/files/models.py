"""The entries of a table file as pydantic models; unknown keys are refused."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

Number = int | Decimal | str


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class NullValueEntry(Strict):
    value: bool | int | Decimal | str | datetime | date


class BinsEntry(Strict):
    width: Number | None = None
    edges: list[Number] | None = None


class ReleasedEntry(Strict):
    released: str


class ColumnEntry(Strict):
    name: str
    type: Literal["integer", "real", "category", "boolean", "date", "datetime", "id", "text"]
    lo: int | Decimal | datetime | date | None = None
    hi: int | Decimal | datetime | date | None = None
    grid: int | Decimal | Literal["day", "hour", "minute", "second"] | None = None
    values: list[str | int] | ReleasedEntry | None = None
    outside: Literal["clamp", "drop"] | None = None
    other: Literal["drop", "cell"] = "drop"
    null: Literal["drop", "cell"] | NullValueEntry | None = None
    bins: BinsEntry | None = None
    max_bytes: int | None = None
    labels: dict[str, str] | None = None


class DerivedEntry(ColumnEntry):
    from_: list[str]
    function: Literal["length", "year", "month", "day", "hour", "dayofweek"]
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=lambda name: name.rstrip("_"))


class ConstraintEntry(Strict):
    kind: Literal["fd", "denial", "key", "foreign_key"]
    lhs: list[str] | None = None
    rhs: str | None = None
    when: str | None = None
    hard: bool = True
    weight: int | Decimal | None = None
    source: str = ""
    not_: str | None = None
    columns: list[str] | None = None
    references: str | None = None
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=lambda name: name.rstrip("_"))


class UnitEntry(Strict):
    kind: Literal["row", "user"]
    column: str = ""
    max_rows: int = 1


class SharedUnitEntry(Strict):
    of: str
    column: str = ""
    via: str = ""
    on: dict[str, str] = {}
    max_rows: int


class TableEntry(Strict):
    name: str
    source: str = ""
    adjacency: Literal["add-remove", "replace-one"]
    version: int = 1
    size_hint: int | None = None
    unit: UnitEntry


class LinkedTableEntry(Strict):
    name: str
    source: str = ""
    version: int = 1
    size_hint: int | None = None
    unit: SharedUnitEntry


class BudgetEntry(Strict):
    accountant: Literal["pure", "zcdp"]
    epsilon: str | int | None = None
    rho: str | int | None = None
    delta: str | int = 0
    delta_events: str | int = 0
    epoch: int = 1
    analysts: dict[str, str | int] = {}
    sharing: Literal["pool", "own"] = "pool"
    reuse: Literal["fresh-or-simultaneous", "any", "none"] = "fresh-or-simultaneous"
    disclosures: bool = False


class DefaultsEntry(Strict):
    error: str
    confidence: str = "0.95"
    max_share: str = "0.05"


class ColumnReadingEntry(Strict):
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | None = None
    datetime_format: str | None = None
    missing: list[str] | None = None
    true: list[str] | None = None
    false: list[str] | None = None
    time_zone: str | None = None
    symbols: list[str] | None = None


class ReadingEntry(ColumnReadingEntry):
    encoding: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    skip: int | None = None
    names: list[str] | None = None
    member: str | None = None
    sheet: str | None = None
    columns: dict[str, ColumnReadingEntry] = {}


class TableFile(Strict):
    format: Literal[1]
    table: TableEntry
    reading: ReadingEntry | None = None
    budget: BudgetEntry
    attribute: list[ColumnEntry]
    derived: list[DerivedEntry] = []
    constraint: list[ConstraintEntry] = []
    defaults: DefaultsEntry | None = None


class LinkedTableFile(Strict):
    format: Literal[1]
    table: LinkedTableEntry
    reading: ReadingEntry | None = None
    attribute: list[ColumnEntry]
    derived: list[DerivedEntry] = []
    constraint: list[ConstraintEntry] = []
    defaults: DefaultsEntry | None = None


class UnitNameEntry(Strict):
    name: str
    adjacency: Literal["add-remove", "replace-one"]


class UnitFile(Strict):
    format: Literal[1]
    unit: UnitNameEntry
    budget: BudgetEntry
