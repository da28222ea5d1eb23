"""The Python interface: a session with the verbs of every task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack, runtime_checkable

from siloquent import session as floor
from siloquent.deprecation import keep_old_methods
from siloquent.errors import NotAllowed, RequestError, SchemaError
from siloquent.fixes import BeOwner, RunCommand, UseOption
from siloquent.schema import AccuracyDefaults, TableSchema
from siloquent.schema.workspace import find_workspace, read_workspace

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.collect.verbs import CollectVerbs
    from siloquent.data import CheckReport, RefreshReport
    from siloquent.discover.kept import DomainFault
    from siloquent.discover.verbs import DiscoverVerbs
    from siloquent.explore import Answer, Explanation, HistoryEntry, PreparedQuery, Query
    from siloquent.ledger import SettledAnswer
    from siloquent.profile.verbs import ProfileVerbs
    from siloquent.releases import ExpectedFiles, KeptMeasurement, Manifest, ReleaseVerdict
    from siloquent.releases.codec import ReleaseCodec
    from siloquent.schema.declaring import Source
    from siloquent.schema.declaring.declaration import DeclarationAnswers, DeclarationDraft, Meant
    from siloquent.schema.reading import Setting
    from siloquent.schema.workspace import Workspace
    from siloquent.search.verbs import SearchVerbs
    from siloquent.share.verbs import ShareVerbs
    from siloquent.sketch.verbs import SketchVerbs
    from siloquent.synth.verbs import SynthVerbs


@runtime_checkable
class SupportsQuery(Protocol):
    """Any object that builds a query, such as ``count("visits").by("ward").within(rows=200)``."""

    def query(self) -> Query:
        """Return the finished query."""
        ...


class Session(floor.WorkspaceSession):
    """A workspace's tables, its ledger and an analyst, with the verbs of every task."""

    def ask(
        self, question: str | Query | SupportsQuery, *, key: str | None = None, max_cost: str | None = None
    ) -> Answer:
        """Answer a query in SQL, BIN or from the builder; see ``siloquent.explore.answer`` for the errors.

        Args:
            question: Text, a ``Query``, or a builder.
            key: An idempotency key of 1 to 64 printable characters; repeating the query with it is free.
            max_cost: The highest price, in the account's epsilon or rho, as text.
        Privacy:
            As declared for the table; charged to this session's account before a row is read.
        """
        from siloquent import explore

        _require_text_key(key)
        query = _parse_question(self, question)
        with explore.suggest_affordable(self, query):
            return explore.answer(self, query, key=key, max_cost=max_cost)

    def prepare(self, question: str | Query | SupportsQuery, *, key: str | None = None) -> PreparedQuery:
        """Plan ``question`` once: ``explanation`` is its price, ``run`` answers it for at most that. Reads no data.

        Args:
            question: Text, a ``Query``, or a builder.
            key: The key of the run, if known; what was charged under it is planned even if it would be refused now.
        """
        from siloquent import explore

        _require_text_key(key)
        query = _parse_question(self, question)
        with explore.suggest_affordable(self, query):
            return explore.prepare(self, query, key=key)

    def explain(self, question: str | Query | SupportsQuery) -> Explanation:
        """Return the cost of ``question``, how it would be answered and the remaining budget. Does not read data."""
        return self.prepare(question).explanation

    @property
    def discover(self) -> DiscoverVerbs:
        """Values that enough units share, or bounds: ``session.discover(TABLE, COLUMN, epsilon=...)``, ``explain``."""
        from siloquent.discover.verbs import DiscoverVerbs

        return DiscoverVerbs(self)

    def list_history(self, table: str) -> tuple[HistoryEntry, ...]:
        """List the queries and discoveries of ``table`` in this epoch, oldest first, as far as they may be seen. Free.

        Raises:
            UnknownName, NotAllowed: the table is not declared, or this analyst has no share of it.
        """
        from siloquent.discover.language import describe_discovery
        from siloquent.explore import list_history

        return list_history(self, table, describe=describe_discovery)

    def check(self, table: str) -> CheckReport:
        """Check a table's rows against its declaration, for the owner only: exact counts, not private.

        Raises:
            NotAllowed: this session is an analyst's.
        """
        if self.analyst is not None:
            raise NotAllowed("Only the owner may run check: it shows exact counts.", fix=BeOwner())
        from siloquent.data import check
        from siloquent.explore import find_changed_entry
        from siloquent.ledger.rules import ADDS_UP

        fixes = {
            "budget": f"siloquent budget set {table}",
            "new epoch": f"restore it, or: siloquent epoch open {table} --statement '{ADDS_UP}'",
        }
        report = check(self.table(table)).add_changes(self.list_changes(table), fixes)
        changed = find_changed_entry(self, table)
        for fault in _find_domain_faults(self, table):
            report = report.add_domain_fault(
                fault.sentence, f"move domains/{fault.name}.toml away and discover it again"
            )
        return report if not changed else report.add_source_change(changed)

    def refresh(self, table: str, rows: object = None, *, despite_findings: bool = False) -> RefreshReport:
        """Replace a table's rows after a check, for the owner only, and record that they are a new version.

        What was spent stays spent, since people may be in both. Earlier answers are replayed under their keys; no
        new answer is drawn from them.

        Args:
            rows: A file (it is copied over the declared one), a frame if the table was added as one, or None: the rows
                are as they are in the source, such as a database.
            despite_findings: Take rows that ``check`` finds problems in.
        Raises:
            NotAllowed: this session is an analyst's.
            SchemaError, DataError: the rows do not fit the declaration or cannot be read; they stay as they were.
            LedgerError: the declaration needs an owner's decision first.
        """
        if self.analyst is not None:
            raise NotAllowed("Only the owner may run refresh: it shows exact counts.", fix=BeOwner())
        from siloquent.data import RefreshReport

        given = Path(rows) if isinstance(rows, (str, Path)) else rows
        report = self.refresh_rows(table, given, despite_findings=despite_findings)
        found = self.record_refresh(table)
        return RefreshReport(table, report, self.schema(table).version + found.count, found.seq, found.at)

    @property
    def search(self) -> SearchVerbs:
        """Search by offers: ``offer``, ``explain``, ``find``, ``augment``, ``save``, ``load``, ``publish``."""
        from siloquent.search.verbs import SearchVerbs

        return SearchVerbs(self)

    @property
    def collect(self) -> CollectVerbs:
        """Device reports: ``design``, ``check``, ``ingest``, ``estimate``, ``counters``."""
        from siloquent.collect.verbs import CollectVerbs

        return CollectVerbs(self)

    @property
    def profile(self) -> ProfileVerbs:
        """Dependencies, local and across silos: ``local``, ``explain``, ``together``, ``adopt``, ``save``, ``load``."""
        from siloquent.profile.verbs import ProfileVerbs

        return ProfileVerbs(self)

    @property
    def sketch(self) -> SketchVerbs:
        """Sketches of this session's tables: ``build``, ``explain``, ``ask``, ``merge``, ``save``, ``load``."""
        from siloquent.sketch.verbs import SketchVerbs

        return SketchVerbs(self)

    @property
    def share(self) -> ShareVerbs:
        """Learning with other silos: ``release``, ``advise``, ``learn``, ``synthesize``, ``save``, ``load``."""
        from siloquent.share.verbs import ShareVerbs

        return ShareVerbs(self)

    @property
    def synth(self) -> SynthVerbs:
        """Synthetic tables: ``synthesize``, ``explain``, ``save``, ``load``."""
        from siloquent.synth.verbs import SynthVerbs

        return SynthVerbs(self)

    def save(self, answer: Answer) -> Path:
        """Write ``answer`` as a release folder in the workspace; an answer that is already saved is not rewritten."""
        from siloquent.explore import write_answer_release

        return write_answer_release(answer, self.workspace.releases)

    def verify(self, folder: Path | str) -> ReleaseVerdict:
        """Compare a release (its files, every number, its guarantee and its receipt) with the ledger. Free.

        The answer is recomputed from the measurement in the ledger; no row is read. If that is impossible, because the
        table is not declared here or its declaration has changed, ``compared`` is False and ``checked`` explains why.
        If another version made the release by other rules, its measurement, receipt and amounts are compared, and
        ``uncompared`` names the files that only that version makes again.

        Raises:
            ReleaseError: there is no release in ``folder``.
        """
        from siloquent.releases import read_manifest, verify_release

        folder = Path(folder)
        manifest = read_manifest(folder)
        if manifest.task == "profile":
            from siloquent.profile.release import verify_report_release

            return verify_report_release(folder)
        stored = _find_settled(self, manifest)
        schema = _find_declaration(self, manifest, stored)
        known = [] if stored is None or schema is None else _render_expected(self, manifest, schema, stored)
        digest = schema.digest if schema else None
        kept = None if stored is None else _find_kept(manifest, stored)
        verdicts = [verify_release(folder, self.ledger, schema=digest, rendered=one, kept=kept) for one in known]
        if verdicts:
            good = [one for one in verdicts if one.ok]
            return next((one for one in good if one.compared), (good or verdicts)[0])
        alone = verify_release(folder, self.ledger, schema=digest, kept=kept)
        if stored is None or schema is None or not alone.ok:
            return alone
        if not all(codec.confirms_declaration(self, manifest, schema, stored) for codec in _iter_codecs()):
            return replace(alone, problems=("The ledger does not confirm the declaration that its manifest names.",))
        return alone


