"""What runs on a device: the only code that ever sees a true row. Plain Python, one file, no packages: copy it.

    client = Client(json.load(open("collection.json")))
    device = Device(user="u-1729", key=epoch_key, memory=shelf)     # memory: any mapping that outlives the program
    report = client.report("orders", rows, device)                  # bytes, always of one length: send them

Clients in other languages read the same random words in the same order and give the same bytes; the test vectors in
``tests/contract/collect/vectors.json`` say which (docs/reference/collect.md has the format).
"""

from __future__ import annotations

import hmac
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

VERSION = 1
NOWHERE = 2**32 - 1
PRIME = 2**31 - 1
HEAD, PAYLOAD = 24, 16  # version 1, channel 1, layer 2, digest 4, token 16; then the payload
Row = Mapping[str, Any]
Index = Callable[[Any], int]
Draw = Callable[[int, "Words"], bytes]


@dataclass(slots=True)
class Device:
    """One user's device.

    Attributes:
        user: The user's id, which all services of the collection know.
        key: The epoch's key, at least 16 bytes: shared by the services, never known to the collector.
        memory: Reports that were made, by collection and service: the same bytes are sent again, since a second draw
            would cost a second epsilon.
        source: Where random bytes come from; tests alone pass another one.
    """

    user: str
    key: bytes
    memory: MutableMapping[str, bytes] = field(default_factory=dict)
    source: Callable[[int], bytes] = os.urandom  # allowed: a device has this file and nothing else

    def __post_init__(self) -> None:
        if len(self.key) < 16:
            raise ValueError("an epoch's key has at least 16 bytes")


class Words:
    """64-bit words, little-endian, as a source gives them."""

    __slots__ = ("_data", "_place", "_source")

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source, self._data, self._place = source, b"", 0

    def eight(self) -> bytes:
        """The next 8 bytes."""
        at = self._place
        if at == len(self._data):
            self._data, at = self._source(32), 0
        self._place = at + 8
        return self._data[at : at + 8]

    def word(self) -> int:
        """The next 64 bits as a whole number."""
        return int.from_bytes(self.eight(), "little")

    def below(self, n: int) -> int:
        """Uniform in [0, n), n >= 1: the low bits of fresh words until they are small enough."""
        if n == 1:
            return 0
        mask = (1 << (n - 1).bit_length()) - 1
        while True:
            drawn = self.word() & mask
            if drawn < n:
                return drawn


