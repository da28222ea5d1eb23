"""Changes between two declarations of one table, each classed by what it means for what was charged before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.table import TILDE, Unit, format_fraction

if TYPE_CHECKING:
    from siloquent.schema.attribute import Attribute
    from siloquent.schema.table import TableSchema

ChangeClass = Literal["free", "budget", "new version", "new epoch"]
MEANING: Mapping[ChangeClass, str] = {
    "free": "This is free: nothing needs to be done, and what was spent stays.",
    "budget": "This is another limit: it applies as soon as it is set in the ledger, and what was spent stays.",
    "new version": "This is a new version of the rows: what was spent stays, and older answers are not drawn from.",
    "new epoch": "This needs a new epoch: what was spent was counted for another promise, so the owner decides.",
}
FILE = "file"
"""The recorded digest of the table file: a key is bound to it. It is not compared."""
TABLE = "table"
"""The recorded name of a table that shares its account with others; its own account's declarations record none."""
MAX_LISTED = 100
"""Longer lists of values are recorded as their number and digest."""
_PROMISE = {
    "unit": "the unit",
    "adjacency": "adjacency",
    "accountant": "the accountant",
    "disclosures": "disclosures",
    "epoch": "the epoch",
}
_BUDGET = {"epsilon": "epsilon", "rho": "rho", "delta": "delta", "delta_events": "delta_events"}
_ROWS = {"source": "the source", "version": "version"}
_READING = {"reading": "how the source is read"}
_LINKS = {"links": "the way to its unit"}
_FREE = {
    "size_hint": "size_hint",
    "sharing": "sharing of answers",
    "reuse": "reuse of answers",
    "constraints": "constraints",
}
_SHOWN = ("labels", "description")
_NEVER_INDEXED = ("edges", *_SHOWN)
"""Facets of a column that no value's cell depends on."""


@dataclass(frozen=True, slots=True)
class DeclarationChange:
    """One change: ``subject`` was declared as ``before`` and is declared as ``after``; empty: not at all."""

    subject: str
    before: str
    after: str
    effect: ChangeClass

    def __str__(self) -> str:
        return f"{self.describe()} ({self.effect})"

    def describe(self) -> str:
        """Return the change in words, without its class."""
        if not self.before or not self.after:
            return f"{self.subject} was {'removed' if not self.after else 'added'}"
        return f"{self.subject} was {self.before} and is {self.after}"


def describe_change(change: DeclarationChange) -> str:
    """Return a sentence that says what changed, and what that means for what was charged before."""
    told = change.describe()
    return f"{told[0].upper()}{told[1:]}. {MEANING[change.effect]}"


def describe_declaration(schema: TableSchema) -> dict[str, Any]:
    """Return what ``schema`` declares as plain texts, numbers, lists and dictionaries, to be recorded in a ledger."""
    budget = schema.budget
    amounts = {name: getattr(budget, name) for name in _BUDGET}
    return {
        "source": schema.source,
        "version": schema.version,
        "reading": "" if schema.reading.is_plain else schema.reading.digest().hex()[:16],
        "size_hint": str(schema.size_hint or ""),
        "unit": schema.unit.code,
        "adjacency": schema.adjacency,
        "accountant": budget.accountant,
        "disclosures": int(budget.disclosures),
        "epoch": budget.epoch,
        **{name: "" if amount is None else format_fraction(amount) for name, amount in amounts.items()},
        "analysts": {name: format_fraction(share) for name, share in budget.shares},
        "sharing": budget.sharing,
        "reuse": budget.reuse,
        "columns": [describe_column(attribute) for attribute in schema.domain],
        "constraints": _digest_long([str(constraint) for constraint in schema.constraints]),
        **({} if schema.defaults is None else {"defaults": _dump_defaults(schema.defaults)}),
        FILE: schema.digest,
        **({TABLE: schema.name, "links": _describe_links(schema)} if schema.unit.kind == "shared" else {}),
    }


