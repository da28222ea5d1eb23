"""The profile verbs of one session, as ``session.profile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import NotAllowed
from siloquent.fixes import BeOwner
from siloquent.notebook import build_progress_line
from siloquent.profile.measure import LocalResult, discover_locally, read_owner_rows
from siloquent.profile.plan.costs import SessionPlan, explain
from siloquent.profile.release import load_report, save_report
from siloquent.profile.spec import FDReport, ProfileSpec, build_columns
from siloquent.profile.task import (
    Approve,
    Terms,
    build_constraint_entries,
    choose_dependencies,
    discover_in_process,
    write_adopted,
)
from siloquent.profile.task.progress import ProgressCallback, choose_progress, ignore_progress

if TYPE_CHECKING:
    from siloquent.federation.channel import Channel
    from siloquent.maths.dependencies import DiscoveryProgress
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class ProfileVerbs:
    """local, explain, discover, together, adopt, save and load, for one workspace."""

    session: WorkspaceSession

    def local(
        self,
        table: str,
        *,
        columns: Sequence[str] = (),
        max_lhs: int | None = None,
        nulls: str = "value",
        progress: Callable[[DiscoveryProgress], None] | None = None,
    ) -> LocalResult:
        """Find the dependencies of one of this workspace's tables, exact, for its owner.

        Raises:
            NotAllowed: this session is an analyst's.
        Privacy:
            None: exact, so it is refused to analysts.
        """
        if self.session.analyst is not None:
            raise NotAllowed("A local profile is exact: only the owner may run it.", fix=BeOwner())
        names = list(columns) or [a.name for a in self.session.schema(table).domain.attributes if not a.function]
        for name in names:
            self.session.schema(table).domain[name]
        return discover_locally(
            read_owner_rows(self.session.table(table), names),
            max_lhs=max_lhs,
            nulls=nulls,
            progress=progress or _build_search_display(),
        )

    def explain(self, spec: ProfileSpec, *, parties: int = 3, workers: int = 3) -> SessionPlan:
        """Estimate the cost and leakage of a session from declarations only. No network."""
        schema = self.session.schema(spec.table)
        columns = build_columns(schema, spec.columns)
        return explain(spec, columns=columns, parties=parties, workers=workers, rows=schema.size_hint or 1_000)

    def discover(
        self,
        spec: ProfileSpec,
        bundle: Path | str,
        *,
        without: Sequence[str] = (),
        resume: str | None = None,
        say: ProgressCallback = ignore_progress,
        watch: Callable[[Channel], None] = lambda channel: None,
    ) -> FDReport:
        """Run a session over a federation, as the moderator with this bundle; see ``federated.run_session``.

        The columns' types come from this workspace's declaration of the table; its rows, if any, are not read.

        Privacy:
            Input privacy at every party, not differential privacy; recorded in each party's ledger.
        """
        from siloquent.federation.identity.bundle import read_bundle
        from siloquent.profile.federated import run_session

        terms = Terms(spec, build_columns(self.session.schema(spec.table), spec.columns))
        return run_session(
            read_bundle(Path(bundle)), terms, without=without, session=resume, say=choose_progress(say), watch=watch
        )

    def together(
        self,
        spec: ProfileSpec,
        others: Mapping[str, WorkspaceSession],
        approve: Approve,
        *,
        name: str = "here",
        workers: int = 3,
        say: ProgressCallback = ignore_progress,
    ) -> FDReport:
        """Run every role on this machine: this workspace and ``others`` as parties; see ``discover_in_process``.

        Privacy:
            As ``siloquent.profile.discover``; recorded in each workspace's ledger.
        """
        return discover_in_process(
            spec, {name: self.session, **others}, approve, workers=workers, say=choose_progress(say)
        )

    def adopt(self, report: FDReport, table: str, pick: Sequence[str]) -> bool:
        """Write dependencies found over all rows into the declaration of ``table``; return whether it changed.

        Privacy:
            The findings are exact: an adopted constraint is a fact about private rows. No sensitivity depends on it.
        """
        if self.session.analyst is not None:
            raise NotAllowed("Only the owner may change declarations.", fix=BeOwner())
        for dependency in choose_dependencies(report, pick):
            for column in (*dependency.lhs, dependency.rhs):
                self.session.schema(table).domain[column]
        return write_adopted(
            self.session.workspace.get_schema_file(table),
            build_constraint_entries(report, choose_dependencies(report, pick)),
        )

    def save(self, report: FDReport, *, table: str, folder: Path | None = None) -> Path:
        """Write the report as a release folder (default: in the workspace); the same report is written once."""
        return save_report(report, folder or self.session.workspace.releases / report.id, table=table)

    def load(self, folder: Path | str) -> FDReport:
        """Read the report in a release's folder."""
        return load_report(Path(folder))


def _build_search_display() -> Callable[[DiscoveryProgress], None] | None:
    line = build_progress_line("dependencies")
    return None if line is None else lambda progress: line.say(progress.describe(), often=True)
