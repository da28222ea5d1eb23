"""The results of a session: dependencies, and the leakage on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from siloquent.errors import ReleaseError, RequestError
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.spec.columns import ProfileColumn, parse_column
from siloquent.readable import Readable

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency ``lhs -> rhs``: rows that agree on all of ``lhs`` agree on ``rhs``."""

    lhs: tuple[str, ...]
    rhs: str

    def __str__(self) -> str:
        return f"{', '.join(self.lhs) or '{}'} -> {self.rhs}"


def build_dependencies(found: Iterable[FD], names: Sequence[str]) -> tuple[Dependency, ...]:
    """Convert masks to names, ordered by right side, length and left side, in column order."""
    ordered = sorted(found, key=lambda fd: (fd[1], fd[0].bit_count(), list_columns(fd[0])))
    return tuple(Dependency(tuple(names[column] for column in list_columns(lhs)), names[rhs]) for lhs, rhs in ordered)


def parse_dependency(text: str) -> Dependency:
    """Parse a dependency such as ``"supplier, rebate -> city"``.

    Raises:
        RequestError: it has another form.
    """
    left, arrow, right = text.partition("->")
    lhs = tuple(sorted(part.strip() for part in left.split(",") if part.strip() not in ("", "{}")))
    if not arrow or not right.strip():
        raise RequestError(f"{text!r} is not a dependency.", fix='"supplier -> city"')
    return Dependency(lhs, right.strip())


@dataclass(frozen=True, slots=True)
class Leakage:
    """The leakage beyond the dependencies, in counts; ``statement``: (role, what it could learn)."""

    sets: int
    votes: int
    passes: int
    statement: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, repr=False)
class FDReport(Readable):
    """The result of one session; it is equal in every role that confirmed it.

    ``ufd``, ``cfd``: minimal dependencies of all rows together and of every party. ``parties``: (name, size class).
    ``canaries``: (sent, failed). ``transcript``: digest of the session's actions; ``agreed``: the parties that
    confirmed.
    """

    protocol: str
    columns: tuple[ProfileColumn, ...]
    nulls: str
    empty_lhs: bool
    complete_to_lhs: int
    parties: tuple[tuple[str, int], ...]
    workers: tuple[str, ...]
    ufd: tuple[Dependency, ...]
    cfd: tuple[Dependency, ...]
    keys: tuple[tuple[str, ...], ...]
    constants: tuple[str, ...]
    leakage: Leakage
    canaries: tuple[int, int]
    session: str = ""
    transcript: str = ""
    signatures: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"Profile {self.id} of {len(self.parties)} parties, confirmed by {len(self.signatures)}"]
        lines += [f"  {one}, over all rows" for one in self.ufd]
        lines += [f"  {one}, within each silo" for one in self.only_inside]
        return "\n".join([*lines, self.describe_guarantee()])

    @property
    def id(self) -> str:
        """The report's name: a digest of the session."""
        return f"f-{hashlib.sha256(self.session.encode()).hexdigest()[:12]}"

    @property
    def only_inside(self) -> tuple[Dependency, ...]:
        """The dependencies that hold in each party, but not over all rows together."""
        known = {(frozenset(one.lhs), one.rhs) for one in self.ufd}
        return tuple(
            one for one in self.cfd if not any(rhs == one.rhs and lhs <= frozenset(one.lhs) for lhs, rhs in known)
        )

    def describe_guarantee(self) -> str:
        """Return the guarantee in words."""
        shown = "; ".join(f"{role}: {text}" for role, text in self.leakage.statement)
        return (
            "Not differential privacy: the silos keep their rows and the dependencies are exact. "
            f"What the protocol revealed besides: {shown}."
        )

    def compute_digest(self) -> str:
        """Compute the SHA-256 of everything except transcript and signatures, which parties confirm."""
        plain = {k: v for k, v in self.to_dict().items() if k not in ("transcript", "signatures")}
        return hashlib.sha256(_render_canonical(plain).encode()).hexdigest()

    def add_confirmations(self, parties: Iterable[str]) -> FDReport:
        """Return this report with the names of ``parties``, which all confirmed it."""
        return replace(self, signatures=dict.fromkeys(parties, f"sha256:{self.compute_digest()}"))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-compatible dictionary."""
        return {
            "format": FORMAT,
            "id": self.id,
            "session": self.session,
            "protocol": self.protocol,
            "columns": [column.to_dict() for column in self.columns],
            "conventions": {
                "nulls": self.nulls,
                "empty_lhs": self.empty_lhs,
                "complete_to_lhs": self.complete_to_lhs,
            },
            "parties": [{"name": name, "size_class": size} for name, size in self.parties],
            "workers": list(self.workers),
            "constants": list(self.constants),
            "ufd": [[list(one.lhs), one.rhs] for one in self.ufd],
            "cfd": [[list(one.lhs), one.rhs] for one in self.cfd],
            "keys": [list(key) for key in self.keys],
            "leakage": {**asdict(self.leakage), "statement": [list(pair) for pair in self.leakage.statement]},
            "canaries": {"sent": self.canaries[0], "failed": self.canaries[1]},
            "transcript": self.transcript,
            "signatures": dict(self.signatures),
        }

    def to_json(self) -> str:
        """Return the text of the report's file: one document with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def parse_report(plain: Any) -> FDReport:
    """Parse the output of ``to_dict``.

    Raises:
        ReleaseError: it is not a report, or of a later format.
    """
    try:
        if plain["format"] != FORMAT:
            raise ReleaseError("The report has a newer format.", fix="pip install --upgrade siloquent")
        shown, conventions = plain["leakage"], plain["conventions"]
        report = FDReport(
            protocol=str(plain["protocol"]),
            columns=tuple(parse_column(column) for column in plain["columns"]),
            nulls=str(conventions["nulls"]),
            empty_lhs=bool(conventions["empty_lhs"]),
            complete_to_lhs=int(conventions["complete_to_lhs"]),
            parties=tuple((str(party["name"]), int(party["size_class"])) for party in plain["parties"]),
            workers=tuple(str(name) for name in plain["workers"]),
            ufd=_parse_dependencies(plain["ufd"]),
            cfd=_parse_dependencies(plain["cfd"]),
            keys=tuple(tuple(str(name) for name in key) for key in plain["keys"]),
            constants=tuple(str(name) for name in plain["constants"]),
            leakage=Leakage(
                int(shown["sets"]),
                int(shown["votes"]),
                int(shown["passes"]),
                tuple((str(role), str(text)) for role, text in shown["statement"]),
            ),
            canaries=(int(plain["canaries"]["sent"]), int(plain["canaries"]["failed"])),
            session=str(plain["session"]),
            transcript=str(plain["transcript"]),
            signatures={str(name): str(text) for name, text in plain["signatures"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, RequestError):
        raise ReleaseError("The file is not a report of dependencies, or it was truncated or altered.") from None
    if report.id != plain.get("id"):
        raise ReleaseError("The report's name does not match its session.")
    return report


def _parse_dependencies(plain: Any) -> tuple[Dependency, ...]:
    return tuple(Dependency(tuple(str(name) for name in lhs), str(rhs)) for lhs, rhs in plain)


def _render_canonical(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
