"""The tasks that run as jobs: how each reads its spec, and the verb that it runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from siloquent.server.settings import CATALOGUE

if TYPE_CHECKING:
    from siloquent.api import Session

ProgressReporter = Callable[[int, int], None]
"""A callback that receives the steps done and their total: both follow from the plan, never from rows."""
JobTask = Callable[["Session", dict[str, Any], str, str | None, ProgressReporter], dict[str, Any]]
PRICED, MADE, WRITTEN = 1, 2, 3


def _run_in_three_steps(
    verbs: Any, asked: Any, key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    """Run a task in three steps (price, make, write), with the verbs in ``verbs``."""
    prepared = verbs.prepare(asked, key=key)
    tell(PRICED, WRITTEN)
    made = prepared.run(max_cost=max_cost)
    tell(MADE, WRITTEN)
    return {"release": verbs.save(made).name}


def _run_sketch(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.sketch import parse_spec

    return _run_in_three_steps(session.sketch, parse_spec(spec), key, max_cost, tell)


def _run_synth(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.synth import parse_spec

    prepared = session.synth.prepare(parse_spec(spec), key=key)
    steps = prepared.plan.steps + WRITTEN
    tell(PRICED, steps)

    def finished(step: int) -> None:
        tell(PRICED + step, steps)

    made = prepared.run(max_cost=max_cost, progress=finished)
    tell(steps - 1, steps)
    return {"release": session.synth.save(made).name}


def _run_search(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.search import parse_spec

    return _run_in_three_steps(session.search, parse_spec(spec), key, max_cost, tell)


def _run_find(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.documents.search import build_result_document
    from siloquent.search import parse_request

    asked, catalogue = parse_request(spec), session.workspace.folder / CATALOGUE
    tell(1, 2)
    found = session.search.find(asked, catalogue, key=key, max_cost=max_cost)
    return {"found": build_result_document(found, None, "")}


def _run_share(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.share import parse_spec

    return _run_in_three_steps(session.share, parse_spec(spec), key, max_cost, tell)


def _run_discover(
    session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: ProgressReporter
) -> dict[str, Any]:
    from siloquent.discover import DiscoveredKeys, parse_spec
    from siloquent.documents.discoveries import build_discovery_document

    prepared = session.discover.prepare_request(parse_spec(spec), key=key)
    if prepared.stored is None:  # the values may be in the ledger under another key, and their file lost
        lost = session.discover.prepare_request(parse_spec(spec))
        prepared = prepared if lost.stored is None else lost
    tell(PRICED, WRITTEN)
    found = prepared.run(max_cost=max_cost)
    tell(MADE, WRITTEN)
    if isinstance(found, DiscoveredKeys):
        found = session.discover.save(found)
    return {"discovery": build_discovery_document(found, None, "")}


TASKS: Mapping[str, JobTask] = {
    "sketch": _run_sketch,
    "synth": _run_synth,
    "search": _run_search,
    "find": _run_find,
    "share": _run_share,
    "discover": _run_discover,
}


def read_spec(task: str, spec: Mapping[str, Any]) -> None:
    """Check that ``task`` can read ``spec``; the result is discarded.

    Raises:
        SiloquentError: the spec is invalid.
    """
    if task == "find":
        from siloquent.search import parse_request

        parse_request(dict(spec))
        return
    module = importlib.import_module(f"siloquent.{task}")
    module.parse_spec(dict(spec))


FILES = ("plan_file", "references")
"""Spec fields that name files of this machine, which are not allowed over HTTP."""
