"""The demo's workspace: generated rows, their declaration, an empty ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from siloquent.demo import collecting_apps, profiling, profiling_tables, searching, sharing, visits, vitals
from siloquent.errors import SchemaError
from siloquent.fixes import run
from siloquent.schema.workspace import WORKSPACE_FILE, Workspace
from siloquent.session import create_workspace

SEED = 20240229
DEMO_MARK = ".siloquent-demo"


def create_clinic(
    folder: Path, *, seed: int = SEED, rows: int = visits.ROWS, patients: int = visits.PATIENTS
) -> Workspace:
    """Create a workspace of a generated clinic with the table ``visits`` in ``folder``, replacing an earlier demo.

    Raises:
        SchemaError: Something that is not a demo is there, or the folder cannot be written.
        LedgerError: The ledger cannot be created there.
    """
    import pyarrow.parquet

    _clear(folder)
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / DEMO_MARK).write_text("Made by `siloquent demo`, which may replace this folder.\n", encoding="utf-8")
        table = visits.make_visits(np.random.default_rng(seed), rows=rows, patients=patients)
        visits.check_visits(table)
        pyarrow.parquet.write_table(table, folder / "data" / "visits.parquet")
        workspace = create_workspace(folder)
        (workspace.schemas / "visits.toml").write_text(visits_toml(rows), encoding="utf-8")
        vitals.add_vitals(folder, seed=seed)
        collecting_apps.add_apps(folder, seed=seed)
        searching.add_searched(folder, seed=seed)
        profiling_tables.add_prices(folder, seed=seed)
        sharing.add_silos(folder, seed=seed, declaration=visits_toml(rows), size_hint=rows)
    except OSError as failed:
        raise SchemaError(
            f"The demo cannot be written to {folder}: {failed.strerror}.", fix=run("demo", "--folder", "ELSEWHERE")
        ) from None
    return workspace


def _clear(folder: Path) -> None:
    """Remove an earlier demo's files, and nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir() or not (folder / DEMO_MARK).is_file():
        if folder.is_dir() and not any(folder.iterdir()):
            return
        raise SchemaError(f"{folder} is there and is not a demo.", fix=run("demo", "--folder", "ELSEWHERE"))
    for inner in ("data", "schemas", "releases", "collections", "offers", "silos", "bundles", "roles"):
        shutil.rmtree(folder / inner, ignore_errors=True)
    for file in (
        *searching.WRITTEN,
        *profiling.WRITTEN,
        *sharing.WRITTEN,
        WORKSPACE_FILE,
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
        "ledger.head",
        "ledger.marks",
    ):
        (folder / file).unlink(missing_ok=True)


def visits_toml(size_hint: int) -> str:
    """Return the declaration of ``visits``: a table file as an owner would write it."""
    return _VISITS.format(
        **{name.lower(): _list(getattr(visits, name)) for name in _LISTED},
        longest=visits.MAX_STAY_SECONDS,
        dearest=visits.DEAREST,
        age=f"lo = 0, hi = {visits.OLDEST}",
        dearer="t1.diagnosis = t2.diagnosis and t1.stay_days > t2.stay_days and t1.cost_eur < t2.cost_eur",
        size_hint=size_hint,
    )


def _list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


_LISTED = ("SEXES", "POSTCODES", "DISTRICTS", "PLANS", "INSURERS", "DIAGNOSES", "CHAPTERS", "WARDS", "OUTCOMES")
_VISITS = """\
# What may be known about the table before anybody asks: never read off the rows.
format = 1

attribute = [
  {{ name = "visit_id", type = "id" }},
  {{ name = "patient", type = "id" }},
  {{ name = "age", type = "integer", {age}, outside = "clamp", null = "drop", bins = {{ width = 15 }} }},
  {{ name = "sex", type = "category", values = {sexes}, null = "drop" }},
  {{ name = "postcode", type = "category", null = "drop", values = {postcodes} }},
  {{ name = "district", type = "category", null = "drop", values = {districts} }},
  {{ name = "plan", type = "category", null = "drop", values = {plans} }},
  {{ name = "insurer", type = "category", null = "drop", values = {insurers} }},
  {{ name = "diagnosis", type = "category", null = "drop", values = {diagnoses} }},
  {{ name = "chapter", type = "category", null = "drop", values = {chapters} }},
  {{ name = "ward", type = "category", null = "drop", values = {wards} }},
  {{ name = "stay_days", type = "integer", lo = 0, hi = {longest}, outside = "clamp", null = "drop" }},
  {{ name = "cost_eur", type = "integer", lo = 0, hi = {dearest}, outside = "clamp", null = "drop" }},
  {{ name = "outcome", type = "category", null = "drop", values = {outcomes} }},
  {{ name = "readmitted", type = "boolean", null = "drop" }},
]

constraint = [
  {{ kind = "fd", lhs = ["diagnosis"], rhs = "chapter" }},
  {{ kind = "fd", lhs = ["postcode"], rhs = "district" }},
  {{ kind = "fd", lhs = ["plan"], rhs = "insurer" }},
  {{ kind = "fd", lhs = ["patient"], rhs = "age" }},
  {{ kind = "fd", lhs = ["patient"], rhs = "sex" }},
  {{ kind = "fd", lhs = ["patient"], rhs = "postcode" }},
  {{ kind = "fd", lhs = ["patient"], rhs = "plan" }},
  {{ kind = "denial", not = "outcome = 'deceased' and readmitted = true" }},
  {{ kind = "denial", not = "ward = 'icu' and stay_days = 0" }},
  {{ kind = "denial", not = "{dearer}" }},
]

[table]
name = "visits"
source = "parquet:data/visits.parquet"
adjacency = "add-remove"                                         # the presence of a patient is what is hidden
size_hint = {size_hint}                                                # public and rough
unit = {{ kind = "user", column = "patient", max_rows = 6 }}      # at most 6 visits of a patient count

[budget]
accountant = "zcdp"
epsilon = "2"
delta = "1e-6"
analysts = {{ ana = "1", bo = "0.1" }}                            # ana may spend all of it, bo a tenth
"""
