"""The agreement required before silos' releases can be added, and its digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from siloquent.errors import ReleaseError, SchemaError, SiloquentError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.schema import Attribute, TableSchema
from siloquent.schema.files.toml import parse_finite
from siloquent.share.spec.requests import MAX_BINS, ShareSpec, TreeSpec

FORMAT = 1
BINS, BUCKETS = 16, 10
"""The number of equal bins of a number that declares none, and of buckets of a numeric label."""
MAX_VALUES = 256
"""The maximal number of cells of a category."""
_FIELDS = ("name", "kind", "values", "outside", "other", "null", "null_value")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Label, features with their bins, method, trust and price: equal at every silo, whatever its table is called.

    ``edges`` of a number are its bins; without them every value is a bin. ``budget``: exact text.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as a JSON-compatible dictionary."""
        return {
            "format": FORMAT,
            "label": _dump_attribute(self.label),
            "features": [_dump_attribute(attribute) for attribute in self.features],
            "method": self.method,
            "trust": self.trust,
            "budget": dict(self.budget),
            "honest": self.honest,
            "agents": self.agents,
            "overlap": self.overlap,
            "public_seed": self.public_seed,
            "tree": {name: getattr(self.tree, name) for name in TreeSpec.__dataclass_fields__},
            # Omitted where it is 1, so that agreements older than this option keep their digests.
            **({} if self.colluding == 1 else {"colluding": self.colluding}),
        }

    def compute_prints(self) -> tuple[tuple[str, str], ...]:
        """Return each item of the agreement with a hash, so that items can be compared without being revealed."""
        plain = {"colluding": 1, **self.to_dict()}
        declared = [*plain.pop("features"), plain.pop("label")]
        parts = [*((f"the declaration of {one['name']!r}", one) for one in declared), *plain.items()]
        return tuple((what, hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()) for what, of in parts)

    def to_json(self) -> str:
        """Return canonical JSON: equal agreements have equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical text, which silos compare."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def describe_difference(self, other: Agreement) -> str:
        """Return the first difference between two agreements, in words; empty if they are equal."""
        mine, theirs = self.to_dict(), other.to_dict()
        for name in mine | theirs:
            if mine.get(name) == theirs.get(name):
                continue
            if name != "features":
                return f"{name} ({_shorten_text(mine.get(name, 1))} against {_shorten_text(theirs.get(name, 1))})"
            pairs = zip(self.features, other.features, strict=False)
            odd = next((a.name for a, b in pairs if a != b), None)
            return "the number of features" if odd is None else f"the declaration of {odd!r}"
        return ""


def build_agreement(spec: ShareSpec, schema: TableSchema) -> Agreement:
    """Build the agreement that ``spec`` requires of every silo, with bins from the declaration.

    Raises:
        UnknownName: The label or a feature was never declared.
        SchemaError: An attribute has no finite domain, or too many bins; the message names the line to add.
    """
    features = tuple(build_agreed_feature(schema, name) for name in spec.features)
    label = build_agreed_label(schema, spec.label)
    return Agreement(
        features=features,
        label=label,
        method=spec.method,
        trust=spec.trust,
        budget=tuple(sorted(spec.budget.to_dict().items())),
        honest=spec.honest or 0,
        agents=spec.agents or 0,
        overlap=spec.overlap,
        public_seed=spec.public_seed,
        tree=spec.tree,
        colluding=spec.colluding,
    )


def parse_agreement(text: str) -> Agreement:
    """Parse the output of ``to_json``.

    Raises:
        ReleaseError: It is not an agreement, or of a later format.
    """
    try:
        plain = load_json(text)
        if plain.pop("format") != FORMAT:
            raise ReleaseError("The release has a newer format.", fix="pip install --upgrade siloquent")
        made = Agreement(
            features=tuple(_parse_attribute(one) for one in plain.pop("features")),
            label=_parse_attribute(plain.pop("label")),
            budget=tuple(sorted(plain.pop("budget").items())),
            tree=TreeSpec(**plain.pop("tree")),
            **plain,
        )
    except ReleaseError:
        raise
    except (SiloquentError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise ReleaseError("What the silos agreed on cannot be read.", fix=run("verify", "RELEASE")) from None
    if made.method not in ("marginals", "gram", "moments", "tree") or not made.features:
        raise ReleaseError(f"This version knows no release of {_shorten_text(made.method)}.")
    return made


def build_agreed_feature(schema: TableSchema, name: str) -> Attribute:
    """Return the feature in the form that silos compare: a number with bins, a category or a boolean.

    Raises:
        UnknownName: It was never declared. SchemaError: It has no finite domain, or too many bins.
    """
    attribute = _strip_attribute(schema.domain[name])
    if not (attribute.is_numeric or attribute.kind in ("category", "boolean")):
        raise SchemaError(
            f"Attribute {attribute.name!r} is of type {attribute.kind}; features are numbers, categories and booleans.",
            fix="a derived attribute, such as its year or its length",
        )
    if not attribute.is_numeric:
        if attribute.size > MAX_VALUES:
            raise SchemaError(f"Attribute {name!r} has {attribute.size:,} cells; a feature has at most {MAX_VALUES}.")
        return attribute
    if len(attribute.edges) - 1 > MAX_BINS:
        raise SchemaError(
            f"Attribute {attribute.name!r} has {len(attribute.edges) - 1} bins; a feature has at most {MAX_BINS}.",
            fix="wider bins = { width = ... } in the table file",
        )
    return attribute if attribute.edges else _add_equal_bins(attribute, BINS)


def build_agreed_label(schema: TableSchema, name: str) -> Attribute:
    """Return the label in the form that silos compare: a category, a boolean, or a number in buckets.

    Raises:
        UnknownName: It was never declared. SchemaError: It is of another kind, or has too many values.
    """
    label = _strip_attribute(schema.domain[name])
    if label.is_numeric:
        return _add_equal_bins(replace(label, edges=()), BUCKETS)
    if label.kind not in ("category", "boolean"):
        raise SchemaError(
            f"The label {label.name!r} is of type {label.kind}; it must be a category, a boolean or a number."
        )
    if not 2 <= label.steps <= MAX_BINS:
        raise SchemaError(f"The label {label.name!r} has {label.steps} values; it must have 2 to {MAX_BINS}.")
    return label


def _strip_attribute(attribute: Attribute) -> Attribute:
    """Return the properties relevant between silos: values and policies, not the source column."""
    null = None if attribute.null_value is None else str(attribute.null_value)
    return replace(attribute, function="", argument="", max_bytes=0, null_value=null)


def _add_equal_bins(attribute: Attribute, count: int) -> Attribute:
    """Return the attribute with ``count`` bins of about equal width over its range; few values are their own bins."""
    lo, grid, steps = attribute.lo, attribute.grid, attribute.steps - 1
    assert isinstance(lo, Decimal) and grid is not None  # noqa: PT018 - numbers have both
    if steps < 1:
        raise SchemaError(f"Attribute {attribute.name!r} has only one value, so it carries no information.")
    if steps < count:
        return attribute
    cuts = sorted({(steps + 1) * i // count for i in range(count)} | {steps})
    return replace(attribute, edges=tuple(lo + cut * grid for cut in cuts))


def _dump_attribute(attribute: Attribute) -> dict[str, Any]:
    plain = {name: getattr(attribute, name) for name in _FIELDS}
    plain["values"] = list(attribute.values)
    plain["null_value"] = None if attribute.null_value is None else str(attribute.null_value)
    numbers = {name: getattr(attribute, name) for name in ("lo", "hi", "grid")}
    plain |= {name: None if value is None else _format_text(value) for name, value in numbers.items()}
    return {**plain, "edges": [_format_text(edge) for edge in attribute.edges]}


def _parse_attribute(plain: dict[str, Any]) -> Attribute:
    given: dict[str, Any] = {name: plain[name] for name in _FIELDS}
    given["values"] = tuple(str(value) for value in plain["values"])
    numbers: dict[str, Any] = {
        name: None if plain[name] is None else parse_finite(plain[name]) for name in ("lo", "hi", "grid")
    }
    return Attribute(**given, **numbers, edges=tuple(parse_finite(edge) for edge in plain["edges"]))


def _format_text(value: Decimal | datetime) -> str:
    assert isinstance(value, Decimal)
    return format(value.normalize(), "f")


def _shorten_text(value: object) -> str:
    return str(value)[:60]


def find_differing_attribute(agreement: Agreement, schema: TableSchema) -> str:
    """Return the first feature (or the label) that ``schema`` declares differently; empty if there is none.

    Raises:
        UnknownName, SchemaError: ``schema`` lacks one, or it is unsuitable.
    """
    for feature in agreement.features:
        if build_agreed_feature(schema, feature.name) != feature:
            return feature.name
    return "" if build_agreed_label(schema, agreement.label.name) == agreement.label else agreement.label.name
