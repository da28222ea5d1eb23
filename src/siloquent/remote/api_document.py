"""Typed documents of a server: fields by name and type, the document itself by ``[]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar, overload

from siloquent.documents.ledger import parse_amount
from siloquent.errors import RequestError
from siloquent.remote.replies import UPGRADE

T = TypeVar("T")


class DocumentField(Generic[T]):
    """A field of a document, read and checked on arrival."""

    def __init__(self, read: Callable[[Any], T], *, shown: bool = True) -> None:
        self.read, self.shown, self.name = read, shown, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, told: None, owner: Any) -> DocumentField[T]: ...

    @overload
    def __get__(self, told: ApiDocument, owner: Any) -> T: ...

    def __get__(self, told: ApiDocument | None, owner: Any) -> Any:
        return self if told is None else self.read(told.get(self.name))


class ApiDocument(Mapping[str, Any]):
    """A document from a server. It is immutable; ``to_json()`` returns the document as received.

    Raises:
        RequestError: a field is missing or has the wrong type.
    """

    FIELDS: ClassVar[tuple[DocumentField[Any], ...]] = ()

    def __init__(self, document: Any) -> None:
        if not isinstance(document, Mapping):
            raise _build_unreadable_error(type(self), "")
        self._document = dict(document)
        for field in self.FIELDS:
            try:
                field.read(self._document.get(field.name))
            except (TypeError, ValueError, LookupError, RequestError):
                raise _build_unreadable_error(type(self), field.name) from None

    def __init_subclass__(cls) -> None:
        own = [one for one in vars(cls).values() if isinstance(one, DocumentField)]
        cls.FIELDS = (*cls.FIELDS, *own)

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in self.FIELDS if one.shown]
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """Return the document as received."""
        return dict(self._document)


K = TypeVar("K", bound=ApiDocument)


def read_list(kind: type[K], document: Mapping[str, Any], name: str) -> list[K]:
    """Return the list ``name`` of a document, each line as a value of ``kind``.

    Raises:
        RequestError: the list is missing or a line is invalid.
    """
    found = document.get(name)
    if not isinstance(found, list):
        raise _build_unreadable_error(kind, name)
    return [kind(one) for one in found]


def _build_unreadable_error(kind: type, name: str) -> RequestError:
    place = f" at {name!r}" if name else ""
    return RequestError(f"The server's document of kind {kind.__name__} cannot be read{place}.", fix=UPGRADE)


def _require_type(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    return value


def read_text(value: Any) -> str:
    """Return a text."""
    return _require_type(str, value)


def read_integer(value: Any) -> int:
    """Return a whole number."""
    return _require_type(int, value)


def read_boolean(value: Any) -> bool:
    """Return a boolean."""
    return _require_type(bool, value)


def read_amount(value: Any) -> Fraction:
    """Return an exact amount of epsilon or rho."""
    return parse_amount(value)


def read_object(value: Any) -> dict[str, Any]:
    """Return an object as received."""
    return dict(_require_type(dict, value))


def read_optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a reader of a field that may be missing or null."""
    return lambda value: None if value is None else read(value)


def read_many(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """Return a reader of a list."""
    return lambda value: tuple(read(one) for one in _require_type(list, value))
