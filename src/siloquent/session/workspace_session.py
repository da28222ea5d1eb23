"""The session behind every task: tables, ledger and analyst; independent of any task."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from siloquent.errors import (
    DataError,
    MissingExtra,
    RequestError,
    SchemaError,
    UnknownName,
)
from siloquent.fixes import FixLike, UseOption, WriteLines, build_fix, run
from siloquent.ledger import Ledger, MemoryLedger
from siloquent.ledger.declared import Refresh
from siloquent.schema import AccuracyDefaults, TableSchema
from siloquent.schema.linked.joins import join_tables
from siloquent.schema.linked.related import add_related
from siloquent.schema.table import PLUS, TILDE, list_tables_of
from siloquent.schema.workspace import Workspace
from siloquent.session.accounts import SessionAccounts
from siloquent.session.earlier_declaration import EarlierDeclaration
from siloquent.session.public_files import PublicFiles, list_public_files, read_public_tables

if TYPE_CHECKING:
    from siloquent.data import CheckReport, PrivateTable
    from siloquent.ledger.marks import SourceMark
    from siloquent.schema.domains import DomainFolder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@runtime_checkable
class SupportsSchema(Protocol):
    """Any object that declares a table, such as the result of ``siloquent.declare``."""

    def to_schema(self) -> TableSchema:
        """Return the finished declaration."""
        ...


class WorkspaceSession(SessionAccounts):
    """One user's view of a workspace: its declared tables, its ledger and the account that is charged.

    Without ``analyst``, the table's own account is charged; with one, that analyst's share and the table's account.
    ``defaults``: the accuracy of questions that state none, before those of tables and of the workspace.
    """

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger,
        *,
        analyst: str | None = None,
        defaults: AccuracyDefaults | None = None,
    ) -> None:
        if analyst is not None and not _NAME.fullmatch(analyst):
            raise RequestError(
                "An analyst's name must be 1 to 64 letters, digits, '_', '.' and '-'.", fix=UseOption("analyst", "ana")
            )
        super().__init__(workspace, ledger, analyst)
        self.defaults = defaults
        self._closed = False
        self._schemas: dict[str, tuple[bytes, TableSchema]] = {}
        self._domains: dict[str, DomainFolder] = {}
        self._joined: dict[str, tuple[TableSchema, list[TableSchema], TableSchema]] = {}
        self._public: dict[str, list[PublicFiles]] = {}
        self._frames: dict[str, tuple[TableSchema, object]] = {}
        self._tables: dict[str, tuple[TableSchema, PrivateTable]] = {}
        self._mark_key: bytes | None = None
        self._marks: dict[tuple[str, str], tuple[bytes, SourceMark]] = {}
        self._earlier: EarlierDeclaration | None = None
        self._views: dict[tuple[str, str, str], Self | None] = {}

    def __repr__(self) -> str:
        return f"Session({str(self.workspace.folder)!r}, analyst={self.analyst!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_defaults(self, table: str, then: TableSchema | None = None) -> AccuracyDefaults | None:
        """Return the accuracy of questions that state none: the session's, the table's or the workspace's.

        Args:
            then: The declaration of the table, if not that of today.
        """
        declared = self.schema(table) if then is None else then
        return self.defaults or declared.defaults or self.workspace.defaults

    def list_tables(self) -> list[str]:
        """Return the names of the declared tables."""
        return sorted({*self.workspace.list_table_names(), *self._frames})

    def schema(self, name: str) -> TableSchema:
        """Return the declaration of table ``name``, reloaded if its file has changed.

        Raises:
            UnknownName: it was never declared (with a suggestion).
            RequestError: the session is closed.
            SchemaError: its file is invalid; the message says where.
        """
        self._require_open()
        if self._earlier is not None and name == self._earlier.name:
            return self._earlier.find()
        if PLUS in name or TILDE in name:
            return self._join(name)
        if name in self._frames:
            return self._frames[name][0]
        text = self._read_table_file(name)
        if name not in self._schemas or self._schemas[name][0] != text or self._is_stale(name):
            from siloquent.schema.build import parse_schema
            from siloquent.schema.domains import DomainFolder

            domains = DomainFolder(self.workspace.folder)
            try:
                schema = parse_schema(text.decode("utf-8"), domains)
            except SchemaError as wrong:
                if not wrong.detail.startswith(("schemas/", "units/")):  # of another file that this one refers to
                    wrong.detail = f"schemas/{name}.toml: {wrong.detail}"
                told = wrong.remedy.map(
                    WriteLines, lambda one: one if one.file else replace(one, file=f"schemas/{name}.toml")
                )
                wrong.remedy = told or build_fix(run("schema", "table-file"))
                raise
            except UnicodeDecodeError:
                raise SchemaError(f"schemas/{name}.toml is not UTF-8.") from None
            if schema.name != name:
                raise SchemaError(f"schemas/{name}.toml declares the table {schema.name!r}.", fix=f'name = "{name}"')
            # Before the rows are read, so that a later edit is noticed.
            public = [PublicFiles.read(path, self.workspace.folder) for path in self._list_public_files(schema)]
            self._schemas[name] = (text, self._add_public_tables(schema))
            self._domains[name] = domains
            self._public[name] = public
        return self._schemas[name][1]

    def iter_earlier(self, name: str) -> Iterator[Self]:
        """Yield this session as of each recorded declaration of table ``name`` that can be restored, newest first.

        A request charged then can be finished there, over today's rows, if these are the same rows. Nothing new is
        charged there.
        """
        if self._earlier is not None:
            return
        today = self.schema(name)
        for file in self.list_files(today):
            place = name, today.digest, file
            if place not in self._views:
                self._views[place] = self._restore_view(name, file)
            view = self._views[place]
            if view is not None:
                yield view

    def _restore_view(self, name: str, file: str) -> Self | None:
        earlier = EarlierDeclaration(self, name, file)
        if not earlier.is_restorable:
            return None
        view = copy.copy(self)
        view._earlier, view._views = earlier, {}
        view._schemas, view._domains, view._public = dict(self._schemas), dict(self._domains), dict(self._public)
        view._joined, view._tables, view._marks, view._described = {}, {}, {}, {}
        return view

    @property
    def earlier(self) -> str:
        """The changes of a declaration since, in a session as of an earlier one; else empty."""
        return "" if self._earlier is None else self._earlier.differs

    def require_current_declaration(self) -> None:
        """Refuse a new charge in a session as of an earlier declaration.

        Raises:
            SchemaError: this is one.
        """
        if self._earlier is not None:
            raise SchemaError(
                f"The declaration of {self._earlier.name!r} has changed since this was planned.", fix="ask again"
            )

    def _read_table_file(self, name: str) -> bytes:
        """Return the file that declares ``name``; the folder is listed only if that file was never read, or is gone."""
        if name in self._schemas:
            with suppress(OSError):
                return (self.workspace.schemas / f"{name}.toml").read_bytes()
        if name not in self.list_tables():
            raise UnknownName("table", name, self.list_tables(), fix=self._suggest_table(name))
        return self.workspace.get_schema_file(name).read_bytes()

    def _join(self, name: str) -> TableSchema:
        """Return the relation ``name`` of linked tables, which a question joins; the same while they are unchanged."""
        base, *others = (self.schema(one) for one in name.split(TILDE if TILDE in name else PLUS))
        known = self._joined.get(name)
        if known is None or known[0] is not base or any(a is not b for a, b in zip(known[1], others, strict=True)):
            relate = add_related if TILDE in name else join_tables
            self._joined[name] = known = (base, others, relate(base, others))
        return known[2]

    def load_epoch_schema(self, name: str, epoch: int) -> TableSchema:
        """Return the declaration of ``name`` in another epoch, if only the epoch's number has changed."""
        from siloquent.schema.domains import DomainFolder, inline_domains
        from siloquent.schema.files.toml import hash_declaration, read_toml

        schema = self.schema(name)
        if name in self._frames:
            return schema
        if PLUS in name or TILDE in name:
            relate, between = (add_related, TILDE) if TILDE in name else (join_tables, PLUS)
            base, *others = (self.load_epoch_schema(one, epoch) for one in name.split(between))
            return relate(base, others)
        text = self.workspace.get_schema_file(name).read_text(encoding="utf-8")
        if schema.unit.kind == "shared":
            from siloquent.schema.build import parse_schema

            return replace(
                parse_schema(text, DomainFolder(self.workspace.folder, unit_epoch=epoch)), public=schema.public
            )
        raw = inline_domains(read_toml(text), DomainFolder(self.workspace.folder))
        then = {**raw, "budget": {key: value for key, value in raw["budget"].items() if key != "epoch"}}
        if epoch > 1:
            then["budget"]["epoch"] = epoch
        return replace(schema, budget=replace(schema.budget, epoch=epoch), digest=hash_declaration(then))

    def add_frame(self, schema: TableSchema | SupportsSchema, frame: object) -> None:
        """Serve an Arrow, pandas or polars object (anything with ``__arrow_c_stream__``) as the table of ``schema``.

        Args:
            schema: From ``siloquent.declare``, a ``Declaration``, or ``read_schema``.

        Raises:
            SchemaError: a table of that name is declared in the workspace, or ``frame`` does not fit ``schema``.
            UnknownName: ``frame`` lacks a declared column (with a suggestion).
        """
        if isinstance(frame, (str, Path)):
            raise SchemaError(
                f"A frame is an object with rows, not the path {str(frame)[:80]!r}.",
                fix="session.add_table(declaration) for a declaration of a file",
            )
        if isinstance(schema, SupportsSchema):
            schema = schema.to_schema()
        if not isinstance(schema, TableSchema):
            raise SchemaError(
                f"A frame requires a declaration first, not {type(schema).__name__}.",
                fix="session.add_frame(siloquent.declare(frame, ...), frame), or siloquent.read_schema(text)",
            )
        if schema.name in self.workspace.list_table_names():
            raise SchemaError(f"The workspace already declares a table {schema.name!r}.", fix="give it another name")
        schema = self._add_public_tables(schema)
        self._forget(schema.name)
        self._frames[schema.name] = (schema, frame)
        try:
            self.table(schema.name)
        except BaseException:  # allowed: whatever went wrong, the frame is let go and it is raised again
            del self._frames[schema.name]
            raise

    def _add_public_tables(self, schema: TableSchema) -> TableSchema:
        """Return ``schema`` with the declared public tables that its foreign keys refer to, directly or not."""
        found = read_public_tables(schema, self.workspace)
        return replace(schema, public=found) if found else schema

    def _is_stale(self, name: str) -> bool:
        """Return whether a file that the declaration refers to has changed: of domains, units and public tables."""
        read = self._public[name]
        found = self._list_public_files(self._schemas[name][1])
        same = found == [one.path for one in read] and all(one.is_current() for one in read)
        return not (same and self._domains[name].is_current())

    def _suggest_table(self, name: str) -> FixLike:
        """Return the fix of a table that is not declared: one that was charged before may be a frame's."""
        if self.is_frame_of_before(name):
            return (
                f"session.add_frame(declaration, frame), as before: each session is given the frame of {name!r} again"
            )
        if not self.list_tables():
            return "session.add_frame(declaration, frame), or session.add_table(declaration) for a file"
        return run("tables")

    def is_frame_of_before(self, name: str) -> bool:
        """Return whether ``name`` is declared nowhere and was charged before, as a frame that a session was given."""
        return name not in self.list_tables() and self._find_newest_epoch(name) is not None

    def _list_public_files(self, schema: TableSchema) -> list[Path]:
        """Return the declarations of the public tables that ``schema`` refers to, directly or not."""
        return list_public_files(schema, self.workspace)

    def table(self, name: str) -> PrivateTable:
        """Return the private table ``name``; only measure stages can read from it, and only with a permit.

        Raises:
            UnknownName, SchemaError: as for ``schema``; or the source does not match the declaration.
            DataError: the source cannot be opened.
        """
        schema = self.schema(name)
        known = self._tables.get(name)
        if known is None or known[0] is not schema or not known[1].is_current:
            from siloquent.data import open_table

            frames = {one: self._frames[one][1] for one in list_tables_of(name) if one in self._frames}
            salt, frame = self._compute_salt(schema), frames.get(name.partition(TILDE)[0])
            try:
                opened = open_table(schema, self.workspace, self.ledger, salt=salt, frame=frame, beside=frames)
            except UnknownName as unknown:
                unknown.remedy = unknown.remedy or build_fix(
                    f"correct source in schemas/{name}.toml, then: ", run("check", name)
                )
                raise
            self._forget(name)
            self._tables[name] = (schema, opened)
        return self._tables[name][1]

    def open_planned_table(self, schema: TableSchema, *, spent: str = "nothing") -> PrivateTable:
        """Return the private table that a plan for ``schema`` may measure; refuse a table redeclared since.

        Noise planned for another declaration may be too small for the effect that one row can have now. Once something
        is spent, the table that was opened for the plan is used as it is: whatever becomes of the table file meanwhile,
        the charge has its answer.

        Args:
            spent: The cost that the refusal reports.
        Raises:
            SchemaError: the table is no longer declared as ``schema``; or as for ``table``.
        """
        opened = self._tables.get(schema.name)
        if spent != "nothing" and opened is not None and opened[0] is schema.declared and opened[1].is_current:
            return opened[1]
        table = self.table(schema.name)
        self.require_same_declaration(schema, spent=spent)
        return table

    def require_same_declaration(self, schema: TableSchema, *, spent: str = "nothing") -> None:
        """Refuse a plan for ``schema`` if the table was redeclared since.

        Raises:
            SchemaError: the table is no longer declared as ``schema``; or as for ``schema``.
        """
        if self.schema(schema.name) is not schema.declared:
            raise SchemaError(
                f"The declaration of {schema.name!r} has changed since this was planned.", fix="ask again", spent=spent
            )

    def compute_source_mark(self, table: PrivateTable) -> SourceMark:
        """Compute the marks of the rows of ``table`` as opened, under this workspace's secret.

        Raises:
            DataError: the source cannot be read, or has changed since it was opened.
            LedgerError: the secret cannot be created or read.
        """
        from siloquent.ledger.marks import SourceMark, get_memory_key, load_mark_key

        if self._mark_key is None:
            lives_here = isinstance(self.ledger, MemoryLedger)
            self._mark_key = get_memory_key(self.ledger.id) if lives_here else load_mark_key(self.workspace.mark_key)
        account, digest = table.schema.account, table.compute_source_digest()
        place = account, table.schema.entry_name
        known = self._marks.get(place)
        if known is None or known[0] != digest:
            self._marks[place] = known = (digest, SourceMark(self._mark_key, account, digest))
        return known[1]

    def compute_table_mark(self, name: str) -> str:
        """Compute a mark of the rows of table ``name``, and of those that it is linked through, for a ledger entry.

        A request answered from earlier answers needs no source; without a source, the mark matches no rows.
        """
        from siloquent.ledger.marks import NOT_SEEN

        try:
            return self.compute_source_mark(self.table(name)).draw_mark()
        except (SchemaError, DataError, MissingExtra):
            return NOT_SEEN

    def require_samplers(self) -> None:
        """Load the noise samplers before anything is charged.

        Raises:
            InstallationError: they cannot be loaded.
        """
        from siloquent.privacy.samplers import require_samplers

        require_samplers()

    def refresh_rows(self, name: str, rows: Path | object | None, *, despite_findings: bool = False) -> CheckReport:
        """Check ``rows`` and make them those of table ``name``: a file, or for a frame's table a frame; None: as it is.

        Raises:
            SchemaError, DataError: the rows stay as they were.
            LedgerError: the declaration needs an owner's decision first.
        """
        from siloquent.data import check, check_frame, replace_file, require_fit

        schema, salt = self.schema(name), self._compute_salt(self.schema(name))
        self.get_account(name)
        if rows is None:
            return require_fit(check(self.table(name)), "The source", "", despite_findings=despite_findings)
        if name in self._frames:
            report = check_frame(schema, rows, self.ledger, salt=salt, despite_findings=despite_findings)
            self._frames[name] = (schema, rows)
        elif isinstance(rows, Path):
            report = replace_file(
                schema, self.workspace, self.ledger, rows, salt=salt, despite_findings=despite_findings
            )
        else:
            raise RequestError(
                f"The rows of {name!r} are in a file, not in a frame.", fix=run("refresh", name, "NEWFILE")
            )
        self._forget(name)
        return report

    def record_refresh(self, name: str) -> Refresh:
        """Record that the rows of table ``name`` were replaced: earlier answers are not drawn from any more.

        While nothing is charged to the table there is nothing to record.
        """
        account = self._find_account(self.schema(name).account)
        if account is None:
            return Refresh()
        mark = self.compute_source_mark(self.table(name)).draw_mark()
        self.ledger.declare(account.name, self._describe(self.schema(name)), refreshed=True, source_mark=mark)
        return self.find_refresh(name)

    def close(self) -> None:
        """Close every table and the ledger; the session cannot be used afterwards."""
        self._closed = True
        sessions: list[WorkspaceSession] = [self, *filter(None, self._views.values())]
        for one in sessions:
            one._closed = True
            for name in list(one._tables):
                one._forget(name)
        self.ledger.close()

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("This session is closed.", fix="open the workspace again: siloquent.open(FOLDER)")

    def _forget(self, name: str) -> None:
        if name in self._tables:
            self._tables.pop(name)[1].close()

    def _compute_salt(self, schema: TableSchema) -> str:
        table = list_tables_of(schema.name)[0]  # a join counts the same rows
        text = f"{self.ledger.id}|{table}|{schema.budget.epoch}"
        return hashlib.sha256(text.encode()).hexdigest()