def _require_text_key(key: str | None) -> None:
    if key is not None and not isinstance(key, str):
        raise RequestError(
            f"A key must be a text of 1 to 64 printable characters, not {type(key).__name__}.",
            fix=UseOption("key", str(key)[:40]),
        )


def _parse_question(session: Session, question: str | Query | SupportsQuery) -> Query:
    from siloquent.discover.language import is_discovery
    from siloquent.explore import Query, read_question, state_accuracy

    if isinstance(question, str):
        if is_discovery(question):
            raise RequestError(
                "A discovery gives no answer with intervals.",
                fix=RunCommand("discover", ("TABLE", "COLUMN"), python="session.discover.sql(TEXT)"),
            )
        return read_question(session, question)
    return state_accuracy(session, question if isinstance(question, Query) else question.query())


def _find_settled(session: Session, manifest: Manifest) -> SettledAnswer | None:
    """Return the settled answer at the ledger position that a release's receipt names."""
    seq = manifest.receipt.get("seq")
    if not isinstance(seq, int) or seq < 1:
        return None
    entry = next(iter(session.ledger.iter_entries(after=seq - 1)), None)
    if entry is None or entry.seq != seq or entry.kind != "settle":
        return None
    return next(iter(session.ledger.iter_answers(str(entry.body["account"]), after_seq=seq - 1)), None)


