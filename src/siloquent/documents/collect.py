"""Documents about collections: designs, their checks, and the counters and answers of device reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.collect import CollectAnswer, Collection, Counters, DesignFinding, Prediction, ReportStore


def build_design_document(
    made: Collection, document: Path, key: Path, users: int, predicted: Sequence[Prediction]
) -> dict[str, Any]:
    """Return a design as a document of kind ``siloquent/collect-design/1``; the collection itself is in its file."""
    return {
        "schema": "siloquent/collect-design/1",
        "name": made.spec.name,
        "epoch": made.spec.epoch,
        "epsilon": str(made.spec.epsilon),
        "digest": made.digest,
        "document": str(document),
        "secret": str(key),
        "channels": [
            {
                "services": list(channel.services),
                "epsilon": str(channel.epsilon),
                "rows_per_user": channel.slots,
                "bytes": made.get_report_length(at),
                "layers": len(channel.layers),
            }
            for at, channel in enumerate(made.channels)
        ],
        "users": users,
        "predicted": [
            {"services": list(one.services), "question": one.question, "relative_error": one.relative}
            for one in predicted
        ],
    }


def build_check_document(made: Collection, findings: Sequence[DesignFinding]) -> dict[str, Any]:
    """Return the proof as a document of kind ``siloquent/collect-check/1``."""
    return {
        "schema": "siloquent/collect-check/1",
        "digest": made.digest,
        "holds": all(one.holds for one in findings),
        "findings": [
            {"what": one.what, "epsilon": one.epsilon, "allowed": str(one.allowed), "holds": one.holds}
            for one in findings
        ],
    }


def build_collection_list_document(names: Sequence[str]) -> dict[str, Any]:
    """Return the names of collections as a document of kind ``siloquent/collection-list/1``."""
    return {"schema": "siloquent/collection-list/1", "collections": list(names)}


def build_taken_document(made: Collection, taken: Counters) -> dict[str, Any]:
    """Return what became of reports just sent, as a document of kind ``siloquent/collect-taken/1``."""
    return {"schema": "siloquent/collect-taken/1", "collection": made.digest, "counters": asdict(taken)}


def build_counters_document(made: Collection, counters: Counters, store: ReportStore) -> dict[str, Any]:
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


def build_estimates_document(made: Collection, answer: CollectAnswer) -> dict[str, Any]:
    """Return an answer as a document of kind ``siloquent/collect-answer/1``."""
    return {
        "schema": "siloquent/collect-answer/1",
        "collection": made.digest,
        "sql": answer.sql,
        "columns": answer.columns,
        "rows": [[format_plain_value(value) for value in row] for row in answer.rows],
        "model_based": [[one.model_based for one in row] for row in answer.estimates],
        "users": answer.users,
        "free": True,
        "guarantee": answer.guarantee,
        "notes": list(answer.notes),
    }


def format_plain_value(value: Any) -> Any:
    """Return an answer's value as JSON and CSV accept it."""
    return value.isoformat() if isinstance(value, date) else value
