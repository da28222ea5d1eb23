"""Just enough of Thrift's compact protocol to read Parquet page headers without trusting a length in them."""

from __future__ import annotations

from collections.abc import Callable

_BOOLEANS = {1: True, 2: False}
_DEEPEST = 8

Struct = dict[int, object]


class Malformed(ValueError):
    """Raised if the bytes are not a Thrift structure, or end within it."""


class CompactReader:
    """A reader of one structure from the start of ``data``; afterwards ``at`` is its end."""

    def __init__(self, data: bytes, *, most_listed: int | None = None) -> None:
        self.data, self.at = data, 0
        self._room = len(data) if most_listed is None else most_listed

    def read_struct(self, depth: int = 0) -> Struct:
        """Return fields by number: whole numbers, booleans, bytes and structures; lists and maps are skipped.

        Raises:
            Malformed: See the class.
        """
        if depth > _DEEPEST:
            raise Malformed("nested too deeply")
        fields: Struct = {}
        number = 0
        while head := self._read_byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._read_signed()
            fields[number] = _BOOLEANS[kind] if kind in _BOOLEANS else self._read_value(kind, depth)
        return fields

    def _read_value(self, kind: int, depth: int) -> object:
        readers: dict[int, Callable[[], object]] = {
            3: self._read_byte,
            4: self._read_signed,
            5: self._read_signed,
            6: self._read_signed,
            7: lambda: self._read_bytes(8),
            8: lambda: self._read_bytes(self._read_unsigned()),
            9: lambda: self._skip_list(depth),
            10: lambda: self._skip_list(depth),
            11: lambda: self._skip_map(depth),
            12: lambda: self.read_struct(depth + 1),
        }
        if kind not in readers:
            raise Malformed(f"unknown type {kind}")
        return readers[kind]()

    def _skip_list(self, depth: int) -> None:
        head = self._read_byte()
        size = self._read_unsigned() if head >> 4 == 15 else head >> 4
        self._skip([head & 15], size, depth)

    def _skip_map(self, depth: int) -> None:
        size = self._read_unsigned()
        kinds = self._read_byte() if size else 0
        self._skip([kinds >> 4, kinds & 15], size, depth)

    def _skip(self, kinds: list[int], size: int, depth: int) -> None:
        if depth > _DEEPEST or size > len(self.data):
            raise Malformed("a list is longer than its bytes")
        self._room -= size
        if self._room < 0:
            raise Malformed("lists of too many entries")
        for _ in range(size):
            for kind in kinds:
                # In lists a boolean takes one byte.
                self._read_value(3 if kind in _BOOLEANS else kind, depth + 1)

    def _read_signed(self) -> int:
        value = self._read_unsigned()
        return (value >> 1) ^ -(value & 1)

    def _read_unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._read_byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise Malformed("a number of more than ten bytes")

    def _read_byte(self) -> int:
        return self._read_bytes(1)[0]

    def _read_bytes(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Malformed("it ends too early")
        found, self.at = self.data[self.at : end], end
        return found
