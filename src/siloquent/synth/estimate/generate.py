"""Row generation from a fitted model: systematic sampling along the tree, cells within groups, then constraints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.fit import GraphicalModel
from siloquent.maths.graphical.tree import Projection
from siloquent.synth.estimate.enforce.constraints import enforce_constraints
from siloquent.synth.estimate.group_values import LEAST, compute_partner_weights, compute_run_weights, find_partners
from siloquent.synth.estimate.match_rates import match_rates
from siloquent.synth.estimate.model_domain import ModelDomain

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_PARENTS, FEW_CELLS = 2, 16


def draw_model_rows(
    frame: ModelDomain,
    model: GraphicalModel,
    *,
    rows: int,
    seed: int,
    rates: Mapping[int, float] | None = None,
    whole: tuple[ModelDomain, GraphicalModel] | None = None,
) -> NDArray[np.int32]:
    """Draw ``rows`` rows as cells of ``frame.compiled.attributes``, every hard constraint kept.

    Args:
        rates: Of soft constraints over two rows, by number: the rows break them this often, as nearly as possible.
        whole: Frame and model of all rows, if ``frame`` and ``model`` are of those that meet a condition.
    Raises:
        ConstraintProblem: A key allows fewer rows.
        SiloquentError: A hard constraint is still broken after all passes: an internal bug; nothing may be released.
    """
    random = np.random.default_rng(seed)
    groups = draw_groups(model, rows, random)
    made = np.zeros((rows, len(frame.compiled.attributes)), dtype=frame.compiled.cell_type)
    all_frame, all_model = whole or (frame, model)
    beside = find_partners(all_frame, all_model)
    for place, name in enumerate(frame.names):
        own = groups[place] if place in beside.values() else groups.pop(place)
        other = beside.get(place)
        followed = None
        if other is not None:
            weights = compute_partner_weights(
                all_frame, place, all_model.compute_marginal((other, place)), kept=frame.shares[place]
            )
            followed = (groups[other], weights)
        made[:, frame.compiled.find_column(name)] = refine_cells(frame, place, own, random, beside=followed)
    of_cells = {name: frame.get_cell_groups(place) for place, name in enumerate(frame.names)}
    kept = enforce_constraints(made, frame.compiled, frame.tables, random, groups=of_cells, in_place=True)
    if not rates:
        return kept
    return match_rates(kept, frame.compiled, rates, random, parents=_find_parents(frame, model, rates))[0]


def _find_parents(frame: ModelDomain, model: GraphicalModel, rates: Mapping[int, float]) -> dict[str, tuple[str, ...]]:
    """Return, for each attribute, others of its clique with few cells, whose joint with it is kept while rates are met.

    The constraints' own attributes are excluded: exchanges between equal ones would not change a rate.
    """
    names = frame.names
    met = {name for one in frame.compiled.select_constraints(rates) for name in one.attributes}
    found = {}
    for place, name in enumerate(names):
        clique = model.tree.cliques[model.tree.find_host([place])].attributes
        near = sorted((frame.fines[v].size, names[v]) for v in clique if v != place and names[v] not in met)
        found[name] = tuple(other for size, other in near[:MAX_PARENTS] if size <= FEW_CELLS)
    return found


def draw_groups(model: GraphicalModel, rows: int, random: np.random.Generator) -> dict[int, NDArray[np.int32]]:
    """Draw the groups of every attribute, clique by clique, each attribute given those of its clique already drawn."""
    tree = model.tree
    drawn: dict[int, NDArray[np.int32]] = {}
    for belief, clique in zip(model.beliefs, tree.cliques, strict=True):
        for attribute in clique.attributes:
            if attribute in drawn:
                continue
            given = tuple(v for v in clique.attributes if v in drawn)
            code = np.zeros(rows, dtype=np.int64)
            for v in given:
                code = code * tree.sizes[v] + drawn[v]
            joint = Projection(clique.attributes, clique.shape, (*given, attribute))(belief)
            table = _fill_empty(joint.reshape(-1, tree.sizes[attribute]))
            drawn[attribute] = draw_systematically(code, table, random)
    return drawn


def refine_cells(
    frame: ModelDomain,
    place: int,
    groups: NDArray[np.integer],
    random: np.random.Generator,
    *,
    beside: tuple[NDArray[np.integer], Floats] | None = None,
) -> NDArray[np.int32]:
    """Draw cells of one attribute: a run by its share in the group, then any cell of the run.

    Args:
        beside: The groups of another attribute on which runs depend too, and their weights for each of its groups.
    """
    fine, codes = frame.fines[place], groups.astype(np.int64)
    if beside is None:
        table = compute_run_weights(frame, place)
    else:
        table = beside[1]
        codes += beside[0].astype(np.int64) * frame.sizes[place]
    runs = draw_systematically(codes, table, random)
    widths = fine.widths[runs]
    cells = fine.starts[runs]
    if widths.max(initial=1) > 1:
        cells = cells + (random.random(len(runs)) * widths).astype(np.int64)
    return cells.astype(frame.compiled.cell_type)


def draw_systematically(codes: Integers, table: Floats, random: np.random.Generator) -> NDArray[np.int32]:
    """Draw a value for each row from the distribution of its context, so that counts are exact to about one.

    That holds in every context, and in any number of consecutive contexts: rounding carries over to the next. Values
    are halved repeatedly; of all rows, sorted by context, a half takes those at which the sum of its probabilities
    passes a whole number. Which rows of a context these are is random.

    Args:
        codes: The context of each row, shape (rows,).
        table: Weights of the values, shape (contexts, values); each context that occurs has some weight.
    """
    rows, (contexts, values) = len(codes), table.shape
    levels = (values - 1).bit_length()
    weights = np.zeros((2**levels, contexts))
    weights[:values] = table.T
    found = np.bincount(codes, minlength=contexts)[None]
    for level in range(1, levels + 1):
        halves = weights.reshape(2**level, -1, contexts).sum(axis=1)
        found = _halve_counts(found, halves[::2], halves[1::2], random.random())
    given = np.repeat(np.tile(np.arange(2**levels, dtype=np.int32), contexts), found.T.ravel())
    made = np.empty(rows, dtype=np.int32)
    made[np.argsort(codes + random.random(rows))] = given
    return made


def _halve_counts(rows: Integers, left: Floats, right: Floats, shift: float) -> Integers:
    """Return how many of ``rows``, shape (nodes, contexts), each node's two halves take; shape (2 nodes, contexts)."""
    chance = np.divide(left, left + right, out=np.zeros_like(left), where=left > 0)
    passed = np.floor(np.cumsum(rows * chance) + shift)
    taken = np.diff(passed, prepend=0.0).reshape(rows.shape).astype(np.int64)
    # Rounding of the sum must not give a row to a half without weight.
    taken = np.where(right > 0, np.clip(taken, 0, rows), rows)
    taken = np.where(left > 0, taken, 0)
    return np.stack([taken, rows - taken], axis=1).reshape(2 * len(rows), -1)


def _fill_empty(table: Floats) -> Floats:
    """Clear negligible entries that masks left in ``table``; empty contexts get the distribution of all contexts."""
    made = np.where(table > LEAST * max(float(table.max()), 1e-300), table, 0.0)
    empty = made.sum(axis=1) <= 0
    if empty.any():
        made[empty] = np.maximum(made.sum(axis=0), 0.0)
    return made
