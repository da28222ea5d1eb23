"""The report for a data protection officer: declarations of private tables, who may ask and what was spent.

The document is built from declarations and the ledger; no row is read. Text and HTML are made of its sections alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from siloquent.documents.ledger import (
    build_account_document,
    format_account_share,
    format_delta_left,
    format_exact_amount,
    format_told_amount,
)
from siloquent.documents.tables import build_attribute_entry, build_constraint_entry
from siloquent.errors import SiloquentError
from siloquent.explore.answered_rows import describe_current_rows, format_minute
from siloquent.schema.formats.reading import PLAIN_READING
from siloquent.schema.formats.value_formats import PLAIN_FORMAT, ValueFormat

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.ledger import Entry
    from siloquent.schema import Attribute, TableSchema
    from siloquent.schema.formats.reading import Reading

REVEALS: Mapping[str, str] = {
    "id": "nothing itself: it tells whose row it is, and nothing can be grouped by it",
    "text": "its length; its values only by a charged discovery of those that many share",
    "category": "how many rows have each declared value",
    "boolean": "how many rows are true and false",
    "integer": "counts, sums, averages and quantiles of numbers within its bounds",
    "real": "counts, sums, averages and quantiles of numbers within its bounds",
    "date": "counts and quantiles of days within its bounds",
    "datetime": "counts and quantiles of moments within its bounds",
}
"""The facts that answers tell of a column of each type, always with noise and for groups, never for a person."""
EVERYBODY = "every analyst who has access"


@dataclass(slots=True)
class _Charges:
    """The charges to one account: their number, the refused ones and the time of the last."""

    charges: int = 0
    refused: int = 0
    last: str = ""


def build_report_document(
    session: Session, tables: Sequence[str], people: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return a report on ``tables`` as a document of kind ``siloquent/protection-report/1``.

    Args:
        people: The accounts of a server: ``name``, ``role``, ``tables`` (none named: all) and ``until``.
    """
    head = session.ledger.read_head()
    charges = _count_charges(session.ledger.iter_entries())
    known = list(people)
    return {
        "schema": "siloquent/protection-report/1",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "ledger": {"id": session.ledger.id, "entries": head.seq, "hash": head.hash},
        "tables": [_build_table(session, name, charges, known) for name in tables],
    }


def _count_charges(entries: Iterable[Entry]) -> dict[str, _Charges]:
    found: dict[str, _Charges] = {}
    for entry in entries:
        if entry.kind in ("reserve", "deny"):
            counted = found.setdefault(str(entry.body["account"]), _Charges())
            if entry.kind == "reserve":
                counted.charges, counted.last = counted.charges + 1, entry.at
            else:
                counted.refused += 1
    return found


