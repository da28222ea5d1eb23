"""What an analyst sees of a table, verb by verb, with all that is noise or random masked: the same for neighbours.

Masked are noisy values (their types stay), and what hangs on them or on random ids alone: hashes, the
ledger's id, moments. Where noise decides which groups appear, something else takes the rows' place: for values that are
filtered for free and for icebergs, whether they are declared groups in declared order; for top-k, how many they are.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sameness.tables import Pair, Side
from siloquent.api import Session, read_schema
from siloquent.errors import SiloquentError
from siloquent.explore import Explanation, count, sum_of
from siloquent.explore.plan.planner import Plan
from siloquent.ledger import Entry, Ledger, MemoryLedger
from siloquent.releases import verify_release
from siloquent.schema.workspace import Workspace

Door = Callable[..., Session]
"""Makes the session that is observed, from a workspace, a ledger and ``analyst``: ``Session``, or one that leaks."""

ASKED: dict[str, Any] = {
    "count": "SELECT COUNT(*) FROM visits ERROR 50",
    "groups": "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50",
    "groups of two": "SELECT ward, smoker, COUNT(*) AS n FROM visits WHERE age < 90 GROUP BY ward, smoker ERROR 50",
    "bins": "SELECT age, COUNT(*) FROM visits WHERE day >= DATE '2024-02-01' GROUP BY age ERROR 2 PERCENT",
    "derived": "SELECT COUNT(*) FROM visits WHERE length IN (4, 40) ERROR 50",
    "null and unlisted": "SELECT COUNT(*) FROM visits WHERE smoker IS NULL OR NOT (ward = 'A' AND age > 3) ERROR 50",
    "histogram": "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(cost, -100, 1000, 100) ERROR 60",
    "prefix": "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 70",
    "cube": "BIN visits ON COUNT(*) WHERE W = CUBE(ward, smoker) ERROR 50",
    "predicates": "BIN visits ON COUNT(*) WHERE W = {age > 50, ward = 'A', cost < 0} ERROR 60",
    "sum": "SELECT SUM(cost) FROM visits ERROR 20000",
    "sum of groups": "SELECT ward, SUM(big) FROM visits GROUP BY ward ERROR 100000000000000",
    "sum of predicates": "BIN visits ON SUM(cost) WHERE W = {age > 50, smoker = TRUE} ERROR 20000.5",
    "budget": "SELECT ward, COUNT(*) FROM visits GROUP BY ward BUDGET 0.5 EPSILON",
    "budget of a sum": "SELECT SUM(age) FROM visits BUDGET 0.01 EPSILON CONFIDENCE 0.99",
    "values filtered": "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 3 ERROR 50",
    "values sorted": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2 ERROR 50",
    "iceberg": "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 10 ERROR 50",
    "nested iceberg": "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) HAVING COUNT(*) > 10 ERROR 50",
    "top": "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR 50",
    "bottom": count("visits").by("smoker").bottom(1).within(rows=50),
    "built": count("visits").by("ward").where("age > 30").within(rows=200, confidence="0.99"),
    "built sum": sum_of("visits", "cost").by("smoker").within(units=20_000),
}
FRESH = f"{ASKED['groups']} REUSE NONE"
"""A question that no earlier answer makes free."""
FEW = ("groups", "predicates", "sum of groups", "budget", "values filtered", "iceberg", "nested iceberg", "top")
"""Labels of every kind of question, where there is not time for all."""
REFUSED: dict[str, str] = {
    "unknown table": "SELECT COUNT(*) FROM vists ERROR 50",
    "unknown attribute": "SELECT wrd, COUNT(*) FROM visits GROUP BY wrd ERROR 50",
    "unknown value": "SELECT COUNT(*) FROM visits WHERE ward = 'Z' ERROR 50",
    "id": "SELECT COUNT(*) FROM visits WHERE patient = 'p1' ERROR 50",
    "text": "SELECT COUNT(*) FROM visits WHERE note LIKE 'x%' ERROR 50",
    "extreme": "SELECT MAX(age) FROM visits ERROR 5",
    "no bins": "SELECT cost, COUNT(*) FROM visits GROUP BY cost ERROR 50",
    "null": "SELECT COUNT(*) FROM visits WHERE age IS NULL ERROR 50",
    "zero": "SELECT COUNT(*) FROM visits ERROR 0",
    "syntax": "SELECT COUNT(*) FORM visits ERROR 50",
    "unreachable": "SELECT SUM(big) FROM visits ERROR 1",
    "all of the top": "SELECT smoker FROM visits GROUP BY smoker ORDER BY COUNT(*) DESC LIMIT 9 ERROR 50",
}
CODES = {
    *("unknown_name", "request_invalid", "syntax", "accuracy_unreachable", "key_reused", "budget_exceeded"),
    *("not_allowed", "schema_invalid", "ledger", "data_source_failed"),
}
"""The codes that every observation meets."""
SETTLES_EARLY = frozenset({"iceberg"})
"""Labels whose price noise decides: the look that was released says what was paid. They are asked of a ledger apart."""
MASK = "***"
_PRICED_BY_NOISE = frozenset({"cost", "guarantee"})
_RANDOM = frozenset({"hash", "prev", "ledger", "at", "payload", "sha256", "source_mark", "accounts"})


@dataclass
class Seen:
    """What was seen under each label, as canonical JSON; and the codes of the errors among it."""

    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)

    def note(self, label: str, value: object) -> None:
        """Keep what ``label`` showed, but for the name of the folder."""
        assert label not in self.texts, label
        self.texts[label] = json.dumps(value, default=str).replace(str(self.folder), MASK)

    def attempt(self, label: str, call: Callable[..., object], *arguments: object, **named: object) -> None:
        """Keep what ``call`` shows, or the whole of the error that it ends in, one of ours or not."""
        try:
            shown = call(*arguments, **named)
        except Exception as error:  # allowed: that an error is unforeseen is what must not depend on rows
            self.codes.add(getattr(error, "code", "unforeseen"))
            shown = _problem(error)
        self.note(label, shown)


def differences(one: Seen, other: Seen) -> dict[str, tuple[str | None, str | None]]:
    """What ``one`` and ``other`` do not show alike, by label."""
    labels = dict.fromkeys([*one.texts, *other.texts])
    both = {label: (one.texts.get(label), other.texts.get(label)) for label in labels}
    return {label: texts for label, texts in both.items() if texts[0] != texts[1]}


@dataclass
class Compared:
    """What comparing many pairs came to: how many pairs, how many texts of each side, and what differed, in words."""

    pairs: int = 0
    texts: int = 0
    codes: set[str] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)


def compare(chosen: Iterable[Pair], folder: Path, **named: Any) -> Compared:
    """Observe both sides of every pair, a side that stands in several pairs once, and compare them.

    Args:
        folder: A new one, for workspaces that are removed again.
        named: As ``observe``.
    """
    result, known = Compared(), dict[Side, Seen]()
    for pair in chosen:
        if pair.one not in known:
            known[pair.one] = observe(pair.one, folder / str(len(known)), **named)
        one, other = known[pair.one], observe(pair.other, folder / "other", **named)
        result.pairs += 1
        result.texts += len(one.texts)
        result.codes |= one.codes | other.codes
        for label, texts in differences(one, other).items():
            result.differences.append(f"{pair.name}: {label}: {texts[0]} / {texts[1]}")
    return result


def observe(side: Side, folder: Path, *, door: Door = Session, labels: Iterable[str] = ASKED) -> Seen:
    """All verbs of the Python door over one table, in a new workspace ``folder`` with a ledger in memory.

    Args:
        labels: Which of ``ASKED``, "groups" and "top" among them.
    """
    folder.mkdir(parents=True)
    side.write(folder)
    seen, ledger, workspace = Seen(folder), MemoryLedger(), Workspace(folder)
    with _listening(seen):
        with _session(door, side, workspace, ledger, "ana") as session:
            _ask_all(session, seen, labels)
            _refuse_all(session, seen)
            _look(session, seen)
            for session.analyst in ("bo", "eve"):  # too small a share, and none
                seen.attempt(f"asked by {session.analyst}", asked, session, FRESH)
        _break(door, side, workspace, ledger, seen)
        with _session(door, side, workspace, MemoryLedger(), "ana") as session:
            _ask_early(session, seen, labels)
        seen.note("ledger", [_masked({"seq": entry.seq, **entry.body}) for entry in ledger.iter_entries()])
        seen.note("verdict", str(ledger.verify()))
    shutil.rmtree(folder)
    return seen


def _session(door: Door, side: Side, workspace: Workspace, ledger: Ledger, analyst: str) -> Session:
    session = door(workspace, ledger, analyst=analyst)
    if not side.setting.in_a_file:
        session.add_frame(read_schema(side.setting.declaration()), side.frame())
    return session


def _ask_all(session: Session, seen: Seen, labels: Iterable[str]) -> None:
    for label in labels:
        seen.attempt(f"explain {label}", _explained, session, ASKED[label])
        if label not in SETTLES_EARLY:
            seen.attempt(f"ask {label}", asked, session, ASKED[label], key=label)
    for label in ("groups", "top"):
        seen.attempt(f"again {label}", asked, session, ASKED[label], key=label)
        seen.attempt(f"save {label}", _saved, session, ASKED[label], key=label)


def _ask_early(session: Session, seen: Seen, labels: Iterable[str]) -> None:
    def shown(label: str) -> dict[str, Any]:
        found = asked(session, ASKED[label], key=label)
        return {key: MASK if key in _PRICED_BY_NOISE else value for key, value in found.items()}

    for label in labels:
        if label in SETTLES_EARLY:
            seen.attempt(f"ask {label}", shown, label)
            seen.note(f"reserved for {label}", [entry.body["event"] for entry in _reserved(session)])


def _reserved(session: Session) -> list[Entry]:
    return [entry for entry in session.ledger.iter_entries() if entry.kind == "reserve"]


def _refuse_all(session: Session, seen: Seen) -> None:
    for label, question in REFUSED.items():
        seen.attempt(f"refused {label}", asked, session, question)
        seen.attempt(f"explain refused {label}", _explained, session, question)
    seen.attempt("refused key", asked, session, ASKED["count"], key="groups")
    seen.attempt("refused key's form", asked, session, ASKED["count"], key="\u00e9")
    seen.attempt("refused price", asked, session, FRESH, max_cost="0.0000001")
    seen.attempt("refused check", session.check, "visits")


def _look(session: Session, seen: Seen) -> None:
    seen.note("tables", session.list_tables())
    seen.note("schema", session.schema("visits").digest)
    seen.note("left", str(session.get_remaining("visits")))
    seen.note("accounts", [str(account) for account in session.ledger.list_accounts()])


def _break(door: Door, side: Side, workspace: Workspace, ledger: Ledger, seen: Seen) -> None:
    """What is the owner's fault ends in one error for all rows: in a declaration, a budget, a source."""
    declared, frame = side.setting.declaration(), side.frame()
    schema = workspace.schemas / "visits.toml"
    schema.unlink(missing_ok=True)
    faults = {
        "budget": (declared.replace('"100000"', '"5"'), frame),
        "frame": (declared, "no frame"),
        "source": (declared, _Failing()),
    }
    for label, (text, rows) in faults.items():
        with door(workspace, ledger, analyst="ana") as session:
            seen.attempt(f"broken {label}", _framed, session, text, rows)
    with door(workspace, ledger, analyst="ana") as session:
        seen.attempt("no table", asked, session, FRESH)


