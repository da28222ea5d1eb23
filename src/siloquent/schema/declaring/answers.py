"""Answers as they were typed, and the file that keeps them. They hold no row."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from siloquent.errors import SchemaError
from siloquent.schema.files.toml import quote_short, quote_text, read_toml

_TEXTS = (
    "empty", "outside", "person", "max_rows", "adjacency", "rows", "accountant", "epsilon", "delta", "delta_events",
    "days", "decimal",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """Answers as they were typed; None where a question is open. They hold no row."""

    columns: tuple[str, ...] = ()
    accept: bool | None = None
    empty: str | None = None
    person: str | None = None
    max_rows: str | None = None
    rows: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    delta_events: str | None = None
    outside: str | None = None
    adjacency: str | None = None
    accountant: str | None = None
    days: str | None = None
    decimal: str | None = None


@dataclass(frozen=True, slots=True)
class KeptDeclaration:
    """A declaration in the making as its file keeps it: the source, the way to read it, and the answers so far.

    Attributes:
        reading: The lines under ``[reading]``.
        header: Whether the owner has confirmed that the first line names the columns.
    """

    source: str
    answers: GivenAnswers
    reading: str = ""
    header: bool = False


def write_answers(kept: KeptDeclaration) -> str:
    """Return a declaration in the making as the text of a file that ``read_kept`` reads."""
    source, answers = kept.source, kept.answers
    lines = [
        "# Answers to `siloquent declare`, kept to go on later. No row stands here.",
        f"source = {quote_text(source)}",
        *([f"reading = {quote_text(kept.reading)}"] if kept.reading else []),
        *(["header = true"] if kept.header else []),
    ]
    for key, value in asdict(answers).items():
        if key == "columns":
            lines += ["columns = [", *(f"  {quote_text(one)}," for one in value), "]"] if value else []
        elif value is not None:
            lines.append(f"{key} = {quote_text(value) if isinstance(value, str) else str(value).lower()}")
    return "\n".join(lines) + "\n"


def read_answers(text: str) -> GivenAnswers:
    """Parse a file of answers.

    Raises:
        SchemaError: it is not TOML, or has keys or values that no question has.
    """
    return read_kept(text).answers


def read_kept(text: str) -> KeptDeclaration:
    """Parse a file of answers with the source that they are about.

    Raises:
        SchemaError: as in ``read_answers``.
    """
    raw = read_toml(text)
    known = {*GivenAnswers.__dataclass_fields__, "source", "reading", "header"}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise SchemaError(f"Answers have no {quote_short(unknown[0])}. Known: {', '.join(sorted(known))}.")
    columns, accept = raw.get("columns", []), raw.get("accept")
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
        raise SchemaError("columns is a list of texts.", fix='columns = ["age = 0..120", "sex = F, M"]')
    if accept is not None and not isinstance(accept, bool):
        raise SchemaError("accept is true or false.", fix="accept = true")
    rest = {key: str(raw[key]) for key in _TEXTS if key in raw}
    answers = GivenAnswers(tuple(columns), accept, **rest)
    return KeptDeclaration(str(raw.get("source", "")), answers, str(raw.get("reading", "")), raw.get("header") is True)
