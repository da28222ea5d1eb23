"""The Python interface: a session with the verbs of every task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from siloquent import session as floor
from siloquent.deprecation import keep_old_methods
from siloquent.errors import NotAllowed, RequestError, SchemaError
from siloquent.fixes import BeOwner, RunCommand, UseOption
from siloquent.schema import AccuracyDefaults, TableSchema
from siloquent.schema.workspace import find_workspace, read_workspace

if TYPE_CHECKING:
    from siloquent.collect.verbs import CollectVerbs
    from siloquent.data import CheckReport, RefreshReport
    from siloquent.discover.kept import DomainFault
    from siloquent.discover.verbs import DiscoverVerbs
    from siloquent.explore import Answer, Explanation, HistoryEntry, PreparedQuery, Query
    from siloquent.ledger import SettledAnswer
    from siloquent.profile.verbs import ProfileVerbs
    from siloquent.releases import ExpectedFiles, KeptMeasurement, Manifest, ReleaseVerdict
    from siloquent.releases.codec import ReleaseCodec
    from siloquent.schema.formats.reading import Setting
    from siloquent.search.verbs import SearchVerbs
    from siloquent.share.verbs import ShareVerbs
    from siloquent.sketch.verbs import SketchVerbs
    from siloquent.synth.verbs import SynthVerbs


class SupportsTableFile(Protocol):
    """Any object that declares a table as text, such as the result of ``siloquent.declare``."""

    def to_schema(self) -> TableSchema:
        """Return the finished declaration."""
        ...

    def to_toml(self) -> str:
        """Return the table file."""
        ...


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

    def add_table(self, declaration: SupportsTableFile) -> TableSchema:
        """Write the declaration of rows in a file or database into the workspace's ``schemas``; no row is read.

        Args:
            declaration: From ``siloquent.declare`` with a file, or a ``Declaration`` with a source.
        Raises:
            NotAllowed: this session is an analyst's.
            SchemaError: a table of that name is declared, or the rows are in a frame (see ``add_frame``).
            RequestError: questions of the declaration are open.
        """
        from siloquent.session.table_files import write_declaration

        if self.analyst is not None:
            raise NotAllowed("Only the owner may declare a table.", fix=BeOwner())
        name = declaration.to_schema().name
        write_declaration(self, name, declaration.to_toml())
        return self.schema(name)

    def check(self, table: str, *, reading: Mapping[str, Setting] | str = "") -> CheckReport:
        """Check a table's rows against its declaration, for the owner only: exact counts, not private.

        Args:
            reading: Settings of how its file is read, such as ``{"missing": ["n/a"]}``, or lines as they stand under
                ``[reading]``: they are written into the table file first.
        Raises:
            NotAllowed: this session is an analyst's.
            SchemaError, RequestError: a setting is not valid, or the table file must be edited by hand.
        """
        if self.analyst is not None:
            raise NotAllowed("Only the owner may run check: it shows exact counts.", fix=BeOwner())
        if reading:
            from siloquent.session.table_files import write_settings

            write_settings(self, table, reading)
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
            f"A key must be a string of 1 to 64 printable characters, not {type(key).__name__}.",
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


if not TYPE_CHECKING:  # the names of 0.1
    keep_old_methods(Session, {"tables": "list_tables", "account": "get_account", "left": "get_remaining"})
