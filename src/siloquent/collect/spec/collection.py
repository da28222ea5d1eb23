"""The public document shared by devices and collectors: what is reported, how, and with which thresholds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from siloquent.collect.spec.collection_spec import CollectionSpec, Service
from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.role import AttributeRole
from siloquent.errors import SchemaError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.maths.local.consistency import TreeBlock
from siloquent.maths.local.frequency_oracles import Kind, Oracle
from siloquent.maths.local.hierarchy import Tree
from siloquent.privacy import parse_fraction
from siloquent.schema import Attribute
from siloquent.schema.build import parse_attribute
from siloquent.schema.files.toml import parse_finite

WORDS = 2**32
"""The number of values of the 32 bits that fix a user's layers; each assignment has a share of them."""
MAX_BYTES = 4 * 2**20
NOWHERE = 2**32 - 1


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One kind of report: levels of some attributes of a channel, and the oracle over their nodes.

    Attributes:
        attributes: Positions among the channel's attributes, ascending; the others are at their root.
        truth: The number of 2^64 words that draw the truth.
    """

    attributes: tuple[int, ...]
    levels: tuple[int, ...]
    kind: Kind
    nodes: int
    size: int
    truth: int

    @property
    def oracle(self) -> Oracle:
        """Its probabilities, as used by estimates."""
        return Oracle(self.kind, self.nodes, self.size, self.truth / 2**64)


@dataclass(frozen=True, slots=True)
class ReportChannel:
    """The content of one client's reports: the rows of one service, or the joined rows of all.

    Attributes:
        slots: The number of a user's rows from which a report's row is drawn evenly; estimates are multiplied by it.
        padded: A report may say that there is no row.
        points: For each tree, the number of points that values are rounded to, which are then its bins; 0: not rounded.
    """

    services: tuple[str, ...]
    epsilon: Fraction
    slots: int
    padded: bool
    trees: tuple[Tree, ...]
    points: tuple[int, ...]
    layers: tuple[LayerPlan, ...]

    def get_block(self, layer: LayerPlan) -> TreeBlock:
        """Return the trees of a layer's attributes."""
        return TreeBlock(tuple(self.trees[at] for at in layer.attributes), self.padded)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """The sets of attributes covered together by some layer, in order."""
        return sorted({layer.attributes for layer in self.layers})


@dataclass(frozen=True, slots=True)
class Assignment:
    """One layer of each channel, for ``words`` of 2^32 users."""

    layers: tuple[int, ...]
    words: int


@dataclass(frozen=True, slots=True)
class Collection:
    """A designed collection. ``digest`` is the SHA-256 of everything else; clients and reports are bound to it."""

    spec: CollectionSpec
    channels: tuple[ReportChannel, ...]
    assignments: tuple[Assignment, ...]
    digest: str

    def list_sensitive_attributes(self, channel: int) -> list[tuple[Service, AttributeRole]]:
        """Return the sensitive attributes of a channel, in order, each with its service."""
        services = [self.spec.get_service(name) for name in self.channels[channel].services]
        return [(service, role) for service in services for role in service.roles if role.sensitive]

    def list_public_attributes(self, channel: int) -> list[tuple[Service, AttributeRole]]:
        """Return the attributes that a channel's reports carry in clear, in order."""
        services = [self.spec.get_service(name) for name in self.channels[channel].services]
        return [(service, role) for service in services for role in service.roles if not role.sensitive]

    def find_channel(self, service: str) -> int:
        """Return the channel that reports ``service``."""
        name = self.spec.get_service(service).name
        return next(at for at, channel in enumerate(self.channels) if name in channel.services)

    def get_report_length(self, channel: int) -> int:
        """Return the bytes of a report: the same for every user."""
        return 40 + 4 * len(self.list_public_attributes(channel))

    def is_length(self, size: int) -> bool:
        """Return whether reports of some channel have ``size`` bytes."""
        return any(self.get_report_length(at) == size for at in range(len(self.channels)))

    def to_json(self) -> str:
        """Return the document, as clients pin it."""
        return json.dumps({**dump_collection(self), "digest": self.digest}, indent=1, ensure_ascii=False) + "\n"


