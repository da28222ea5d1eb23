"""A small group of prime order, for tests and fault runs of protocols: real mathematics, no security, much faster."""

from __future__ import annotations

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import IDENTITY, SCALAR, WIDE, split
from siloquent.federation.crypto.points import POINT, has_duplicates

ORDER = 2_305_843_009_213_688_669
MODULUS = 2 * ORDER + 1


class ToyGroup:
    """Squares modulo a safe prime 2q + 1 with q of 61 bits; the identity is 32 zero bytes, as in ristretto255."""

    name = "toy"

    def check(self, batch: bytes, *, distinct: bool = True, identity: bool = False) -> None:
        if len(batch) % POINT:
            raise ProtocolError("bad_encoding")
        for element in split(batch):
            if element == IDENTITY and identity:
                continue
            if not 1 < int.from_bytes(element, "little") < MODULUS:
                raise ProtocolError("bad_encoding")
        if distinct and batch and has_duplicates(batch):
            raise ProtocolError("duplicate_points")

    def require_decodable(self, batch: bytes) -> None:
        if any(pow(_number(element), ORDER, MODULUS) != 1 for element in split(batch)):
            raise ProtocolError("bad_encoding")

    def from_uniform(self, wide: bytes) -> bytes:
        return b"".join(
            _element(pow(int.from_bytes(wide[at : at + WIDE], "little") % (MODULUS - 2) + 2, 2, MODULUS))
            for at in range(0, len(wide), WIDE)
        )

    def reduce_wide(self, wide: bytes) -> bytes:
        return _scalar(int.from_bytes(wide, "little"))

    def multiply_scalars(self, a: bytes, b: bytes) -> bytes:
        return _scalar(_whole(a) * _whole(b))

    def add_scalars(self, a: bytes, b: bytes) -> bytes:
        return _scalar(_whole(a) + _whole(b))

    def subtract_scalars(self, a: bytes, b: bytes) -> bytes:
        return _scalar(_whole(a) - _whole(b))

    def invert_scalar(self, a: bytes) -> bytes:
        return _scalar(pow(_whole(a), -1, ORDER))

    def multiply_base(self, scalars: bytes) -> bytes:
        return b"".join(_element(pow(4, _whole(scalar), MODULUS)) for scalar in split(scalars))

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        return self.multiply_each(batch, scalar * (len(batch) // POINT))

    def multiply_each(self, batch: bytes, scalars: bytes) -> bytes:
        self.require_decodable(batch)
        found = [pow(_number(p), _whole(s), MODULUS) for p, s in zip(split(batch), split(scalars), strict=True)]
        if 1 in found:
            raise ProtocolError("bad_encoding")
        return b"".join(map(_element, found))

    def add_points(self, a: bytes, b: bytes) -> bytes:
        return b"".join(_element(_number(x) * _number(y) % MODULUS) for x, y in zip(split(a), split(b), strict=True))

    def subtract_points(self, a: bytes, b: bytes) -> bytes:
        return b"".join(
            _element(_number(x) * pow(_number(y), -1, MODULUS) % MODULUS)
            for x, y in zip(split(a), split(b), strict=True)
        )


def _number(element: bytes) -> int:
    return 1 if element == IDENTITY else int.from_bytes(element, "little")


def _element(number: int) -> bytes:
    return IDENTITY if number == 1 else number.to_bytes(POINT, "little")


def _whole(scalar: bytes) -> int:
    return int.from_bytes(scalar, "little")


def _scalar(number: int) -> bytes:
    return (number % ORDER).to_bytes(SCALAR, "little")
