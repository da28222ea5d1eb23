"""Documents about a workspace and its tables: declarations and what is left, without reading rows; checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import format_label
from siloquent.documents.ledger import build_account_document, format_exact_amount
from siloquent.documents.problems import build_problem
from siloquent.errors import SiloquentError
from siloquent.fixes import PYTHON, FixLanguage

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.data import RefreshReport
    from siloquent.ledger import Account
    from siloquent.schema import Attribute, TableSchema
    from siloquent.schema.changes import DeclarationChange
    from siloquent.schema.workspace import Workspace

MAX_VALUES = 8
AFFORDABLE = (1 / 20, 1 / 4)


def build_workspace_document(workspace: Workspace) -> dict[str, Any]:
    """Return a new workspace as a document of kind ``siloquent/workspace/1``."""
    return {
        "schema": "siloquent/workspace/1",
        "folder": str(workspace.folder),
        "ledger": workspace.ledger,
        "tables": [],
    }


def build_draft_document(table: str, file: Path | None, toml: str) -> dict[str, Any]:
    """Return a drafted table file as a document of kind ``siloquent/draft/1``."""
    return {"schema": "siloquent/draft/1", "table": table, "file": str(file or ""), "toml": toml}


def build_declaration_document(
    schema: TableSchema, file: Path, left_out: Sequence[str], toml: str, first_query: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a table file written from answers as a document of kind ``siloquent/declaration/1``.

    Args:
        left_out: The source's columns that are not declared. ``first_query``: one and its price, if it has one.
    """
    return {
        "schema": "siloquent/declaration/1",
        "table": schema.name,
        "file": str(file),
        "source": schema.source,
        "attributes": len(schema.domain.names),
        "left_out": list(left_out),
        "toml": toml,
        "first_query": None if first_query is None else dict(first_query),
    }


def build_table_line(session: Session, name: str) -> dict[str, Any]:
    """Build one line of the list; a table with an invalid file or account is listed with the error."""
    row: dict[str, Any] = {"name": name, "source": "", "attributes": 0, "unit": ""}
    row |= {"account": None, "symbol": None, "left": None, "delta_left": None, "problem": ""}
    from siloquent.privacy import ATTO

    try:
        schema = session.schema(name)
        row |= {"source": schema.source, "attributes": len(schema.domain.names), "unit": schema.unit.description}
        account = build_account_document(session.get_account(name), declared=schema.budget)
        row |= {key: account[key] for key in ("symbol", "limit", "declared")} | {"account": account["name"]}
        left = session.get_remaining(name)
        row["left"] = format_exact_amount(session.get_account(name), left.amount)
        row["delta_left"] = format(Decimal(left.delta) / ATTO, "f")
    except SiloquentError as wrong:
        row["problem"] = str(wrong)
    return row


