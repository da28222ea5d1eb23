"""Specifications of discoveries: the keys of a category or text, or bounds of a number or date."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import RunCommand, UseOption
from siloquent.foreign.spec_types import check_types
from siloquent.privacy import format_digits, parse_exact
from siloquent.privacy.budget import Budget, Exact
from siloquent.schema import TableSchema
from siloquent.schema.domains import check_domain_name

MAX_KEYS_EACH = 1_000
MAX_LEAST = 10**9


@dataclass(frozen=True, slots=True)
class KeysSpec:
    """The keys of ``column`` that at least about ``at_least`` units share.

    Args:
        budget: The maximum cost.
        at_least: Keys that fewer units share are released with a probability of at most 1/2000 each.
        keys_each: The number of keys that one unit counts for; a hash chooses among the unit's own.
        delta: The part of the account's delta_events that it may cost; None: a tenth of all.
        name: Of the released domain; empty: TABLE-COLUMN.
    """

    table: str
    column: str
    budget: Budget
    at_least: int = 1
    keys_each: int = 1
    delta: Exact | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= self.at_least <= MAX_LEAST:
            raise RequestError(
                f"at_least must be between 1 and {MAX_LEAST:,} units, not {self.at_least}.",
                fix=UseOption("at_least", 20),
            )
        if not 1 <= self.keys_each <= MAX_KEYS_EACH:
            raise RequestError(
                f"keys_each must be between 1 and {MAX_KEYS_EACH:,} keys, not {self.keys_each}.",
                fix=UseOption("keys_each", 1),
            )
        if self.delta is not None and not 0 < parse_exact(self.delta) < 1:
            raise RequestError(f"delta must be between 0 and 1, not {self.delta}.", fix=UseOption("delta", "1e-7"))
        if self.name:
            try:
                check_domain_name(self.name)
            except SchemaError as wrong:
                raise RequestError(wrong.detail, fix=UseOption("name", _clean_name(self.name) or "found")) from None

    @property
    def domain_name(self) -> str:
        """The name of the released domain."""
        return self.name or _clean_name(f"{self.table}-{self.column}")

    def canonical(self) -> str:
        """Return the spec as canonical JSON, without the name under which it is saved."""
        delta = None if self.delta is None else str(parse_exact(self.delta))
        return _to_json("keys", self, at_least=self.at_least, keys_each=self.keys_each, delta=delta)


@dataclass(frozen=True, slots=True)
class BoundsSpec:
    """Bounds of ``column`` between which nearly all of its values lie, within the declared ones."""

    table: str
    column: str
    budget: Budget

    def __post_init__(self) -> None:
        check_types(self, RequestError)

    def canonical(self) -> str:
        """Return the spec as canonical JSON."""
        return _to_json("bounds", self)


DiscoverSpec = KeysSpec | BoundsSpec


def build_spec(
    schema: TableSchema,
    column: str,
    budget: Budget,
    *,
    at_least: int | None = None,
    keys_each: int | None = None,
    delta: Exact | None = None,
    name: str | None = None,
) -> DiscoverSpec:
    """Build the spec for ``column``: keys of a category or text, bounds of a number or date.

    Raises:
        UnknownName: the column is not declared. RequestError: an option does not belong to the column's type.
    """
    attribute = schema.domain[column]
    given = {"at_least": at_least, "keys_each": keys_each, "delta": delta, "name": name}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not (attribute.is_numeric or attribute.is_temporal):
        return KeysSpec(schema.name, attribute.name, budget, **chosen)
    if chosen:
        raise RequestError(
            f"{next(iter(chosen))} belongs to the keys of a category or text; {attribute.name!r} is of type "
            f"{attribute.kind}, so its bounds are discovered.",
            fix=suggest(BoundsSpec(schema.name, attribute.name, budget)),
        )
    return BoundsSpec(schema.name, attribute.name, budget)


@dataclass(frozen=True, slots=True)
class DiscoverRequest:
    """A discovery as a JSON document describes it: keys or bounds, as the type of the column says."""

    table: str
    column: str
    budget: Budget
    at_least: int | None = None
    keys_each: int | None = None
    delta: Exact | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)

    def build_spec(self, schema: TableSchema) -> DiscoverSpec:
        """Build the spec for the table of ``schema``; see the function ``build_spec``."""
        return build_spec(
            schema,
            self.column,
            self.budget,
            at_least=self.at_least,
            keys_each=self.keys_each,
            delta=self.delta,
            name=self.name,
        )


def parse_spec(plain: dict[str, Any]) -> DiscoverRequest:
    """Parse the request in a JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    known = DiscoverRequest.__dataclass_fields__
    unknown = sorted(set(plain) - set(known))
    if unknown:
        raise RequestError(f"A discovery has no {unknown[0]!r}. Known: {', '.join(sorted(known))}.")
    try:
        return DiscoverRequest(**{**plain, "budget": Budget(**plain["budget"])})
    except (KeyError, TypeError) as wrong:
        raise RequestError(
            f"The discovery cannot be read: {wrong}.",
            fix='{"table": "visits", "column": "diagnosis", "budget": {"epsilon": "0.2"}}',
        ) from None


def suggest(spec: DiscoverSpec, **changed: Any) -> RunCommand:
    """Return the action of the same discovery, with some of its parts changed: a command and a call to paste."""
    asked = replace(spec, **changed)
    options: dict[str, str | int] = dict([get_amount(asked.budget)])
    if isinstance(asked, KeysSpec):
        options |= {"at_least": asked.at_least} if asked.at_least != 1 else {}
        options |= {"keys_each": asked.keys_each} if asked.keys_each != 1 else {}
        options |= {"delta": str(asked.delta)} if asked.delta is not None else {}
        options |= {"name": asked.name} if asked.name else {}
    return _build_command(asked.table, asked.column, options)


def get_amount(budget: Budget) -> tuple[str, str]:
    """Return what a budget counts in, epsilon or rho, and its amount as typed.

    >>> get_amount(Budget(epsilon="0.2"))
    ('epsilon', '0.2')
    """
    symbol, given = ("rho", budget.rho) if budget.epsilon is None else ("epsilon", budget.epsilon)
    return symbol, given if isinstance(given, str) else format_digits(parse_exact(given or 0), 12)


def _build_command(table: str, column: str, options: dict[str, str | int]) -> RunCommand:
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    named = ("--", table, column) if column.startswith("-") else (table, column)
    call = ", ".join([repr(table), repr(column), *(f"{key}={value!r}" for key, value in options.items())])
    return RunCommand(
        "discover", (*words, *named) if named[0] == "--" else (*named, *words), python=f"session.discover({call})"
    )


def _clean_name(text: str) -> str:
    """Return ``text`` with other characters than those of domain names replaced."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in text)
    return plain.lstrip("-")[:64]


def _to_json(kind: str, spec: DiscoverSpec, **more: object) -> str:
    plain = {"discover": kind, "table": spec.table, "column": spec.column, "budget": spec.budget.to_dict(), **more}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
