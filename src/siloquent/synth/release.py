"""Saving a synthesis as a release (rows, model, measurements, report and manifest), and loading it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.errors import ReleaseError, SiloquentError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.maths.graphical.fit import GraphicalModel
from siloquent.maths.graphical.tree import Clique, JunctionTree
from siloquent.releases import KeptMeasurement, Manifest, ReleaseFile, guarantee_to_dict
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.codec import FolderCodec
from siloquent.releases.guarantees import build_guarantee
from siloquent.releases.kept import FileTest, has_same_arrays, is_near, walk_leaves
from siloquent.releases.provenance import read_checked
from siloquent.synth.engines import Learner, Model, build_model, plan, rebuild_learner
from siloquent.synth.estimate.chain.learner import rebuild_chain_learner
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.model import TreeModel
from siloquent.synth.estimate.model_domain import build_model_domain
from siloquent.synth.estimate.report.figures import build_report
from siloquent.synth.estimate.report.html import render_page
from siloquent.synth.estimate.tree import rebuild_fine_domains
from siloquent.synth.plan.chain import ChainPlan
from siloquent.synth.references import compute_reference_digests, dump_tables, parse_tables, read_reference_tables
from siloquent.synth.spec.measurements import decode_run_measurements
from siloquent.synth.spec.release import SyntheticRelease
from siloquent.synth.spec.schema_document import dump_value, parse_schema_document
from siloquent.synth.spec.spec import parse_spec
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema

ROWS, MODEL, MEASURED, PAGE, REPORT = "rows.parquet", "model.npz", "measurements.npz", "report.html", "report.json"
MODEL_ARRAYS, MEASURED_ARRAYS = ("beliefs", "weights"), ("counts", "starts")
MAX_BYTES = 2**28
_PRECISION = 1e-6
"""The most by which a model's numbers differ, relatively, between processors and versions of numerical libraries."""
_ROUNDING = 1e-4
"""The most by which figures of a report differ that were rounded from equal numbers: they have four digits or more."""


def save_release(release: SyntheticRelease, folder: Path) -> Path:
    """Write the release as ``folder``, completely or not at all; an equal one that exists already is kept.

    Raises:
        ReleaseError: Another release is there, or the disk refuses.
    """
    return SYNTHESIS_CODEC.write(release, folder)


def assemble(schema: TableSchema, stored: SettledAnswer, *, learner: Learner | None = None) -> SyntheticRelease:
    """Return the release from the ledger's contents: the same at every replay.

    Args:
        learner: The learner at the end of the run, if this process made it; otherwise it is rebuilt.
    Raises:
        ReleaseError: The stored answer is not a synthesis.
    Privacy:
        Post-processing of the ledger's contents: no row is read, nothing is charged.
    """
    measured = decode_run_measurements(stored.payload)
    if learner is None:
        chosen = plan(parse_spec(load_json(measured.request)), schema)
        learner = rebuild_learner(chosen, measured, extra=read_reference_tables(chosen))
    guarantee = build_guarantee(schema, stored)
    model = build_model(learner, guarantee.describe())
    codes = model.draw_cells(learner.rows, seed=learner.plan.spec.seed)
    report = build_report(learner, measured, codes, stored, guarantee)
    return SyntheticRelease(
        rows=model.decode_cells(codes),
        model=model,
        measurements=measured,
        report=report,
        guarantee=guarantee,
        account=stored.account,
        receipt=(stored.receipt.ledger, stored.receipt.seq, stored.receipt.hash),
        schema_digest=measured.schema_digest,  # the ledger keeps it; the table file may have changed since
    )


