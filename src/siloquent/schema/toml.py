"""Table files: TOML in, a checked ``TableSchema`` out; and the JSON Schema that editors use.

The models here mirror the file word by word; the classes that the rest of the house uses are made from them.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from siloquent.errors import SchemaError
from siloquent.schema.attribute import FUNCTIONS, STEP_SECONDS, Attribute, Bound
from siloquent.schema.constraints import (
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    parse_comparisons,
)
from siloquent.schema.domain import Domain
from siloquent.schema.table import Budget, TableSchema, Unit

MOST_BYTES = 4 * 2**20
FORMAT = 1
_REFERENCE = re.compile(r"(\w+)\(([^()]+)\)")
Number = int | Decimal | str


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class _NullValue(_Strict):
    value: Any


class _Bins(_Strict):
    width: Number | None = None
    edges: list[Number] | None = None


class _Column(_Strict):
    name: str
    type: Literal["integer", "real", "category", "boolean", "date", "datetime", "id", "text"]
    lo: int | Decimal | datetime | date | None = None
    hi: int | Decimal | datetime | date | None = None
    grid: int | Decimal | Literal["day", "hour", "minute", "second"] | None = None
    values: list[str] | None = None
    outside: Literal["clamp", "drop"] | None = None
    other: Literal["drop", "cell"] = "drop"
    null: Literal["drop", "cell"] | _NullValue | None = None
    bins: _Bins | None = None
    max_bytes: int | None = None


class _Derived(_Column):
    from_: list[str]
    function: Literal["length", "year", "month", "day", "hour", "dayofweek"]
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=lambda name: name.rstrip("_"))


class _Constraint(_Strict):
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


class _Unit(_Strict):
    kind: Literal["row", "user"]
    column: str = ""
    max_rows: int = 1


class _Table(_Strict):
    name: str
    source: str = ""
    adjacency: Literal["add-remove", "replace-one"]
    version: int = 1
    size_hint: int | None = None
    unit: _Unit


class _Budget(_Strict):
    accountant: Literal["pure", "zcdp"]
    epsilon: str | int | None = None
    rho: str | int | None = None
    delta: str | int = 0
    delta_events: str | int = 0
    epoch: int = 1
    analysts: dict[str, str | int] = {}


class _File(_Strict):
    format: Literal[1]
    table: _Table
    budget: _Budget
    attribute: list[_Column]
    derived: list[_Derived] = []
    constraint: list[_Constraint] = []


def json_schema() -> dict[str, Any]:
    """The JSON Schema of table files, for editors that complete and check TOML."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "siloquent table file",
        **_File.model_json_schema(by_alias=True, schema_generator=_decimal_as_number()),
    }


def _decimal_as_number() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            return {"type": "number"}

    return Generator


def parse_schema(text: str) -> TableSchema:
    """The table that ``text`` declares.

    Args:
        text: A table file (TOML, format 1, at most 4 MiB).
    Returns:
        A consistent schema; ``digest`` is the SHA-256 of the file's canonical JSON.
    Raises:
        SchemaError: it is not TOML, has unknown keys (did you mean), lacks bounds, values, unit or budget, or
            contradicts itself. The message names the place and the line to add.
        UnknownName: a constraint or unit names an attribute that is not declared.
    """
    raw = read_toml(text)
    try:
        file = _File.model_validate(raw)
    except ValidationError as wrong:
        raise SchemaError(" ".join(_problems(wrong, raw))) from None
    if len(file.attribute) + len(file.derived) > 2_000:
        raise SchemaError("A table has at most 2,000 attributes.")
    columns = tuple(_attribute(column) for column in file.attribute)
    domain = Domain((*columns, *(_derived(column, Domain(columns)) for column in file.derived)))
    return TableSchema(
        name=file.table.name,
        domain=domain,
        budget=_budget(file.budget),
        source=file.table.source,
        adjacency=file.table.adjacency,
        unit=Unit(file.table.unit.kind, file.table.unit.column, file.table.unit.max_rows),
        version=file.table.version,
        size_hint=file.table.size_hint,
        constraints=tuple(_constraint(c) for c in file.constraint),
        digest=digest_of(raw),
    )


