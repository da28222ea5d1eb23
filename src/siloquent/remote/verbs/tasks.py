"""Tasks whose releases a server makes as jobs: the verbs and results of a session over a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from siloquent.errors import RequestError
from siloquent.notebook import build_progress_line
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import Discovery, FoundOffers, Job, JobPlan
from siloquent.remote.exchange import Steps, run_work
from siloquent.remote.verbs.asking import require_key
from siloquent.remote.verbs.jobs import JobVerbs
from siloquent.remote.verbs.releases import ReleaseVerbs

if TYPE_CHECKING:
    from siloquent.discover.spec import DiscoverRequest
    from siloquent.discover.verbs import DiscoverOptions
    from siloquent.search import Offer, OfferSpec, RequestSpec
    from siloquent.share import ShareRelease, ShareSpec
    from siloquent.sketch import Sketch, SketchSpec
    from siloquent.synth import SynthSpec
    from siloquent.synth.engines import Model

T = TypeVar("T")
Plain = Mapping[str, Any]


class RemoteSketchVerbs(ApiClient):
    """Sketches: ``build``, ``explain``, ``load``; ``siloquent.sketch.ask`` asks one locally, at no cost."""

    @verb
    def build(self, spec: SketchSpec | Plain, *, key: str | None = None, max_cost: str | None = None) -> Steps[Sketch]:
        """Build a sketch at the server, and fetch it; see ``siloquent.sketch.build``.

        Raises:
            SiloquentError: as ``siloquent.sketch.build`` does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        return (yield from _run_job(self, "sketch", spec, key, max_cost, _load_sketch))

    @verb
    def explain(self, spec: SketchSpec | Plain) -> Steps[JobPlan]:
        """Return the price and plan of a sketch. Does not read data; free."""
        return (yield from JobVerbs.price_job(self, "sketch", spec))

    @verb
    def load(self, release: str) -> Steps[Sketch]:
        """Return the sketch in a release of the server."""
        return (yield from _load_release(self, release, _load_sketch))


class RemoteSynthVerbs(ApiClient):
    """Synthetic tables: ``synthesize``, ``explain``, ``load``."""

    @verb
    def synthesize(
        self, spec: SynthSpec | Plain, *, key: str | None = None, max_cost: str | None = None
    ) -> Steps[Model]:
        """Fit a synthetic table at the server, and fetch its model, which draws rows here; see ``siloquent.synth``.

        Raises:
            SiloquentError: as ``siloquent.synth.synthesize`` does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        return (yield from _run_job(self, "synth", spec, key, max_cost, _load_model))

    @verb
    def explain(self, spec: SynthSpec | Plain) -> Steps[JobPlan]:
        """Return the price, and the way each constraint would be enforced. Does not read data; free."""
        return (yield from JobVerbs.price_job(self, "synth", spec))

    @verb
    def load(self, release: str) -> Steps[Model]:
        """Return the model in a release of the server; drawing rows from it is free."""
        return (yield from _load_release(self, release, _load_model))


class RemoteSearchVerbs(ApiClient):
    """Offers: ``offer``, ``find``, ``explain``, ``load``."""

    @verb
    def offer(self, spec: OfferSpec | Plain, *, key: str | None = None, max_cost: str | None = None) -> Steps[Offer]:
        """Make an offer at the server, and fetch it; see ``siloquent.search.offer``.

        Raises:
            SiloquentError: as ``siloquent.search.offer`` does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        return (yield from _run_job(self, "search", spec, key, max_cost, _load_offer))

    @verb
    def find(
        self, spec: RequestSpec | Plain, *, key: str | None = None, max_cost: str | None = None
    ) -> Steps[FoundOffers]:
        """Rank the offers of the server's catalogue by their gain for one's own table; see ``siloquent.search.find``.

        Raises:
            SiloquentError: as ``siloquent.search.find`` does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        job = yield from _finish_job(self, "find", spec, key, max_cost)
        return FoundOffers((job.result or {}).get("found"))

    @verb
    def explain(self, spec: OfferSpec | Plain) -> Steps[JobPlan]:
        """Return the price of an offer and its accuracy. Does not read data; free."""
        return (yield from JobVerbs.price_job(self, "search", spec))

    @verb
    def load(self, release: str) -> Steps[Offer]:
        """Return the offer in a release of the server."""
        return (yield from _load_release(self, release, _load_offer))


class RemoteShareVerbs(ApiClient):
    """Releases for other silos: ``release``, ``explain``, ``load``."""

    @verb
    def release(
        self, spec: ShareSpec | Plain, *, key: str | None = None, max_cost: str | None = None
    ) -> Steps[ShareRelease]:
        """Make a release for other silos at the server, and fetch it; see ``siloquent.share.release``.

        Raises:
            SiloquentError: as ``siloquent.share.release`` does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        return (yield from _run_job(self, "share", spec, key, max_cost, _load_share))

    @verb
    def explain(self, spec: ShareSpec | Plain) -> Steps[JobPlan]:
        """Return the price of a release and its accuracy. Does not read data; free."""
        return (yield from JobVerbs.price_job(self, "share", spec))

    @verb
    def load(self, release: str) -> Steps[ShareRelease]:
        """Return the content of a release of the server."""
        return (yield from _load_release(self, release, _load_share))


