"""The sections of a table file as they are meant: unit, source, budget and shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches

from siloquent.schema.files.amounts import mend_amount
from siloquent.schema.mending.columns import Entry, choose_word, read_number, rename_keys
from siloquent.schema.table import SOURCE_KINDS

TABLE_KEYS = ("name", "source", "adjacency", "version", "size_hint", "unit")
BUDGET_KEYS = (
    "accountant",
    "epsilon",
    "rho",
    "delta",
    "delta_events",
    "epoch",
    "analysts",
    "sharing",
    "reuse",
    "disclosures",
)
CONSTRAINT_KEYS = ("kind", "lhs", "rhs", "when", "hard", "weight", "source", "not", "columns", "references")


def mend_table(raw: object, names: Mapping[str, str]) -> Entry:
    """Return the section ``[table]`` as it is meant; ``names``: the attributes' types by name."""
    entry = rename_keys(raw, TABLE_KEYS) if isinstance(raw, dict) else {}
    name = re.sub(r"\W+", "_", str(entry.get("name") or "")).strip("_")[:64]
    entry["name"] = name if name.isidentifier() else f"t_{name}"[:64]
    entry["adjacency"] = choose_word(
        entry.get("adjacency"), ("add-remove", "replace-one"), "add-remove", key="adjacency"
    )
    for key in ("version", "size_hint"):
        if key in entry and (type(entry[key]) is not int or entry[key] < 1):
            number = read_number(entry[key])
            if number is not None and number >= 1:
                entry[key] = int(number)
            else:
                del entry[key]
    if "source" in entry:
        source = entry["source"][0] if isinstance(entry["source"], list) and entry["source"] else entry["source"]
        entry["source"] = _mend_source(str(source))
    entry["unit"] = _mend_unit(entry.get("unit"), names)
    return {key: entry[key] for key in TABLE_KEYS if key in entry}


def _mend_source(source: str) -> str:
    kind, colon, place = source.partition(":")
    if colon and kind in SOURCE_KINDS:
        return source
    if colon and (near := get_close_matches(kind.casefold(), SOURCE_KINDS, n=1)):
        return f"{near[0]}:{place}"
    path = place if colon else source
    if path.lower().endswith((".xlsx", ".xlsm")):
        return f"xlsx:{path}"
    return f"parquet:{path}" if path.endswith((".parquet", ".pq")) else f"csv:{re.sub(r'[.]xls$', '.csv', path)}"


def _mend_unit(raw: object, names: Mapping[str, str]) -> Entry:
    """Return the unit that is meant. Where a person is meant but no column can name one, it stays as it is.

    A row is never proposed for a person: what one person adds would no longer be hidden.
    """
    ids = [name for name, type_ in names.items() if type_ == "id"]
    if raw is None:
        return {"kind": "user", "column": ids[0], "max_rows": 1} if ids else {"kind": "row"}
    entry = rename_keys(raw, ("kind", "column", "max_rows")) if isinstance(raw, dict) else {"kind": raw}
    kind = choose_word(entry.get("kind"), ("row", "user"), "user" if entry.get("column") or ids else "row", key="kind")
    if kind == "row" and not entry.get("column"):
        return {"kind": "row"}
    said = str(entry.get("column") or "")
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(said.casefold(), folded, n=1)
    column = said if said in names else folded[near[0]] if near else next(iter(ids), "")
    number = read_number(entry.get("max_rows", 1))
    rows = int(number) if number is not None and 1 <= number <= 10**6 else 1
    return {"kind": "user", "column": column, "max_rows": rows}


def mend_budget(raw: object) -> Entry:
    """Return the section ``[budget]`` as it is meant."""
    entry = rename_keys(raw, BUDGET_KEYS) if isinstance(raw, dict) else {}
    wants = "zcdp" if {"rho", "delta", "delta_events"} & set(entry) else "pure"
    entry["accountant"] = choose_word(entry.get("accountant", wants), ("pure", "zcdp"), wants, key="accountant")
    _mend_amounts(entry)
    epoch = entry.get("epoch", 1)
    if type(epoch) is not int or epoch < 1:
        entry["epoch"] = 1
    if "analysts" in entry:
        _mend_shares(entry)
    for key, allowed in (("sharing", ("pool", "own")), ("reuse", ("fresh-or-simultaneous", "any", "none"))):
        if key in entry:
            entry[key] = choose_word(entry[key], allowed, allowed[0])
    if entry.get("sharing") == "own" and not entry.get("analysts"):
        del entry["sharing"]
    if "disclosures" in entry and not isinstance(entry["disclosures"], bool):
        entry["disclosures"] = False
    return {key: entry[key] for key in BUDGET_KEYS if key in entry}


def _mend_amounts(entry: Entry) -> None:
    """Make epsilon or rho, and delta, amounts that the accountant takes; one with a delta or rho is zCDP."""
    amounts = {key: mend_amount(entry.get(key)) for key in ("epsilon", "rho", "delta", "delta_events") if key in entry}
    if amounts.get("delta") or amounts.get("rho"):
        entry["accountant"] = "zcdp"
    pure = entry["accountant"] == "pure"
    if "rho" in amounts and not pure and "epsilon" not in entry:
        entry["rho"] = amounts["rho"] or "0.1"
    else:
        entry.pop("rho", None)
        entry["epsilon"] = amounts.get("epsilon") or "1"
    if pure:
        entry.pop("delta", None)
        entry.pop("delta_events", None)
        return
    delta, events = amounts.get("delta"), amounts.get("delta_events")
    entry["delta"] = delta if delta and 0 < Decimal(delta) < 1 else "1e-6"
    if "delta_events" in entry and not (events and Decimal(events) < Decimal(entry["delta"])):
        del entry["delta_events"]


def _mend_shares(entry: Entry) -> None:
    raw = entry["analysts"]
    listed = raw if isinstance(raw, dict) else dict.fromkeys(map(str, raw), "0.5") if isinstance(raw, list) else {}
    shares = {name: mend_amount(share) or "0.5" for name, share in listed.items()}
    entry["analysts"] = {name: share if Decimal(share) <= 1 else "1" for name, share in shares.items()}
    if not entry["analysts"]:
        del entry["analysts"]
