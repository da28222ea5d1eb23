"""Declarations that a ledger records of a table, and what today's means beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siloquent.ledger.backends.storage import DECLARATION
from siloquent.schema.changes import (
    FILE,
    TABLE,
    DeclarationChange,
    changes_rows,
    compare_declarations,
    list_differences,
    means_the_same,
)

if TYPE_CHECKING:
    from siloquent.ledger.base import Account, Entry, Ledger

REFRESH = "refresh"
EVERYTHING = 2**62
"""Later than any entry: no earlier answer is about the rows that count now."""
_MAX_TOLD = 3
_UNTOLD = ("the source", "the way to its unit")
"""Changes told without what was and is: analysts see no paths."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """The newest replacement of a table's rows: its entry and time, and the number of replacements so far."""

    seq: int = 0
    at: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """A recorded table file: its digest and version, and why a request means something else there."""

    digest: str
    version: int
    differs: str


@dataclass(slots=True)
class _Known:
    """The recorded declarations of one account and table, read up to entry ``read``; all else follows from them.

    ``files``: the newest under each digest of the table file. ``replaced``: the entries at which other rows came to
    count, with their times: refreshes and new versions.
    """

    read: int = 0
    since: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    refreshes: list[Refresh] = field(default_factory=list)
    replaced: list[tuple[int, str]] = field(default_factory=list)


class RecordedDeclarations:
    """The declarations that a ledger records, read once for each account and table, then only additions.

    Several tables may share an account: then a declaration names its table. ``table`` is empty for other accounts.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[tuple[str, str], _Known] = {}

    def find_changes(self, account: Account, today: Mapping[str, Any]) -> tuple[DeclarationChange, ...]:
        """Return the changes since the newest declaration recorded for ``account``, or at least of its settings."""
        settings = {name: getattr(account, name) for name in ("unit", "adjacency", "accountant")}
        recorded = self._read(account.name, _get_table(today)).last
        return compare_declarations({**recorded, **settings} if recorded else settings, today)

    def find_rows_since(self, account: str, today: Mapping[str, Any]) -> int:
        """Return the newest entry before which other rows counted: earlier answers must not be drawn from."""
        known = self._read(account, _get_table(today))
        if known.last and changes_rows(compare_declarations(known.last, today)):
            return EVERYTHING
        return known.since

    def find_refresh(self, account: str, before: int = EVERYTHING, *, table: str = "") -> Refresh:
        """Return the newest replacement of the rows of ``account`` before entry ``before``."""
        return next((one for one in reversed(self._read(account, table).refreshes) if one.seq < before), Refresh())

    def find_replacement(self, account: str, seq: int, *, table: str = "") -> str:
        """Return when other rows first came to count after entry ``seq``, as far as recorded; empty: never."""
        return next((at for entry, at in self._read(account, table).replaced if entry > seq), "")

    def find_rows_start(self, account: str, *, table: str = "") -> tuple[int, str]:
        """Return the entry and the time since when the rows of ``account`` count; (0, ""): as first declared."""
        return next(reversed(self._read(account, table).replaced), (0, ""))

    def record(self, account: str, today: Mapping[str, Any]) -> None:
        """Record ``today`` unless it is what was recorded last."""
        if self._read(account, _get_table(today)).last != dict(today):
            self._ledger.declare(account, today)

    def list_tables(self, account: str) -> list[str]:
        """Return the tables that share ``account`` and were declared there, newest first."""
        found = (_get_table(one.body[DECLARATION]) for one in reversed(self._ledger.list_declarations(account)))
        return [name for name in dict.fromkeys(found) if name]

    def get_file(self, account: str, digest: str, *, table: str = "") -> Mapping[str, Any] | None:
        """Return the newest declaration recorded with this digest of the table file; None if there is none."""
        return self._read(account, table).files.get(digest)

    def compare_files(
        self, account: str, declared: Mapping[str, Any], columns: Collection[str] | None, also: Sequence[str]
    ) -> list[ComparedFile]:
        """Compare the recorded table files with ``declared``, newest first.

        Args:
            columns: The columns that a request reads, as for ``means_the_same``; also ``also``.
        """
        recorded = reversed(self._read(account, _get_table(declared)).files.items())
        return [
            ComparedFile(file, int(one.get("version", 1)), _describe_differences(one, declared, columns, also))
            for file, one in recorded
        ]

    def _read(self, account: str, table: str) -> _Known:
        head = self._ledger.read_head().seq
        known = self._known.setdefault((account, table), _Known())
        if head < known.read:  # the ledger was replaced by an older copy
            known = self._known[account, table] = _Known()
        if head > known.read:
            found = self._ledger.list_declarations(account, known.read)
            for entry in (one for one in found if one.seq <= head and _get_table(one.body[DECLARATION]) == table):
                _add(known, entry)
            known.read = head
        return known


def _get_table(declaration: Mapping[str, Any]) -> str:
    return str(declaration.get(TABLE, ""))


def _describe_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], columns: Collection[str] | None, also: Sequence[str]
) -> str:
    """Return why a request means something else; empty if it means the same."""
    if means_the_same(before, after, columns, also):
        return ""
    found = [
        f"{one.subject} has changed" if one.subject in _UNTOLD else one.describe()
        for one in list_differences(before, after, columns, also)
    ]
    return "; ".join(found[:_MAX_TOLD]) + "; ..." * (len(found) > _MAX_TOLD) or "not all of it was recorded"


def _add(known: _Known, entry: Entry) -> None:
    declaration = entry.body[DECLARATION]
    changes = compare_declarations(known.last, declaration) if known.last else ()
    if entry.kind == REFRESH:
        known.refreshes.append(Refresh(entry.seq, entry.at, len(known.refreshes) + 1))
    if entry.kind == REFRESH or changes_rows(changes):
        known.since = entry.seq
    if entry.kind == REFRESH or any(one.effect == "new version" for one in changes):
        known.replaced.append((entry.seq, entry.at))
    known.last = declaration
    if FILE in declaration:
        known.files[str(declaration[FILE])] = declaration