def build_table_list_document(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return lines of tables as a document of kind ``siloquent/table-list/1``."""
    return {"schema": "siloquent/table-list/1", "tables": list(lines)}


def build_shown_table(session: Session, name: str) -> dict[str, Any]:
    """Return a table as a document of kind ``siloquent/table/1``, with what ``session`` can still spend on it."""
    remaining, (entry, since) = session.get_remaining(name).amount, session.find_rows_start(name)
    document = build_table_document(session.schema(name), session.get_account(name), remaining)
    if since:
        version = document["version"] + session.find_refresh(name).count
        document["rows"] = {"version": version, "since": since, "entry": entry}
    return document


def build_table_document(schema: TableSchema, account: Account, remaining: int) -> dict[str, Any]:
    """Return a table's declaration as a document of kind ``siloquent/table/1``.

    Args:
        remaining: The units that may still be spent: less than the account's own if a parent account has less.
    """
    return {
        "schema": "siloquent/table/1",
        "name": schema.name,
        "source": schema.source,
        "version": schema.version,
        "size_hint": schema.size_hint,
        "unit": schema.unit.code,
        "adjacency": schema.adjacency,
        "attributes": [build_attribute_entry(attribute) for attribute in schema.domain],
        "constraints": [build_constraint_entry(constraint) for constraint in schema.constraints],
        "account": build_account_document(account, remaining=remaining, declared=schema.budget),
        "digest": f"sha256:{schema.digest}",
    }


def build_change_entries(changes: Sequence[DeclarationChange]) -> list[dict[str, str]]:
    """Return changes of a declaration, each with its class and the sentence that a check has about it."""
    from siloquent.schema.changes import describe_change  # it loads numpy, which help does not need

    return [{"class": one.effect, "sentence": describe_change(one)} for one in changes]


def build_attribute_entry(attribute: Attribute) -> dict[str, Any]:
    """Return one attribute as the document of its table has it, its domain in words."""
    countable = attribute.kind not in ("id", "text")
    return {
        "name": attribute.name,
        "type": attribute.kind,
        "values": _describe_values(attribute),
        "cells": attribute.size if countable else None,
        "outside": attribute.other if attribute.kind == "category" else attribute.outside if countable else "",
        "null": _describe_null(attribute) if countable else "",
        "labels": [{"value": value, "label": label} for value, label in attribute.labels],
    }


def _describe_values(attribute: Attribute) -> str:
    """Describe the declared values in words, with their labels."""
    told = [f"{format_label(value)} = {format_label(label)}" for value, label in attribute.labels[:MAX_VALUES]]
    more = len(attribute.labels) - MAX_VALUES
    told += [f"and {more} more"] if more > 0 else []
    return _describe_domain(attribute) + (f" ({', '.join(told)})" if told else "")


def _describe_domain(attribute: Attribute) -> str:
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


def build_constraint_entry(constraint: Any) -> dict[str, Any]:
    """Return one constraint as the document of its table has it; foreign keys always hold."""
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


def build_check_document(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return checks of tables as a document of kind ``siloquent/check/1``."""
    return {
        "schema": "siloquent/check/1",
        "clean": all(report["clean"] for report in reports),
        "tables": list(reports),
    }


def build_refresh_document(report: RefreshReport) -> dict[str, Any]:
    """Return a replacement of a table's rows as a document of kind ``siloquent/refresh/1``."""
    return {"schema": "siloquent/refresh/1", **report.to_json()}


def _price_samples(session: Session, name: str) -> list[dict[str, Any]]:
    """Return a few questions that an analyst could ask, each with its price and the part of what is left.

    Of each, the smallest error that takes a twentieth of it at most, or else a quarter.
    """
    from siloquent.explore import list_sample_questions

    found = []
    for wordings in list_sample_questions(session.schema(name)):
        priced = [one for text in wordings if (one := _price_sample(session, text)) is not None]
        fitting = (one for most in AFFORDABLE for one in priced if one["share"] <= most)
        found += [one] if (one := next(fitting, None)) is not None else []
    return found


def _price_sample(session: Session, text: str) -> dict[str, Any] | None:
    from siloquent.explore import Explanation

    with suppress(SiloquentError):
        told = session.explain(text)
        if isinstance(told, Explanation) and told.left_before:
            share = float(told.price / told.left_before)
            return {"query": text, "symbol": told.symbol, "price": str(told.price), "share": share}
    return None


def build_check_report(session: Session, name: str, *, alone: bool, language: FixLanguage = PYTHON) -> dict[str, Any]:
    """Build the owner's check of one table, for a document of kind ``siloquent/check/1``.

    If all tables are checked (not ``alone``), one that cannot be opened does not hide the others.
    """
    try:
        return {**session.check(name).to_json(), "questions": _price_samples(session, name)}
    except SiloquentError as wrong:
        if alone:
            raise
        finding = {
            "kind": wrong.code,
            "subject": "declaration",
            "count": 1,
            "sentence": wrong.detail,
            "fix": build_problem(wrong).translate(language).fix,
            "problem": True,
        }
        return {"table": name, "rows": None, "counted": None, "clean": False, "findings": [finding]}
