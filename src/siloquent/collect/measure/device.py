"""What runs on a device: the only code that ever sees a true row. Plain Python, one file, no packages: copy it.

    client = Client(json.load(open("collection.json")))
    device = Device(user="u-1729", key=epoch_key, memory=shelf)     # memory: any mapping that outlives the program
    report = client.report("orders", rows, device)                  # bytes, always of one length: send them

Clients in other languages give the same bytes for the same random words: docs/reference/collect.md has the format, and
``tests/contract/collect/vectors.json`` the cases.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import date
from hashlib import sha256
from itertools import accumulate
from json import dumps
from struct import pack
from typing import Any

VERSION, NOWHERE, PRIME = 1, 2**32 - 1, 2**31 - 1
HEAD, PAYLOAD = 24, 16  # version 1, channel 1, layer 2, digest 4, token 16; then the payload
Row = Mapping[Any, Any]
Index = Callable[[Any], int]
Draw = Callable[[int, "Words"], bytes]
Source = Callable[[int], bytes]
Memory = MutableMapping[str, bytes]
SYSTEM = os.urandom  # allowed: a device has this file and nothing else


class Device:
    """One user's device.

    Args:
        user: The user's id, which all services of the collection know.
        key: The epoch's key, at least 16 bytes: shared by the services, never known to the collector.
        memory: Reports that were made: the same bytes are sent again, since a second draw would cost a second epsilon.
        source: Where random bytes come from; tests alone pass another one.
    """

    __slots__ = ("key", "memory", "source", "user")

    def __init__(self, user: str, key: bytes, memory: Memory | None = None, source: Source = SYSTEM) -> None:
        if len(key) < 16:
            raise ValueError("an epoch's key has at least 16 bytes")
        self.user, self.key, self.source = user, key, source
        self.memory: Memory = {} if memory is None else memory


class Words:
    """64-bit words, little-endian, as a source gives them, 32 bytes at a time."""

    __slots__ = ("_data", "_place", "_source")

    def __init__(self, source: Source) -> None:
        self._source, self._data, self._place = source, source(32), 0

    def eight(self) -> bytes:
        """The next 8 bytes."""
        at = self._place
        if at == 32:
            self._data, at = self._source(32), 0
        self._place = end = at + 8
        return self._data[at:end]

    def word(self) -> int:
        """The next 64 bits as a whole number."""
        return int.from_bytes(self.eight(), "little")

    def below(self, n: int) -> int:
        """Uniform in [0, n), n >= 1: the low bits of fresh words until they are small enough."""
        mask, drawn = (1 << (n - 1).bit_length()) - 1, n if n > 1 else 0
        while drawn >= n:
            drawn = self.word() & mask
        return drawn


class Client:
    """Makes reports for one collection's document; ValueError if it is none, was changed, or is unsafe."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        if document.get("kind") != "siloquent-collection" or document.get("format") != 1:
            raise ValueError("this is no collection's document")
        self.digest, self._keyed = str(document["digest"]), (b"", sha256(), sha256())
        bare = {name: value for name, value in document.items() if name != "digest"}
        text = dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if sha256(text.encode()).hexdigest() != self.digest:
            raise ValueError("this document was changed after it was made: its digest does not fit")
        services = {one["name"]: one for one in document["services"]}
        self._channels = [_Channel(at, one, services, self.digest) for at, one in enumerate(document["channels"])]
        self._of = {name: one for one in self._channels for name in one.services}
        self._layers = [one["layers"] for one in document["assignments"]]
        self._ends = list(accumulate(one["words"] for one in document["assignments"]))
        self._epoch, self._pinned = f"{document['name']}:{document['epoch']}", self.digest.encode()
        if self._ends[-1] != 2**32:
            raise ValueError("the shares of the layers do not add up")

    def report(self, service: str, rows: Sequence[Row] | Mapping[str, Sequence[Row]], device: Device) -> bytes:
        """One report from the ``rows`` of ``service``, if any; where one client reports for all, rows by service.

        Privacy:
            Local: with the reports to the collection's other services, pure epsilon-DP for everything that this user
            has in all services, in this epoch. Proof: docs/explanation/collect.md.
        """
        if service not in self._of:
            raise ValueError("the collection has no such service")
        channel = self._of[service]
        known = device.memory.get(channel.place)
        if known is None:
            if device.memory.setdefault(self._epoch, self._pinned) != self._pinned:
                raise ValueError("this device has reported to another design of this epoch, which would cost once more")
            secret = self._secret(device)
            layers = self._layers[bisect_right(self._ends, int.from_bytes(secret[16:20], "big"))]
            own = rows if channel.alone and rows.__class__ is list else channel.joined(rows)
            known = channel.report(layers[channel.number], secret[:16], own, Words(device.source))
            device.memory[channel.place] = known
        return known

    def _secret(self, device: Device) -> bytes:
        """HMAC-SHA-256(key, digest + user); both hashes are kept after the key, which many users may share."""
        key, inner, outer = self._keyed
        if device.key != key:
            padded = (device.key if len(device.key) <= 64 else sha256(device.key).digest()).ljust(64, b"\0")
            inner, outer = (sha256(bytes(x ^ pad for x in padded)) for pad in (0x36, 0x5C))
            inner.update(self._pinned)
            self._keyed = device.key, inner, outer  # at once, for other threads
        inside, outside = inner.copy(), outer.copy()
        inside.update(device.user.encode())
        outside.update(inside.digest())
        return outside.digest()


