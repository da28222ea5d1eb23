"""Rows from a fitted model: systematic sampling along the tree, cells inside groups, then every hard constraint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.fit import GraphicalModel
from siloquent.maths.graphical.tree import Projection
from siloquent.synth.estimate.frame import Frame
from siloquent.synth.estimate.keep import keep
from siloquent.synth.estimate.swap import meet_rates

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PARENTS, FEW_CELLS = 2, 16
_LEAST = 1e-22  # e^-50: what a mask leaves of a probability is nothing


def draw(
    frame: Frame, model: GraphicalModel, *, rows: int, seed: int, rates: Mapping[int, float] | None = None
) -> NDArray[np.int32]:
    """``rows`` rows as cells of ``frame.compiled.attributes``, every hard constraint kept.

    Args:
        rates: Of soft constraints over two rows, by their number: the rows break them so often, as nearly as can be.
    Raises:
        ConstraintProblem: So many rows cannot be had under a key.
        SiloquentError: A hard constraint is broken after all passes: our bug, nothing may be released.
    """
    random = np.random.default_rng(seed)
    groups = draw_groups(model, rows, random)
    made = np.zeros((rows, len(frame.compiled.attributes)), dtype=np.int32)
    for place, name in enumerate(frame.names):
        made[:, frame.compiled.column(name)] = refined(frame, place, groups.pop(place), random)
    of_cells = {name: frame.group_of_cells(place) for place, name in enumerate(frame.names)}
    kept = keep(made, frame.compiled, frame.tables, random, groups=of_cells, in_place=True)
    if not rates:
        return kept
    return meet_rates(kept, frame.compiled, rates, random, parents=_parents(frame, model, rates))[0]


def _parents(frame: Frame, model: GraphicalModel, rates: Mapping[int, float]) -> dict[str, tuple[str, ...]]:
    """For each attribute, others of its clique with few cells, whose joint with it stays while rates are met.

    Attributes of the constraints themselves are none of them: exchanges between equal ones would change no rate.
    """
    names = frame.names
    met = {name for one in frame.compiled.by_number(rates) for name in one.attributes}
    found = {}
    for place, name in enumerate(names):
        clique = model.tree.cliques[model.tree.host([place])].attributes
        near = sorted((frame.fines[v].size, names[v]) for v in clique if v != place and names[v] not in met)
        found[name] = tuple(other for size, other in near[:MOST_PARENTS] if size <= FEW_CELLS)
    return found


def draw_groups(model: GraphicalModel, rows: int, random: np.random.Generator) -> dict[int, NDArray[np.int32]]:
    """The groups of every attribute, clique by clique, each attribute given those of its clique that are drawn."""
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
            table = _filled(joint.reshape(-1, tree.sizes[attribute]))
            drawn[attribute] = systematic(code, table, random)
    return drawn


def refined(frame: Frame, place: int, groups: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.int32]:
    """Cells of one attribute: a run by its share in the group, then any cell of the run."""
    fine, group = frame.fines[place], frame.groups[place]
    table = np.zeros((frame.sizes[place], len(group)))
    table[group, np.arange(len(group))] = np.maximum(frame.shares[place], _LEAST)
    runs = systematic(groups.astype(np.int64), table, random)
    widths = fine.widths[runs]
    cells = fine.starts[runs]
    if widths.max(initial=1) > 1:
        cells = cells + (random.random(len(runs)) * widths).astype(np.int64)
    return cells.astype(np.int32)


def systematic(codes: Integers, table: Floats, random: np.random.Generator) -> NDArray[np.int32]:
    """A value for each row by the law of its context, so that counts are right to one in every context.

    The rows of a context, in random order, get the values at the quantiles (i + U) / m of its law.

    Args:
        codes: The context of each row, shape (rows,).
        table: Weights of the values, shape (contexts, values); a context that occurs has some weight.
    """
    rows, contexts, values = len(codes), table.shape[0], table.shape[1]
    order = np.argsort(codes + random.random(rows))
    sorted_codes = codes[order]
    counts = np.bincount(codes, minlength=contexts)
    first = np.cumsum(counts) - counts
    shift = np.asarray(random.random(contexts))
    quantile = (np.arange(rows) - first[sorted_codes] + shift[sorted_codes]) / counts[sorted_codes]
    law: Floats = np.cumsum(table, axis=1)
    law /= law[:, -1:]
    law += np.arange(contexts)[:, None]
    found = np.searchsorted(law.ravel(), sorted_codes + quantile, side="right") - sorted_codes * values
    made = np.empty(rows, dtype=np.int32)
    # Rounding may carry the last quantile of a context past its end.
    last = values - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    made[order] = np.minimum(found, last[sorted_codes])
    return made


def _filled(table: Floats) -> Floats:
    """``table`` without what masks left over; contexts that hold nothing get the law of all contexts together."""
    made = np.where(table > _LEAST * max(float(table.max()), 1e-300), table, 0.0)
    empty = made.sum(axis=1) <= 0
    if empty.any():
        made[empty] = np.maximum(made.sum(axis=0), 0.0)
    return made
