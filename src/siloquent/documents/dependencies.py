"""Dependencies over silos, as a document and as a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.charts.graph import Graph
    from siloquent.profile import FDReport

MAX_NODES = 60
MAX_EDGES = 300


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
    about = f"{len(report.ufd)} hold over all rows, {len(report.only_inside)} in each silo alone (dashed)."
    return Graph(Labels("What determines what", about), [Node(name) for name in names], edges)
