"""Conversion of a table file's entries to the validated classes used everywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from siloquent.errors import SchemaError
from siloquent.fixes import FixLike
from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.attribute import FUNCTIONS, STEP_SECONDS, Attribute, Bound
from siloquent.schema.bins import MAX_BINS, cut_by_width
from siloquent.schema.constraints import (
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    parse_comparisons,
)
from siloquent.schema.domain import Domain
from siloquent.schema.domains import DomainFolder, inline_domains
from siloquent.schema.files.budgets import build_budget
from siloquent.schema.files.coercion import read_boolean
from siloquent.schema.files.models import (
    BudgetEntry,
    ColumnEntry,
    ConstraintEntry,
    DefaultsEntry,
    DerivedEntry,
    LinkedTableFile,
    NullValueEntry,
    ReleasedEntry,
    TableFile,
)
from siloquent.schema.files.toml import (
    MAX_ENTRIES,
    MAX_TOLD,
    hash_declaration,
    number_faults,
    parse_finite,
    quote_short,
    read_toml,
    validate_column,
    validate_table_file,
)
from siloquent.schema.formats.reading import Reading, build_reading
from siloquent.schema.linked.links import is_linked, refuse_own_promise, resolve_unit
from siloquent.schema.table import TableSchema, Unit

Entry = TypeVar("Entry")
Built = TypeVar("Built")
_REFERENCE = re.compile(r"(\w+)\(([^()]+)\)")


def parse_schema(text: str, domains: DomainFolder | None = None) -> TableSchema:
    """Parse the table that ``text`` declares.

    Args:
        text: A table file (TOML, format 1, at most 4 MiB).
        domains: The workspace's released domains, which its categories may name.
    Returns:
        A consistent schema; ``digest`` is the SHA-256 of the file's canonical JSON.
    Raises:
        SchemaError: it is not TOML, has unknown keys (with a suggestion), lacks bounds, values, unit or budget, or
            contradicts itself. The message names the location and the line to add.
        UnknownName: a constraint or unit names an attribute that is not declared.
        Each has the lines to write instead as its fix, where these can be told from the text.
    """
    try:
        return _parse_schema(text, domains)
    except SchemaError as wrong:
        from siloquent.schema.mending import mend_declaration

        if not wrong.remedy or "\n" in str(text):  # a path in place of the text has a fix of its own
            mended = mend_declaration(text, lambda changed: _parse_schema(changed, domains), is_valid_entry)
            wrong.remedy = mended or wrong.remedy
        raise


def _parse_schema(text: str, domains: DomainFolder | None) -> TableSchema:
    raw = inline_domains(read_toml(text), domains)
    linked = is_linked(raw)
    if linked:
        refuse_own_promise(raw)
    file = validate_table_file(
        raw,
        lambda: [told for one in _find_wrong_attributes(raw) for told in _tell(one, 1)][:MAX_TOLD],
        is_linked=linked,
    )
    if len(file.attribute) + len(file.derived) > MAX_ENTRIES:
        raise SchemaError(f"A table can have at most {MAX_ENTRIES:,} attributes.")
    faults: list[SchemaError] = []
    columns = tuple(_build_each(file.attribute, _build_attribute, faults))
    budgets = _build_each([file.budget] if isinstance(file, TableFile) else [], build_budget, faults)
    constraints = tuple(_build_each(file.constraint, _build_constraint, faults))
    reading = next(iter(_build_each([file], _build_reading, faults)), Reading())
    defaults = _build_each([file.defaults] if file.defaults else [], _build_defaults, faults)
    _raise_all(faults)
    domain = Domain((*columns, *(_build_derived(column, Domain(columns)) for column in file.derived)))
    schema = partial(
        TableSchema,
        name=file.table.name,
        source=file.table.source,
        version=file.table.version,
        size_hint=file.table.size_hint,
        constraints=constraints,
        reading=reading,
        defaults=next(iter(defaults), None),
    )
    if isinstance(file, TableFile):
        unit = Unit(file.table.unit.kind, file.table.unit.column, file.table.unit.max_rows)
        return schema(
            domain=domain,
            budget=budgets[0],
            adjacency=file.table.adjacency,
            unit=unit,
            digest=hash_declaration(raw),
        )
    found = resolve_unit(raw, file.table.unit, domain, domains, lambda parent: parse_schema(parent, domains))
    return schema(
        domain=domain if found.owner is None else Domain((*domain, found.owner)),
        budget=found.shared.budget,
        adjacency=found.shared.adjacency,
        unit=found.unit,
        link=found.link,
        digest=found.digest,
    )


def _find_wrong_attributes(raw: Mapping[str, Any]) -> list[SchemaError]:
    """Return the faults of attributes that are well-formed, in a file that is not."""
    faults: list[SchemaError] = []
    listed = raw.get("attribute")
    for entry in listed if isinstance(listed, list) else ():
        try:
            column = validate_column(entry)
        except SchemaError:
            continue  # told already
        _build_each([column], _build_attribute, faults)
    return faults


def _build_each(entries: Iterable[Entry], build: Callable[[Entry], Built], faults: list[SchemaError]) -> list[Built]:
    """Build each entry; the errors of those that cannot be built are added to ``faults``."""
    built = []
    for entry in entries:
        try:
            built.append(build(entry))
        except SchemaError as wrong:
            faults.append(wrong)
    return built


class _SeveralFaults(SchemaError):
    """Several faults at once; ``told``: a sentence about each."""

    def __init__(self, told: Sequence[str], fix: FixLike) -> None:
        self.told = tuple(told)
        super().__init__(number_faults(told[:MAX_TOLD], untold=max(len(told) - MAX_TOLD, 0)), fix=fix)


def _raise_all(faults: list[SchemaError]) -> None:
    """Raise the only fault as it is, or one error that tells them all."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise _SeveralFaults([told for place, one in enumerate(faults) for told in _tell(one, place)], faults[0].remedy)