class _Failing:
    """A frame whose rows cannot be had."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise OSError("the network is gone")


def _framed(session: Session, text: str, rows: object) -> dict[str, Any]:
    session.add_frame(read_schema(text), rows)
    return asked(session, FRESH)


def _explained(session: Session, question: Any) -> dict[str, Any]:
    return session.explain(question).to_json()


def asked(session: Session, question: Any, **named: Any) -> dict[str, Any]:
    """The answer's document and the types of its table, with rows as the module says."""
    answer = session.ask(question, **named)
    plan = _plan(session, question, answer.schema_digest)
    keys = len(plan.compiled.keys)
    document = _masked(answer.to_json())
    if plan.query.top is not None or plan.query.having is not None:
        places = [plan.compiled.labels.index(row[:keys]) for row in answer.rows]
        document["rows"] = len(places) if plan.query.top is not None else places == sorted(places)
    else:
        kinds = [[type(value).__name__ for value in row[keys:]] for row in answer.rows]
        document["rows"] = [[*row[:keys], *kind] for row, kind in zip(answer.rows, kinds, strict=True)]
        document["types"] = str(answer.table.schema)
    # The same rows as people read them: keys as they are, numbers masked; of a choice, how many is told above.
    plain = plan.query.top is None and plan.query.having is None
    shown = document["shown"]["rows"]
    document["shown"]["rows"] = [[*row[:keys], *[MASK] * len(row[keys:])] for row in shown] if plain else MASK
    return {**document, "grid": str(answer.grid), "request": answer.request, "digest": answer.schema_digest}


