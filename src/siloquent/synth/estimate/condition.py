"""Conditions on the rows to be drawn: put into the model where it knows the columns, checked on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ConstraintProblem, RequestError, SchemaError
from siloquent.fixes import UseOption
from siloquent.maths.graphical.fit import GraphicalModel
from siloquent.maths.graphical.marginals import weight_beliefs
from siloquent.schema import AttributeRef, Comparison, DenialConstraint, TableSchema, parse_comparisons
from siloquent.synth.estimate.model_domain import ModelDomain
from siloquent.synth.plan.constraints_normal import NeverFires, build_normal_form
from siloquent.synth.spec.compiled import CompiledConstraints, TupleTest, evaluate_row_test

Floats = NDArray[np.float64]

MAX_TRIES = 100
"""The most rows drawn, per requested row, for a condition that cannot be put into the model directly."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Tests of one row that must all hold."""

    text: str
    tests: tuple[TupleTest, ...]

    def find_matches(self, rows: NDArray[np.integer], compiled: CompiledConstraints) -> NDArray[np.bool_]:
        """Return a mask of the rows that meet the condition."""
        codes = compiled.split_columns(rows)
        passing = np.ones(len(rows), dtype=np.bool_)
        for test in self.tests:
            passing &= evaluate_row_test(test, codes)
        return passing

    def apply_to_model(self, frame: ModelDomain, fitted: GraphicalModel) -> tuple[ModelDomain, GraphicalModel]:
        """Return the model of the rows that meet all tests of a single modelled column.

        Raises:
            RequestError: By the model, no row meets them.
        """
        shares, beliefs = list(frame.shares), list(fitted.beliefs)
        for name, allowed in self._find_allowed(frame).items():
            place = frame.names.index(name)
            fine, group = frame.fines[place], frame.groups[place]
            part = np.add.reduceat(allowed.astype(np.float64), fine.starts) / fine.widths
            kept = frame.shares[place] * part
            whole = np.bincount(group, weights=frame.shares[place])
            weights = np.bincount(group, weights=kept) / np.where(whole > 0, whole, 1.0)
            beliefs = weight_beliefs(fitted.tree, beliefs, place, weights)
            shares[place] = kept
        mass = float(beliefs[0].sum())
        if mass <= 1e-12:
            raise RequestError(f"The model has no row with {self.text}.", fix="a wider condition")
        model = replace(fitted, beliefs=tuple(belief / mass for belief in beliefs))
        return replace(frame, shares=tuple(shares)), model

    def _find_allowed(self, frame: ModelDomain) -> Mapping[str, NDArray[np.bool_]]:
        """Return, for each modelled column with tests of its own, the cells that pass them."""
        made: dict[str, NDArray[np.bool_]] = {}
        for test in self.tests:
            name = test.left.attribute
            if len(test.attributes) > 1 or name not in frame.names:
                continue
            size = frame.fines[frame.names.index(name)].size
            passing = evaluate_row_test(test, {name: np.arange(size)})
            made[name] = made[name] & passing if name in made else passing
        return made


def draw_matching_rows(
    condition: Condition, rows: int, draw: Callable[[int], NDArray[np.int32]], compiled: CompiledConstraints
) -> NDArray[np.int32]:
    """Draw ``rows`` rows that meet the condition; leaving rows out breaks no constraint over one or two rows.

    Raises:
        RequestError: Fewer than one row in a hundred meets it.
    """
    wanted = rows
    while wanted <= MAX_TRIES * rows:
        drawn = draw(wanted)
        passing = drawn[condition.find_matches(drawn, compiled)]
        if len(passing) >= rows:
            return passing[:rows]
        wanted = 2 * wanted + 64
    raise RequestError(
        f"Fewer than {rows:,} of {MAX_TRIES * rows:,} drawn rows meet the condition.",
        fix="a wider condition, or fewer rows",
    )


def _format_example(schema: TableSchema, compiled: CompiledConstraints) -> str:
    """Return a valid example of a condition on a drawn column."""
    attribute = schema.domain[compiled.attributes[0]]
    if attribute.kind == "category":
        found = Comparison(AttributeRef(1, attribute.name), "=", attribute.values[0])
    elif attribute.kind == "boolean":
        found = Comparison(AttributeRef(1, attribute.name), "=", True)
    else:
        lowest = Decimal(str(attribute.lo)) if attribute.is_numeric else str(attribute.lo)
        found = Comparison(AttributeRef(1, attribute.name), ">=", lowest)
    return str(found).removeprefix("t1.")


def parse_condition(text: str, schema: TableSchema, compiled: CompiledConstraints) -> Condition:
    """Return the condition that ``text`` states.

    Raises:
        RequestError: Its syntax is invalid, it names a column that is not drawn, or no row of the domain meets it.
    """
    try:
        comparisons = parse_comparisons(text, default_row=1)
        form = build_normal_form(DenialConstraint(comparisons), schema.domain)
    except NeverFires:
        raise RequestError(f"No row can satisfy {text[:200]}.", fix="a condition that some row can satisfy") from None
    except (SchemaError, ConstraintProblem) as wrong:
        detail = wrong.detail.replace("Constraint", "Condition", 1)
        raise RequestError(detail, fix=UseOption("where", _format_example(schema, compiled))) from None
    if form.pairs or form.second:
        raise RequestError("A condition may refer to only one row.", fix="omit t1. and t2.")
    for name in form.attributes:
        if name not in compiled.attributes:
            raise RequestError(
                f"{name!r} is not among the drawn columns.", fix=f"one of {', '.join(compiled.attributes)}"
            )
    return Condition(text, form.first)
