"""Releases of keys in the ledger and in domain files: which are lost, and which files say something else.

The ledger is what was released. A domain file is its copy, which anyone with the workspace's folder can edit or remove.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.discover.release import propose_bounds, read_bounds, read_keys
from siloquent.discover.spec import DiscoverSpec, KeysSpec
from siloquent.errors import SiloquentError, UnknownName
from siloquent.fixes import Fix, build_fix
from siloquent.schema.domains import LostDomains, list_domain_files, read_domain, suggest_restoring

if TYPE_CHECKING:
    from siloquent.ledger import Ledger, SettledAnswer
    from siloquent.ledger.base import Receipt
    from siloquent.schema import Attribute, TableSchema
    from siloquent.session import WorkspaceSession

DOMAIN = "released domain"
"""The kind of the ``UnknownName`` that a missing domain file causes."""


@dataclass(frozen=True, slots=True)
class DomainFault:
    """A domain file that does not hold what the ledger says was released."""

    name: str
    sentence: str
    fix: Fix


def compute_digests(
    session: WorkspaceSession, account: str, schema: TableSchema, spec: DiscoverSpec
) -> tuple[str, str]:
    """Return the digest that a key is bound to, of what the measurement depends on; and the one of earlier versions.

    The declaration of the column may change afterwards, to use what was found, and the key still gives the release.
    Earlier versions left out the source and how it is read.
    """
    whole = [session.analyst or "", account, spec.canonical(), schema.unit.code, schema.adjacency, schema.version]
    rows = [schema.source, "" if schema.reading.is_plain else schema.reading.digest().hex()]
    texts = (json.dumps(one, ensure_ascii=False) for one in ([*whole, *rows], whole))
    now, earlier = (hashlib.sha256(text.encode()).hexdigest() for text in texts)
    return now, earlier


def load_declaration(session: WorkspaceSession, table: str) -> TableSchema:
    """Return the declaration of ``table``, even if a released domain that it uses is lost.

    Raises:
        As ``session.schema``, but for lost domains.
    """
    try:
        return session.schema(table)
    except UnknownName as unknown:
        if unknown.kind != DOMAIN:
            raise
    from siloquent.schema.build import parse_schema

    text = session.workspace.get_schema_file(table).read_text(encoding="utf-8")
    return parse_schema(text, LostDomains(session.workspace.folder))


def find_lost_release(
    session: WorkspaceSession, schema: TableSchema, asked: DiscoverSpec | str
) -> SettledAnswer | None:
    """Return the newest release of keys in the ledger that no domain file holds; None if there is none.

    Args:
        asked: The discovery that made it, or a column: then the newest of any discovery.
    """
    if not isinstance(asked, (str, KeysSpec)):
        return None
    shares = {name for name, _ in schema.budget.shares}
    account = f"{schema.account}/{session.analyst}" if session.analyst in shares else schema.account
    column, keys = asked if isinstance(asked, str) else asked.column, None
    try:
        if isinstance(asked, KeysSpec):
            digests = compute_digests(session, account, schema, asked)
            entries = session.ledger.iter_entries(account=account)
            keys = {one.body["key"] for one in entries if one.kind == "reserve" and one.body.get("digest") in digests}
        if keys == set():
            return None
        kept = dict(_iter_readable(session.workspace.folder, session.ledger.id))
        lost = None
        for answer in session.ledger.iter_answers(account):
            if answer.account != account or (keys is not None and answer.key not in keys):
                continue
            found = read_keys(answer.payload)
            if found is None or found[:2] != (schema.name, column) or not found[2]:
                continue
            if kept.get(answer.receipt.seq) == found:
                continue
            if isinstance(asked, str) or _is_about_current_rows(session, schema.name, answer.receipt.seq):
                lost = answer  # after new rows the same discovery is measured again
        return lost
    except UnknownName:  # the account was never opened
        return None


def _is_about_current_rows(session: WorkspaceSession, table: str, seq: int) -> bool:
    """Return whether no other rows took the place of those of entry ``seq``, as far as is known."""
    try:
        return session.find_rows_of(table, seq) is not None
    except UnknownName as unknown:
        if unknown.kind != DOMAIN:
            raise
        return True  # the table's file uses the lost domain, so its source cannot be compared


def find_discovered_bounds(session: WorkspaceSession, schema: TableSchema) -> dict[str, Receipt]:
    """Return the receipts of the discoveries whose proposed bounds are those declared now, by column; reads no rows."""
    found: dict[str, Receipt] = {}
    accounts = {one.name.partition("/")[0] for one in session.ledger.list_accounts()}
    for account in sorted(one for one in accounts if one.partition("@")[0] == schema.payer):
        for answer in session.ledger.iter_answers(account):
            told = read_bounds(answer.payload)
            if told is None or told[0] != schema.name or told[1] not in schema.domain.names:
                continue
            attribute = schema.domain[told[1]]
            with suppress(SiloquentError, ValueError, ArithmeticError):  # the column is of another type since
                then = replace(attribute, edges=(), **_parse_bounds(attribute, *told[2]))
                if propose_bounds(answer.payload, then) == _list_declared(attribute):
                    found[attribute.name] = answer.receipt
    return found


def _parse_bounds(attribute: Attribute, lo: str, hi: str, grid: str) -> dict[str, Any]:
    read = datetime.fromisoformat if attribute.kind in ("date", "datetime") else Decimal
    return {"lo": read(lo), "hi": read(hi), "grid": None if grid == "None" else Decimal(grid)}


def _list_declared(attribute: Attribute) -> tuple[object, object]:
    """Return the bounds as a proposal has them: days are days."""
    if attribute.kind == "date":
        assert isinstance(attribute.lo, datetime)
        assert isinstance(attribute.hi, datetime)
        return attribute.lo.date(), attribute.hi.date()
    return attribute.lo, attribute.hi


def find_domain_faults(folder: Path, ledger: Ledger) -> list[DomainFault]:
    """Compare every domain file in the workspace in ``folder`` with the ledger."""
    return [fault for file in list_domain_files(folder) if (fault := find_domain_fault(file, ledger))]


def find_domain_fault(file: Path, ledger: Ledger) -> DomainFault | None:
    """Return the fault of one domain file; None if it holds what was released."""
    name = file.stem
    where = f"domains/{name}.toml"
    try:
        domain = read_domain(file)
    except SiloquentError as wrong:
        return DomainFault(name, f"{where}: {wrong.detail}", build_fix(f"remove {where}, then discover again"))
    again = build_fix(f"move {where} away, then: ", suggest_restoring(domain.table, domain.column, name))
    if domain.entry is None or domain.ledger != ledger.id:
        what = "has no receipt" if domain.entry is None else "names another ledger"
        return DomainFault(name, f"{where} {what}: this workspace never released its values.", again)
    answers = ledger.iter_answers(domain.account, after_seq=domain.entry - 1)
    try:
        answer = next(islice(answers, 1), None)
    except UnknownName:
        answer = None
    found = None if answer is None or answer.receipt.seq != domain.entry else read_keys(answer.payload)
    if found is None or answer is None or answer.receipt.hash != domain.hash:
        return DomainFault(name, f"{where} names entry {domain.entry}, which released no such values.", again)
    if found == (domain.table, domain.column, domain.values):
        return None
    more, fewer = set(domain.values) - set(found[2]), set(found[2]) - set(domain.values)
    said = f"{len(more):,} more and {len(fewer):,} fewer values" if more or fewer else "another table, column or order"
    return DomainFault(name, f"{where} was edited: it has {said} than entry {domain.entry} released.", again)


def _iter_readable(folder: Path, ledger: str) -> Iterator[tuple[int, tuple[str, str, tuple[str, ...]]]]:
    """Yield entry, and table, column and values, of each domain file that names an entry of ``ledger``."""
    for file in list_domain_files(folder):
        try:
            domain = read_domain(file)
        except SiloquentError:
            continue
        if domain.entry is not None and domain.ledger == ledger:
            yield domain.entry, (domain.table, domain.column, domain.values)
