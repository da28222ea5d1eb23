"""Documents of table declarations, without reading rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.charts.text import format_label
from siloquent.documents.ledger import build_account_document, format_exact_amount
from siloquent.documents.problems import build_problem
from siloquent.errors import SiloquentError

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.schema import Attribute, TableSchema

MAX_VALUES = 8


def build_table_line(session: Session, name: str) -> dict[str, Any]:
    """Build one line of the list; a table with an invalid file or account is listed with the error."""
    row: dict[str, Any] = {"name": name, "source": "", "attributes": 0, "unit": ""}
    row |= {"account": None, "symbol": None, "left": None, "problem": ""}
    try:
        schema = session.schema(name)
        row |= {"source": schema.source, "attributes": len(schema.domain.names), "unit": schema.unit.description}
        account = build_account_document(session.get_account(name))
        row |= {"account": account["name"], "symbol": account["symbol"]}
        row["left"] = format_exact_amount(session.get_account(name), session.get_remaining(name).amount)
    except SiloquentError as wrong:
        row["problem"] = str(wrong)
    return row


def build_table_document(schema: TableSchema, account: dict[str, Any]) -> dict[str, Any]:
    """Return a table's declaration as a document of kind ``siloquent/table/1``."""
    return {
        "schema": "siloquent/table/1",
        "name": schema.name,
        "source": schema.source,
        "version": schema.version,
        "size_hint": schema.size_hint,
        "unit": schema.unit.code,
        "adjacency": schema.adjacency,
        "attributes": [_build_attribute_entry(attribute) for attribute in schema.domain],
        "constraints": [_build_constraint_entry(constraint) for constraint in schema.constraints],
        "account": account,
        "digest": f"sha256:{schema.digest}",
    }


def _build_attribute_entry(attribute: Attribute) -> dict[str, Any]:
    countable = attribute.kind not in ("id", "text")
    return {
        "name": attribute.name,
        "type": attribute.kind,
        "values": _describe_values(attribute),
        "cells": attribute.size if countable else None,
        "outside": attribute.other if attribute.kind == "category" else attribute.outside if countable else "",
        "null": _describe_null(attribute) if countable else "",
    }


def _describe_values(attribute: Attribute) -> str:
    """Describe the declared values in words."""
    if attribute.kind == "category":
        some = ", ".join(map(format_label, attribute.values[:MAX_VALUES]))
        more = len(attribute.values) - MAX_VALUES
        return f"{some}, and {more} more" if more > 0 else some
    if attribute.kind == "boolean":
        return "false, true"
    if attribute.lo is None:
        return "units and keys only" if attribute.kind == "id" else f"at most {attribute.max_bytes} bytes"
    ends = [format_label(bound.date() if attribute.kind == "date" else bound) for bound in (attribute.lo, attribute.hi)]  # type: ignore[union-attr]
    bins = f", {len(attribute.edges) - 1} bins" if attribute.edges else ""
    return f"{ends[0]} to {ends[1]}{bins}"


def _describe_null(attribute: Attribute) -> str:
    return f"is {format_label(attribute.null_value)}" if attribute.null == "value" else attribute.null


def _build_constraint_entry(constraint: Any) -> dict[str, Any]:
    """Describe one constraint; foreign keys always hold."""
    from siloquent.schema import DenialConstraint, ForeignKey, FunctionalDependency

    hard = bool(getattr(constraint, "hard", True))
    if isinstance(constraint, FunctionalDependency):
        when = f" where {' and '.join(map(str, constraint.when))}" if constraint.when else ""
        return {"kind": "fd", "hard": hard, "text": f"{', '.join(constraint.lhs)} -> {constraint.rhs}{when}"}
    if isinstance(constraint, DenialConstraint):
        return {"kind": "denial", "hard": hard, "text": f"never {' and '.join(map(str, constraint.comparisons))}"}
    if isinstance(constraint, ForeignKey):
        there = f"{constraint.table}({', '.join(constraint.referenced)})"
        return {"kind": "foreign_key", "hard": hard, "text": f"{', '.join(constraint.columns)} is in {there}"}
    return {"kind": "key", "hard": hard, "text": f"{', '.join(constraint.columns)} is unique"}


def build_check_report(session: Session, name: str, *, alone: bool) -> dict[str, Any]:
    """Build the owner's check of one table, for a document of kind ``siloquent/check/1``.

    If all tables are checked (not ``alone``), one that cannot be opened does not hide the others.
    """
    try:
        return session.check(name).to_json()
    except SiloquentError as wrong:
        if alone:
            raise
        finding = {
            "kind": wrong.code,
            "subject": "declaration",
            "count": 1,
            "sentence": wrong.detail,
            "fix": build_problem(wrong).fix,
            "problem": True,
        }
        return {"table": name, "rows": None, "counted": None, "clean": False, "findings": [finding]}