class _Channel:
    """What is reported for one service, or for all of them joined."""

    def __init__(self, number: int, plain: Mapping[str, Any], services: Mapping[str, Any], digest: str) -> None:
        self.number, self.services, self.slots, self.padded = number, plain["services"], plain["slots"], plain["padded"]
        self.place, self.alone = f"{digest}:{number}", len(self.services) == 1
        own = [(name, one) for name in self.services for one in services[name]["attributes"]]
        keys = [(one["name"] if self.alone else (name, one["name"]), one) for name, one in own]
        self._names = [(key, _index(one)) for key, one in keys if one["sensitive"]]
        self._public = [(key, _index(one)) for key, one in keys if not one["sensitive"]]
        sizes = [one["size"] for _, one in own if one["sensitive"]]
        points = enumerate(zip(sizes, plain["points"], strict=True))  # the places that a measure is rounded to
        self._rounds = [(at, [i * (size - 1) // (n - 1) for i in range(n)]) for at, (size, n) in points if n]
        self._sizes, starts = plain["values"], plain.get("starts", [[]] * len(sizes))
        self._bins = list(map(_bins, self._sizes, plain["fanouts"], starts))
        self._many = next((name for name in self.services if services[name]["per_user"] > 1), self.services[0])
        bound = bytes.fromhex(digest[:8])
        self._heads = [pack(">BBH4s", VERSION, number, at, bound) for at in range(len(plain["layers"]))]
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
        if self.alone:
            return rows.get(self.services[0], ()) if isinstance(rows, Mapping) else rows
        if not isinstance(rows, Mapping):
            raise ValueError("this collection's client reports for all services at once: give rows by service")
        others = [name for name in self.services if name != self._many]
        if not all(rows.get(name) for name in others):
            return []
        shared = {(name, key): value for name in others for key, value in rows[name][0].items()}
        return [shared | {(self._many, key): value for key, value in row.items()} for row in rows.get(self._many, ())]

    def report(self, layer: int, token: bytes, rows: Sequence[Row], words: Words) -> bytes:
        """The bytes for one user: which row, which node, then the oracle's draw."""
        steps, node, draw = self._layers[layer]
        places = self._places(rows, words)
        if places:
            node = 0
            for at, nodes in steps:
                node += nodes[places[at]]
        row: Row = rows[0] if rows else {}
        public = b"".join(pack(">I", index(row.get(key)) & NOWHERE) for key, index in self._public)
        return self._heads[layer] + token + draw(node, words) + public

    def _places(self, rows: Sequence[Row], words: Words) -> list[int] | None:
        """The places of one row of the user's, or None: of an empty slot, or of a row with a value that is dropped."""
        count = len(rows)
        slot = 0 if count <= self.slots == 1 else words.below(max(self.slots, count))
        if slot < count:
            read, places = rows[slot].get, []
            for key, index in self._names:
                places.append(index(read(key)))
            if not self.padded or min(places) >= 0:  # where everyone has a row, no value is dropped
                for at, ends in self._rounds:
                    places[at] = _round(places[at], ends, words)
                return places
        return None if self.padded else [words.below(size) for size in self._sizes]


def _bins(values: int, fanouts: Sequence[int], starts: Sequence[int]) -> list[int]:
    """The bin of each place: by the first places of bins, where the document has them, else evenly."""
    bins = min(math.prod(fanouts), values)
    return [bisect_right(starts, place) - 1 if starts else place * bins // values for place in range(values)]


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
    index, least, most = _ordered(_number, lo, hi, grid, one["outside"] == "drop", null), int(lo), int(hi)
    if (least, most, 1) != (lo, hi, grid):
        return index
    return lambda value: value - least if value.__class__ is int and least <= value <= most else index(value)


def _ordered(read: Callable[[Any], float | None], lo: float, hi: float, grid: float, drop: bool, null: int) -> Index:
    def index(value: Any) -> int:
        x = read(value)
        if x is None:
            return null
        if lo <= x <= hi:
            return int((x - lo) / grid + 0.5)  # not negative, so the whole part is the floor
        return -1 if drop else 0 if x < lo else math.floor((hi - lo) / grid + 0.5)

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
    mask = (1 << (nodes - 1).bit_length()) - 1

    def draw(node: int, words: Words) -> bytes:
        found, left = (1 << node, size - 1) if words.word() < truth else (0, size)
        while left:
            for byte in words.eight():
                drawn = byte & mask
                if drawn < nodes and drawn != node and not found >> drawn & 1:
                    found |= 1 << drawn
                    if not (left := left - 1):
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
            a = words.word()
            a, b = a & PRIME, a >> 32 & PRIME
        bucket = (a * node + b) % PRIME % size
        if not kept:
            other = words.below(size - 1)
            bucket = other + (other >= bucket)
        return pack(">4I", a, b, bucket, 0)

    return draw
