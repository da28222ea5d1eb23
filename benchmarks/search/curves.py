"""G generalised linear models: logistic regression from one noisy release, beside the exact fit to the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.search_tables import planned, released
from benchmarks.row import Options, Row
from siloquent.maths.models.glm_curves import fit_rows, logistic
from siloquent.search.estimate.curved import compute_row_products, extract_offer_products, fit_curved_model
from siloquent.search.estimate.models import turn_model
from siloquent.search.estimate.training import LocalRows
from siloquent.search.estimate.unions import compute_totals, fit_noisy_moments
from siloquent.search.plan import OfferPlan
from siloquent.search.results import FittedModel

Floats = NDArray[np.float64]
DRAWS = 10
NUMBERS: dict[str, dict[str, tuple[int, int]]] = {
    "adult": {"age": (15, 95), "education_num": (1, 16), "hours_per_week": (0, 100)},
    "bank_additional_full": {
        "age": (15, 100), "duration": (0, 2000), "campaign": (0, 20), "previous": (0, 8), "emp_var_rate": (-4, 2),
        "euribor3m": (0, 6),
    },
}  # fmt: skip
FLAGS: dict[str, dict[str, str | None]] = {
    "adult": {"sex": "Male", "marital_status": "Married-civ-spouse", "relationship": "Own-child", "capital_gain": None},
    "bank_additional_full": {"contact": "cellular", "poutcome": "success"},
}
TARGETS = {"adult": ("income", ">50K"), "bank_additional_full": ("y", "yes")}
"""Columns with declared ranges; words that are flags (None: above 0); the target and what counts as 1."""


def rows(options: Options) -> Iterator[Row]:
    """G-adult-k2, ... k3, k4, and the same of bank."""
    if options.quick or not (options.data / "pfds").is_dir():
        return
    for table, short in (("adult", "adult"), ("bank_additional_full", "bank")):
        for order in (2, 3, 4):
            name = f"G-{short}-k{order}"
            if options.wants(name):
                yield _row(name, *_numbers(options.data / "pfds", table), order)


def _numbers(folder: Path, table: str) -> tuple[Floats, tuple[str, ...]]:
    """All rows in -1..1, the target last, and the columns' names."""
    import pandas as pd

    frame = pd.read_csv(folder / f"{table}.csv.gz")
    ranges = NUMBERS[table].items()
    columns = [(2 * np.clip(frame[name], lo, hi) - hi - lo) / (hi - lo) for name, (lo, hi) in ranges]
    flags = [frame[name] > 0 if word is None else frame[name] == word for name, word in FLAGS[table].items()]
    target, word = TARGETS[table]
    columns += [np.where(flag, 1.0, -1.0) for flag in (*flags, frame[target] == word)]
    return np.column_stack(columns), (*NUMBERS[table], *FLAGS[table], "target")


def _row(name: str, numbers: Floats, names: tuple[str, ...], order: int) -> Row:
    x, y = numbers[:, :-1], numbers[:, -1] > 0
    truth, _ = fit_rows(x, y.astype(float), "logistic")
    chances = logistic(truth[0] + x @ truth[1:])
    made = planned(names, epsilon="1", second_moments="total", order=order)
    figures: list[tuple[float, float, float, float]] = []
    for draw in range(DRAWS):
        model = _model(made, numbers, names, order, draw)
        found = np.array([model.intercept, *[one.value for one in model.coefficients]])
        held = [one.low <= b <= one.high for one, b in zip(model.coefficients, truth[1:], strict=True)]
        score = found[0] + x @ found[1:]
        off = np.sqrt(((logistic(score) - chances) ** 2).mean())
        figures.append((_auc(score, y), float(np.linalg.norm(found - truth)), float(off), float(np.mean(held))))
    auc, error, off, share = np.mean(figures, axis=0)
    unnoised = ""
    if order > 2:
        kept = LocalRows(numbers, (), ())
        plain, words = fit_curved_model(
            compute_row_products(kept, order),
            "logistic",
            names,
            [(0.0, 1.0)] * len(names),
            0.0,
            np.random.default_rng(0),
        )
        without = np.array([plain.intercept, *[one.value for one in plain.coefficients]])
        unnoised = f"; without noise error {np.linalg.norm(without - truth):.3g}: {words}"
    return Row(
        name,
        ours=float(auc),
        peer=_auc(truth[0] + x @ truth[1:], y),
        better="higher",
        unit="AUC",
        how=f"{DRAWS} draws, {len(x):,} rows, {x.shape[1]} features, eps 1, delta 1e-6, add-remove; peer: the exact "
        f"fit; weights off by {error:.3g} (norm {np.linalg.norm(truth):.3g}), chances by {off:.3g} (root mean square), "
        f"95 % intervals hold {share:.0%} of the exact slopes{unnoised}",
    )


def _model(made: OfferPlan, numbers: Floats, names: tuple[str, ...], order: int, draw: int) -> FittedModel:
    rng, scales = np.random.default_rng(draw), [(0.0, 1.0)] * len(names)
    offer = released(made, numbers)
    if order > 2:
        products = extract_offer_products(offer, range(len(names)), order)
        assert products is not None
        return fit_curved_model(products, "logistic", names, scales, 0.0, rng)[0]
    total = compute_totals(offer)
    linear = fit_noisy_moments(total, rng)
    means, half = total.moments.sums / total.moments.count, (linear.high - linear.low) / 2
    return turn_model(linear.values, half, means, linear.intercept, names, scales, "logistic", 0.0)


def _auc(score: Floats, y: NDArray[np.bool_]) -> float:
    from scipy.stats import rankdata

    ranks, ones = rankdata(score), int(y.sum())
    return float((ranks[y].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))
