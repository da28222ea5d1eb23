"""The device's code, the only one that sees a true row. Plain Python, one file, no packages: copy it.

    client = Client(json.load(open("collection.json")))             # checks every number of the document
    device = Device(user="u-1729", key=epoch_key, memory=memory)    # memory: see Device, and memory.py
    report = client.report("orders", rows, device)                  # bytes, always of the same length: send them

Clients in other languages give the same bytes for the same random words: docs/reference/collect.md has the format, and
``tests/contract/collect/vectors.json`` the cases. Apps copy this one file: the client, then its checks.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from hashlib import sha256
from itertools import accumulate, pairwise
from json import dumps
from struct import pack
from typing import Any, Protocol

VERSION, NOWHERE, PRIME = 1, 2**32 - 1, 2**31 - 1
HEAD, PAYLOAD = 24, 16  # version 1, channel 1, layer 2, digest 4, token 16; then the payload
Row = Mapping[Any, Any]
Index = Callable[[Any], int]
Draw = Callable[[int, "RandomWords"], bytes]
Source = Callable[[int], bytes]
SYSTEM = os.urandom  # allowed: a device has this file and nothing else
MAX_EPSILON, MAX_ROWS, MAX_SIZE, MAX_PLACES = 20, 1_000, 10**6 + 2, 2**23


class AnotherDesign(ValueError):
    """The device has reported to another document of the same collection and epoch."""


class Memory(Protocol):
    """The reports a device has sent. ``setdefault`` is atomic, and its result survives crashes and power failures."""

    def get(self, place: str, /) -> bytes | None: ...
    def setdefault(self, place: str, report: bytes, /) -> bytes: ...


class Device:
    """One user's device.

    Args:
        user: The user's id, known to all services of the collection.
        key: The epoch's key, at least 16 bytes: shared by the services, never known to the collector.
        memory: Reports that were made: the same bytes are sent again, since a second draw would cost a second epsilon.
            A device has one for all collections and services: ``FileMemory``, or an app's own. A dict is for tests.
        source: The source of random bytes; only tests pass another one.
    """

    __slots__ = ("key", "memory", "source", "user")

    def __init__(self, user: str, key: bytes, memory: Memory, source: Source = SYSTEM) -> None:
        if len(key) < 16:
            raise ValueError("an epoch's key has at least 16 bytes")
        if memory is None:
            raise ValueError("a device remembers what it sent, or it would pay twice: memory=FileMemory(path)")
        self.user, self.key, self.memory, self.source = user, key, memory, source


class RandomWords:
    """64-bit words, little-endian, from a source, read 32 bytes at a time."""

    __slots__ = ("_data", "_place", "_source")

    def __init__(self, source: Source) -> None:
        self._source, self._data, self._place = source, source(32), 0

    def take_bytes(self) -> bytes:
        """Return the next 8 bytes."""
        at = self._place
        if at == 32:
            self._data, at = self._source(32), 0
        self._place = end = at + 8
        return self._data[at:end]

    def take_word(self) -> int:
        """Return the next 64 bits as a whole number."""
        return int.from_bytes(self.take_bytes(), "little")

    def draw_below(self, n: int) -> int:
        """Draw uniformly from [0, n), n >= 1: the low bits of fresh words until they are small enough."""
        mask, drawn = (1 << (n - 1).bit_length()) - 1, n if n > 1 else 0
        while drawn >= n:
            drawn = self.take_word() & mask
        return drawn


class Client:
    """A maker of reports for one collection's document.

    The document comes from the collector, so it is not trusted. Thresholds, sampling, places and shares are checked in
    whole numbers, so that no document gets more from a device than the epsilon that it names.

    Raises:
        ValueError: it is not a collection's document, was changed, or would reveal more than it says.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            self._read(document)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
            raise ValueError("this is not a collection's document") from None

    def _read(self, document: Mapping[str, Any]) -> None:
        if document.get("kind") != "siloquent-collection" or document.get("format") != 1:
            raise ValueError("this is not a collection's document")
        self.digest, self._keyed = str(document["digest"]), (b"", sha256(), sha256())
        bare = {name: value for name, value in document.items() if name != "digest"}
        text = dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if sha256(text.encode()).hexdigest() != self.digest:
            raise ValueError("this document was changed after it was made: its digest does not fit")
        epsilon, services = _parse_epsilon(document["epsilon"]), {one["name"]: one for one in document["services"]}
        plain = document["channels"]
        if [name for one in plain for name in one["services"]] != [one["name"] for one in document["services"]]:
            raise ValueError("each service is reported once, in the order of the document")
        if len(services) != len(document["services"]) or sum(_parse_epsilon(one["epsilon"]) for one in plain) > epsilon:
            raise ValueError("the services' shares of epsilon add up to more than the document's epsilon")
        if sum(_count_cells(one) for service in services.values() for one in service["attributes"]) > MAX_PLACES:
            raise ValueError(f"the attributes have more than {MAX_PLACES:,} values in all")
        self._channels = [_Channel(at, one, services, self.digest) for at, one in enumerate(plain)]
        self._of = {name: one for one in self._channels for name in one.services}
        self._layers = [
            [
                _require_int(at, 0, len(own["layers"]) - 1, "a layer")
                for at, own in zip(one["layers"], plain, strict=True)
            ]
            for one in document["assignments"]
        ]
        self._ends = list(
            accumulate(_require_int(one["words"], 1, 2**32, "a share") for one in document["assignments"])
        )
        name, epoch = document["name"], _require_int(document["epoch"], 1, 2**31 - 1, "an epoch")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            raise ValueError("a collection is named with letters, digits and '_'")
        self._epoch, self._pinned = f"{name}:{epoch}", self.digest.encode()
        if not self._ends or self._ends[-1] != 2**32:
            raise ValueError("the shares of the layers do not add up")

    def report(self, service: str, rows: Sequence[Row] | Mapping[str, Sequence[Row]], device: Device) -> bytes:
        """Return one report from the ``rows`` of ``service``, if any; rows by service if one client reports for all.

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
                raise AnotherDesign("this device has already reported to another design of this epoch")
            secret = self._derive_secret(device)
            layers = self._layers[bisect_right(self._ends, int.from_bytes(secret[16:20], "big"))]
            own = rows if channel.alone and rows.__class__ is list else channel.join_rows(rows)
            drawn = channel.report(layers[channel.number], secret[:16], own, RandomWords(device.source))
            known = device.memory.setdefault(channel.place, drawn)  # of two simultaneous draws, the one that was kept
        return known

    def _derive_secret(self, device: Device) -> bytes:
        """Return HMAC-SHA-256(key, digest + user); both hashes are cached per key, which many users may share."""
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
    """The report of one service, or of all of them joined."""

    def __init__(self, number: int, plain: Mapping[str, Any], services: Mapping[str, Any], digest: str) -> None:
        self.number, self.services, self.slots, self.padded = number, plain["services"], plain["slots"], plain["padded"]
        self.place, self.alone = f"{digest}:{number}", len(self.services) == 1
        own = [(name, one) for name in self.services for one in services[name]["attributes"]]
        keys = [(one["name"] if self.alone else (name, one["name"]), one) for name, one in own]
        self._names = [(key, _build_index(one)) for key, one in keys if one["sensitive"]]
        self._public = [(key, _build_index(one)) for key, one in keys if not one["sensitive"]]
        sensitive = [one for _, one in own if one["sensitive"]]
        self._check_rows([services[name] for name in self.services], sensitive)
        sizes = [one["size"] for one in sensitive]
        points = [n and _require_int(n, 2, size, "points") for n, size in zip(plain["points"], sizes, strict=True)]
        # The indices that a measure is rounded to.
        self._rounds = [
            (at, _compute_ends(size, n)) for at, (size, n) in enumerate(zip(sizes, points, strict=True)) if n
        ]
        self._sizes, starts = plain["values"], plain.get("starts", [[]] * len(sizes))
        if self._sizes != [n or size for size, n in zip(sizes, points, strict=True)]:
            raise ValueError("the values that are reported are not the attributes' own")
        fanouts = [[_require_int(n, 1, MAX_SIZE, "a fan-out") for n in one] for one in plain["fanouts"]]
        self._bins = [_compute_bins(*one) for one in zip(self._sizes, fanouts, starts, strict=True)]
        self._tables: dict[tuple[int, int], list[int]] = {}
        self._many = next((name for name in self.services if services[name]["per_user"] > 1), self.services[0])
        bound = bytes.fromhex(digest[:8])
        self._heads = [pack(">BBH4s", VERSION, number, at, bound) for at in range(len(plain["layers"]))]
        most = _compute_exp_down(_parse_epsilon(plain["epsilon"]))
        self._layers = [self._parse_layer(layer, fanouts, most) for layer in plain["layers"]]

    def _check_rows(self, services: Sequence[Mapping[str, Any]], sensitive: Sequence[Mapping[str, Any]]) -> None:
        """Check that the sending, length and clear values of a report do not reveal whether a user has rows."""
        per_user = [_require_int(one["per_user"], 1, MAX_ROWS, "per_user") for one in services]
        if self.slots != max(per_user) or type(self.slots) is not int:
            raise ValueError("a report is about one of as many rows as count")
        if self.padded is not any(not one["everyone"] for one in services):
            raise ValueError("the document pads reports for its services wrongly")
        if self.padded and self._public:
            raise ValueError("a value in clear would show whether there is a row")
        if not self.padded and any(_may_be_dropped(one) for one in sensitive):
            raise ValueError("where everyone has a row, no value is dropped")

    def _parse_layer(
        self, layer: Mapping[str, Any], fanouts: Sequence[Sequence[int]], most: int
    ) -> tuple[list[tuple[int, list[int], int]], int, Draw]:
        steps, stride, chosen = [], 1, layer["attributes"]
        if not all(type(at) is int and 0 <= at < len(fanouts) for at in chosen) or sorted({*chosen}) != chosen:
            raise ValueError("a layer has attributes that are not the service's")
        for at, level in reversed(list(zip(chosen, layer["levels"], strict=True))):
            nodes = math.prod(fanouts[at][: _require_int(level, 0, len(fanouts[at]), "a level")])
            width = math.prod(fanouts[at]) // nodes
            if (at, width) not in self._tables:  # shared by all layers with this level
                self._tables[at, width] = [one // width for one in self._bins[at]]
            steps.append((at, self._tables[at, width], stride))
            stride *= nodes
        if type(layer["nodes"]) is not int or layer["nodes"] != stride + self.padded:
            raise ValueError("a layer's number of nodes is wrong")
        make = {"subset": _build_subset_draw, "hash": _build_hash_draw}[layer["kind"]]
        nodes, size, truth = layer["nodes"], layer["size"], 0
        if isinstance(layer["truth"], str) and re.fullmatch("[1-9][0-9]{0,19}", layer["truth"]):
            truth = int(layer["truth"])
        draw = make(nodes, _require_int(size, 1, 2**20, "a layer's size"), truth)
        # The likelihood of a report with the true node inside, over that without: with sets of w of k nodes
        # P / C(k-1, w-1) over (1 - P) / C(k-1, w); with g buckets P over (1 - P) / (g - 1). P = truth / 2^64.
        others, own = (nodes - size, size) if make is _build_subset_draw else (size - 1, 1)
        inside, outside = truth * others, (2**64 - truth) * own
        if max(inside, outside) << _BITS > min(inside, outside) * most:
            raise ValueError("a layer's threshold reveals more than the document's epsilon")
        return steps, stride, draw

    def join_rows(self, rows: Sequence[Row] | Mapping[str, Sequence[Row]]) -> Sequence[Row]:
        """Return a row for each row of the service with several, with the other services' values added."""
        if self.alone:
            return rows.get(self.services[0], ()) if isinstance(rows, Mapping) else rows
        if not isinstance(rows, Mapping):
            raise ValueError("this collection's client reports for all services at once: give rows by service")
        others = [name for name in self.services if name != self._many]
        if not all(rows.get(name) for name in others):
            return []
        shared = {(name, key): value for name in others for key, value in rows[name][0].items()}
        return [shared | {(self._many, key): value for key, value in row.items()} for row in rows.get(self._many, ())]

    def report(self, layer: int, token: bytes, rows: Sequence[Row], words: RandomWords) -> bytes:
        """Return the bytes for one user: which row, which node, then the oracle's draw."""
        steps, node, draw = self._layers[layer]
        places = self._find_indices(rows, words)
        if places:
            node = 0
            for at, nodes, stride in steps:
                node += nodes[places[at]] * stride
        row: Row = rows[0] if rows else {}
        public = b"".join(pack(">I", index(row.get(key)) & NOWHERE) for key, index in self._public)
        return self._heads[layer] + token + draw(node, words) + public

    def _find_indices(self, rows: Sequence[Row], words: RandomWords) -> list[int] | None:
        """Return the indices of one of the user's rows, or None for an empty slot or a row with a dropped value."""
        count = len(rows)
        slot = 0 if count <= self.slots == 1 else words.draw_below(max(self.slots, count))
        if slot < count:
            read, places = rows[slot].get, []
            for key, index in self._names:
                places.append(index(read(key)))
            if not self.padded or min(places) >= 0:  # where everyone has a row, no value is dropped
                for at, ends in self._rounds:
                    places[at] = _round(places[at], ends, words)
                return places
        return None if self.padded else [words.draw_below(size) for size in self._sizes]


