"""The demo of sharing: a small clinic learns readmission from two large ones, without their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from siloquent.demo import visits

SILOS = {"river_visits": (20_000, 6_000), "hill_visits": (300, 100)}
"""The numbers of visits and patients of the other clinics."""
WRITTEN = ("north.share", "river.share", "hill-model.npz", "readmissions.csv")
"""The files that the demo's commands write besides the releases."""
ABOUT = ("--label", "readmitted", "--features", "age,chapter,stay_days", "--epsilon", "1", "--agents", "2")


def add_silos(folder: Path, *, seed: int, declaration: str, size_hint: int) -> None:
    """Write the other clinics' visits, and declarations that differ from ``declaration`` only in name and size."""
    import pyarrow.parquet

    for number, (name, (rows, patients)) in enumerate(SILOS.items(), start=1):
        table = visits.make_visits(np.random.default_rng(seed + number), rows=rows, patients=patients)
        visits.check_visits(table)
        pyarrow.parquet.write_table(table, folder / "data" / f"{name}.parquet")
        text = declaration.replace('"visits"', f'"{name}"').replace("data/visits.", f"data/{name}.")
        text = text.replace(f"size_hint = {size_hint}", f"size_hint = {rows}")
        (folder / "schemas" / f"{name}.toml").write_text(text, encoding="utf-8")


def _release(table: str, silo: str) -> tuple[str, ...]:
    return ("share", "release", table, *ABOUT, "--key", "readmitted", "--yes", "-o", f"{silo}.share")


SHARE_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Three clinics want to know who comes back. Hill has 300 visits, north and river 20,000; none shows rows.\n"
        "What a release of north's tables would cost, before a row is read.",
        ("share", "release", "visits", *ABOUT, "--explain"),
    ),
    ("North releases noisy tables, once: how often each label goes with each bin.", _release("visits", "north")),
    ("River does the same. Both files go to hill.", _release("river_visits", "river")),
    (
        "Is it worth it for hill? Four models on its own rows: this answer stays at hill, and costs nothing.",
        ("share", "advise", "hill_visits", "north.share", "river.share"),
    ),
    (
        "Hill learns from its own rows and the two releases. It must keep this model: its exact rows are in it.",
        ("share", "learn", "hill_visits", "north.share", "river.share", "-o", "hill-model.npz"),
    ),
    (
        "The releases also give labelled rows that are nobody's, as many as anybody wants.",
        ("share", "synthesize", "north.share", "river.share", "--rows", "1000", "-o", "readmissions.csv"),
    ),
)