def load_model(folder: Path) -> Model:
    """Load the model in a release's folder; hashes are checked before anything is parsed.

    Raises:
        ReleaseError: It is not a release of a synthesis, or was changed after its release.
    """
    arrays, words = unpack(_read_checked(folder, MODEL), MODEL_ARRAYS)
    measured = decode_run_measurements(_read_checked(folder, MEASURED))
    try:
        schema = parse_schema_document(words["table"])
        chosen = plan(parse_spec(words["spec"]), schema)
        extra = parse_tables(chosen, words["references"])
        if isinstance(chosen, ChainPlan):
            weights = {int(number): float(weight) for number, weight in words["weights"].items()}
            # The weights were fitted once, at the release; here they are only read.
            return (
                rebuild_chain_learner(chosen, measured, extra=extra)
                .build_weighted_model(weights)
                .attach_guarantee(words["sentence"])
            )
        fine, tables = measured.select_kind("fine"), measured.select_kind("table")
        frame = build_model_domain(chosen.compiled, rebuild_fine_domains(chosen, measured), fine, tables, extra=extra)
        cliques = tuple(Clique(tuple(a), tuple(s), shared, parent) for a, s, shared, parent in words["cliques"])
        sizes = [int(np.prod(clique.shape)) for clique in cliques]
        parts = np.split(arrays["beliefs"], np.cumsum(sizes)[:-1].astype(int))
        beliefs = tuple(part.reshape(clique.shape) for part, clique in zip(parts, cliques, strict=True))
        rates = {int(number): float(rate) for number, rate in words["rates"].items()}
        fitted = GraphicalModel(JunctionTree(frame.sizes, cliques), beliefs, {})
        return TreeModel(chosen, frame, fitted, words["sentence"], rates)
    except (KeyError, TypeError, ValueError):
        raise ReleaseError("The model was truncated or altered.", fix=run("verify", "RELEASE")) from None


def load_report(folder: Path) -> dict[str, Any]:
    """Return the report's numbers from a release's folder."""
    try:
        found = load_json(_read_checked(folder, REPORT))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ReleaseError("The report was truncated or altered.", fix=run("verify", "RELEASE"))
    return found


def read_page(folder: Path) -> str:
    """Return the report's page from a release's folder."""
    return _read_checked(folder, PAGE).decode()


def build_manifest(release: SyntheticRelease) -> Manifest:
    """Build the release's manifest, without files."""
    plan, (ledger, seq, digest) = release.model.plan, release.receipt
    return Manifest(
        id=release.id,
        task="synth",
        package=f"siloquent {VERSION}",
        table=plan.schema.name,
        schema=f"sha256:{release.schema_digest}",
        request={
            "query": f"synth {plan.schema.name}",
            "synth": plan.spec.to_dict(),
            "constraints": [f"{one.text}: {one.kept}" for one in plan.compiled.constraints],
            "references": compute_reference_digests(plan.spec),
            "omitted": [a.name for a in plan.schema.domain if a.name not in release.rows.column_names],
        },
        guarantee=guarantee_to_dict(release.guarantee),
        accuracy={"promise": "report.html says how far columns and pairs may be off", "label": "report"},
        receipt={"ledger": ledger, "seq": seq, "hash": digest},
        files=(),
        known=release.report.known,
    )


def _list_files(release: SyntheticRelease) -> tuple[ReleaseFile, ...]:
    grid = {
        a.name: str(a.grid) for a in release.model.schema.domain if a.is_numeric and a.name in release.rows.schema.names
    }
    return (
        ReleaseFile(ROWS, "", release.rows.num_rows, tuple(release.rows.column_names), grid),
        ReleaseFile(MODEL, "", *_inspect_model(release.model), {}),
        ReleaseFile(MEASURED, "", len(release.measurements.steps), ("counts", "starts"), {"counts": "1"}),
        ReleaseFile(PAGE, "", 1, (), {}),
        ReleaseFile(REPORT, "", 1, (), {}),
    )


def _render_contents(release: SyntheticRelease) -> dict[str, pa.Table | bytes]:
    return {
        ROWS: release.rows,
        MODEL: encode_model(release.model),
        MEASURED: release.measurements.to_bytes(),
        PAGE: render_page(release.report).encode(),
        REPORT: release.report.to_json().encode(),
    }


def _inspect_model(model: Model) -> tuple[int, tuple[str, ...]]:
    """Return the number of numbers in a model's file, and their names."""
    if isinstance(model, ChainModel):
        return len(model.weights), ("weights",)
    return model.fitted.tree.cells, ("beliefs",)


