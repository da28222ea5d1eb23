"""The state of one server, which every route receives."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from siloquent.server.access.limits import Places, RequestRates, Slots
from siloquent.server.access.tokens import Tokens
from siloquent.server.jobs.queue import Jobs
from siloquent.server.keeper import Keeper
from siloquent.server.observability import Metrics
from siloquent.server.planning.planners import Planners
from siloquent.server.release_index import ReleaseIndex
from siloquent.server.session_pool import SessionPool
from siloquent.server.settings import Settings
from siloquent.server.spending import Spending
from siloquent.server.store import Store


@dataclass(frozen=True, slots=True)
class AppState:
    """The state that every route receives: ``app.state.house``.

    Attributes:
        rows: Threads that read rows, whose work leaves by slots or goes to the table's owner. Nothing else runs there:
            the time that other work waits for an answer would reveal how long the answer took.
        heavy: Threads for work that may take long and reads no row.
        desk: Threads for work that takes milliseconds and reads no row.
        planners: Processes that price questions and jobs.
    """

    settings: Settings
    store: Store
    releases: ReleaseIndex
    tokens: Tokens
    rows: SessionPool
    heavy: SessionPool
    desk: SessionPool
    planners: Planners
    rates: RequestRates
    open: Places
    room: Places
    slots: Slots
    jobs: Jobs
    watch: Metrics
    keeper: Keeper
    spending: Spending

    @property
    def waiting(self) -> int:
        """The number of accepted pieces of work that are not done."""
        return self.planners.waiting + sum(desk.waiting for desk in (self.rows, self.heavy, self.desk))

    def close(self) -> None:
        """Stop everything started here except jobs, whose runner is closed first."""
        self.keeper.close()
        self.planners.close()
        for desk in (self.rows, self.heavy, self.desk):
            desk.close()
        self.store.close()


def get_app_state(request: Request) -> AppState:
    """Return the server's state."""
    house: AppState = request.app.state.house
    return house
