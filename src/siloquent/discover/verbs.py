"""The verbs of discovery of one session, as ``session.discover``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from siloquent.discover import task
from siloquent.discover.kept import load_declaration
from siloquent.discover.language import parse_discovery
from siloquent.discover.release import DiscoveredKeys
from siloquent.discover.spec import DiscoverSpec, build_spec, suggest
from siloquent.errors import RequestError, UnknownName
from siloquent.privacy.budget import Budget, Exact

if TYPE_CHECKING:
    from siloquent.discover.plan import DiscoverPlan
    from siloquent.discover.release import ProposedBounds
    from siloquent.discover.spec import DiscoverRequest
    from siloquent.discover.task import PreparedDiscovery
    from siloquent.releases import ReleaseVerdict
    from siloquent.session import WorkspaceSession


class DiscoverOptions(TypedDict, total=False):
    """The options of a discovery; ``at_least``, ``keys_each``, ``delta`` and ``name`` belong to keys.

    ``epsilon`` or ``rho``: the maximum cost, as text. ``at_least``: keys of fewer units are hardly ever released.
    ``keys_each``: the number of keys that one unit counts for (default 1). ``delta``: the part of the account's
    delta_events that it may cost (default: a tenth). ``name``: of the released domain (default: TABLE-COLUMN).
    """

    epsilon: Exact | None
    rho: Exact | None
    at_least: int | None
    keys_each: int | None
    delta: Exact | None
    name: str | None


@dataclass(frozen=True, slots=True)
class DiscoverVerbs:
    """Discover, also as SQL, explain, prepare and save, for one session's tables and account."""

    session: WorkspaceSession

    def __call__(
        self,
        table: str,
        column: str,
        *,
        key: str | None = None,
        max_cost: str | None = None,
        **options: Unpack[DiscoverOptions],
    ) -> DiscoveredKeys | ProposedBounds:
        """Discover the values of a category or text that enough units share, or bounds of a number or date.

        Values are kept as ``domains/NAME.toml`` in the workspace, and are public from then on. If the ledger has them
        and their file is lost, it is written again, free; for that, no budget needs to be given.

        Args:
            key: The idempotency key: the same key and options give the same release at no cost.
            max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
            options: See ``DiscoverOptions``.
        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        found = self.prepare(table, column, key=key, **options).run(max_cost=max_cost)
        return self.save(found) if isinstance(found, DiscoveredKeys) else found

    def explain(self, table: str, column: str, **options: Unpack[DiscoverOptions]) -> DiscoverPlan:
        """Return the price, and from how many units on a value is found. Does not read data."""
        return self.prepare(table, column, **options).plan

    def prepare(
        self, table: str, column: str, *, key: str | None = None, **options: Unpack[DiscoverOptions]
    ) -> PreparedDiscovery:
        """Plan a discovery once: ``plan`` has its price, and ``run`` discovers at that price. Does not read data.

        Raises:
            RequestError: no budget is given, and no released values are lost.
        """
        if options.get("epsilon") is None and options.get("rho") is None:
            lost = task.prepare_lost(self.session, table, column, options.get("name"))
            if lost is not None:
                return lost
            budget = {"epsilon": "0.2"}
            raise RequestError(
                "The budget of a discovery is missing.",
                fix=suggest(self._build_spec(table, column, {**options, **budget})),  # type: ignore[typeddict-item]
            )
        return task.prepare(self.session, self._build_spec(table, column, options), key=key)

    def sql(self, text: str, *, key: str | None = None, max_cost: str | None = None) -> DiscoveredKeys | ProposedBounds:
        """Discover as ``text`` says: ``DISCOVER diagnosis FROM visits AT LEAST 20 UNITS BUDGET 0.2 EPSILON``.

        Args:
            text: ``DISCOVER [BOUNDS OF] column FROM table [AT LEAST n UNITS] [AT MOST k KEYS EACH] BUDGET x EPSILON``,
                or RHO; then ``DELTA d``, the part of delta_events, and ``AS name``, if wanted.
            key, max_cost: As for the call.
        Raises:
            SyntaxProblem: the syntax is invalid.
        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        found = self.prepare_sql(text, key=key).run(max_cost=max_cost)
        return self.save(found) if isinstance(found, DiscoveredKeys) else found

    def prepare_sql(self, text: str, *, key: str | None = None) -> PreparedDiscovery:
        """Plan the discovery of ``sql`` once. Does not read data."""
        asked = parse_discovery(text)
        return task.prepare(self.session, asked.build_spec(load_declaration(self.session, asked.table)), key=key)

    def prepare_request(self, asked: DiscoverRequest, *, key: str | None = None) -> PreparedDiscovery:
        """Plan the discovery that a JSON document describes. Does not read data."""
        return task.prepare(self.session, asked.build_spec(load_declaration(self.session, asked.table)), key=key)

    def save(self, found: DiscoveredKeys) -> DiscoveredKeys:
        """Write released values as ``domains/NAME.toml`` in the workspace; return them under the name of their file."""
        return task.save_domain(self.session, found)

    def verify(self, name: str) -> ReleaseVerdict:
        """Compare the released domain ``name`` with the discovery in the ledger that it names. Free.

        Raises:
            UnknownName: no domain has this name.
        """
        from siloquent.discover.kept import find_domain_fault
        from siloquent.releases import ReleaseVerdict
        from siloquent.schema.domains import get_domain_file, list_domain_files

        folder = self.session.workspace.folder
        file = get_domain_file(folder, name)
        if not file.is_file():
            raise UnknownName("released domain", name, [one.stem for one in list_domain_files(folder)])
        fault = find_domain_fault(file, self.session.ledger)
        told = () if fault is None else (fault.sentence,)
        return ReleaseVerdict(name, told, compared=fault is None)

    def _build_spec(self, table: str, column: str, options: DiscoverOptions) -> DiscoverSpec:
        budget = Budget(epsilon=options.get("epsilon"), rho=options.get("rho"))
        return build_spec(
            load_declaration(self.session, table),
            column,
            budget,
            at_least=options.get("at_least"),
            keys_each=options.get("keys_each"),
            delta=options.get("delta"),
            name=options.get("name"),
        )