def read_toml(text: str) -> dict[str, Any]:
    """``text`` as TOML with decimal numbers, limited in size.

    Raises:
        SchemaError: too large, or not TOML; it says the line.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise SchemaError(f"A file of declarations is at most {MOST_BYTES // 2**20} MiB.")
    try:
        return tomllib.loads(text, parse_float=_finite)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise SchemaError(f"This is not TOML: {str(wrong) or 'nested too deeply'}.") from None
    except (ValueError, InvalidOperation):
        raise SchemaError("A number is out of range: bounds, grids and budgets are finite.") from None


def _finite(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite() or abs(value.adjusted()) > 40:
        raise ValueError(text)
    return value


def digest_of(raw: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a parsed file: comments, order of keys and white space do not count."""
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _keys() -> set[str]:
    models = (_Column, _Derived, _Constraint, _Unit, _Table, _Budget, _File, _Bins)
    return {name.rstrip("_") for model in models for name in model.model_fields}


def _problems(wrong: ValidationError, raw: Mapping[str, Any]) -> Iterator[str]:
    """One sentence a problem: place, what, did you mean."""
    errors = wrong.errors(include_url=False, include_context=False)
    for error in errors[:5]:
        *place, last = [part for part in error["loc"] if not (isinstance(part, str) and part[:1] == "_")] or ["file"]
        where = _place(place, raw)
        if error["type"] == "extra_forbidden":
            near = get_close_matches(str(last), _keys(), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            yield f"Unknown key {str(last)!r}{where}.{hint}"
        elif error["type"] == "missing":
            yield f"Missing {str(last)!r}{where}: add `{last} = ..`."
        else:
            yield f"{str(last)!r}{where}: {error['msg']}, not {str(error['input'])[:60]!r}."
    if len(errors) > 5:
        yield f"And {len(errors) - 5} more."


def _place(parts: list[Any], raw: Mapping[str, Any]) -> str:
    names, here = [], raw
    for part in parts:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            break
        named = here.get("name") if isinstance(here, dict) else None
        names.append(repr(named) if isinstance(part, int) and named else str(part))
    return f" in [{' '.join(names)}]" if names else ""


def _decimal(value: object, name: str) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise SchemaError(f"Attribute {name!r}: {str(value)[:40]!r} is not a number.") from None
    if not number.is_finite():
        raise SchemaError(f"Attribute {name!r}: bounds, grids and bins are finite.")
    return number


def _bound(value: object, column: _Column) -> Bound:
    if value is None:
        return None
    if column.type in ("date", "datetime"):
        if isinstance(value, datetime):
            return value.replace(tzinfo=None)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        raise SchemaError(f"Attribute {column.name!r}: bounds of a {column.type} are dates, such as 2024-01-31.")
    if isinstance(value, (datetime, date)):
        raise SchemaError(f"Attribute {column.name!r}: bounds of a {column.type} are numbers, not dates.")
    return _decimal(value, column.name)


def _grid(column: _Column) -> Decimal | None:
    if column.grid is None:
        return {"integer": Decimal(1), "date": Decimal(86_400)}.get(column.type)
    if isinstance(column.grid, str):
        if column.type not in ("date", "datetime"):
            raise SchemaError(f"Attribute {column.name!r}: the grid of a {column.type} is a number.")
        seconds = STEP_SECONDS[column.grid]
        if column.type == "date" and seconds < 86_400:
            raise SchemaError(
                f"Attribute {column.name!r}: a date has no hours.", fix='grid = "day", or type = "datetime"'
            )
        return Decimal(seconds)
    if column.type in ("date", "datetime"):
        raise SchemaError(f"Attribute {column.name!r}: the grid of a {column.type} is a word.", fix='grid = "day"')
    return _decimal(column.grid, column.name)


def _null(column: _Column) -> tuple[Literal["drop", "cell", "value"], Any]:
    if isinstance(column.null, _NullValue):
        return "value", column.null.value
    return column.null or "drop", None


def _check_keys_for_type(column: _Column) -> None:
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
    ):
        if getattr(column, key) is not None and not allowed:
            raise SchemaError(f"Attribute {column.name!r}: {key!r} does not belong to type {column.type!r}.")
    if ranged and column.outside is None:
        raise SchemaError(
            f"Attribute {column.name!r} does not say what becomes of values outside its bounds.",
            fix=f'outside = "clamp" or "drop" in the attribute named "{column.name}"',
        )
    if column.type not in ("id", "text") and column.null is None:
        raise SchemaError(
            f"Attribute {column.name!r} does not say what becomes of NULL.",
            fix=f'null = "drop", "cell" or {{ value = .. }} in the attribute named "{column.name}"',
        )


