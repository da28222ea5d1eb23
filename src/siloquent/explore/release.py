"""An answer as a release: a Parquet file, and a manifest with guarantee and receipt."""

from __future__ import annotations

from pathlib import Path

from siloquent.explore.spec import Answer
from siloquent.releases import ExpectedFiles, Manifest, ReleaseFile, guarantee_to_dict, write_release
from siloquent.version import VERSION

FILE = "answer.parquet"


def write_answer_release(answer: Answer, releases: Path) -> Path:
    """Write ``answer`` under ``releases`` and return its folder; free, since it writes only released values.

    Raises:
        ReleaseError: another release of that id exists, or the disk cannot be written.
    """
    return write_release(releases, _build_manifest(answer), answer.table, grid=_build_grid(answer), name=FILE)


def render_release(answer: Answer, *, told: int = 0) -> ExpectedFiles:
    """Render the files that ``write_answer_release`` would write; the release may contain ``told`` more notes."""
    table = answer.table
    file = ReleaseFile(FILE, "", table.num_rows, tuple(table.column_names), _build_grid(answer))
    return ExpectedFiles(_build_manifest(answer), (file,), {FILE: table}, told)


def _build_grid(answer: Answer) -> dict[str, str]:
    numbers = [name for name in answer.columns if name in ("low", "high")] + list(answer.columns[-3:-2])
    return {name: str(answer.grid) for name in numbers if answer.kind == "wcq"}


def _build_manifest(answer: Answer) -> Manifest:
    return Manifest(
        id=answer.id,
        task=answer.task,
        package=f"siloquent {VERSION}",
        table=answer.table_name,
        schema=f"sha256:{answer.schema_digest}",
        request={"query": answer.request},
        guarantee=guarantee_to_dict(answer.guarantee),
        accuracy={
            "alpha": str(answer.accuracy.alpha),
            "beta": str(answer.accuracy.beta),
            "label": answer.accuracy.label,
            "unit": answer.accuracy.unit,
            "promise": answer.promise,
        },
        receipt={"ledger": answer.receipt.ledger, "seq": answer.receipt.seq, "hash": answer.receipt.hash},
        files=(),
        known=("counts are neither rounded nor clamped at zero", *answer.notes),
    )