def _find_declaration(session: Session, manifest: Manifest, stored: SettledAnswer | None) -> TableSchema | None:
    """Return the declaration of a release, if known: the current one or that of an earlier epoch."""
    payer = "unit." if stored is None else stored.account.partition("@")[0]
    name = manifest.table if payer.startswith("unit.") else payer  # several tables may share an account
    try:
        schema = session.schema(name)
    except SchemaError:
        return None
    if stored is None or schema.account == stored.account.partition("/")[0]:
        return schema
    return session.load_epoch_schema(name, int(stored.account.partition("/")[0].rpartition("@")[2]))


def _iter_codecs() -> Iterator[ReleaseCodec]:
    """Yield the codec of every task whose measurements are in the ledger; each is imported only when its turn comes."""
    from siloquent.explore.replay import ANSWER_CODEC

    yield ANSWER_CODEC
    from siloquent.sketch.release import SKETCH_CODEC

    yield SKETCH_CODEC
    from siloquent.search.release import OFFER_CODEC

    yield OFFER_CODEC
    from siloquent.share.files import SHARE_CODEC

    yield SHARE_CODEC
    from siloquent.synth.release import SYNTHESIS_CODEC

    yield SYNTHESIS_CODEC


def _render_expected(
    session: Session, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
) -> list[ExpectedFiles]:
    """Render the release as its task would write it; empty if that is impossible."""
    for codec in _iter_codecs():
        rendered = codec.render_stored(session, manifest, schema, stored)
        if rendered is not None:
            return rendered
    return []


