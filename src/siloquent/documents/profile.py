"""Documents about dependencies: of one table or over silos; the latter also as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.charts.graph import Graph
    from siloquent.profile import Dependency, FDReport, LocalResult, SessionPlan

MAX_NODES = 60
MAX_EDGES = 300


def build_local_document(table: str, found: LocalResult) -> dict[str, Any]:
    """Return a local profile as a document of kind ``siloquent/fd-local/1``."""
    return {
        "schema": "siloquent/fd-local/1",
        "table": table,
        "columns": list(found.columns),
        "dependencies": _list_dependencies(found.dependencies),
        "constants": list(found.constants),
        "complete_to_lhs": found.complete_to_lhs,
        "private": False,
    }


def build_plan_document(planned: SessionPlan) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/fd-plan/2``."""
    return {
        "schema": "siloquent/fd-plan/2",
        "table": planned.spec.table,
        "columns": list(planned.spec.columns),
        "protocol": planned.spec.protocol,
        "parties": planned.parties,
        "workers": planned.workers,
        "max_sets": planned.most_sets,
        "max_votes": planned.most_votes,
        "set_bytes": planned.set_bytes,
        "set_seconds": round(planned.set_seconds, 6),
        "statement": [list(pair) for pair in planned.statement],
        "warnings": list(planned.warnings),
        "data_touched": False,
    }


def build_report_document(report: FDReport, folder: Path | None) -> dict[str, Any]:
    """Return a report as a document of kind ``siloquent/fd-report/1``."""
    plain = report.to_dict()
    return {
        "schema": "siloquent/fd-report/1",
        "id": report.id,
        "folder": "" if folder is None else str(folder),
        **{
            name: plain[name]
            for name in (
                "protocol",
                "columns",
                "conventions",
                "parties",
                "workers",
                "constants",
                "ufd",
                "cfd",
                "keys",
                "leakage",
                "canaries",
            )
        },
        "guarantee": report.describe_guarantee(),
        "signatures": plain["signatures"],
    }


def build_report_verdict_document(report: FDReport, problems: Sequence[str]) -> dict[str, Any]:
    """Return the check of a report as a document of kind ``siloquent/fd-verdict/1``."""
    return {"schema": "siloquent/fd-verdict/1", "id": report.id, "problems": list(problems)}


def build_adoption_document(report: str, table: str, picked: Sequence[str], *, changed: bool) -> dict[str, Any]:
    """Return adopted dependencies as a document of kind ``siloquent/fd-adopted/1``.

    ``changed``: whether the declaration changed. ``adopted`` is the older name of ``picked`` over HTTP.
    """
    return {
        "schema": "siloquent/fd-adopted/1",
        "id": report,
        "table": table,
        "picked": list(picked),
        "changed": changed,
        "adopted": list(picked),
    }


def _list_dependencies(found: Sequence[Dependency]) -> list[list[Any]]:
    return [[list(one.lhs), one.rhs] for one in found]


def build_report_graph(report: FDReport) -> Graph | None:
    """Return the dependencies as arrows between columns, dashed if they hold in each silo but not over all rows.

    A left side of several columns is a node of its own. None if there is nothing to draw, or too much.
    """
    from siloquent.charts.chart import Labels
    from siloquent.charts.graph import Edge, Graph, Node

    found = [(one, False) for one in report.ufd] + [(one, True) for one in report.only_inside]
    names = list(dict.fromkeys(name for one, _ in found for name in (", ".join(one.lhs) or "{}", one.rhs)))
    if not found or len(names) > MAX_NODES or len(found) > MAX_EDGES:
        return None
    places = {name: number for number, name in enumerate(names)}
    edges = [
        Edge(places[", ".join(one.lhs) or "{}"], places[one.rhs], 0.2, directed=True, dashed=inside)
        for one, inside in found
    ]
    about = f"{len(report.ufd)} hold over all rows, {len(report.only_inside)} only within a silo (dashed)."
    return Graph(Labels("What determines what", about), [Node(name) for name in names], edges)