def _describe_links(schema: TableSchema) -> list[str]:
    """Return what decides, besides its own columns, which rows of a linked table count, from table to table."""
    told = [f"at most {schema.unit.max_rows} rows of one {schema.unit.column}"]
    for one in schema.related:
        columns = [describe_column(attribute) for attribute in one.domain]
        reading = "" if one.reading.is_plain else one.reading.digest().hex()[:16]
        told += [f"{TILDE}{one.name}", _hash_facts([one.source, one.version, reading, columns, *_describe_links(one)])]
    while (link := schema.link) is not None:
        schema = link.parent
        names = {*(other for _, other in link.on), *(link.columns or ())}
        names |= {schema.unit.column} if schema.link is None else set()
        columns = [describe_column(schema.domain[name]) for name in sorted(names)]
        reading = "" if schema.reading.is_plain else schema.reading.digest().hex()[:16]
        facts = [schema.source, schema.version, reading, schema.unit.column, link.columns, columns]
        told += [str(link), _hash_facts(facts)]
    return told


def _hash_facts(facts: object) -> str:
    """Return a digest of declared facts."""
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def restore_planning_facts(schema: TableSchema, recorded: Mapping[str, Any]) -> TableSchema:
    """Return ``schema`` with the facts that only planning reads as ``recorded``: budget, reuse, size and defaults.

    A request charged under another file is planned by them, so that the plan is the one that was reserved. The rows
    that count, and the accounts, stay as declared now; ``declared`` of the result is ``schema``.

    Args:
        recorded: A result of ``describe_declaration`` under which the request means the same. What it lacks stays.
    """
    amounts = {name: _parse_amount(recorded[name]) for name in _BUDGET if name in recorded}
    now = schema.budget
    budget = replace(
        now,
        epsilon=amounts.get("epsilon", now.epsilon),
        rho=amounts.get("rho", now.rho),
        delta=amounts.get("delta", now.delta) or Fraction(0),
        delta_events=amounts.get("delta_events", now.delta_events) or Fraction(0),
        reuse=recorded.get("reuse", now.reuse),
    )
    hint = recorded.get("size_hint", schema.size_hint)
    return replace(
        schema,
        budget=budget,
        size_hint=int(hint) if hint else None,
        defaults=_load_defaults(recorded.get("defaults")),
        digest=recorded.get(FILE, schema.digest),
        extended=schema.declared,
    )


def list_differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    columns: Collection[str] | None = None,
    also: Sequence[str] = (),
) -> tuple[DeclarationChange, ...]:
    """Return the changes for which ``means_the_same`` is false."""
    if after.get("unit") != "row":
        columns = None
    facts = (*_PROMISE, *_ROWS, *_READING, *_LINKS, *also)
    was, now = (
        {**{name: one[name] for name in facts if name in one}, "columns": _list_cells(one, columns)}
        for one in (before, after)
    )
    return compare_declarations(was, now)


def means_the_same(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    columns: Collection[str] | None = None,
    also: Sequence[str] = (),
) -> bool:
    """Return whether a request that reads ``columns`` means the same under two results of ``describe_declaration``.

    It does if the promise, the rows and the cells of those columns are declared alike.

    Args:
        columns: None: all columns, in their order. Of several rows of one unit, all columns together choose those that
            count, so that all matter there.
        also: Further facts that the request depends on, such as ``size_hint``.
    """
    if after.get("unit") != "row":
        columns = None
    facts = (*_PROMISE, *_ROWS, *_READING, *also)
    if before.get("links") != after.get("links"):
        return False
    if any(name not in before or before[name] != after.get(name) for name in facts):
        return False
    return _list_cells(before, columns) == _list_cells(after, columns)