def _find_kept(manifest: Manifest, stored: SettledAnswer) -> KeptMeasurement | None:
    """Return what the ledger keeps of the release, whatever its manifest says its task is; None if that is unknown."""
    if manifest.receipt.get("parts", 1) != 1:  # from several releases, perhaps from several ledgers
        return None
    return next((kept for codec in _iter_codecs() if (kept := codec.find_kept(stored)) is not None), None)


def open_session(
    folder: Path | str | None = None, *, analyst: str | None = None, defaults: AccuracyDefaults | None = None
) -> Session:
    """Open the workspace in ``folder`` (default: the nearest one at or above the current folder).

    Args:
        analyst: The analyst; charged to their share of each budget if the table declares shares.
        defaults: The accuracy of questions that state none; without it, that of their table or of the workspace.
    Raises:
        SchemaError: the folder is not a workspace, or its file is invalid.
        LedgerError: the ledger is missing, unreadable, or older than its head.
    """
    workspace = read_workspace(Path(folder) if folder is not None else find_workspace(Path.cwd()))
    return Session(workspace, floor.open_workspace_ledger(workspace), analyst=analyst, defaults=defaults)


def read_schema(text: str) -> TableSchema:
    """Parse the table declared by the TOML ``text``, for frames that exist only in Python."""
    from siloquent.schema.build import parse_schema

    return parse_schema(text)


def read_public_rows(address: str, folder: Path, reading: str = "", *, rows: int, most: int) -> pa.Table:
    """Return the first rows of a public file: texts of CSV and of sheets as every source has them, or Parquet's types.

    Args:
        address: A source as a table file names it, relative to ``folder``.
        reading: How the file is read: lines of a table file, as they stand under ``[reading]``.
        rows: The number of rows. ``most``: the most bytes of the file.
    Raises:
        SchemaError: the file cannot be read, or a setting is not valid.
    """
    from siloquent.data.public_rows import read_public_rows as read_rows
    from siloquent.schema.reading import Reading, read_settings

    return read_rows(address, folder, read_settings(reading) if reading else Reading(), rows=rows, most=most)


def find_source(text: str, folder: Path) -> tuple[str, str]:
    """Return the address of a source as a table file names it, and its place in words; ``text`` may be a file's path.

    Args:
        folder: The workspace's folder; a file inside it is named relative to it.
    Raises:
        SchemaError: the file does not exist, or files of its type cannot be sources.
    """
    from siloquent.data.column_reader import find_address

    return find_address(text, folder)


def find_rows_file(source: str, folder: Path, *, table: str) -> Path:
    """Return the plain file that ``source`` names as the table file of ``table`` would, relative to ``folder``.

    Raises:
        SchemaError: it does not exist, is not a plain file, or is named by a link, ``..`` or a pattern.
    """
    from siloquent.data.sources.files import find_source_file

    return Path(find_source_file(source.partition(":")[2].partition("#")[0], folder, table=table).path)


def read_source(address: str, workspace: Workspace | None, reading: str = "") -> Source:
    """Read the names and declared types of the columns of a source: a header line, a schema or a catalogue; no row.

    Args:
        reading: How a file is read: lines of a table file, as they stand under ``[reading]``.
    Raises:
        SchemaError: the source does not exist, its columns cannot be read, or a setting is not valid.
        MissingExtra, DataError: as for a table.
    """
    from siloquent.data.column_reader import read_columns
    from siloquent.schema.reading import read_settings

    found = read_columns(address, workspace, read_settings(reading) if reading else None)
    return replace(found, reading=reading)