class RemoteDiscoverVerbs(ApiClient):
    """Discoveries, by a call, and ``explain``."""

    @verb
    def __call__(
        self,
        table: str,
        column: str,
        *,
        key: str | None = None,
        max_cost: str | None = None,
        **options: Unpack[DiscoverOptions],
    ) -> Steps[Discovery]:
        """Discover values or bounds of a column at the server, with the options of ``siloquent.discover``.

        Values are kept as ``domains/NAME.toml`` in the server's workspace, and are public from then on.

        Raises:
            SiloquentError: as a discovery on a folder does. Unanswered: as ``start`` does.
        Privacy:
            As declared for the table: charged to the token's account, once for ``key``, before a row is read.
        """
        job = yield from _finish_job(self, "discover", _build_discovery(table, column, options), key, max_cost)
        return Discovery((job.result or {}).get("discovery"))

    @verb
    def explain(self, table: str, column: str, **options: Unpack[DiscoverOptions]) -> Steps[JobPlan]:
        """Return the price, and from how many units on a value is found. Does not read data; free."""
        return (yield from JobVerbs.price_job(self, "discover", _build_discovery(table, column, options)))


def _build_discovery(table: str, column: str, options: DiscoverOptions) -> DiscoverRequest:
    from siloquent.discover.spec import DiscoverRequest
    from siloquent.privacy.budget import Budget

    budget = Budget(epsilon=options.get("epsilon"), rho=options.get("rho"))
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in ("epsilon", "rho")}
    return DiscoverRequest(table, column, budget, **chosen)


def _run_job(
    face: ApiClient, task: str, spec: object, key: str | None, max_cost: str | None, load: Callable[[Path], T]
) -> Steps[T]:
    """Run a job to its end and return its release."""
    job = yield from _finish_job(face, task, spec, key, max_cost)
    return (yield from _load_release(face, str(job.release), load))


def _finish_job(face: ApiClient, task: str, spec: object, key: str | None, max_cost: str | None) -> Steps[Job]:
    """Run a job to its end and return it, if it is done.

    Raises:
        SiloquentError: it failed, or was cancelled.
    """
    key = require_key(key)
    job = yield from JobVerbs.start(face, task, spec, key=key, max_cost=max_cost)
    line = build_progress_line(task)
    job = yield from JobVerbs.wait(face, job.id, progress=None if line is None else line.show)
    if line is not None:
        line.say(job.state)
    if job.error is not None:
        job.error.add_note(f"Job {job.id}; its key is {key!r}.")
        raise job.error
    if job.state == "cancelled":
        raise RequestError(
            f"The job {job.id} was cancelled.",
            fix=f"start it again with the key {key!r}",
            spent="what it was charged stays, under its key",
        )
    return job


def _load_release(face: ApiClient, release: str, load: Callable[[Path], T]) -> Steps[T]:
    """Return the result of ``load`` on a release, which is fetched into a temporary folder."""
    with TemporaryDirectory() as folder:
        yield from ReleaseVerbs.fetch(face, release, Path(folder) / "release")
        return (yield from run_work(partial(load, Path(folder) / "release")))


def _load_sketch(folder: Path) -> Sketch:
    from siloquent.sketch.release import load_sketch

    return load_sketch(folder)


def _load_model(folder: Path) -> Model:
    from siloquent.synth.release import load_model

    return load_model(folder)


def _load_offer(folder: Path) -> Offer:
    from siloquent.search import load_offer

    return load_offer(folder)


def _load_share(folder: Path) -> ShareRelease:
    from siloquent.share.files import load_release

    return load_release(folder)
