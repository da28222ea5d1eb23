"""The synth verbs of one session, as ``session.synth``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.synth import task
from siloquent.synth.engines import Model, Plan
from siloquent.synth.release import load_model, save_release
from siloquent.synth.spec.release import SyntheticRelease
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class SynthVerbs:
    """The functions synthesize, explain, save and load, for one session's tables and account."""

    session: WorkspaceSession

    def synthesize(
        self,
        spec: SynthSpec,
        *,
        key: str | None = None,
        max_cost: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> SyntheticRelease:
        """Return a synthetic table that keeps every hard constraint; see ``siloquent.synth.synthesize``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return task.synthesize(self.session, spec, key=key, max_cost=max_cost, progress=progress)

    def prepare(self, spec: SynthSpec, *, key: str | None = None) -> task.PreparedSynthesis:
        """Plan a synthesis once: ``plan`` has the price, ``run`` makes it at that price. Does not read data."""
        return task.prepare(self.session, spec, key=key)

    def explain(self, spec: SynthSpec) -> Plan:
        """Return the plan with its price and the enforcement of each constraint, without reading data."""
        return task.explain(self.session, spec)

    def save(self, release: SyntheticRelease, folder: Path | None = None) -> Path:
        """Write the release as a folder (default: in the workspace); the same release is written once."""
        return save_release(release, folder or self.session.workspace.releases / release.id)

    def load(self, folder: Path | str) -> Model:
        """Load the model in a release's folder: more rows of it cost nothing."""
        return load_model(Path(folder))