def _tell(fault: SchemaError, place: int) -> Sequence[str]:
    """Return the sentences of a fault, with its fix unless it is the first: that one's is the fix of all."""
    if isinstance(fault, _SeveralFaults):
        return fault.told
    return [f"{fault.detail}{f' Fix: {fault.fix}.' if fault.fix and place else ''}"]


def parse_attribute(raw: Mapping[str, Any]) -> Attribute:
    """Parse one attribute, declared as in a table file, outside a table.

    Raises:
        SchemaError: as for ``parse_schema``.
    """
    return _build_attribute(validate_column(raw))


def parse_constraints(raw: object) -> tuple[Constraint, ...]:
    """Parse constraints, declared as in a table file, outside a private table.

    Raises:
        SchemaError: as for ``parse_schema``; or ``raw`` is not a list of tables.
    """
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw) or len(raw) > MAX_ENTRIES:
        raise SchemaError(
            f"Constraints must be a list of 0 to {MAX_ENTRIES:,} tables.",
            fix='constraint = [{ kind = "foreign_key", columns = ["region"], references = "regions(region)" }]',
        )
    try:
        return tuple(_build_constraint(ConstraintEntry.model_validate(one)) for one in raw)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SchemaError(f"A constraint is not valid at {where[:60]!r}: {first['msg'][:200]}.") from None


def parse_attributes(raw: object) -> tuple[Attribute, ...]:
    """Parse attributes, declared as in a table file, outside a private table.

    Raises:
        SchemaError: as for ``parse_schema``; or ``raw`` is not a list of tables.
    """
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw) or len(raw) > MAX_ENTRIES:
        raise SchemaError(
            f"Attributes must be a list of 1 to {MAX_ENTRIES:,} tables.", fix="attribute = [{ name = ... }]"
        )
    return tuple(parse_attribute(one) for one in raw)


def _parse_decimal(value: object, name: str) -> Decimal:
    try:
        return parse_finite(str(value))
    except InvalidOperation:
        raise SchemaError(f"Attribute {name!r}: {quote_short(value)} is not a number.") from None
    except ValueError:
        raise SchemaError(
            f"Attribute {name!r}: bounds, grids and bins must be finite numbers of at most 1e40, not "
            f"{quote_short(value)}."
        ) from None


def _parse_bound(value: object, column: ColumnEntry) -> Bound:
    if value is None:
        return None
    if column.type in ("date", "datetime"):
        if isinstance(value, datetime):
            return _drop_zone(value, column.name)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        raise SchemaError(f"Attribute {column.name!r}: bounds of a {column.type} must be dates, such as 2024-01-31.")
    if isinstance(value, (datetime, date)):
        raise SchemaError(f"Attribute {column.name!r}: bounds of a {column.type} must be numbers, not dates.")
    return _parse_decimal(value, column.name)


def _drop_zone(moment: datetime, name: str) -> datetime:
    """Convert a moment with a zone to UTC, as for moments in rows."""
    try:
        return moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta(0))
    except OverflowError:
        raise SchemaError(f"Attribute {name!r}: bounds must be within the years 1 to 9999, also in UTC.") from None