class Client:
    """Makes reports for one collection's document.

    Raises:
        ValueError: The document is of another kind, or its thresholds are no probabilities.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if document.get("kind") != "siloquent-collection" or document.get("format") != 1:
            raise ValueError("this is no collection's document")
        self.digest = str(document["digest"])
        self._domain = self.digest.encode()
        services = {one["name"]: one for one in document["services"]}
        self._channels = [_Channel(at, one, services, self.digest) for at, one in enumerate(document["channels"])]
        self._of = {name: one for one in self._channels for name in one.services}
        self._ends, self._layers, end = [], [], 0
        for one in document["assignments"]:
            end += one["words"]
            self._ends.append(end)
            self._layers.append(one["layers"])
        if end != 2**32:
            raise ValueError("the shares of the layers do not add up")

    def report(self, service: str, rows: Sequence[Row] | Mapping[str, Sequence[Row]], device: Device) -> bytes:
        """One report: from ``rows`` of ``service``, none of them needed; a coordinated client takes all services' rows.

        Args:
            service: The service's name; any of them where one client reports for all.
            rows: The user's rows; for a coordinated client rows by the services' names.
        Returns:
            Bytes whose number hangs on the collection alone.
        Privacy:
            Local: with the reports to the collection's other services, pure epsilon-DP for everything that this user
            has in all services, in this epoch. Proof: docs/explanation/collect.md.
        """
        channel = self._of.get(service)
        if channel is None:
            raise ValueError("the collection has no such service")
        known = device.memory.get(channel.place)
        if known is None:
            secret = hmac.digest(device.key, self._domain + device.user.encode(), "sha256")
            layers = self._layers[bisect_right(self._ends, int.from_bytes(secret[16:20], "big"))]
            known = channel.report(layers[channel.number], secret[:16], channel.joined(rows), Words(device.source))
            device.memory[channel.place] = known
        return known


class _Channel:
    """What is reported for one service, or for all of them joined."""

    def __init__(self, number: int, plain: Mapping[str, Any], services: Mapping[str, Any], digest: str) -> None:
        self.number, self.services, self.slots, self.padded = number, plain["services"], plain["slots"], plain["padded"]
        self.place, self._alone = f"{digest}:{number}", len(self.services) == 1
        own = [(name, one) for name in self.services for one in services[name]["attributes"]]
        keys = [(one["name"] if self._alone else (name, one["name"]), one) for name, one in own]
        self._names = [(key, _index(one)) for key, one in keys if one["sensitive"]]
        self._public = [(key, _index(one)) for key, one in keys if not one["sensitive"]]
        sizes = [one["size"] for _, one in own if one["sensitive"]]
        self._rounds = [_points(size, count) for size, count in zip(sizes, plain["points"], strict=True)]
        self._bins = [
            _bins(one, bins) for one, bins in zip(plain["values"], map(math.prod, plain["fanouts"]), strict=True)
        ]
        self._sizes = plain["values"]
        self._many = next((name for name in self.services if services[name]["per_user"] > 1), self.services[0])
        head = bytes([VERSION, number]), bytes.fromhex(digest[:8])
        self._heads = [head[0] + at.to_bytes(2, "big") + head[1] for at in range(len(plain["layers"]))]
        self._layers = [self._layer(layer, plain["fanouts"]) for layer in plain["layers"]]

    def _layer(self, layer: Mapping[str, Any], fanouts: Sequence[Sequence[int]]) -> tuple[list[Any], int, Draw]:
        steps, stride = [], 1
        for at, level in reversed(list(zip(layer["attributes"], layer["levels"], strict=True))):
            nodes = math.prod(fanouts[at][:level])
            width = math.prod(fanouts[at]) // nodes
            steps.append((at, [one // width * stride for one in self._bins[at]]))
            stride *= nodes
        if layer["nodes"] != stride + self.padded:
            raise ValueError("a layer's number of nodes is wrong")
        make = {"subset": _subset, "hash": _hash}[layer["kind"]]
        return steps, stride, make(layer["nodes"], layer["size"], int(layer["truth"]))

    def joined(self, rows: Sequence[Row] | Mapping[str, Sequence[Row]]) -> Sequence[Row]:
        """One row for each row of the service with several, with the other services' values beside it."""
        if not isinstance(rows, Mapping):
            if not self._alone:
                raise ValueError("this collection's client reports for all services at once: give rows by service")
            return rows
        if self._alone:
            return rows.get(self.services[0], ())
        shared: dict[Any, Any] = {}
        for name in self.services:
            if name != self._many:
                if not rows.get(name):
                    return []
                shared |= {(name, key): value for key, value in rows[name][0].items()}
        return [shared | {(self._many, key): value for key, value in row.items()} for row in rows.get(self._many, ())]

    def report(self, layer: int, token: bytes, rows: Sequence[Row], words: Words) -> bytes:
        """The bytes for one user: which row, which node, then the oracle's draw."""
        steps, nothing, draw = self._layers[layer]
        places = self._places(rows, words)
        node = nothing if places is None else sum(nodes[places[at]] for at, nodes in steps)
        report = self._heads[layer] + token + draw(node, words)
        return report + self._clear(rows) if self._public else report

    def _places(self, rows: Sequence[Row], words: Words) -> list[int] | None:
        """The places of one row of the user's, or None: of an empty slot, or of a row with a value that is dropped."""
        slot = words.below(max(self.slots, len(rows)))
        if slot < len(rows):
            row: Any = rows[slot]
            places = [index(row.get(key)) for key, index in self._names]
            if min(places) >= 0:
                return [_round(x, ends, words) if ends else x for x, ends in zip(places, self._rounds, strict=True)]
        return None if self.padded else [words.below(size) for size in self._sizes]

    def _clear(self, rows: Sequence[Row]) -> bytes:
        row: Any = rows[0] if rows else {}
        places = [index(row.get(key)) for key, index in self._public]
        return b"".join((place if place >= 0 else NOWHERE).to_bytes(4, "big") for place in places)


