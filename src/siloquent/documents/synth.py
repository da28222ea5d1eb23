"""Documents about synthetic tables: releases, rows and reports; checks, repairs and comparisons of public rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema import TableSchema
    from siloquent.synth.estimate.public_rows import PublicRows
    from siloquent.synth.estimate.repair import RepairResult
    from siloquent.synth.estimate.report.evaluate import Evaluation, MarginalDistance
    from siloquent.synth.spec.compiled import CompiledConstraints, Violations
    from siloquent.synth.spec.release import SyntheticRelease

FIRST_ROWS = 10
WORST = 5


def build_synthesis_document(made: SyntheticRelease, folder: Path, key: str) -> dict[str, Any]:
    """Return a release as a document of kind ``siloquent/synth/2``; ``key``: under which it is free."""
    ledger, seq, digest = made.receipt
    report = made.report
    return {
        "schema": "siloquent/synth/2",
        "release": str(folder),
        "table": report.table,
        "rows": report.rows,
        "columns": made.rows.column_names,
        "constraints": [
            {
                "constraint": one.text,
                "hard": one.hard,
                "violations": one.pairs,
                "possible": one.possible,
                "kept": one.how,
            }
            for one in report.constraints
        ],
        "real": [{"name": p.name, "value": p.value, "low": p.low, "high": p.high} for p in report.paid],
        "guarantee": made.guarantee.describe(),
        "receipt": {"ledger": ledger, "seq": seq, "hash": digest},
        "known": list(report.known),
        "key": key,
    }


def build_rows_document(table: pa.Table, output: Path | None) -> dict[str, Any]:
    """Return drawn rows as a document of kind ``siloquent/synth-rows/1``: a file's name, or the first rows."""
    shown = (
        []
        if output is not None
        else [[_convert_value(v) for v in row.values()] for row in table.slice(0, FIRST_ROWS).to_pylist()]
    )
    return {
        "schema": "siloquent/synth-rows/1",
        "rows": table.num_rows,
        "columns": table.column_names,
        "file": None if output is None else str(output),
        "first": shown,
    }


def build_report_document(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release's report as a document of kind ``siloquent/synth-report/1``."""
    return {"schema": "siloquent/synth-report/1", **report}


def build_constraints_document(toml: str, number: int) -> dict[str, Any]:
    """Return imported constraints as a document of kind ``siloquent/synth-constraints/1``; ``number``: how many."""
    return {"schema": "siloquent/synth-constraints/1", "constraints": number, "toml": toml}


def build_check_document(
    schema: TableSchema,
    path: Path,
    compiled: CompiledConstraints,
    found: PublicRows,
    counts: dict[int, Violations],
) -> dict[str, Any]:
    """Return a check's findings as a document of kind ``siloquent/synth-check/2``."""
    listed = []
    for one in compiled.constraints:
        count = counts.get(one.number)
        listed.append(
            {
                "number": one.number,
                "constraint": one.text,
                "kind": one.kind,
                "hard": one.hard,
                "violations": count.pairs if count else 0,
                "violations_ordered": count.one_way if count else 0,
                "possible": count.possible if count else 0,
                "rate": count.rate if count else 0.0,
                "note": one.kept if one.form is None else "",
            }
        )
    return {
        "schema": "siloquent/synth-check/2",
        "table": schema.name,
        "file": path.name,
        "rows": len(found.cells),
        "outside": int((found.cells < 0).sum()),
        "kept": all(not entry["violations"] for entry in listed if entry["hard"]),
        "constraints": listed,
    }


def build_repair_document(
    schema: TableSchema, output: Path, compiled: CompiledConstraints, found: PublicRows, repaired: RepairResult
) -> dict[str, Any]:
    """Return a repair's changes as a document of kind ``siloquent/synth-repair/2``; rows count from 1."""
    changes = []
    for row, column in repaired.changed.tolist():
        attribute = compiled.declared[column]
        old, new = int(found.cells[row, column]), int(repaired.rows[row, column])
        changes.append(
            {
                "row": row + 1,
                "attribute": attribute.name,
                "old": None if old < 0 else _format_value(attribute.label(old)),
                "new": None if new < 0 else _format_value(attribute.label(new)),
            }
        )
    texts = {one.number: one.text for one in compiled.constraints}
    return {
        "schema": "siloquent/synth-repair/2",
        "table": schema.name,
        "file": str(output),
        "rows": len(found.cells),
        "violations": [{"constraint": texts[number], "count": count} for number, count in repaired.before.items()],
        "changes": changes,
    }


def build_evaluation_document(table: str, found: Evaluation, compiled: CompiledConstraints) -> dict[str, Any]:
    """Return an evaluation as a document of kind ``siloquent/synth-evaluation/2``; ``private``: figures are exact."""
    texts = {one.number: (one.text, one.hard) for one in compiled.constraints}
    return {
        "schema": "siloquent/synth-evaluation/2",
        "private": True,
        "table": table,
        "rows": found.rows,
        "real_rows": found.true_rows,
        "single": _summarise_distances(found.ones),
        "pairs": _summarise_distances(found.pairs),
        "constraints": [
            {
                "number": number,
                "constraint": texts[number][0],
                "hard": texts[number][1],
                "violations": ours.pairs,
                "rate": ours.rate,
                "real_rate": theirs.rate,
            }
            for number, ours, theirs in found.broken
        ],
        "classifiers": [
            {
                "target": one.target,
                "classifier": one.classifier,
                "trained_on_synthetic": round(one.on_output, 5),
                "trained_on_real": round(one.on_truth, 5),
            }
            for one in found.right
        ],
    }


def _summarise_distances(found: tuple[MarginalDistance, ...]) -> dict[str, Any]:
    worst = sorted(found, key=lambda one: -one.distance)[:WORST]
    mean = sum(one.distance for one in found) / max(len(found), 1)
    return {
        "mean": round(mean, 5),
        "worst": [{"columns": list(one.columns), "distance": round(one.distance, 5)} for one in worst],
    }


def _format_value(value: object) -> str | None:
    return None if value is None else str(value)


def _convert_value(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
