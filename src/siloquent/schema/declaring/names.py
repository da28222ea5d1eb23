"""Proposals from the names and types of columns. The owner confirms them; nothing is read from rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from siloquent.schema.declaring.columns import ColumnHeader

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_IDS = {"id", "ids", "uuid", "guid", "key", "ssn", "identif", "identifier", "serialno", "mrn", "iban", "email"}
_PERSONS = {
    *("patient", "person", "customer", "client", "user", "member", "subject", "student", "employee", "respondent"),
    *("participant", "household", "citizen", "insured", "subscriber", "passenger", "driver", "borrower", "visitor"),
    *("pupil", "learner", "resident", "donor", "voter", "taxpayer", "nhs"),
}
_NUMBERS = {"no", "nr", "num", "number", "nummer", "numero", "code"}
_COMPOUND = re.compile(
    "(kunden?|patienten?|mitglieds?|versicherten?|teilnehmer|mitarbeiter|klienten?|personal|personen?|sch\u00fcler|schueler"
    "|studenten?|matrikel)(nummer|nr|id|no)"
)
"""Ids of people in one German word: ``kundennummer``."""
_TEXTS = {
    *("name", "firstname", "lastname", "surname", "comment", "comments", "note", "notes", "description", "remark"),
    *("address", "street", "phone", "url", "title", "text", "remarks", "message"),
}
_AMOUNTS = {
    *("amount", "amt", "price", "cost", "costs", "fare", "total", "income", "salary", "wage", "fee", "fees", "balance"),
    *("bal", "bill", "tip", "tolls", "payment", "paid", "revenue", "spend", "limit", "charge", "charges", "value"),
}
_MEASURES = {
    *("length", "width", "height", "depth", "diameter", "weight", "distance", "size", "area", "volume", "speed"),
    *("temperature", "temp", "duration", "score", "ratio", "rate", "idx", "index", "percent", "pct"),
}
_COUNTS = {"count", "num", "number", "passengers", "children", "rooms", "visits", "days", "rings", "lanes", "quantity"}
_LISTS = {
    **dict.fromkeys(("sex", "gender"), "sex"),
    **dict.fromkeys(("country", "nation", "nationality", "citizenship"), "country"),
    **dict.fromkeys(("state", "province"), "state"),
    **dict.fromkeys(("weekday", "dow", "dayofweek"), "weekday"),
    "month": "month",
}
_OTHERS = {
    *(
        "type",
        "status",
        "category",
        "class",
        "group",
        "code",
        "region",
        "city",
        "town",
        "zip",
        "postcode",
        "department",
    ),
    *("ward", "diagnosis", "product", "brand", "color", "colour", "education", "occupation", "job", "race", "marital"),
    *("religion", "language", "label", "target", "outcome", "result", "reason", "source", "kind", "level", "grade"),
    *("rank", "position", "location", "district", "county", "species", "material", "purpose", "method", "model", "no"),
    *(
        "department",
        "nr",
        "weight",
        "height",
        "start",
        "end",
        "from",
        "to",
        "title",
        "genre",
        "relationship",
        "workclass",
    ),
}
HINTS = {
    "amount": "smallest and largest possible amount, such as 0..10000.00",
    "measure": "smallest and largest possible number, such as 0..250 or 0.000..3.000",
    "count": "smallest and largest possible number, such as 0..20",
    "sex": "a list; as codes: codes 1..2; as words: F, M or Female, Male",
    "country": "a list; ISO codes: @country",
    "state": "a list; postal codes of the USA: @us-state",
    "weekday": "a list: @weekday (Mon, Tue, ...), @weekdays (Monday, ...), or codes 1..7",
    "month": "1..12, or a list: @month (Jan, Feb, ...), @months (January, ...)",
}
"""How a meaning may look, by the topic of the columns."""
_EXACT = {
    "age": "0..120 by 10",
    "year": "1900..2100",
    "yr": "1900..2100",
    "hour": "0..23",
    "minute": "0..59",
    "latitude": "-90.0000..90.0000",
    "lat": "-90.0000..90.0000",
    "longitude": "-180.0000..180.0000",
    "lon": "-180.0000..180.0000",
    "lng": "-180.0000..180.0000",
}
_DAYS, _MOMENTS = "1900-01-01..2099-12-31", "1970-01-01 00:00..2099-12-31 23:59"
_ANY_DATE = {"date", "dob", "birthday", "birthdate", "day"}
_ANY_MOMENT = {"timestamp", "datetime", "ts", "at"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A meaning as it may be typed, and its reason."""

    meaning: str
    reason: str

    @property
    def is_any_date(self) -> bool:
        """Whether the meaning bounds dates so widely that every one is inside."""
        return self.meaning in (_DAYS, _MOMENTS)


def split_tokens(name: str) -> list[str]:
    """Return the words and numbers in a name.

    >>> split_tokens("hhID"), split_tokens("PAY_AMT1"), split_tokens("hours-per-week")
    (['hh', 'id'], ['pay', 'amt', '1'], ['hours', 'per', 'week'])
    """
    return [token.casefold() for token in _TOKEN.findall(name)]


