"""Visits to a clinic, drawn so that every declared dependency and constraint holds by construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROWS, PATIENTS, MAX_ROWS = 20_000, 6_000, 12
SEXES = ("female", "male", "other")
POSTCODES = tuple(f"{1000 + i}" for i in range(48))
DISTRICTS = tuple(f"district {i:02d}" for i in range(1, 13))
PLANS = tuple(f"plan {i}" for i in range(1, 10))
INSURERS = ("Alba", "Borea", "Cora")
CHAPTERS = ("endocrine", "nervous", "circulatory", "respiratory", "digestive", "musculoskeletal")
DIAGNOSES = tuple(f"{letter}{number}" for letter in "EGIJKM" for number in range(10, 18))
WARDS = ("A", "B", "C", "D", "E", "F", "G", "icu")
OUTCOMES = ("home", "transfer", "deceased")
OLDEST, MAX_STAY_SECONDS, DEAREST = 104, 60, 40_000
ICU, CIRCULATORY, DECEASED = WARDS.index("icu"), CHAPTERS.index("circulatory"), OUTCOMES.index("deceased")

# One row a chapter: the probability of each ward. G takes children of any chapter, the ICU takes some patients of all.
_WARD_SHARES = np.array([
    [30, 8, 12, 20, 12, 6, 6, 6],
    [10, 34, 8, 14, 16, 6, 6, 6],
    [26, 6, 34, 8, 6, 4, 4, 12],
    [12, 10, 8, 36, 10, 4, 10, 10],
    [8, 10, 6, 10, 40, 12, 8, 6],
    [6, 14, 6, 8, 12, 42, 8, 4],
], dtype=float)  # fmt: skip


def make_visits(rng: np.random.Generator, *, rows: int = ROWS, patients: int = PATIENTS) -> pa.Table:
    """Return ``rows`` visits of ``patients`` patients, 1 to 12 each; see ``check_visits`` for their properties.

    Args:
        rows: From ``patients`` to ``4 * patients``.
    """
    import pyarrow as pa

    who = _who(rng, rows, patients)
    age = _ages(rng, patients)[who]
    postcode, plan = rng.integers(0, 48, patients)[who], rng.integers(0, 9, patients)[who]
    diagnosis = _diagnoses(rng, age)
    chapter = diagnosis // 8
    ward = _wards(rng, chapter, age)
    stay = _stays(rng, ward)
    outcome = _outcomes(rng, age, ward)
    visits = {
        "visit_id": pa.array([f"v{i:06d}" for i in range(rows)]),
        "patient": pa.array([f"p{i:05d}" for i in who]),
        "age": pa.array(age),
        "sex": _labels(SEXES, rng.choice(3, patients, p=[0.515, 0.475, 0.01])[who]),
        "postcode": _labels(POSTCODES, postcode),
        "district": _labels(DISTRICTS, postcode // 4),
        "plan": _labels(PLANS, plan),
        "insurer": _labels(INSURERS, plan // 3),
        "diagnosis": _labels(DIAGNOSES, diagnosis),
        "chapter": _labels(CHAPTERS, chapter),
        "ward": _labels(WARDS, ward),
        "stay_days": pa.array(stay),
        "cost_eur": pa.array(_costs(rng, diagnosis, stay)),
        "outcome": _labels(OUTCOMES, outcome),
        "readmitted": pa.array(_readmitted(rng, age, chapter, stay, outcome)),
    }
    return pa.table(visits)


def check_visits(visits: pa.Table) -> None:
    """Assert what the demo's table file declares: four dependencies, three denials, all bounds.

    Raises:
        AssertionError: A statement does not hold; its name is the message.
    """
    column = {name: np.asarray(visits[name].to_pylist()) for name in visits.column_names}
    for lhs, rhs in (
        ("diagnosis", "chapter"),
        ("postcode", "district"),
        ("plan", "insurer"),
        *(("patient", rhs) for rhs in ("age", "sex", "postcode", "plan")),
    ):
        pairs = set(zip(column[lhs].tolist(), column[rhs].tolist(), strict=True))
        assert len(pairs) == len(set(column[lhs].tolist())), f"{lhs} -> {rhs}"
    assert not np.any((column["outcome"] == "deceased") & (column["readmitted"] == 1)), "deceased and readmitted"
    assert not np.any((column["ward"] == "icu") & (column["stay_days"] == 0)), "icu without a stay"
    assert not _dearer_but_shorter(column["diagnosis"], column["stay_days"], column["cost_eur"]), "dearer but shorter"
    for name, highest in (("age", OLDEST), ("stay_days", MAX_STAY_SECONDS), ("cost_eur", DEAREST), ("readmitted", 1)):
        assert 0 <= column[name].min() <= column[name].max() <= highest, f"bounds of {name}"
    visits_each = np.unique(column["patient"], return_counts=True)[1]
    assert visits_each.max() <= MAX_ROWS, "visits of one patient"


def _dearer_but_shorter(diagnosis: NDArray[np.str_], stay: NDArray[np.int64], cost: NDArray[np.int64]) -> bool:
    """Return whether, of two visits with one diagnosis, the longer one is cheaper in some case."""
    for code in DIAGNOSES:
        days, euros = stay[diagnosis == code], cost[diagnosis == code]
        dearest_so_far = -1
        for day in np.unique(days):
            if euros[days == day].min() < dearest_so_far:
                return True
            dearest_so_far = max(dearest_so_far, int(euros[days == day].max()))
    return False


def _labels(names: tuple[str, ...], places: NDArray[np.int64]) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.array(names, dtype=object)[places])


def _who(rng: np.random.Generator, rows: int, patients: int) -> NDArray[np.int64]:
    """Return the patient of each visit, shape (rows,): one visit each, and the others over 1 to 11 slots a patient."""
    places = np.repeat(np.arange(patients), rng.integers(1, MAX_ROWS, patients))
    more = rng.choice(places, rows - patients, replace=False)
    everybody: NDArray[np.int64] = rng.permutation(np.concatenate([np.arange(patients), more]))
    return everybody


def _ages(rng: np.random.Generator, patients: int) -> NDArray[np.int64]:
    """Draw ages: some children, many adults, more old people, shape (patients,)."""
    group = rng.choice(3, patients, p=[0.12, 0.45, 0.43])
    drawn = rng.normal(np.array([6.0, 42.0, 71.0])[group], np.array([5.0, 13.0, 11.0])[group])
    return np.clip(np.rint(drawn), 0, OLDEST).astype(np.int64)


def _pick(rng: np.random.Generator, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw one index a row of ``weights``, shape (rows, places) -> (rows,)."""
    edges = np.cumsum(weights, axis=1)
    places: NDArray[np.int64] = (edges < rng.random((len(weights), 1)) * edges[:, -1:]).sum(axis=1)
    return places