def dump_collection(made: Collection) -> dict[str, Any]:
    """Return the document without its digest."""
    spec = made.spec
    dimensions = [{"name": one.name, "key": one.key} for one in spec.dimensions]
    return {
        **({"dimensions": dimensions} if dimensions else {}),
        "format": 1,
        "kind": "siloquent-collection",
        "name": spec.name,
        "epoch": spec.epoch,
        "epsilon": str(spec.epsilon),
        "fanout": spec.fanout,
        "client": spec.client,
        "scope": spec.scope,
        "min_reports": spec.min_reports,
        "services": [_dump_service(service) for service in spec.services],
        "channels": [_dump_channel(channel) for channel in made.channels],
        "assignments": [{"layers": list(one.layers), "words": one.words} for one in made.assignments],
    }


def seal_collection(
    spec: CollectionSpec, channels: tuple[ReportChannel, ...], assignments: tuple[Assignment, ...]
) -> Collection:
    """Return the collection with its digest."""
    bare = Collection(spec, channels, assignments, "")
    return Collection(spec, channels, assignments, compute_plain_digest(dump_collection(bare)))


def compute_plain_digest(plain: Mapping[str, Any]) -> str:
    """Return SHA-256 of the document's canonical JSON."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_collection(text: str) -> Collection:
    """Return the collection in a document.

    Raises:
        SchemaError: it is not such a document, or was changed after it was made.
    """
    if len(text) > MAX_BYTES:
        raise SchemaError("The collection's document is too large: the limit is 4 MiB.")
    try:
        plain = load_json(text)
        digest = plain.pop("digest")
        if plain["format"] != 1 or plain["kind"] != "siloquent-collection":
            raise ValueError
        made = _parse_collection(plain, digest)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise SchemaError(
            "The file is not a collection's document.", fix=run("collect design", "SPEC.toml", "-o", "C.json")
        ) from None
    if compute_plain_digest(plain) != digest or dump_collection(made) != plain:
        raise SchemaError(
            "The collection's document was changed after it was made: its digest does not fit.",
            fix=run("collect design", "SPEC.toml", "-o", "C.json"),
        )
    return made


def _parse_collection(plain: Mapping[str, Any], digest: str) -> Collection:
    spec = CollectionSpec(
        name=plain["name"],
        services=tuple(_parse_service(one) for one in plain["services"]),
        epsilon=parse_fraction(plain["epsilon"]),
        epoch=plain["epoch"],
        fanout=plain["fanout"],
        client=plain["client"],
        scope=plain["scope"],
        min_reports=plain["min_reports"],
        dimensions=tuple(Dimension(one["name"], one["key"], public=True) for one in plain.get("dimensions", ())),
    )
    channels = tuple(_parse_channel(one) for one in plain["channels"])
    assignments = tuple(Assignment(tuple(one["layers"]), one["words"]) for one in plain["assignments"])
    if sum(one.words for one in assignments) != WORDS:
        raise ValueError
    return Collection(spec, channels, assignments, digest)


def _dump_service(service: Service) -> dict[str, Any]:
    return {
        "name": service.name,
        "per_user": service.per_user,
        "everyone": service.everyone,
        "attributes": [_dump_role(role) for role in service.roles],
    }


def _dump_role(role: AttributeRole) -> dict[str, Any]:
    attribute = role.attribute
    plain: dict[str, Any] = {"name": attribute.name, "type": attribute.kind}
    if attribute.kind == "category":
        plain |= {"values": list(attribute.values), "other": attribute.other}
    elif attribute.is_temporal:
        plain |= {"lo": attribute.label(0).isoformat(), "hi": attribute.label(attribute.steps - 1).isoformat()}
        plain["outside"] = attribute.outside
    elif attribute.is_numeric:
        plain |= {"lo": str(attribute.lo), "hi": str(attribute.hi), "grid": str(attribute.grid)}
        plain["outside"] = attribute.outside
    null = attribute.null if attribute.null != "value" else {"value": _dump_value(attribute.null_value)}
    if role.alone:
        plain["alone"] = [_dump_label(value, attribute) for value in role.alone]
    if role.dimension is not None:
        plain["dimension"] = role.dimension
    return {
        **plain,
        "null": null,
        "use": role.use,
        "resolution": role.resolution,
        "sensitive": role.sensitive,
        "size": attribute.size,
        "null_place": attribute.null_index,
        "other_place": attribute.other_index,
    }


def _dump_value(value: object) -> object:
    return value if isinstance(value, (bool, int, str)) else str(value)


def _dump_label(value: Any, attribute: Attribute) -> object:
    """Return a value of an ordered attribute as its bounds are written."""
    return value.isoformat() if attribute.is_temporal else str(value)


def _parse_service(plain: Mapping[str, Any]) -> Service:
    roles = tuple(_parse_role(one) for one in plain["attributes"])
    return Service(plain["name"], roles, plain["per_user"], plain["everyone"])


_OWN = ("use", "resolution", "sensitive")
_MADE = ("size", "null_place", "other_place")


def _parse_role(plain: Mapping[str, Any]) -> AttributeRole:
    raw = {key: value for key, value in plain.items() if key not in (*_OWN, *_MADE, "alone", "dimension")}
    for key in ("lo", "hi", "grid"):
        if key in raw:
            raw[key] = _read(raw[key], raw["type"])
    if isinstance(raw.get("null"), dict):
        raw["null"] = {"value": _read(raw["null"]["value"], raw["type"])}
    alone = tuple(_read(value, raw["type"]) for value in plain.get("alone", ()))
    return AttributeRole(
        _parse_attribute(raw), **{key: plain[key] for key in _OWN}, alone=alone, dimension=plain.get("dimension")
    )


def _parse_attribute(raw: Mapping[str, Any]) -> Attribute:
    return parse_attribute(raw)


def _read(value: Any, kind: Literal["integer", "real", "date"] | str) -> Any:
    from datetime import date

    if not isinstance(value, str) or kind in ("category", "boolean"):
        return value
    return date.fromisoformat(value) if kind == "date" else parse_finite(value)


def _dump_channel(channel: ReportChannel) -> dict[str, Any]:
    return {
        **_dump_alone(channel.trees),
        "services": list(channel.services),
        "epsilon": str(channel.epsilon),
        "slots": channel.slots,
        "padded": channel.padded,
        "fanouts": [list(tree.fanouts) for tree in channel.trees],
        "values": [tree.values for tree in channel.trees],
        "points": list(channel.points),
        "layers": [
            {
                "attributes": list(one.attributes),
                "levels": list(one.levels),
                "kind": one.kind,
                "nodes": one.nodes,
                "size": one.size,
                "truth": str(one.truth),
            }
            for one in channel.layers
        ],
    }


def _dump_alone(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return indices with their own bin, and the first index of each bin of such trees; empty if no tree has any."""
    if not any(tree.alone for tree in trees):
        return {}
    return {
        "alone": [list(tree.alone) for tree in trees],
        "starts": [list(tree.starts) if tree.alone else [] for tree in trees],
    }


def _parse_channel(plain: Mapping[str, Any]) -> ReportChannel:
    alone = plain.get("alone", [()] * len(plain["values"]))
    trees = tuple(
        Tree(values, tuple(fanouts), tuple(own))
        for values, fanouts, own in zip(plain["values"], plain["fanouts"], alone, strict=True)
    )
    layers = tuple(
        LayerPlan(
            tuple(one["attributes"]), tuple(one["levels"]), one["kind"], one["nodes"], one["size"], int(one["truth"])
        )
        for one in plain["layers"]
    )
    return ReportChannel(
        tuple(plain["services"]),
        parse_fraction(plain["epsilon"]),
        plain["slots"],
        plain["padded"],
        trees,
        tuple(plain["points"]),
        layers,
    )