def _attribute(column: _Column, *, function: str = "", argument: str = "") -> Attribute:
    _check_keys_for_type(column)
    null, null_value = _null(column)
    lo, hi, grid = _bound(column.lo, column), _bound(column.hi, column), _grid(column)
    return Attribute(
        name=column.name,
        kind=column.type,
        lo=lo,
        hi=hi,
        grid=grid,
        values=tuple(column.values or ()),
        outside=column.outside or "drop",
        other=column.other,
        null=null,
        null_value=null_value,
        edges=_edges(column, lo, hi),
        max_bytes=column.max_bytes or 0,
        function=function,
        argument=argument,
    )


def _edges(column: _Column, lo: Bound, hi: Bound) -> tuple[Decimal, ...]:
    if column.bins is None or not isinstance(lo, Decimal) or not isinstance(hi, Decimal):
        return ()
    if (column.bins.width is None) == (column.bins.edges is None):
        raise SchemaError(f"Attribute {column.name!r}: bins have either a width or edges.")
    if column.bins.edges is not None:
        edges = tuple(_decimal(edge, column.name) for edge in column.bins.edges)
        if len(edges) < 2:
            raise SchemaError(f"Attribute {column.name!r}: bins need at least two edges.")
        return edges
    width = _decimal(column.bins.width, column.name)
    if width <= 0 or (hi - lo) / width > 100_000:
        raise SchemaError(f"Attribute {column.name!r}: bins have a width above 0 and number at most 100,000.")
    inner = [lo + width * i for i in range(1, int((hi - lo) / width) + 1) if lo + width * i < hi]
    return (lo, *inner, hi) if hi > lo else ()


def _derived(column: _Derived, domain: Domain) -> Attribute:
    if len(column.from_) != 1:
        raise SchemaError(f"Derived attribute {column.name!r}: {column.function} is a function of one attribute.")
    source = domain[column.from_[0]]
    if source.kind not in FUNCTIONS[column.function]:
        kinds = " or ".join(FUNCTIONS[column.function])
        raise SchemaError(f"Derived attribute {column.name!r}: {column.function} takes a {kinds}, not a {source.kind}.")
    if column.type != "integer":
        raise SchemaError(
            f"Derived attribute {column.name!r}: {column.function} gives an integer.", fix='type = "integer"'
        )
    return _attribute(column, function=column.function, argument=source.name)


def _exact(value: str | int, key: str) -> Fraction:
    try:
        return Fraction(_finite(str(value)))
    except (ValueError, InvalidOperation):
        raise SchemaError(f"[budget] {key}: {str(value)[:40]!r} is not a finite number.") from None


def _budget(budget: _Budget) -> Budget:
    return Budget(
        accountant=budget.accountant,
        epsilon=None if budget.epsilon is None else _exact(budget.epsilon, "epsilon"),
        rho=None if budget.rho is None else _exact(budget.rho, "rho"),
        delta=_exact(budget.delta, "delta"),
        delta_events=_exact(budget.delta_events, "delta_events"),
        epoch=budget.epoch,
        shares=tuple((name, _exact(share, f"analysts.{name}")) for name, share in sorted(budget.analysts.items())),
    )


_NEEDS = {"fd": ("lhs", "rhs"), "denial": ("not_",), "key": ("columns",), "foreign_key": ("columns", "references")}
_MAY = {"fd": ("when", "weight", "source"), "denial": ("weight", "source"), "key": (), "foreign_key": ()}


def _constraint(raw: _Constraint) -> Constraint:
    needed = _NEEDS[raw.kind]
    for key in {key for keys in _NEEDS.values() for key in keys} | {"when", "weight"}:
        given = getattr(raw, key) is not None
        if given != (key in needed) and not (given and key in _MAY[raw.kind]) and (given or key in needed):
            word = "does not have" if given else "needs"
            raise SchemaError(f"A constraint of kind {raw.kind!r} {word} {key.rstrip('_')!r}.")
    weight = None if raw.weight is None else Fraction(_decimal(raw.weight, "weight"))
    if raw.hard and weight is not None:
        raise SchemaError("A hard constraint has no weight: it always holds.", fix="hard = false")
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
        raise SchemaError("references is TABLE(COLUMN, ..).", fix='references = "wards(ward)"')
    return ForeignKey(columns, found[1], tuple(part.strip() for part in found[2].split(",")))


assert set(get_args(_Derived.model_fields["function"].annotation)) == set(FUNCTIONS)
