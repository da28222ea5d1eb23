"""Where the quoted fields of a CSV file end, so that no row's text takes the rows behind it along.

A field that is opened and not closed goes on to the next quote, in whoever's row it stands, or to the end of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO

CHUNK_BYTES, MOST_KEPT = 2**20, 2**20
_REST = re.compile(rb'(?:[^"]++|"")*+')
_QUOTE = re.compile(rb'" *+')
_SPACE, _MARK = b' "'
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a look at every byte told: whether all quoted fields end well, and whether all lines end alike."""

    is_closed: bool
    is_uniform: bool


def shape_of(opened: BinaryIO, delimiter: str) -> Shape:
    """The shape of the CSV text in ``opened``, read once from its beginning, in little memory.

    A quoted field ends well with a quote before a delimiter or the line's end. One that ends otherwise within its line
    spoils that line alone, so only fields of several lines are held to it.
    """
    scan = _Scan(delimiter.encode())
    chunk = opened.read(CHUNK_BYTES).removeprefix(_BOM)
    while chunk and not scan.is_broken:
        scan.feed(chunk)
        chunk = opened.read(CHUNK_BYTES)
    return scan.shape()


class _Scan:
    """A file of which the first bytes were read."""

    def __init__(self, delimiter: bytes) -> None:
        self._ends = delimiter + b"\r\n"
        end = b"[" + re.escape(self._ends) + b"]"
        self._plain = re.compile(rb'(?:(?:"(?:[^"\r\n]++|"")*+"|[^"' + end[1:] + b"*+)" + end + b")*+")
        self._kept = b"\n"  # read, and still of weight: the byte before a field, or a quote that may be half of two
        self._inside = self._spans = self.is_broken = False
        self._feeds = self._returns = self._both = 0

    def feed(self, chunk: bytes) -> None:
        """Read on."""
        data, at = self._kept + chunk, 0 if self._inside else len(self._kept)
        self._both += not self._inside and self._kept == b"\r" and chunk[:1] == b"\n"
        while at < len(data) and not self.is_broken:
            at = self._within(data, at) if self._inside else self._without(data, at)
        # Nothing that means something ends in so many spaces; keeping more and more of them would take forever.
        self._kept = self._kept[-MOST_KEPT:]

    def _within(self, data: bytes, start: int) -> int:
        """Go on in a quoted field, to behind its end if that is here."""
        found = _REST.match(data, start)
        assert found is not None
        end = found.end()
        self._spans = self._spans or any(data.find(sign, start, end) >= 0 for sign in (b"\n", b"\r"))
        quote = _QUOTE.match(data, end)
        self._kept = b""
        if quote is None or quote.end() == len(data):
            self._kept = data[end:]
            return len(data)
        if data[quote.end()] == _MARK:
            return quote.end() + 1  # a quote, spaces, a quote: DuckDB takes the field for open again
        self.is_broken = self._spans and data[quote.end()] not in self._ends
        self._inside = False
        return end + 1

    def _without(self, data: bytes, start: int) -> int:
        """Go on between quoted fields, to behind the next opening quote if that is here."""
        quote = self._opening(data, start)
        end = len(data) if quote < 0 else quote
        self._feeds += data.count(b"\n", start, end)
        self._returns += data.count(b"\r", start, end)
        self._both += data.count(b"\r\n", start, end)
        self._kept = data[len(data.rstrip(b" ")) - 1 :] if quote < 0 else b""
        self._inside, self._spans = quote >= 0, False
        return end + self._inside

    def _opening(self, data: bytes, start: int) -> int:
        """The first quote from ``start`` on that stands where a field begins; -1 if none does."""
        quote = data.find(b'"', start)
        if quote >= 0 and (data[start] != _MARK or data[start - 1] in self._ends):
            plain = self._plain.match(data, start)  # all that is well formed in one step: most files are
            quote = data.find(b'"', plain.end() if plain else start)
        while quote >= 0:
            before = quote - 1
            while before > 0 and data[before] == _SPACE:
                before -= 1
            if before >= 0 and data[before] in self._ends:
                return quote
            quote = data.find(b'"', quote + 1)
        return -1

    def shape(self) -> Shape:
        """What is known at the end of the file."""
        closed = not self.is_broken and (not self._inside or _QUOTE.fullmatch(self._kept) is not None)
        ways = (self._feeds - self._both, self._returns - self._both, self._both)
        return Shape(closed, sum(count > 0 for count in ways) <= 1)
