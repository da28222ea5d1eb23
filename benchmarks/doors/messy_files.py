"""Sixty and more messy files through every way in: read as the plain file is, or refused with the right reason.

A file that is read gives in ``check`` and ``ask`` what the plain UTF-8 file gives; of a refusal, the reason
is the declared one, and what its fix says to write makes the file one that is read.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.hostile.messy_files import NAMES, MessyFile, messy_files, records
from benchmarks.hostile.messy_workbooks import messy_workbooks
from benchmarks.row import Options, Row
from siloquent.api import Session
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.errors import SiloquentError
from siloquent.ledger import MemoryLedger
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace

COUNTED = NAMES[1:]
QUERY = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 0.5 CONFIDENCE 0.999999"


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants("messy-files"):
        return
    files = [*messy_files(), *messy_workbooks()][:: 5 if options.quick else 1]
    wrong = []
    for file in files:
        with tempfile.TemporaryDirectory() as name:
            wrong += judge(file, Path(name).resolve(), ask=True)
    kinds = Counter("refused" if file.refused else "mended by check" if file.found else "read" for file in files)
    how = f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())}; first faults: {wrong[:3]}"
    yield Row("messy-files", ours=len(wrong), goal=0, unit="faults", how=how)
    yield Row("messy-files-kinds", ours=len(files), goal=12 if options.quick else 60, better="higher", unit="files")


def _expect() -> dict[str, tuple[int, ...]]:
    """The counts of each attribute's cells, OUTSIDE last, as the definition in Python gives them."""
    domain = parse_schema(next(messy_files()).declare()).domain
    table = records()
    found = {}
    for name in COUNTED:
        places = [domain[name].index(row[name]) for row in table]
        found[name] = _histogram(np.array(places), domain[name].size)
    return found


def _histogram(places: np.ndarray, size: int) -> tuple[int, ...]:
    if size > 10_000:  # only which cells are met, and how often
        return tuple(sorted(Counter(places.tolist()).items()))  # type: ignore[arg-type]
    return tuple(np.bincount(np.where(places < 0, size, places), minlength=size + 1).tolist())


def judge(file: MessyFile, folder: Path, *, ask: bool) -> list[str]:
    """What is wrong with the reading of one file; empty if nothing is.

    Args:
        folder: An empty folder, for a workspace.
        ask: Also declare the file from its header line, and ask a query.
    """
    (folder / "data").mkdir()
    file.write(folder / "data")
    if file.refused:
        faults = _refuse(file, folder)
        return faults if file.mended is None else faults + _read(file, folder, file.mended, ask)
    if file.found:
        return _find(file, folder) + ([] if file.mended is None else _read(file, folder, file.mended, ask))
    return _read(file, folder, file.reading, ask)


def _open(file: MessyFile, folder: Path, reading: str) -> Session:
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "schemas" / "visits.toml").write_text(file.declare(reading), encoding="utf-8")
    return Session(Workspace(folder), MemoryLedger())


def _refuse(file: MessyFile, folder: Path) -> list[str]:
    try:
        with _open(file, folder, file.reading) as session:
            session.check("visits")
    except SiloquentError as refused:
        text = str(refused)
        right = file.refused in text and file.fix in text and refused.code in ("schema_invalid", "unknown_name")
        return [] if right and "spent: nothing" in text else [f"{file.name}: refused otherwise: {text}"]
    return [f"{file.name}: not refused"]


def _find(file: MessyFile, folder: Path) -> list[str]:
    with _open(file, folder, file.reading) as session:
        report = session.check("visits")
    told = [one for one in report.findings if one.is_problem and file.found in one.sentence and file.fix in one.fix]
    return [] if told else [f"{file.name}: check says {[(one.sentence, one.fix) for one in report.findings]}"]


def _read(file: MessyFile, folder: Path, reading: str, ask: bool) -> list[str]:
    try:
        with _open(file, folder, reading) as session:
            return [f"{file.name}: {fault}" for fault in _compare(session, ask)]
    except SiloquentError as refused:
        return [f"{file.name}: refused: {refused}"]


def _compare(session: Session, ask: bool) -> Iterator[str]:
    expected = EXPECTED
    report = session.check("visits")
    if report.rows != 60 or not report.is_clean:
        yield f"check sees {report.rows} rows, {[one.sentence for one in report.findings if one.is_problem]}"
    nulls = {one.subject: one.count for one in report.findings if one.kind == "null"}
    wanted = {f"attribute {name}": sum(row[name] is None for row in records()) for name in COUNTED}
    if nulls != {name: count for name, count in wanted.items() if count}:
        yield f"check sees missing values {nulls}"
    counts = _count(session)
    for name in COUNTED:
        if counts[name] != expected[name]:
            yield f"{name}: {counts[name]} instead of {expected[name]}"
    if not ask:
        return
    answer = session.ask(QUERY, key="once")
    values = [round(float(row["count"])) for row in answer.to_arrow().to_pylist()]
    if values != list(expected["ward"][: len(values)]):
        yield f"ask says {values} instead of {expected['ward']}"


def _count(session: Session) -> dict[str, tuple[int, ...]]:
    """Count the cells of each attribute exactly, as measurements do."""
    engine, columns, _ = session.table("visits").open_for_owner()  # allowed: rows that this file made up
    found = {}
    for column in columns:
        if column.attribute.name not in COUNTED:
            continue
        query = select_bounded_rows(columns, session.schema("visits").unit, salt="", wanted=[column])
        batches = [np.asarray(batch.column(0)) for batch in engine.read_batches(query)]
        places = np.concatenate([*batches, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        found[column.attribute.name] = _histogram(places, column.attribute.size)
    return found


EXPECTED: Mapping[str, tuple[int, ...]] = _expect()