def _parse_grid(column: ColumnEntry) -> Decimal | None:
    if column.grid is None:
        return {"integer": Decimal(1), "date": Decimal(86_400)}.get(column.type)
    if isinstance(column.grid, str):
        if column.type not in ("date", "datetime"):
            raise SchemaError(f"Attribute {column.name!r}: the grid of a {column.type} must be a number.")
        seconds = STEP_SECONDS[column.grid]
        if column.type == "date" and seconds < 86_400:
            raise SchemaError(
                f"Attribute {column.name!r}: the grid of a date cannot be shorter than a day.",
                fix='grid = "day", or type = "datetime"',
            )
        return Decimal(seconds)
    if column.type in ("date", "datetime"):
        raise SchemaError(f"Attribute {column.name!r}: the grid of a {column.type} must be a word.", fix='grid = "day"')
    return _parse_decimal(column.grid, column.name)


def _parse_null(column: ColumnEntry) -> tuple[Literal["drop", "cell", "value"], Any]:
    if isinstance(column.null, NullValueEntry):
        return "value", column.null.value
    return column.null or "drop", None


def _parse_labels(column: ColumnEntry) -> Iterator[tuple[Any, str]]:
    """Yield each labelled value as answers show it, and its label."""
    for key, label in (column.labels or {}).items():
        if column.type == "category":
            yield key, label
        elif column.type == "boolean" and (truth := read_boolean(key)) is not None:
            yield truth, label
        elif column.type == "integer" and re.fullmatch(r"-?[0-9]{1,19}", key):
            yield int(key), label
        else:
            wanted = "true and false, or 1 and 0" if column.type == "boolean" else "whole numbers"
            raise SchemaError(f"Attribute {column.name!r} labels {quote_short(key)}; its values are {wanted}.")


def _find_key_faults(column: ColumnEntry) -> Iterator[SchemaError]:
    """Yield an error for each key that does not belong to the column's type, or is missing."""
    ranged = column.type in ("integer", "real", "date", "datetime")
    for key, allowed in (
        ("lo", ranged),
        ("hi", ranged),
        ("grid", ranged),
        ("outside", ranged),
        ("bins", column.type in ("integer", "real")),
        ("values", column.type == "category"),
        ("max_bytes", column.type == "text"),
        ("null", column.type not in ("id", "text")),
        ("labels", column.type in ("integer", "category", "boolean")),
    ):
        if getattr(column, key) is not None and not allowed:
            yield SchemaError(f"Attribute {column.name!r}: {key!r} does not belong to type {column.type!r}.")
    if ranged and column.outside is None:
        yield SchemaError(
            f"Attribute {column.name!r} does not declare how to treat values outside its bounds.",
            fix=f'outside = "clamp" or "drop" in the attribute named "{column.name}"',
        )
    if column.type not in ("id", "text") and column.null is None:
        yield SchemaError(
            f"Attribute {column.name!r} does not declare how to treat NULL.",
            fix=f'null = "drop", "cell" or {{ value = ... }} in the attribute named "{column.name}"',
        )


def _build_attribute(column: ColumnEntry, *, function: str = "", argument: str = "") -> Attribute:
    faults = list(_find_key_faults(column))
    built = _build_each([column], lambda entry: _build_checked(entry, function, argument), faults)
    _raise_all(faults)
    return built[0]


def _build_checked(column: ColumnEntry, function: str, argument: str) -> Attribute:
    """Build an attribute whose keys belong to its type."""
    if isinstance(column.values, ReleasedEntry):
        raise SchemaError(
            f"Attribute {column.name!r}: only attributes of private tables can use released values.",
            fix="list the values",
        )
    null, null_value = _parse_null(column)
    lo, hi, grid = _parse_bound(column.lo, column), _parse_bound(column.hi, column), _parse_grid(column)
    return Attribute(
        name=column.name,
        kind=column.type,
        lo=lo,
        hi=hi,
        grid=grid,
        values=tuple(map(str, column.values or ())),
        outside=column.outside or "drop",
        other=column.other,
        null=null,
        null_value=null_value,
        edges=_parse_edges(column, lo, hi, grid),
        max_bytes=column.max_bytes or 0,
        function=function,
        argument=argument,
        labels=tuple(_parse_labels(column)),
    )