def encode_model(model: Model) -> bytes:
    """Encode the model as a file that holds no code; a chain's parameters are its measurements."""
    if isinstance(model, ChainModel):
        return _encode_chain(model)
    cliques = [[list(c.attributes), list(c.shape), c.shared, c.parent] for c in model.fitted.tree.cliques]
    words = {
        "spec": model.plan.spec.to_dict(),
        "table": dump_value(model.schema),
        "references": dump_tables(model.plan, model.frame.tables),
        "cliques": cliques,
        "sentence": model.sentence,
        "rates": {str(number): rate for number, rate in model.rates.items()},
    }
    return pack({"beliefs": np.concatenate([belief.ravel() for belief in model.fitted.beliefs])}, words)


def _encode_chain(model: ChainModel) -> bytes:
    words = {
        "spec": model.plan.spec.to_dict(),
        "table": dump_value(model.schema),
        "references": dump_tables(model.plan, model.frame.tables),
        "sentence": model.sentence,
        "weights": {str(number): weight for number, weight in model.weights.items()},
    }
    return pack({"weights": np.array(list(model.weights.values()), dtype=np.float64)}, words)


def _read_checked(folder: Path, name: str) -> bytes:
    return read_checked(folder, name, task="synth", kind="a synthetic table", most=MAX_BYTES)[1]


def _assemble_again(schema: TableSchema, stored: SettledAnswer) -> SyntheticRelease:
    """Do the same as ``assemble``, only under the declaration that the synthesis was made for."""
    if decode_run_measurements(stored.payload).schema_digest != schema.digest:
        raise ReleaseError("The synthesis was made for another declaration.")
    try:
        return assemble(schema, stored)
    except (ArithmeticError, LookupError, ValueError):
        raise ReleaseError("The measurement was made by other rules: it does not fit this version's plan.") from None


def _find_kept(stored: SettledAnswer) -> KeptMeasurement | None:
    """Return the measurement and receipt in ``stored`` as tests, read without this version's rules."""
    try:
        _, words = unpack(stored.payload, MEASURED_ARRAYS)
    except ReleaseError:
        return None
    if words.get("task") != "synth":
        return None
    tests = {
        MEASURED: partial(has_same_arrays, stored.payload, names=MEASURED_ARRAYS),
        REPORT: partial(_has_receipt, stored),
    }
    return KeptMeasurement("synth", tests, schema=str(words.get("schema", "")))


def _has_receipt(stored: SettledAnswer, data: bytes) -> bool:
    try:
        plain = load_json(data)
    except ValueError:
        return False
    receipt = stored.receipt
    return isinstance(plain, dict) and plain.get("receipt") == [receipt.ledger, receipt.seq, receipt.hash]


def _build_meanings(contents: Mapping[str, pa.Table | bytes]) -> dict[str, FileTest]:
    same = partial(has_same_arrays, contents[MODEL], names=MODEL_ARRAYS, besides=("sentence",), tolerance=_PRECISION)
    return {MODEL: same, REPORT: partial(_has_same_figures, contents[REPORT])}


def _build_near(contents: Mapping[str, pa.Table | bytes]) -> dict[str, FileTest]:
    return {MODEL: partial(has_same_arrays, contents[MODEL], names=MODEL_ARRAYS, tolerance=_PRECISION)}


def _has_same_figures(content: bytes, data: bytes) -> bool:
    """Return whether the figures in two reports agree where both have one, up to rounding; words may differ."""
    try:
        mine, theirs = (dict(walk_leaves(load_json(each))) for each in (content, data))
    except ValueError:
        return False
    both = [(mine[place], theirs[place]) for place in mine.keys() & theirs.keys()]
    figures = [pair for pair in both if any(isinstance(one, int | float) for one in pair)]
    return bool(figures) and all(is_near(*pair, _ROUNDING) for pair in figures)


def _normalize(data: bytes) -> bytes:
    """Return the canonical bytes of a file: arrays packed again, pages and reports as they are."""
    if not data.startswith(b"PK"):
        return data
    return pack(*unpack(data, (*MODEL_ARRAYS, *MEASURED_ARRAYS)))


# A synthesis cannot be repeated if another version planned it, or a public file is missing.
SYNTHESIS_CODEC = FolderCodec(
    build_manifest,
    _list_files,
    _render_contents,
    _assemble_again,
    normalize=_normalize,
    unrepeatable=SiloquentError,
    keep=_find_kept,
    build_meanings=_build_meanings,
    build_near=_build_near,
)
