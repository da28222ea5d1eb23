"""The sketch verbs of one session, as ``session.sketch``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charge import PreparedRelease
from siloquent.sketch import task
from siloquent.sketch.merge import merge
from siloquent.sketch.plan import SketchPlan
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.sketch.regression import regress
from siloquent.sketch.release import format_sketch_id, load_sketch, save_sketch
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import LinearModel, Question, SketchSpec

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class SketchVerbs:
    """build, explain, ask, merge, save and load, for one session's tables and account."""

    session: WorkspaceSession

    def build(self, spec: SketchSpec, *, key: str | None = None, max_cost: str | None = None) -> Sketch:
        """Build a sketch; see ``siloquent.sketch.build``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return task.build(self.session, spec, key=key, max_cost=max_cost)

    def prepare(self, spec: SketchSpec, *, key: str | None = None) -> PreparedRelease[SketchPlan, Sketch]:
        """Plan a sketch once: ``plan`` has the price, ``run`` makes it at that price. Does not read data."""
        return task.prepare(self.session, spec, key=key)

    def explain(self, spec: SketchSpec) -> SketchPlan:
        """Plan a sketch for its price and structure. Does not read data."""
        return task.explain(self.session, spec)

    def ask(self, sketch: Sketch, question: Question) -> Any:
        """Answer a question from the sketch only: free, any number of times."""
        return task.ask(sketch, question)

    def regress(self, spec: MomentsSpec, *, key: str | None = None) -> LinearModel:
        """Fit a linear model to one release of moments; see ``siloquent.sketch.regress``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return regress(self.session, spec, key=key)

    def merge(self, sketches: Sequence[Sketch]) -> Sketch:
        """Add sketches that have the same hash plan."""
        return merge(sketches)

    def save(self, sketch: Sketch, folder: Path | None = None) -> Path:
        """Write the sketch as a release folder (default: in the workspace); the same sketch is written once."""
        return save_sketch(sketch, folder or self.session.workspace.releases / format_sketch_id(sketch))

    def load(self, folder: Path | str) -> Sketch:
        """Load the sketch in a release's folder."""
        return load_sketch(Path(folder))
