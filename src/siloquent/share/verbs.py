"""The share verbs of one session, as ``session.share``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charge import PreparedRelease
from siloquent.share import federated, task
from siloquent.share.estimate import Advice
from siloquent.share.files import format_release_id, load_release, save_release
from siloquent.share.model import Model
from siloquent.share.plan import SharePlan
from siloquent.share.spec import LearnSpec, ShareSpec
from siloquent.share.spec.release import ShareRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.federation.channel.base import Channel
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class ShareVerbs:
    """release, explain, learn, advise, synthesize, save and load, for one session's tables and account."""

    session: WorkspaceSession

    def release(self, spec: ShareSpec, *, key: str | None = None, max_cost: str | None = None) -> ShareRelease:
        """Release statistics for other silos; see ``siloquent.share.release``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return task.release(self.session, spec, key=key, max_cost=max_cost)

    def release_sum(self, spec: ShareSpec, channel: Channel, *, max_cost: str | None = None) -> ShareRelease:
        """Run this silo's part in a secure sum; see ``siloquent.share.release_sum``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return federated.release_sum(self.session, spec, channel, max_cost=max_cost)

    def prepare(self, spec: ShareSpec, *, key: str | None = None) -> PreparedRelease[SharePlan, ShareRelease]:
        """Plan a release once: ``plan`` has the price, ``run`` makes it at that price. Does not read data."""
        return task.prepare(self.session, spec, key=key)

    def explain(self, spec: ShareSpec) -> SharePlan:
        """Plan a release for its price and noise. Does not read data."""
        return task.explain(self.session, spec)

    def learn(self, spec: LearnSpec) -> Model:
        """Learn a model from the others' releases and own rows; see ``siloquent.share.learn``.

        Privacy:
            Free. With own rows the model is not a release and must stay local.
        """
        return task.learn(self.session, spec)

    def advise(self, spec: LearnSpec) -> Advice:
        """Advise the owner whether sharing helps, on own rows; see ``siloquent.share.advise``.

        Privacy:
            Free, and not a release: it is exact about the owner's rows.
        """
        return task.advise(self.session, spec)

    def synthesize(self, releases: Sequence[ShareRelease], *, rows: int | None = None, seed: int = 0) -> pa.Table:
        """Draw labelled rows from releases: free, any number of times."""
        return task.synthesize(releases, rows=rows, seed=seed)

    def save(self, release: ShareRelease, folder: Path | None = None) -> Path:
        """Write the release as a folder (default: in the workspace); the same release is written once."""
        return save_release(release, folder or self.session.workspace.releases / format_release_id(release))

    def load(self, path: Path | str, *, agent: str = "") -> ShareRelease:
        """Load the release in a folder or file."""
        return load_release(Path(path), agent=agent)
