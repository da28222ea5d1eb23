"""The hashed features, labels and their grids, only from the declaration."""

from __future__ import annotations

import numpy as np

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import UseOption
from siloquent.maths.lsh import Axes, Hamming, Kernel, Power, Surrogate, build_surrogate_axes
from siloquent.maths.lsh.families import is_of_sets
from siloquent.schema import Attribute, TableSchema
from siloquent.sketch.hash_plan import HashedFeature, Sets
from siloquent.sketch.spec import SketchSpec


def build_hashed_features(spec: SketchSpec, schema: TableSchema) -> tuple[tuple[HashedFeature, ...], Sets]:
    declared = [schema.domain[name] for name in spec.features]
    if isinstance(spec.kernel, Surrogate) and len(declared) < 2:
        raise RequestError("A surrogate loss needs at least two features: a target and a predictor.")
    if not is_of_sets(spec.kernel):
        if spec.group is not None:
            raise RequestError(
                "Only kernels of sets take a group.", fix=UseOption("kernel", {"kind": "jaccard"}, "kernel=Jaccard()")
            )
        return tuple(_build_number_feature(spec, attribute, i) for i, attribute in enumerate(declared)), "none"
    if spec.group is not None:
        return _build_grouped_features(spec, schema, declared)
    if len(declared) == 1 and declared[0].kind == "text":
        return (HashedFeature(declared[0].name, "text", 0, 0.0, 1.0),), "words"
    for attribute in declared:
        if attribute.kind not in ("boolean", "category"):
            raise SchemaError(
                f"Attribute {attribute.name!r} is of type {attribute.kind}; sets are made of "
                "booleans and categories, of one "
                "text's words, or of a group's values.",
                fix=f'group = "..." with features = ["{attribute.name}"]',
            )
    return tuple(_build_discrete_feature(attribute) for attribute in declared), "one-hot"


def _build_number_feature(spec: SketchSpec, attribute: Attribute, i: int) -> HashedFeature:
    discrete = attribute.kind in ("boolean", "category") and _is_hamming(spec.kernel)
    if discrete:
        return _build_discrete_feature(attribute)
    if not (attribute.is_numeric or attribute.is_temporal or attribute.kind == "boolean"):
        raise SchemaError(
            f"Attribute {attribute.name!r} is of type {attribute.kind}, which has no finite domain of numbers.",
            fix="name integer, real, date or boolean features; the kernel jaccard compares texts and categories",
        )
    if attribute.is_numeric:
        lo, grid = float(attribute.lo), float(attribute.grid)  # type: ignore[arg-type]
    else:
        lo, grid = 0.0, 1.0  # booleans, and dates in steps of their grid since the first
    width = max(attribute.steps - 1, 1) * grid
    scale = {"raw": 1.0, "range": width}[spec.scale] if isinstance(spec.scale, str) else float(spec.scale[i])
    return HashedFeature(attribute.name, attribute.kind, attribute.steps, lo, grid, scale)


def _is_hamming(kernel: Kernel) -> bool:
    if isinstance(kernel, Power):
        return _is_hamming(kernel.kernel)
    return isinstance(kernel, Hamming)


def _build_discrete_feature(attribute: Attribute) -> HashedFeature:
    values = attribute.values if attribute.kind == "category" else ()
    if attribute.is_numeric:
        low, step = float(attribute.lo), float(attribute.grid)  # type: ignore[arg-type]
        return HashedFeature(attribute.name, attribute.kind, attribute.steps, low, step)
    return HashedFeature(attribute.name, attribute.kind, attribute.steps, 0.0, 1.0, values=values)


def _build_grouped_features(
    spec: SketchSpec, schema: TableSchema, declared: list[Attribute]
) -> tuple[tuple[HashedFeature, ...], Sets]:
    unit = schema.unit
    if unit.kind == "row" or spec.group != unit.column:
        raise SchemaError(
            f"Sets are grouped by the column of the table's unit, so that one unit is one set; {spec.group!r} is not.",
            fix=f'unit = {{ kind = "user", column = "{spec.group}", max_rows = ... }} in schemas/{schema.name}.toml',
        )
    if len(declared) != 1 or declared[0].kind not in ("integer", "category"):
        raise SchemaError("A group's set holds the values of one integer or category attribute.")
    return (_build_discrete_feature(declared[0]),), "group"


def list_labels(spec: SketchSpec, schema: TableSchema) -> tuple[object, ...]:
    if spec.label is None:
        return ()
    attribute = schema.domain[spec.label]
    if attribute.kind not in ("category", "boolean"):
        raise SchemaError(f"The label {spec.label!r} is of type {attribute.kind}; it must be a category or a boolean.")
    return tuple(attribute.label(place) for place in range(attribute.steps))


def build_axes(kernel: Kernel, features: tuple[HashedFeature, ...]) -> Axes:
    """Build the axes of the hash functions; a surrogate loss has its own scale, and three additional coordinates."""
    if isinstance(kernel, Surrogate):
        return build_surrogate_axes(np.array([feature.steps for feature in features], dtype=np.int64))
    return Axes(
        np.array([feature.steps for feature in features], dtype=np.int64),
        np.array([feature.lo / feature.scale for feature in features]),
        np.array([feature.grid / feature.scale for feature in features]),
    )
