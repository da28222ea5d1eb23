"""Untrusted XML as a stream: without entities, and bounded in depth, names and the length of a tag.

Nothing is kept but what the caller keeps, so the memory does not depend on the document's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO
from xml.parsers import expat

from siloquent.foreign.documents import DocumentTooLarge

BLOCK_BYTES = 2**16
MAX_DEPTH, MAX_NAMES, MAX_TAG = 64, 2_000, 2**20
Attributes = dict[str, str]


class MarkupError(ValueError):
    """A document that is not well-formed XML, or that declares entities."""


class _Elements:
    """The elements of a document: passes them to handlers, and counts names and depth."""

    def __init__(
        self, starts: Mapping[str, Callable[[Attributes], None]], ends: Mapping[str, Callable[[], None]]
    ) -> None:
        self._starts, self._ends = starts, ends
        self._known: dict[str, tuple[Callable[[Attributes], None] | None, Callable[[], None] | None]] = {}
        self._seen: set[str] = set()
        self._depth = 0

    def begin(self, name: str, attributes: Attributes) -> None:
        self._depth += 1
        if name not in self._known or not self._seen.issuperset(attributes):
            local = name.rpartition(":")[2]
            self._known[name] = (self._starts.get(local), self._ends.get(local))
            self._seen.update(attributes)
            if len(self._seen) + len(self._known) > MAX_NAMES:
                raise DocumentTooLarge("it has too many names")
        if self._depth > MAX_DEPTH:
            raise DocumentTooLarge("it is nested too deeply")
        if (handler := self._known[name][0]) is not None:
            handler(attributes)

    def finish(self, name: str) -> None:
        self._depth -= 1
        if (handler := self._known[name][1]) is not None:
            handler()


def _refuse_type(*_: object) -> None:
    raise MarkupError("it has a document type")


def read_markup(
    opened: BinaryIO,
    starts: Mapping[str, Callable[[Attributes], None]],
    ends: Mapping[str, Callable[[], None]],
    text: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Parse a document, and yield after each block of it, so that a caller can take what its handlers gathered.

    Args:
        starts, ends: Handlers of elements, by their names without prefixes; others are passed over.
        text: Takes a part of the text between two tags.
    Raises:
        MarkupError: it is not well-formed, or has a document type. DocumentTooLarge: it exceeds a bound. What the
            stream and the handlers raise is passed on.
    """
    parser, elements = expat.ParserCreate(), _Elements(starts, ends)
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = elements.begin, elements.finish
    parser.StartDoctypeDeclHandler = _refuse_type
    if text is not None:
        parser.CharacterDataHandler = text
    fed = 0
    try:
        while block := opened.read(BLOCK_BYTES):
            parser.Parse(block, False)
            fed += len(block)
            if fed - parser.CurrentByteIndex > MAX_TAG:  # a parser keeps a tag or comment until its end
                raise DocumentTooLarge("a tag is too long")
            yield
        parser.Parse(b"", True)
    except expat.ExpatError:
        raise MarkupError("it is not well-formed") from None
    yield
