"""What silos must agree on before their releases can be added up, and its digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from siloquent.errors import ReleaseError, SchemaError, SiloquentError
from siloquent.foreign import load_json
from siloquent.schema import Attribute, TableSchema
from siloquent.schema.toml import finite
from siloquent.share.spec.asked import MOST_BINS, ShareSpec, TreeSpec

FORMAT = 1
BINS, BUCKETS = 16, 10
"""Equal bins of a number that declares none, and buckets of a label that is a number."""
MOST_VALUES = 256
"""Cells of a category."""
_FIELDS = ("name", "kind", "values", "outside", "other", "null", "null_value")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Label, features with their bins, method, trust and price: equal at every silo, whatever its table is called.

    ``edges`` of a number are its bins; without them every place is one. ``budget``: exact text.
    ``honest``, ``colluding`` and ``agents`` belong to trust "sum".
    """

    features: tuple[Attribute, ...]
    label: Attribute
    method: str
    trust: str
    budget: tuple[tuple[str, str], ...]
    honest: int
    agents: int
    overlap: int
    public_seed: int
    tree: TreeSpec
    colluding: int = 1

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "format": FORMAT,
            "label": _attribute_to_plain(self.label),
            "features": [_attribute_to_plain(attribute) for attribute in self.features],
            "method": self.method,
            "trust": self.trust,
            "budget": dict(self.budget),
            "honest": self.honest,
            "agents": self.agents,
            "overlap": self.overlap,
            "public_seed": self.public_seed,
            "tree": {name: getattr(self.tree, name) for name in TreeSpec.__dataclass_fields__},
            # Left out where it is 1, so that agreements from before it could be said keep their digests.
            **({} if self.colluding == 1 else {"colluding": self.colluding}),
        }

    def prints(self) -> tuple[tuple[str, str], ...]:
        """What is agreed on and a print of each: they can be compared without being shown."""
        plain = {"colluding": 1, **self.plain()}
        declared = [*plain.pop("features"), plain.pop("label")]
        parts = [*((f"the declaration of {one['name']!r}", one) for one in declared), *plain.items()]
        return tuple((what, hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()) for what, of in parts)

    def to_json(self) -> str:
        """Canonical JSON: equal agreements have equal texts."""
        return json.dumps(self.plain(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical text: what silos compare."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def difference(self, other: Agreement) -> str:
        """The first thing in which two agreements differ, in words; empty if they do not."""
        mine, theirs = self.plain(), other.plain()
        for name in mine | theirs:
            if mine.get(name) == theirs.get(name):
                continue
            if name != "features":
                return f"{name} ({_brief(mine.get(name, 1))} against {_brief(theirs.get(name, 1))})"
            pairs = zip(self.features, other.features, strict=False)
            odd = next((a.name for a, b in pairs if a != b), None)
            return "the number of features" if odd is None else f"the declaration of {odd!r}"
        return ""


def agreement_of(spec: ShareSpec, schema: TableSchema) -> Agreement:
    """What ``spec`` asks of every silo, with bins from the declaration.

    Raises:
        UnknownName: The label or a feature was never declared.
        SchemaError: An attribute has no finite domain, or too many bins; the message names the line to add.
    """
    features = tuple(feature_of(schema, name) for name in spec.features)
    label = label_of(schema, spec.label)
    return Agreement(
        features=features,
        label=label,
        method=spec.method,
        trust=spec.trust,
        budget=tuple(sorted(spec.budget.plain().items())),
        honest=spec.honest or 0,
        agents=spec.agents or 0,
        overlap=spec.overlap,
        public_seed=spec.public_seed,
        tree=spec.tree,
        colluding=spec.colluding,
    )


def agreement_from_json(text: str) -> Agreement:
    """The agreement that ``to_json`` wrote.

    Raises:
        ReleaseError: It is none, or of a later format.
    """
    try:
        plain = load_json(text)
        if plain.pop("format") != FORMAT:
            raise ReleaseError("The release has a later format.", fix="pip install --upgrade siloquent")
        made = Agreement(
            features=tuple(_attribute_from_plain(one) for one in plain.pop("features")),
            label=_attribute_from_plain(plain.pop("label")),
            budget=tuple(sorted(plain.pop("budget").items())),
            tree=TreeSpec(**plain.pop("tree")),
            **plain,
        )
    except ReleaseError:
        raise
    except (SiloquentError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise ReleaseError("What the silos agreed on cannot be read.", fix="siloquent verify RELEASE") from None
    if made.method not in ("marginals", "gram", "moments", "tree") or not made.features:
        raise ReleaseError(f"This version knows no release of {_brief(made.method)}.")
    return made


def feature_of(schema: TableSchema, name: str) -> Attribute:
    """The feature as silos compare it: a number with bins, a category or a boolean.

    Raises:
        UnknownName: It was never declared. SchemaError: It has no finite domain, or too many bins.
    """
    attribute = _bare(schema.domain[name])
    if not (attribute.is_numeric or attribute.kind in ("category", "boolean")):
        raise SchemaError(
            f"Attribute {attribute.name!r} is {attribute.kind}; features are numbers, categories and booleans.",
            fix="a derived attribute, such as its year or its length",
        )
    if not attribute.is_numeric:
        if attribute.size > MOST_VALUES:
            raise SchemaError(f"Attribute {name!r} has {attribute.size:,} cells; a feature has at most {MOST_VALUES}.")
        return attribute
    if len(attribute.edges) - 1 > MOST_BINS:
        raise SchemaError(
            f"Attribute {attribute.name!r} has {len(attribute.edges) - 1} bins; a feature has at most {MOST_BINS}.",
            fix="wider bins = { width = .. } in the table file",
        )
    return attribute if attribute.edges else _equal_bins(attribute, BINS)


def label_of(schema: TableSchema, name: str) -> Attribute:
    """The label as silos compare it: a category, a boolean, or a number in buckets.

    Raises:
        UnknownName: It was never declared. SchemaError: It is of another kind, or has too many values.
    """
    label = _bare(schema.domain[name])
    if label.is_numeric:
        return _equal_bins(replace(label, edges=()), BUCKETS)
    if label.kind not in ("category", "boolean"):
        raise SchemaError(f"The label {label.name!r} is {label.kind}; it must be a category, a boolean or a number.")
    if not 2 <= label.steps <= MOST_BINS:
        raise SchemaError(f"The label {label.name!r} has {label.steps} values; it must have 2 to {MOST_BINS}.")
    return label


def _bare(attribute: Attribute) -> Attribute:
    """What matters between silos: values and policies, not from which column they are computed."""
    null = None if attribute.null_value is None else str(attribute.null_value)
    return replace(attribute, function="", argument="", max_bytes=0, null_value=null)


def _equal_bins(attribute: Attribute, count: int) -> Attribute:
    """The attribute with ``count`` bins of about equal width over its range; few places are bins as they are."""
    lo, grid, steps = attribute.lo, attribute.grid, attribute.steps - 1
    assert isinstance(lo, Decimal) and grid is not None  # noqa: PT018 - numbers have both
    if steps < 1:
        raise SchemaError(f"Attribute {attribute.name!r} has one value, so it can tell nothing.")
    if steps < count:
        return attribute
    cuts = sorted({(steps + 1) * i // count for i in range(count)} | {steps})
    return replace(attribute, edges=tuple(lo + cut * grid for cut in cuts))


def _attribute_to_plain(attribute: Attribute) -> dict[str, Any]:
    plain = {name: getattr(attribute, name) for name in _FIELDS}
    plain["values"] = list(attribute.values)
    plain["null_value"] = None if attribute.null_value is None else str(attribute.null_value)
    numbers = {name: getattr(attribute, name) for name in ("lo", "hi", "grid")}
    plain |= {name: None if value is None else _text(value) for name, value in numbers.items()}
    return {**plain, "edges": [_text(edge) for edge in attribute.edges]}


def _attribute_from_plain(plain: dict[str, Any]) -> Attribute:
    given: dict[str, Any] = {name: plain[name] for name in _FIELDS}
    given["values"] = tuple(str(value) for value in plain["values"])
    numbers: dict[str, Any] = {
        name: None if plain[name] is None else finite(plain[name]) for name in ("lo", "hi", "grid")
    }
    return Attribute(**given, **numbers, edges=tuple(finite(edge) for edge in plain["edges"]))


def _text(value: Decimal | datetime) -> str:
    assert isinstance(value, Decimal)
    return format(value.normalize(), "f")


def _brief(value: object) -> str:
    return str(value)[:60]


def differing_attribute(agreement: Agreement, schema: TableSchema) -> str:
    """The first feature (or the label) that ``schema`` declares otherwise; empty if there is none.

    Raises:
        UnknownName, SchemaError: ``schema`` lacks one, or it does not fit at all.
    """
    for feature in agreement.features:
        if feature_of(schema, feature.name) != feature:
            return feature.name
    return "" if label_of(schema, agreement.label.name) == agreement.label else agreement.label.name