def _diagnoses(rng: np.random.Generator, age: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw diagnoses, shape (rows,): circulatory ones with age, respiratory ones of the young."""
    share = 1.0 / np.tile(np.arange(1, 9), 6) ** 0.7
    weights = np.tile(share, (len(age), 1))
    weights[:, 8 * CIRCULATORY : 8 * CIRCULATORY + 8] *= (0.2 + age / 40.0)[:, None]
    weights[:, 24:32] *= (0.6 + 30.0 / (age + 20.0))[:, None]
    return _pick(rng, weights)


def _wards(rng: np.random.Generator, chapter: NDArray[np.int64], age: NDArray[np.int64]) -> NDArray[np.int64]:
    weights = _WARD_SHARES[chapter].copy()
    weights[:, WARDS.index("G")] *= np.where(age < 16, 30.0, 0.5)
    return _pick(rng, weights)


def _stays(rng: np.random.Generator, ward: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw days, shape (rows,): 0 to 60, at least one in the ICU."""
    mean = np.array([5.0, 4.0, 6.0, 4.0, 3.0, 5.0, 2.5, 9.0])[ward]
    days = np.minimum(rng.geometric(1.0 / (1.0 + mean)) - 1, MAX_STAY_SECONDS)
    return np.where(ward == ICU, np.maximum(days, 1), days).astype(np.int64)


def _outcomes(rng: np.random.Generator, age: NDArray[np.int64], ward: NDArray[np.int64]) -> NDArray[np.int64]:
    died = (ward == ICU) * 0.10 + 0.002 + 0.02 * (age > 75)
    moved = (ward == ICU) * 0.20 + 0.06
    return _pick(rng, np.stack([1 - died - moved, moved, died], axis=1))


def _costs(rng: np.random.Generator, diagnosis: NDArray[np.int64], stay: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return base + rate * days + less than one day's rate: a longer stay is never cheaper, shape (rows,)."""
    base, rate = rng.integers(300, 3_000, 48)[diagnosis], rng.integers(80, 600, 48)[diagnosis]
    costs: NDArray[np.int64] = base + rate * stay + rng.integers(0, rate)
    return costs


def _readmitted(
    rng: np.random.Generator,
    age: NDArray[np.int64],
    chapter: NDArray[np.int64],
    stay: NDArray[np.int64],
    outcome: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Draw readmissions, logistic in age, circulatory chapter and stay, about 16 % ones, (rows,); 0 if deceased."""
    score = -2.92 + 0.016 * age + 0.7 * (chapter == CIRCULATORY) + 0.05 * stay
    came_back = rng.random(len(age)) < 1.0 / (1.0 + np.exp(-score))
    readmitted: NDArray[np.int64] = (came_back & (outcome != DECEASED)).astype(np.int64)
    return readmitted
