"""Ledger storage in SQL tables: the same statements for SQLite and PostgreSQL, through SQLAlchemy Core.

Running totals are stored in ``account``; entries are never summed, so a charge costs the same at any age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import DBAPIError

from siloquent.errors import ChainBroken
from siloquent.fixes import run
from siloquent.ledger.backends.storage import (
    ANSWER_PAGE,
    DECLARATION,
    PAGE,
    AnswerRow,
    EntryRow,
    PermitRow,
    split_account_path,
)
from siloquent.ledger.base import Account, Head
from siloquent.ledger.chain import AccountsHash, compute_genesis_hash
from siloquent.privacy.accountants import Cost

FORMAT = 1

# SQLite's STRICT tables know no other names for integers; a value of another type is refused there.
_SMALL = sa.SmallInteger().with_variant(sa.Integer(), "sqlite")
_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_YES_NO = sa.Boolean().with_variant(sa.Integer(), "sqlite")

metadata = sa.MetaData()
LEDGER = sa.Table(
    "ledger",
    metadata,
    sa.Column("one", _SMALL, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sqlite_strict=True,
)
ACCOUNT = sa.Table(
    "account",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("parent", sa.Text, sa.ForeignKey("account.name")),
    sa.Column("accountant", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("adjacency", sa.Text, nullable=False),
    sa.Column("limit_amount", _WHOLE, nullable=False),
    sa.Column("limit_delta", _WHOLE, nullable=False),
    sa.Column("spent_amount", _WHOLE, nullable=False),
    sa.Column("spent_delta", _WHOLE, nullable=False),
    sa.Column("disclosures", _YES_NO, nullable=False),
    sa.Column("successor", sa.Text),
    sa.CheckConstraint("0 <= spent_amount AND spent_amount <= limit_amount", name="amount_within_limit"),
    sa.CheckConstraint("0 <= spent_delta AND spent_delta <= limit_delta", name="delta_within_limit"),
    sqlite_strict=True,
)
ENTRY = sa.Table(
    "entry",
    metadata,
    sa.Column("seq", _WHOLE, primary_key=True, autoincrement=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("prev", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Index("entry_account", "account", "seq"),
    sqlite_strict=True,
)
PERMIT = sa.Table(
    "permit",
    metadata,
    sa.Column("seq", _WHOLE, primary_key=True, autoincrement=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False),
    sqlite_strict=True,
)
ANSWER = sa.Table(
    "answer",
    metadata,
    sa.Column("seq", _WHOLE, primary_key=True, autoincrement=False),
    sa.Column("permit", _WHOLE, nullable=False, unique=True),
    sa.Column("table", sa.Text, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Index("answer_table", "table", "seq"),
    sqlite_strict=True,
)
KEPT_FOR_EVER = (LEDGER, ENTRY, PERMIT, ANSWER)
"""Tables whose rows are never changed or removed; triggers in each database enforce this."""

_LARGEST = 2**63 - 1
_NO_TEXT = "Could not decode to UTF-8"
_as_written = partial(str, encoding="utf-8", errors="surrogateescape")
"""A text column that passes invalid bytes through; readers check them, since decoding all would double the time."""

# Built once, so that SQLAlchemy finds their compiled text at once.
_NEWEST = select(ENTRY).order_by(ENTRY.c.seq.desc()).limit(1)
_ACCOUNTS = select(ACCOUNT).order_by(ACCOUNT.c.name)
_ACCOUNT_OF = select(ACCOUNT).where(ACCOUNT.c.name == bindparam("name"))
_PERMIT_OF_KEY = select(PERMIT).where(PERMIT.c.key == bindparam("key"))
_PERMIT_OF_SEQ = select(PERMIT).where(PERMIT.c.seq == bindparam("seq"))
_ANSWER_OF = select(ANSWER).where(ANSWER.c.permit == bindparam("permit"))
_ENTRY_OF = select(ENTRY).where(ENTRY.c.seq == bindparam("seq"))
_TWO = select(ENTRY).where(ENTRY.c.seq.in_((bindparam("seq"), bindparam("next")))).order_by(ENTRY.c.seq)
_ENTRIES = select(ENTRY).where(ENTRY.c.seq > bindparam("after")).order_by(ENTRY.c.seq).limit(PAGE)
_TREE = _ENTRIES.where(
    (ENTRY.c.account == bindparam("tree")) | ENTRY.c.account.startswith(bindparam("shares"), autoescape=False)
)
# In a JSON text within the body, quotes are escaped: only the field itself matches.
_DECLARATIONS = (
    select(ENTRY)
    .where(ENTRY.c.account == bindparam("account"), ENTRY.c.seq > bindparam("after"))
    .where(ENTRY.c.body.contains(f'"{DECLARATION}":', autoescape=False))
    .order_by(ENTRY.c.seq)
)
_PERMITS = select(PERMIT).where(PERMIT.c.seq > bindparam("after")).order_by(PERMIT.c.seq).limit(PAGE)
_ANSWERS = select(ANSWER).where(ANSWER.c.seq > bindparam("after")).order_by(ANSWER.c.seq).limit(ANSWER_PAGE)
_ANSWERS_OF = _ANSWERS.where(ANSWER.c.table == bindparam("table"))
_PUT = sa.update(ACCOUNT).where(ACCOUNT.c.name == bindparam("which"))
_ADD_ACCOUNT, _ADD_ENTRY, _ADD_PERMIT, _ADD_ANSWER = (sa.insert(t) for t in (ACCOUNT, ENTRY, PERMIT, ANSWER))


class _AccountRow(NamedTuple):
    """A row of ``ACCOUNT``, its columns in order."""

    name: str
    parent: str | None
    accountant: str
    unit: str
    adjacency: str
    limit_amount: int
    limit_delta: int
    spent_amount: int
    spent_delta: int
    disclosures: int
    successor: str | None


class SqlStorage:
    """Ledger storage within the transaction of ``connection``."""

    def __init__(self, connection: Connection, ledger: str) -> None:
        self._connection, self._ledger = connection, ledger
        # As this transaction leaves them: there is no other writer meanwhile.
        self._head: Head | None = None
        self._newest: EntryRow | None = None
        self._accounts: dict[str, Any] = {}  # rows of all accounts, once they were hashed
        self._hash: AccountsHash | None = None

    def _fetch_rows(self, statement: sa.Executable, **values: object) -> list[Any]:
        """Return all rows of ``statement``, as the driver returns them.

        SQLAlchemy is bypassed if the driver takes values by position, as SQLite's does: for these short statements it
        takes several times as long as SQLite.
        """
        known = _prepare_statement(statement, self._connection.dialect, tuple(values))
        if known is None:
            result = self._connection.execute(statement, values)
            return list(result.fetchall()) if result.returns_rows else []
        text, ordered = known
        return run_in_driver(self._connection, text, ordered(values))

    def _fetch_row(self, statement: sa.Executable, **values: object) -> Any:
        """Return the one row of ``statement``, or None."""
        return next(iter(self._fetch_rows(statement, **values)), None)

    def get_head(self) -> Head:
        if self._head is None:
            newest = self.find_newest_entry()
            self._head = Head(newest.seq, newest.hash) if newest else Head(0, compute_genesis_hash(self._ledger))
        return self._head

    def find_newest_entry(self) -> EntryRow | None:
        if self._newest is None:
            row = self._fetch_row(_NEWEST)
            self._newest = EntryRow(*row) if row else None
        return self._newest

    def compute_accounts_hash(self) -> str:
        if self._hash is None:
            rows = [_AccountRow._make(row) for row in self._fetch_rows(_ACCOUNTS)]
            self._hash = AccountsHash(self._ledger, ())
            for row in rows:
                self._hash.put_facts(*_list_account_facts(row))
            self._accounts = {row.name: row for row in rows}
        return self._hash.format_hex()

    def list_accounts(self) -> list[Account]:
        # Databases sort text differently; names must have the same order everywhere.
        return sorted(
            (_parse_account(_AccountRow._make(row)) for row in self._fetch_rows(_ACCOUNTS)),
            key=lambda account: account.name,
        )

    def load_account_path(self, name: str) -> list[Account]:
        found = self._accounts
        if self._hash is None:
            rows = (self._fetch_row(_ACCOUNT_OF, name=above) for above in split_account_path(name))
            found = {row[0]: _AccountRow._make(row) for row in rows if row is not None}
        return [_parse_account(found[above]) for above in split_account_path(name)] if name in found else []

    def find_permit(self, *, key: str | None = None, seq: int | None = None) -> PermitRow | None:
        row = self._fetch_row(_PERMIT_OF_KEY, key=key) if key is not None else self._fetch_row(_PERMIT_OF_SEQ, seq=seq)
        return PermitRow(*row) if row else None

    def find_answer(self, permit: int) -> AnswerRow | None:
        row = self._fetch_row(_ANSWER_OF, permit=permit)
        return _parse_answer(row) if row else None

    def find_entry(self, seq: int) -> EntryRow | None:
        row = self._fetch_row(_ENTRY_OF, seq=seq)
        return EntryRow(*row) if row else None

    def load_entry_pair(self, seq: int) -> list[EntryRow]:
        if self._newest is not None and self._newest.seq == seq:
            return [self._newest]
        return _parse_entries(self._fetch_rows(_TWO, seq=seq, next=min(seq + 1, _LARGEST)))

    def add_account(self, account: Account) -> None:
        self._fetch_rows(_ADD_ACCOUNT, **_build_fixed_columns(account), **_build_changing_columns(account))
        self._note(account)

    def put_account(self, account: Account) -> None:
        self._fetch_rows(_PUT, which=account.name, **_build_changing_columns(account))
        self._note(account)

    def _note(self, account: Account) -> None:
        if self._hash is not None:
            self._hash.put(account)
            self._accounts[account.name] = _AccountRow(
                **_build_fixed_columns(account), **_build_changing_columns(account)
            )

    def add_permit(self, permit: PermitRow) -> None:
        self._fetch_rows(_ADD_PERMIT, **permit._asdict())

    def add_answer(self, answer: AnswerRow) -> None:
        self._fetch_rows(_ADD_ANSWER, **answer._asdict())

    def add_entry(self, entry: EntryRow) -> None:
        self._fetch_rows(_ADD_ENTRY, **entry._asdict())
        self._head, self._newest = Head(entry.seq, entry.hash), entry

    def list_entries(self, after: int, tree: str | None = None) -> list[EntryRow]:
        if tree is None:
            return _parse_entries(self._fetch_rows(_ENTRIES, after=after))
        # _ and % in a name would match too much, so the results of LIKE are checked again.
        found: list[EntryRow] = []
        while True:
            page = _parse_entries(self._fetch_rows(_TREE, after=after, tree=tree, shares=f"{tree}/"))
            found += [row for row in page if f"{row.account}/".startswith(f"{tree}/")]
            if found or len(page) < PAGE:
                return found
            after = page[-1].seq

    def list_declarations(self, account: str, after: int) -> list[EntryRow]:
        return _parse_entries(self._fetch_rows(_DECLARATIONS, account=account, after=after))

    def list_permits(self, after: int) -> list[PermitRow]:
        return list(map(_PERMIT_ROW, self._fetch_rows(_PERMITS, after=after)))

    def list_answers(self, after: int, table: str | None = None) -> list[AnswerRow]:
        rows = (
            self._fetch_rows(_ANSWERS, after=after)
            if table is None
            else self._fetch_rows(_ANSWERS_OF, after=after, table=table)
        )
        return [_parse_answer(row) for row in rows]


def run_in_driver(connection: Connection, text: str, given: Sequence[object] = ()) -> list[Any]:
    """Return the rows of a statement that takes ``given`` in order; errors are raised as SQLAlchemy's."""
    driver: Any = connection.connection.dbapi_connection
    errors = driver.Error
    try:
        return list(driver.execute(text, given).fetchall())
    except errors as failed:
        if _NO_TEXT not in str(failed):
            raise DBAPIError.instance(text, given, failed, errors) from failed
        driver.text_factory = _as_written
        return list(driver.execute(text, given).fetchall())