def compare_declarations(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[DeclarationChange, ...]:
    """Compare two results of ``describe_declaration``; facts that either does not record are not compared."""
    found = [
        *_compare_facts(before, after, _PROMISE, "new epoch"),
        *_compare_shares(before, after),
        *_compare_facts(before, after, _BUDGET, "budget"),
        *_compare_facts(before, after, _ROWS | _READING | _LINKS, "new version"),
        *_compare_columns(before, after),
        *_compare_facts(before, after, _FREE, "free"),
    ]
    return tuple(found)


def changes_rows(changes: Sequence[DeclarationChange]) -> bool:
    """Return whether other rows count after ``changes``, although the source may be the same.

    A changed source shows in its marks, and a changed version in each answer.
    """
    return any(one.effect == "new version" and one.subject not in _ROWS.values() for one in changes)


def _dump_defaults(defaults: AccuracyDefaults) -> dict[str, str]:
    return {name: getattr(defaults, name) for name in ("error", "confidence", "max_share")}


def _load_defaults(recorded: Mapping[str, str] | None) -> AccuracyDefaults | None:
    return None if recorded is None else AccuracyDefaults.from_dict(recorded)


def _parse_amount(text: str) -> Fraction | None:
    return Fraction(text) if text else None


def _list_cells(declaration: Mapping[str, Any], columns: Collection[str] | None) -> list[dict[str, Any]]:
    """Return what the cells and bins of ``columns`` follow from; listed by name unless all columns are."""
    found = [
        {facet: value for facet, value in one.items() if facet not in _SHOWN}
        for one in declaration.get("columns", ())
        if columns is None or one["name"] in columns
    ]
    return found if columns is None else sorted(found, key=lambda one: str(one["name"]))


def describe_column(attribute: Attribute) -> dict[str, Any]:
    """Return what a column declares as texts and lists of texts, as a ledger records it."""
    facets = {facet.name: getattr(attribute, facet.name) for facet in fields(attribute)}
    plain = {name: _describe_facet(value) for name, value in facets.items()}
    return {name: value for name, value in plain.items() if value not in ("", [])}


def _describe_facet(value: Any) -> Any:
    if isinstance(value, tuple):
        return _digest_long([str(one) for one in value])
    return "" if value is None else str(value)


def _digest_long(texts: list[str]) -> list[str]:
    if len(texts) <= MAX_LISTED and sum(map(len, texts)) <= 10_000:
        return texts
    is_plain = not any("\x1f" in one for one in texts)
    joined = "\x1f".join(texts) if is_plain else json.dumps(texts)  # or other lists would have the same digest
    digest = hashlib.sha256(joined.encode("utf-8", "surrogateescape")).hexdigest()
    return [f"{len(texts):,} values", f"sha256:{digest[:32]}"]


def _compare_facts(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Mapping[str, str], effect: ChangeClass
) -> list[DeclarationChange]:
    return [
        DeclarationChange(subject, _format_fact(name, before[name]), _format_fact(name, after[name]), effect)
        for name, subject in names.items()
        if name in before and name in after and before[name] != after[name]
    ]


def _format_fact(name: str, value: Any) -> str:
    if name == "unit":
        return Unit.from_code(value).description
    if name == "reading":
        return f"settings {value[:6]}" if value else "plain"
    if name == "disclosures":
        return "allowed" if value else "not allowed"
    if isinstance(value, list):
        return f"{len(value)} declared" if name == "constraints" else _format_list(value)
    return str(value) or "not declared"


def _format_list(value: Sequence[str]) -> str:
    shown = ", ".join(value[:8])
    return f"{shown}, ..." if len(value) > 8 else shown


def _compare_shares(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[DeclarationChange]:
    was, now = before.get("analysts", {}), after.get("analysts", {})
    return [
        DeclarationChange(f"the share of {name}", was.get(name, ""), now.get(name, ""), "budget")
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]


def _compare_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[DeclarationChange]:
    """Compare columns. Those of a user's rows that count are chosen by all columns together, so any change matters."""
    was, now = ({one["name"]: one for one in each.get("columns", ())} for each in (before, after))
    effect: ChangeClass = "free" if after.get("unit", "row") == "row" else "new version"
    found = [
        DeclarationChange(f"column {name!r}", "declared" if name in was else "", "declared" * (name in now), effect)
        for name in {**was, **now}
        if (name in was) != (name in now)
    ]
    for name in (name for name in was if name in now):
        for facet in sorted({*was[name], *now[name]}):
            old, new = was[name].get(facet, ""), now[name].get(facet, "")
            if old != new:
                word = "type" if facet == "kind" else "bins" if facet == "edges" else facet
                kind: ChangeClass = "free" if facet in _NEVER_INDEXED else effect
                was_text, now_text = _tell_apart(_format_fact("", old), _format_fact("", new))
                found.append(DeclarationChange(f"{word} of column {name!r}", was_text, now_text, kind))
    if list(was) != list(now) and set(was) == set(now):
        found.append(DeclarationChange("the order of columns", "another", "this one", effect))
    return found


def _tell_apart(before: str, after: str) -> tuple[str, str]:
    return (before, after) if before != after else (before, "the same in another order")
