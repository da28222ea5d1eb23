"""Documents about shared statistics: releases, secure sums, advice, models and rows made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.federation.role import SessionResult
    from siloquent.share import Advice, Model, ShareRelease, ShareSpec


def build_share_document(release: ShareRelease, folder: Path, key: str) -> dict[str, Any]:
    """Return a release as a document of kind ``siloquent/share/1``; ``key``: under which it is free."""
    from siloquent.share.files import format_release_id

    return {
        "schema": "siloquent/share/1",
        "id": format_release_id(release),
        "folder": str(folder),
        "table": release.table,
        "label": release.agreement.label.name,
        "features": [attribute.name for attribute in release.agreement.features],
        "method": release.agreement.method,
        "trust": release.agreement.trust,
        "agreement": release.agreement.digest,
        "silos": release.silos,
        "numbers": sum(values.size for values in release.values.values()),
        "bytes": len(release.to_bytes()),
        "guarantee": release.describe_guarantee(),
        "receipt": {"ledger": release.part.ledger, "seq": release.part.seq, "hash": release.part.hash},
        "notes": list(release.notes),
        "key": key,
    }


def build_sum_document(spec: ShareSpec, held: SessionResult) -> dict[str, Any]:
    """Return a held secure sum as a document of kind ``siloquent/share-sum/1``; parties keep it as their release."""
    return {
        "schema": "siloquent/share-sum/1",
        "session": held.session,
        "table": spec.table,
        "label": spec.label,
        "method": spec.method,
        "silos": list(held.result.parties),
        "numbers": int(held.result.total.size),
    }


def build_advice_document(advice: Advice, releases: Sequence[ShareRelease]) -> dict[str, Any]:
    """Return advice as a document of kind ``siloquent/advice/1``; it is about the owner's rows."""
    return {
        "schema": "siloquent/advice/1",
        "releases": [release.name for release in releases],
        "recommended": advice.recommended,
        "sentence": advice.describe(),
        "models": [
            {
                "model": name,
                "error": found.error,
                "balanced_error": _drop_infinite(found.balanced),
                "auc": _drop_infinite(found.auc),
                "loss": found.loss,
            }
            for name, found in advice.measures.items()
        ],
        "error_difference": [advice.error.low, advice.error.mean, advice.error.high],
        "loss_difference": [advice.loss.low, advice.loss.mean, advice.loss.high],
        "private": True,
    }


def _drop_infinite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def build_model_document(model: Model, file: Path) -> dict[str, Any]:
    """Return a model as a document of kind ``siloquent/share-model/1``; its weights are in its file."""
    return {
        "schema": "siloquent/share-model/1",
        "file": str(file),
        "kind": model.kind,
        "label": model.agreement.label.name,
        "features": [attribute.name for attribute in model.agreement.features],
        "silos": model.silos,
        "holds_own_rows": model.holds_own_rows,
    }


def build_rows_document(table: pa.Table, releases: Sequence[ShareRelease], file: Path) -> dict[str, Any]:
    """Return drawn rows as a document of kind ``siloquent/share-rows/1``; the rows are in their file."""
    return {
        "schema": "siloquent/share-rows/1",
        "file": str(file),
        "rows": table.num_rows,
        "columns": table.column_names,
        "releases": [release.name for release in releases],
    }
