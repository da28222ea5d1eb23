"""Documents about device reports: their counters and answers."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.collect import CollectAnswer, Collection, Counters, ReportStore


def counters_document(made: Collection, counters: Counters, store: ReportStore) -> dict[str, Any]:
    """Return counters as a document of kind ``siloquent/collect-counters/1``."""
    return {
        "schema": "siloquent/collect-counters/1",
        "name": made.spec.name,
        "epoch": made.spec.epoch,
        "counters": asdict(counters),
        "reports": [
            {"services": list(channel.services), "reports": count, "layers": store.count_layer_reports(at)}
            for at, (channel, count) in enumerate(zip(made.channels, store.count_reports(), strict=True))
        ],
    }


def answer_document(made: Collection, answer: CollectAnswer) -> dict[str, Any]:
    """Return an answer as a document of kind ``siloquent/collect-answer/1``."""
    return {
        "schema": "siloquent/collect-answer/1",
        "collection": made.digest,
        "sql": answer.sql,
        "columns": answer.columns,
        "rows": [[plain_value(value) for value in row] for row in answer.rows],
        "model_based": [[one.model_based for one in row] for row in answer.estimates],
        "users": answer.users,
        "free": True,
        "guarantee": answer.guarantee,
        "notes": list(answer.notes),
    }


def plain_value(value: Any) -> Any:
    """Return an answer's value as JSON and CSV accept it."""
    return value.isoformat() if isinstance(value, date) else value