def _parse_edges(column: ColumnEntry, lo: Bound, hi: Bound, grid: Decimal | None) -> tuple[Decimal, ...]:
    if column.bins is None or not isinstance(lo, Decimal) or not isinstance(hi, Decimal):
        return ()
    if (column.bins.width is None) == (column.bins.edges is None):
        raise SchemaError(f"Attribute {column.name!r}: bins take either a width or edges.")
    if column.bins.edges is not None:
        edges = tuple(_parse_decimal(edge, column.name) for edge in column.bins.edges)
        if len(edges) < 2:
            raise SchemaError(f"Attribute {column.name!r}: bins need at least two edges.")
        return edges
    width = _parse_decimal(column.bins.width, column.name)
    if grid is None or hi < lo:
        return ()  # the attribute itself reports wrong bounds or a wrong grid
    cut = cut_by_width(lo, hi, grid, width) if width > 0 else None
    if cut is None:
        raise SchemaError(f"Attribute {column.name!r}: bins must have a width above 0; the limit is {MAX_BINS:,} bins.")
    return cut


def _build_derived(column: DerivedEntry, domain: Domain) -> Attribute:
    if len(column.from_) != 1:
        raise SchemaError(f"Derived attribute {column.name!r}: {column.function} takes exactly one attribute.")
    source = domain[column.from_[0]]
    if source.kind not in FUNCTIONS[column.function]:
        kinds = " or ".join(FUNCTIONS[column.function])
        raise SchemaError(f"Derived attribute {column.name!r}: {column.function} takes a {kinds}, not a {source.kind}.")
    if column.type != "integer":
        raise SchemaError(
            f"Derived attribute {column.name!r}: {column.function} returns an integer.", fix='type = "integer"'
        )
    return _build_attribute(column, function=column.function, argument=source.name)


def _build_reading(file: TableFile | LinkedTableFile) -> Reading:
    reading = build_reading(file.reading, [column.name for column in file.attribute])
    for column in file.attribute:
        bounds = (column.lo, column.hi)
        if reading.get_format(column.name).time_zone and any(isinstance(b, datetime) and b.tzinfo for b in bounds):
            raise SchemaError(
                f"Attribute {column.name!r} has bounds with a zone; with time_zone, they are local times of that zone.",
                fix="lo = 2024-01-01T00:00:00, without a zone",
            )
    return reading


def _build_defaults(entry: DefaultsEntry) -> AccuracyDefaults:
    return AccuracyDefaults(entry.error, entry.confidence, entry.max_share)


def is_valid_entry(section: str, raw: object) -> bool:
    """Return whether an entry of ``attribute``, ``derived``, ``constraint`` or ``budget`` is valid by itself."""
    try:
        if section == "budget":
            build_budget(BudgetEntry.model_validate(raw))
        elif section == "constraint":
            _build_constraint(ConstraintEntry.model_validate(raw))
        elif section == "derived":
            _build_attribute(DerivedEntry.model_validate(raw))
        else:
            _build_attribute(ColumnEntry.model_validate(raw))
    except (SchemaError, ValueError, TypeError, ArithmeticError):
        return False
    return True


_NEEDS = {"fd": ("lhs", "rhs"), "denial": ("not_",), "key": ("columns",), "foreign_key": ("columns", "references")}
_MAY = {"fd": ("when", "weight", "source"), "denial": ("weight", "source"), "key": (), "foreign_key": ()}


def _build_constraint(raw: ConstraintEntry) -> Constraint:
    given = {key for key in ConstraintEntry.model_fields if getattr(raw, key) not in (None, "")} - {"kind", "hard"}
    for key in sorted(set(_NEEDS[raw.kind]) - given):
        raise SchemaError(f"A constraint of kind {raw.kind!r} needs {key.rstrip('_')!r}.")
    for key in sorted(given - set(_NEEDS[raw.kind]) - set(_MAY[raw.kind])):
        raise SchemaError(f"A constraint of kind {raw.kind!r} does not take {key.rstrip('_')!r}.")
    weight = None if raw.weight is None else Fraction(_parse_decimal(raw.weight, "weight"))
    if raw.hard and weight is not None:
        raise SchemaError("A hard constraint cannot have a weight: it always holds.", fix="hard = false")
    if raw.kind == "fd":
        when = parse_comparisons(raw.when, default_row=1) if raw.when else ()
        return FunctionalDependency(tuple(raw.lhs or ()), raw.rhs or "", when, raw.hard, weight, raw.source)
    if raw.kind == "denial":
        text = raw.not_ or ""
        return DenialConstraint(parse_comparisons(text, default_row=1), raw.hard, weight, text)
    columns = tuple(raw.columns or ())
    if raw.kind == "key":
        return Key(columns, raw.hard)
    found = _REFERENCE.fullmatch(raw.references or "")
    if not found:
        raise SchemaError("references must have the form TABLE(COLUMN, ...).", fix='references = "wards(ward)"')
    return ForeignKey(columns, found[1], tuple(part.strip() for part in found[2].split(",")))