_plans: dict[tuple[str, str], Plan] = {}


def _plan(session: Session, question: Any, digest: str) -> Plan:
    """The plan of a question that was answered, made once a declaration."""
    key = str(question), digest
    if key not in _plans:
        explained = session.explain(question)
        assert isinstance(explained, Explanation)
        _plans[key] = explained.plan
    return _plans[key]


def _saved(session: Session, question: Any, **named: Any) -> dict[str, Any]:
    folder = session.save(session.ask(question, **named))
    manifest = _masked(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    verdict = verify_release(folder, session.ledger)
    return {"files": sorted(path.name for path in folder.iterdir()), "manifest": manifest, "verdict": str(verdict)}


def _problem(error: Exception) -> dict[str, Any]:
    ours = isinstance(error, SiloquentError)
    return {
        "kind": type(error).__name__,
        "status": [error.code, error.exit_status, error.http_status] if isinstance(error, SiloquentError) else [],
        "text": str(error) if ours else repr(error),
        "parts": {name: str(value) for name, value in vars(error).items()},
        "cause": [repr(error.__cause__), repr(error.__context__) if not error.__suppress_context__ else ""],
    }


def _masked(value: Any) -> Any:
    """``value`` with what is random or hashed from it masked; the order of keys stays."""
    if isinstance(value, dict):
        return {key: MASK if key in _RANDOM else _masked(inner) for key, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, (list, tuple)) else value


class _Records(logging.Handler):
    """Every record that reaches an application's log, but those of federations, which other threads may still run."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("siloquent.federation"):
            self.texts.append(f"{record.name} {record.levelname} {record.getMessage()}")


@contextmanager
def _listening(seen: Seen) -> Iterator[None]:
    """Keep what is logged and warned of meanwhile; the owner's own log is the owner's."""
    records, root, ours = _Records(), logging.getLogger(), logging.getLogger("siloquent")
    levels = root.level, ours.level
    root.addHandler(records)
    ours.setLevel(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            root.removeHandler(records)
            root.setLevel(levels[0])
            ours.setLevel(levels[1])
    seen.note("log", [text for text in records.texts if text.startswith("siloquent")])
    seen.note("warnings", sorted({str(warning.message) for warning in warned}))