@lru_cache(1_000)
def _prepare_statement(
    statement: sa.Executable, dialect: sa.Dialect, names: tuple[str, ...]
) -> tuple[str, Callable[[Mapping[str, object]], list[object]]] | None:
    """Return the text of ``statement`` and a function that orders its values; None if the driver takes them by name."""
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))  # type: ignore[attr-defined]
    if not compiled.positional:
        return None
    order, fixed = tuple(compiled.positiontup), dict(compiled.params)
    return str(compiled), lambda values: [values[name] if name in values else fixed[name] for name in order]


# Millions of rows are created from these: in C, since the selected columns are theirs.
_ENTRY_ROW: Callable[[Any], EntryRow] = partial(tuple.__new__, EntryRow)
_PERMIT_ROW: Callable[[Any], PermitRow] = partial(tuple.__new__, PermitRow)


def _parse_entries(rows: list[Any]) -> list[EntryRow]:
    return list(map(_ENTRY_ROW, rows))


def _parse_account(row: Any) -> Account:
    texts = (row.name, row.accountant, row.unit, row.adjacency, row.parent or "", row.successor or "")
    if not all(type(text) is str for text in texts) or row.disclosures not in (0, 1):
        raise ChainBroken("An account has values that no ledger writes.", seq=0, fix=run("ledger verify"))
    return Account(
        name=row.name,
        parent=row.parent,
        accountant=row.accountant,
        unit=row.unit,
        adjacency=row.adjacency,
        limit=Cost(row.limit_amount, row.limit_delta),
        spent=Cost(row.spent_amount, row.spent_delta),
        disclosures=bool(row.disclosures),
        successor=row.successor,
    )


def _parse_answer(row: Any) -> AnswerRow:
    # Unchanged: invalid bytes are detected when the row is compared with its entry.
    return AnswerRow(*row)


def _list_account_facts(row: Any) -> tuple[Any, ...]:
    """Return the arguments of ``AccountsHash.put_facts``."""
    texts = (row.name, row.parent, row.accountant, row.unit, row.adjacency, row.successor)
    return (*texts, row.disclosures, row.limit_amount, row.limit_delta, row.spent_amount, row.spent_delta)


def _build_fixed_columns(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "parent": account.parent,
        "accountant": account.accountant,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "disclosures": account.disclosures,
    }


def _build_changing_columns(account: Account) -> dict[str, Any]:
    return {
        "limit_amount": account.limit.amount,
        "limit_delta": account.limit.delta,
        "spent_amount": account.spent.amount,
        "spent_delta": account.spent.delta,
        "successor": account.successor,
    }