def _build_table(
    session: Session, name: str, charges: Mapping[str, _Charges], people: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Build one table's part; a table whose file or account is in disorder says so, with what is known."""
    from siloquent.discover.kept import load_declaration

    part: dict[str, Any] = {"table": name, "problem": ""}
    try:
        schema = load_declaration(session, name) if name in session.workspace.list_table_names() else None
        schema = schema or session.schema(name)
    except SiloquentError as wrong:
        return {**part, "problem": wrong.detail, "accounts": _build_accounts(session, name, None, charges)}
    try:
        session.get_account(name)
    except SiloquentError as wrong:
        part["problem"] = wrong.detail
    entry, since = session.find_rows_start(name) if not part["problem"] else (0, "")
    origins = _find_origins(session, schema)
    version = schema.version + (session.find_refresh(name).count if entry else 0)
    return {
        **part,
        "source": schema.source or "a frame in Python",
        "reading": [{"setting": key, "value": value} for key, value in describe_reading(schema.reading)],
        "rows": {"version": version, "since": since, "size_hint": schema.size_hint},
        "unit": schema.unit.description,
        "adjacency": schema.adjacency,
        "columns": [_build_column(one, origins.get(one.name)) for one in schema.domain],
        "constraints": [one["text"] for one in map(build_constraint_entry, schema.constraints)],
        "budget": str(schema.budget),
        "epoch": schema.budget.epoch,
        "who": _list_people(schema, people),
        "accounts": _build_accounts(session, name, schema, charges),
    }


def _build_column(attribute: Attribute, origin: dict[str, Any] | None) -> dict[str, Any]:
    entry = build_attribute_entry(attribute)
    derived = f"; computed from {attribute.argument} by {attribute.function}" if attribute.function else ""
    return {
        **{key: entry[key] for key in ("name", "type", "values", "outside", "null")},
        "reveals": REVEALS[attribute.kind] + derived,
        "origin": origin or {"kind": "declared", "domain": "", "entry": None, "hash": "", "problem": ""},
    }


def _find_origins(session: Session, schema: TableSchema) -> dict[str, dict[str, Any]]:
    """Return, for columns whose values or bounds a discovery found, its receipt and whether the ledger confirms it."""
    from siloquent.discover.kept import find_discovered_bounds, find_domain_fault
    from siloquent.schema.domains import get_domain_file, map_used_domains, read_domain
    from siloquent.schema.files.toml import read_toml

    found: dict[str, dict[str, Any]] = {
        column: {"kind": "bounds", "domain": "", "entry": receipt.seq, "hash": receipt.hash, "problem": ""}
        for column, receipt in find_discovered_bounds(session, schema).items()
    }
    if schema.name not in session.workspace.list_table_names():
        return found
    text = session.workspace.get_schema_file(schema.name).read_text(encoding="utf-8")
    for column, name in map_used_domains(read_toml(text)).items():
        file = get_domain_file(session.workspace.folder, name)
        told: dict[str, Any] = {"kind": "released", "domain": name, "entry": None, "hash": "", "problem": ""}
        if not file.is_file():
            found[column] = told | {"problem": f"domains/{name}.toml is missing: the ledger still holds its values."}
            continue
        with suppress(SiloquentError):
            domain = read_domain(file)
            told |= {"entry": domain.entry, "hash": domain.hash}
        fault = find_domain_fault(file, session.ledger)
        found[column] = told | {"problem": "" if fault is None else fault.sentence}
    return found


def _list_people(schema: TableSchema, people: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return who may ask: the declared shares, and the accounts of a server whose questions the table would answer."""
    shares = dict(schema.budget.shares)
    found = [
        {"name": name, "role": "analyst", "share": f"{float(share):.4g} of the budget", "until": ""}
        for name, share in shares.items()
    ]
    if not shares:
        found.append({"name": EVERYBODY, "role": "analyst", "share": "the whole budget", "until": ""})
    for one in people:
        sees = not one["tables"] or schema.name in one["tables"]
        asks = one["role"] == "analyst" and (not shares or one["name"] in shares)
        if sees and (asks or one["role"] in ("owner", "auditor")):
            share = "declares, checks, discovers" if one["role"] == "owner" else ""
            share = share or ("accounts and receipts, no values" if one["role"] == "auditor" else "token of the server")
            found.append({"name": one["name"], "role": one["role"], "share": share, "until": one["until"]})
    return found


def _build_accounts(
    session: Session, name: str, schema: TableSchema | None, charges: Mapping[str, _Charges]
) -> list[dict[str, Any]]:
    """Return the accounts of all epochs, each with what was charged to it and to the shares below it."""
    payer = name if schema is None else schema.payer
    every = {one.name: one for one in session.ledger.list_accounts() if one.name.startswith(f"{payer}@")}
    if schema is not None and schema.account not in every:
        with suppress(SiloquentError):  # its state is told as the table's problem
            every[schema.account] = session.get_account(name)
    found = []
    for account in sorted(every):
        one, counted = every[account], charges.get(account, _Charges())
        declared = schema.budget if schema is not None and account == schema.account else None
        whole = build_account_document(one, declared=declared)
        found.append(
            {
                "account": account,
                "symbol": whole["symbol"],
                "limit": whole["limit"],
                "spent": format_exact_amount(one, one.spent.amount),
                "left": whole["left"],
                "share": format_account_share(whole, "spent") if declared else format_told_amount(whole, "spent"),
                "delta_left": format_delta_left(whole),
                "charges": counted.charges,
                "refused": counted.refused,
                "last": counted.last,
                "closed": bool(one.successor),
            }
        )
    return found


def describe_reading(reading: Reading) -> list[tuple[str, str]]:
    """Return the settings of how a source is read that differ from the usual ones, in words."""
    told = [
        (name, _format_setting(getattr(reading, name)))
        for name in ("encoding", "delimiter", "quote", "skip", "names", "member")
        if getattr(reading, name) != getattr(PLAIN_READING, name)
    ]
    told += _list_formats(reading.values, PLAIN_FORMAT, "")
    for column, own in reading.columns:
        told += _list_formats(own, reading.values, f" of {column}")
    return told


def _list_formats(own: ValueFormat, usual: ValueFormat, where: str) -> list[tuple[str, str]]:
    names = [name for name in ValueFormat.__dataclass_fields__ if getattr(own, name) != getattr(usual, name)]
    return [(f"{name.replace('_', ' ')}{where}", _format_setting(getattr(own, name))) for name in names]


def _format_setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "none"


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the report: facts by label, and tables with a caption, headings and rows of text."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...] = field(default_factory=tuple)


def list_sections(document: Mapping[str, Any]) -> list[ReportSection]:
    """Return the sections of a report: the ledger's first, then one for each table."""
    ledger = document["ledger"]
    first = ReportSection(
        "Report on declared tables",
        (
            ("written", format_minute(document["at"])),
            ("ledger", f"{ledger['id']}, {ledger['entries']:,} entries, head {ledger['hash'][:16]}"),
            ("rows", "none were read for this report"),
        ),
    )
    return [first, *map(_list_table_section, document["tables"])]


def _list_table_section(part: Mapping[str, Any]) -> ReportSection:
    problem = (("problem", part["problem"]),) if part["problem"] else ()
    accounts = (
        "What was spent",
        ("account", "spent", "limit", "left", "charges", "refused", "last"),
        _rows_spent(part),
    )
    if "columns" not in part:
        return ReportSection(part["table"], problem, (accounts,))
    rows, hidden = part["rows"], "added or removed" if part["adjacency"] == "add-remove" else "replaced by another"
    reading = ", ".join(f"{one['setting']}: {one['value']}" for one in part["reading"]) or "as usual"
    size = f"about {rows['size_hint']:,} (public)" if rows["size_hint"] else "size not public"
    since = describe_current_rows(rows["version"], rows["since"]) if rows["since"] else "as first declared"
    facts = (
        *problem,
        ("source", part["source"]),
        ("reading", reading),
        ("rows", f"{size}; {since}"),
        ("what stays hidden", f"whether {part['unit']} is {hidden}"),
        ("budget", f"{part['budget']}, epoch {part['epoch']}"),
        *(("rule declared", rule) for rule in part["constraints"]),
    )
    columns = tuple(
        (one["name"], one["type"], one["values"], _describe_null(one), one["reveals"], describe_origin(one["origin"]))
        for one in part["columns"]
    )
    people = tuple((one["name"], one["role"], one["share"], one["until"]) for one in part["who"])
    return ReportSection(
        part["table"],
        facts,
        (
            ("Columns", ("column", "type", "domain", "otherwise", "answers reveal", "domain from"), columns),
            ("Who may ask", ("name", "role", "what", "until"), people),
            accounts,
        ),
    )


def _describe_null(column: Mapping[str, Any]) -> str:
    told = [f"outside: {column['outside']}"] if column["outside"] else []
    return "; ".join([*told, *([f"NULL: {column['null']}"] if column["null"] else [])])


def describe_origin(origin: Mapping[str, Any]) -> str:
    """Describe where a column's domain came from."""
    if origin["kind"] == "declared":
        return "declared by the owner"
    receipt = f"entry {origin['entry']}, {origin['hash'][:16]}" if origin["entry"] is not None else "no receipt"
    told = f"a discovery: {'its bounds' if origin['kind'] == 'bounds' else origin['domain']}, {receipt}"
    return f"{told}. {origin['problem']}" if origin["problem"] else told


def _rows_spent(part: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            one["account"] + (" (closed)" if one["closed"] else ""),
            one["share"],
            format_told_amount(one, "limit"),
            ", ".join(filter(None, (format_told_amount(one, "left"), one["delta_left"]))),
            f"{one['charges']:,}",
            f"{one['refused']:,}",
            format_minute(one["last"]) if one["last"] else "never",
        )
        for one in part["accounts"]
    )