def propose_meaning(column: ColumnHeader) -> Proposal | None:
    """Return a meaning that the column's type or name suggests, or None."""
    by_type = _propose_for_type(column)
    if by_type is not None and column.kind in ("boolean", "other"):
        return by_type
    found = _propose_for_name(split_tokens(column.name))
    if found is not None and column.kind is not None:
        kind = "id" if found == "id" else "text" if found.startswith("text") else "date"
        kind = "boolean" if found == "yes/no" else "integer" if re.match(r"-?[0-9.]+\.\.", found) else kind
        if not column.can_hold(kind) or (column.kind == "datetime" and kind == "date"):
            found = None
    return by_type if found is None else Proposal(found, "its name")


def _propose_for_type(column: ColumnHeader) -> Proposal | None:
    reason = f"its type, {column.holds}"
    if column.kind == "boolean":
        return Proposal("yes/no", reason)
    if column.kind == "other":
        return Proposal("skip", reason)
    if column.kind in ("date", "datetime"):
        return Proposal(_DAYS if column.kind == "date" else _MOMENTS, reason)
    return None


def _propose_for_name(tokens: Sequence[str]) -> str | None:
    words = [token for token in tokens if not token.isdigit()]
    if not words:
        return None
    last = words[-1]
    if last in _IDS or words in ([person] for person in _PERSONS) or _COMPOUND.fullmatch("".join(words)):
        return "id"
    if {words[0], last} & _NUMBERS and len(words) == 2 and _PERSONS & set(words):
        return "id"
    if words[0] in ("is", "has", "flag") or last == "flag":
        return "yes/no"
    if {"hours", "hour"} & set(words) and "week" in words:
        return "0..168"
    if last in _EXACT and len(words) <= 2:
        return _EXACT[last]
    if last in _ANY_DATE and len(words) <= 3:
        return _DAYS
    if last in _ANY_MOMENT and len(words) <= 3:
        return _MOMENTS
    return "text 1000" if last in _TEXTS and len(words) <= 2 else None


def suggest_meaning(column: ColumnHeader) -> str:
    """Return a meaning that keeps a column of which nothing is known: its bounds or values can be discovered.

    >>> suggest_meaning(ColumnHeader("ward")), suggest_meaning(ColumnHeader("n", "integer", "BIGINT"))
    ('text', 'integer -1000000000..1000000000')
    """
    if column.can_hold("text"):
        return "text"
    wide = {
        "integer": "integer -1000000000..1000000000",
        "decimal": "real -10000000.00..10000000.00",
        "real": "real -10000000.00..10000000.00",
        "boolean": "yes/no",
        "date": _DAYS,
        "datetime": _MOMENTS,
    }
    return wide.get(str(column.kind), "skip")


def is_id_like(name: str) -> bool:
    """Return whether a column of that name may hold ids."""
    return _propose_for_name(split_tokens(name)) == "id"


def is_usual_name(name: str) -> bool:
    """Return whether columns are usually named so, as far as a short list knows.

    >>> is_usual_name("patient_id"), is_usual_name("ward"), is_usual_name("Never-married")
    (True, True, False)
    """
    words = split_tokens(name)
    known = bool({*words} & _OTHERS) or _propose_for_name(words) is not None or find_topic(name) != ""
    return known or is_person_like(name) or "_" in name.strip("_")


def is_person_like(name: str) -> bool:
    """Return whether a column of that name may say whose row it is."""
    words = split_tokens(name)
    return bool(_PERSONS & set(words)) or _COMPOUND.fullmatch("".join(words)) is not None


def find_topic(name: str) -> str:
    """Return the topic of a name: columns of one topic are asked about together. Empty if there is none."""
    words = [token for token in split_tokens(name) if not token.isdigit()]
    if not words:
        return ""
    if words[-1] in _LISTS and len(words) <= 2:
        return _LISTS[words[-1]]
    if words[-2:] == ["of", "week"]:
        return "weekday"
    for topic, known in (("amount", _AMOUNTS), ("measure", _MEASURES), ("count", _COUNTS)):
        if words[-1] in known or (topic == "amount" and words[0] in known):
            return topic
    return ""


def group_columns(columns: Sequence[ColumnHeader]) -> list[tuple[str, list[ColumnHeader]]]:
    """Return (topic, columns): those of one topic or of one name with running numbers belong together."""
    stems: dict[str, int] = {}
    for column in columns:
        stems[_find_stem(column.name)] = stems.get(_find_stem(column.name), 0) + 1
    groups: dict[tuple[str, str, str], list[ColumnHeader]] = {}
    for place, column in enumerate(columns):
        topic, stem = find_topic(column.name), _find_stem(column.name)
        key = (
            (topic, "", "")
            if topic in ("amount", "measure", "count")
            else ("", stem, "")
            if stems[stem] > 1
            else ("", "", str(place))
        )
        groups.setdefault((*key[:2], key[2] or str(column.kind)), []).append(column)
    return [(find_topic(found[0].name), found) for found in groups.values()]


def _find_stem(name: str) -> str:
    return name.rstrip("0123456789").rstrip("_-. ").casefold()


def derive_table_name(file: Path) -> str:
    """Return a name for the table of ``file``: its letters and digits.

    >>> derive_table_name(Path("data/Visits 2024.csv.gz"))
    'visits_2024'
    """
    stem = Path(file.stem).stem if file.suffix == ".gz" else file.stem
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower()[:64]
    return name if name.isidentifier() else f"t_{name}"[:64]