def declare(
    source: str | Path | object,
    columns: Mapping[str, Meant] | None = None,
    *,
    name: str | None = None,
    header: bool = False,
    reading: Mapping[str, Setting] | str = "",
    **answers: Unpack[DeclarationAnswers],
) -> DeclarationDraft:
    """Begin the declaration of a private table from its columns' names and types; no row is read.

    The result shows its columns, what is proposed and what is open; ``say`` takes in more answers, and
    ``session.add_frame`` takes it once it is complete.

    Args:
        source: A file's path, a source as in a table file, or an Arrow, pandas or polars frame.
        columns: The meaning of columns: ``{"age": "0..120", "sex": ["F", "M"]}``.
        name: The table's name; for a file, by default the file's.
        header: The first line of the file does name the columns, although it looks like a row.
        reading: How the source is read, as under ``[reading]`` in a table file: ``{"encoding": "cp1252", "decimal":
            ","}``, with ``"columns"`` for settings of single columns; or those lines as a text.
        answers: As for ``DeclarationDraft.say``.
    Raises:
        SchemaError, RequestError: the source cannot be read, or an answer is not understood.
    """
    from siloquent.data.column_reader import read_frame_columns
    from siloquent.schema.declaring import derive_table_name
    from siloquent.schema.declaring.declaration import begin_declaration
    from siloquent.schema.declaring.declared_table import require_type
    from siloquent.schema.declaring.header import describe_header_doubt
    from siloquent.schema.reading import compose_settings, read_settings

    require_type("reading", reading, (Mapping, str), '{"encoding": "cp1252"}')
    lines = reading if isinstance(reading, str) else compose_settings(reading)
    require_type("name", name, (str, type(None)), '"visits"')
    if name is not None and not name.isidentifier():
        raise RequestError(
            f"name: {name[:40]!r} is not letters, digits and _.", fix=UseOption("name", derive_table_name(Path(name)))
        )

    try:
        workspace = read_workspace(find_workspace(Path.cwd()))
    except SchemaError:
        workspace = None
    if isinstance(source, (str, Path)):
        address, origin = find_source(str(source), workspace.folder if workspace else Path.cwd())
        found = _read_to_declare(address, workspace, lines)
        named = header or bool(lines and read_settings(lines).names)
        if not named and (doubt := describe_header_doubt(found, origin)):
            raise NotAllowed(doubt, fix="write a header line, or header=True")
        name = name or derive_table_name(Path(origin.rpartition("#")[2] or origin))
    else:
        found, origin = read_frame_columns(source), f"a {type(source).__name__}"
        if lines:
            read_settings(lines).check_kind("frame")
            found = replace(found, reading=lines)
    return begin_declaration(found, workspace, name=name or "table", origin=origin).say(columns, **answers)


def _read_to_declare(address: str, workspace: Workspace | None, lines: str) -> Source:
    """Read a source's columns; where it cannot be read so, the fix is the argument that reads it."""
    from siloquent.schema.reading import add_suggested_setting

    try:
        return read_source(address, workspace, lines)
    except SchemaError as wrong:
        if suggested := add_suggested_setting(lines, wrong.fix):
            wrong.fix = f"reading={suggested!r}"
        raise


def _find_domain_faults(session: Session, table: str) -> list[DomainFault]:
    """Return the faults of the released domains that the file of ``table`` uses."""
    from siloquent.discover.kept import find_domain_fault
    from siloquent.schema.domains import get_domain_file, list_used_domains
    from siloquent.schema.files.toml import read_toml

    if table not in session.workspace.list_table_names():
        return []
    folder = session.workspace.folder
    names = list_used_domains(read_toml(session.workspace.get_schema_file(table).read_text(encoding="utf-8")))
    files = [get_domain_file(folder, name) for name in dict.fromkeys(names)]
    return [fault for file in files if (fault := find_domain_fault(file, session.ledger))]


def find_public_rows(declared: Path, folder: Path) -> list[Path]:
    """Return the row files of the public table that ``declared`` declares, in the workspace's ``folder``.

    Raises:
        SchemaError: the declaration is invalid, or the file is missing or a link. OSError, ValueError: not UTF-8 text.
    """
    from siloquent.data.sources.files import find_source_parts
    from siloquent.schema.public import parse_public

    table = parse_public(declared.read_text(encoding="utf-8"))
    kind, _, where = table.source.partition(":")
    return [Path(path) for path in find_source_parts(where, folder, kind=kind, table=table.name).paths]


if not TYPE_CHECKING:  # the names of 0.1
    keep_old_methods(Session, {"tables": "list_tables", "account": "get_account", "left": "get_remaining"})