_BITS = 256


def _compute_exp_down(x: Fraction) -> int:
    """Return e^x in units of 2^-256, never more and close to it: the series, each term rounded down."""
    term = total = 1 << _BITS
    n = 0
    while term:
        n += 1
        term = term * x.numerator // (x.denominator * n)
        total += term
    return total


def _parse_epsilon(text: object) -> Fraction:
    """Parse an epsilon as written in documents: whole, or a fraction."""
    told = isinstance(text, str) and re.fullmatch("[0-9]{1,11}(/[1-9][0-9]{0,10})?", text)
    value = Fraction(str(text)) if told else Fraction(0)
    if not 0 < value <= MAX_EPSILON:
        raise ValueError(f"an epsilon is above 0 and at most {MAX_EPSILON}")
    return value


def _require_int(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is not a whole number from {low} to {high}")
    return value


def _count_cells(one: Mapping[str, Any]) -> int:
    return _require_int(one["size"], 1, MAX_SIZE, "an attribute's size")


def _may_be_dropped(one: Mapping[str, Any]) -> bool:
    """Return whether the declaration drops some value, and its row with it."""
    return (
        one["null_place"] < 0 or one.get("outside") == "drop" or (one["other_place"] < 0 and one["type"] == "category")
    )


def _compute_ends(size: int, points: int) -> list[int]:
    return [i * (size - 1) // (points - 1) for i in range(points)]


def _compute_bins(values: int, fanouts: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Return the bin of each index: by the document's first indices of bins, if given, else evenly."""
    bins = min(math.prod(fanouts), values)
    if not starts:
        return [place * bins // values for place in range(values)]
    ascending = all(type(one) is int for one in starts) and all(low < high for low, high in pairwise(starts))
    if not ascending or starts[0] != 0 or starts[-1] >= values or len(starts) > math.prod(fanouts):
        raise ValueError("an attribute's bins are not those of its values")
    return [bisect_right(starts, place) - 1 for place in range(values)]


def _round(place: int, ends: Sequence[int], words: RandomWords) -> int:
    """Return one of the two points around ``place``, unbiased."""
    below = min(bisect_right(ends, place) - 1, len(ends) - 2)
    gap = ends[below + 1] - ends[below]
    return below + (words.draw_below(gap) < place - ends[below])


def _build_index(one: Mapping[str, Any]) -> Index:
    """Return a function to a value's index: 0, 1, ...; -1 if dropped. It never raises nor leaves the size."""
    kind, size = one["type"], _count_cells(one)
    null = _require_int(one["null_place"], -1, size - 1, "the place of NULL")
    if kind == "category":
        places, other = {text: at for at, text in enumerate(one["values"])}, one["other_place"]
        if len(one["values"]) > size:
            raise ValueError("an attribute has more values than places")
        _require_int(other, -1, size - 1, "the place of other values")
        return lambda value: places.get(value, other) if isinstance(value, str) else null
    if kind == "boolean":
        _require_int(size, 2, MAX_SIZE, "a boolean's size")
        return lambda value: int(value) if isinstance(value, bool) else null
    if one["outside"] not in ("clamp", "drop"):
        raise ValueError("a value outside the bounds is clamped or dropped")
    drop = one["outside"] == "drop"
    if kind == "date":
        first, last = date.fromisoformat(one["lo"]).toordinal(), date.fromisoformat(one["hi"]).toordinal()
        _require_int(last - first, 0, size - 1, "the place of the last day")
        return _build_ordered_index(_parse_day, first, last, 1.0, drop, null)
    if kind not in ("integer", "real") or not all(isinstance(one[end], str) for end in ("lo", "hi", "grid")):
        raise ValueError("devices report categories, booleans, dates and numbers with bounds and a grid")
    lo, hi, grid = float(one["lo"]), float(one["hi"]), float(one["grid"])
    if not (-1e300 < lo <= hi < 1e300 and grid > 0 and (hi - lo) / grid < MAX_SIZE):
        raise ValueError("an attribute's bounds are not in order")
    index, least, most = _build_ordered_index(_parse_number, lo, hi, grid, drop, null), int(lo), int(hi)
    _require_int(math.floor((hi - lo) / grid + 0.5), 0, size - 1, "the place of the last value")
    if (least, most, 1) != (lo, hi, grid):
        return index
    _require_int(most - least, 0, size - 1, "the place of the last value")
    return lambda value: value - least if value.__class__ is int and least <= value <= most else index(value)


def _build_ordered_index(
    read: Callable[[Any], float | None], lo: float, hi: float, grid: float, drop: bool, null: int
) -> Index:
    def index(value: Any) -> int:
        x = read(value)
        if x is None:
            return null
        if lo <= x <= hi:
            return int((x - lo) / grid + 0.5)  # not negative, so the whole part is the floor
        return -1 if drop else 0 if x < lo else math.floor((hi - lo) / grid + 0.5)

    return index


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value) if -1e300 < value < 1e300 else 1e300 if value > 0 else -1e300


def _parse_day(value: Any) -> float | None:
    try:
        return float(date.fromisoformat(value[:10] if isinstance(value, str) else "").toordinal())
    except ValueError:
        return None


def _build_subset_draw(nodes: int, size: int, truth: int) -> Draw:
    """Return a draw of ``size`` nodes as 128 bits, least first: with the node for ``truth`` of 2^64 words, or not."""
    if not (2 <= nodes <= 128 and 1 <= size < nodes and 0 < truth < 2**64):
        raise ValueError("a layer has no valid sets")
    mask = (1 << (nodes - 1).bit_length()) - 1

    def draw(node: int, words: RandomWords) -> bytes:
        found, left = (1 << node, size - 1) if words.take_word() < truth else (0, size)
        while left:
            for byte in words.take_bytes():
                drawn = byte & mask
                if drawn < nodes and drawn != node and not found >> drawn & 1:
                    found |= 1 << drawn
                    if not (left := left - 1):
                        break
        return found.to_bytes(PAYLOAD, "little")

    return draw


def _build_hash_draw(nodes: int, size: int, truth: int) -> Draw:
    """Return a draw of a hash (a v + b) mod PRIME mod ``size`` and a bucket: a, b, y in 4 bytes each, four zeros."""
    if not (2 <= nodes < PRIME and 2 <= size <= 2**20 and 0 < truth < 2**64):
        raise ValueError("a layer has no valid hashes")

    def draw(node: int, words: RandomWords) -> bytes:
        kept, a, b = words.take_word() < truth, 0, PRIME
        while a in (0, PRIME) or b == PRIME:
            a = words.take_word()
            a, b = a & PRIME, a >> 32 & PRIME
        bucket = (a * node + b) % PRIME % size
        if not kept:
            other = words.draw_below(size - 1)
            bucket = other + (other >= bucket)
        return pack(">4I", a, b, bucket, 0)

    return draw