def _bins(values: int, bins: int) -> list[int]:
    return [place if bins >= values else place * bins // values for place in range(values)]


def _points(size: int, count: int) -> list[int]:
    """The places that a measure is rounded to: the first, the last, and others evenly between; none of bins."""
    return [at * (size - 1) // (count - 1) for at in range(count)] if count else []


def _round(place: int, ends: Sequence[int], words: Words) -> int:
    """One of the two points around ``place``, right on average."""
    below = min(bisect_right(ends, place) - 1, len(ends) - 2)
    gap = ends[below + 1] - ends[below]
    return below + (words.below(gap) < place - ends[below])


def _index(one: Mapping[str, Any]) -> Index:
    """The place of a value: 0, 1, ..; -1 where the declaration drops it. No value makes it fail."""
    kind, null = one["type"], one["null_place"]
    if kind == "category":
        places, other = {text: at for at, text in enumerate(one["values"])}, one["other_place"]
        return lambda value: places.get(value, other) if isinstance(value, str) else null
    if kind == "boolean":
        return lambda value: int(value) if isinstance(value, bool) else null
    if kind == "date":
        first, last = date.fromisoformat(one["lo"]).toordinal(), date.fromisoformat(one["hi"]).toordinal()
        return _ordered(_day, first, last, 1.0, one["outside"] == "drop", null)
    lo, hi, grid = float(one["lo"]), float(one["hi"]), float(one["grid"])
    return _ordered(_number, lo, hi, grid, one["outside"] == "drop", null)


def _ordered(read: Callable[[Any], float | None], lo: float, hi: float, grid: float, drop: bool, null: int) -> Index:
    last = math.floor((hi - lo) / grid + 0.5)

    def index(value: Any) -> int:
        x = read(value)
        if x is None:
            return null
        if lo <= x <= hi:
            return int((x - lo) / grid + 0.5)  # not negative, so the whole part is the floor
        return -1 if drop else 0 if x < lo else last

    return index


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value) if -1e300 < value < 1e300 else 1e300 if value > 0 else -1e300


def _day(value: Any) -> float | None:
    try:
        return float(date.fromisoformat(value[:10] if isinstance(value, str) else "").toordinal())
    except ValueError:
        return None


def _subset(nodes: int, size: int, truth: int) -> Draw:
    """A set of ``size`` nodes as 128 bits, least first: with the node for ``truth`` of 2^64 words, else without it."""
    if not (2 <= nodes <= 128 and 1 <= size < nodes and 0 < truth < 2**64):
        raise ValueError("a layer has no valid sets")

    def draw(node: int, words: Words) -> bytes:
        found, left = (1 << node, size - 1) if words.word() < truth else (0, size)
        while left:
            for byte in words.eight():
                drawn = byte & 127
                if drawn < nodes and drawn != node and not found >> drawn & 1:
                    found |= 1 << drawn
                    left -= 1
                    if not left:
                        break
        return found.to_bytes(PAYLOAD, "little")

    return draw


def _hash(nodes: int, size: int, truth: int) -> Draw:
    """A hash function (a v + b) mod PRIME mod ``size`` and a bucket: a, b, y in 4 bytes each, then four zeros."""
    if not (2 <= nodes < PRIME and 2 <= size <= 2**20 and 0 < truth < 2**64):
        raise ValueError("a layer has no valid hashes")

    def draw(node: int, words: Words) -> bytes:
        kept, a, b = words.word() < truth, 0, PRIME
        while a in (0, PRIME) or b == PRIME:
            word = words.word()
            a, b = word & PRIME, word >> 32 & PRIME
        bucket = (a * node + b) % PRIME % size
        if not kept:
            other = words.below(size - 1)
            bucket = other + (other >= bucket)
        return b"".join(part.to_bytes(4, "big") for part in (a, b, bucket, 0))

    return draw
