"""A table, and each of its neighbours with one hostile row: rows as read, then every release with the same noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.hostile.kinds import PLAIN, Kind, Values
from benchmarks.hostile.releases import Seen, declaration, releases, seen
from benchmarks.hostile.sources import Line, Source
from benchmarks.replay.audit import Played, judged, play
from benchmarks.replay.tape import Tape
from siloquent.errors import SiloquentError

Setting = tuple[str, str, int]
ROW: Setting = ("pure", "add-remove", 0)
REPLACED: Setting = ("zcdp", "replace-one", 0)
USER: Setting = ("pure", "add-remove", 2)
USER_REPLACED: Setting = ("zcdp", "replace-one", 2)
SETTINGS = (ROW, REPLACED, USER, USER_REPLACED)
NOT_HERE = ("request_invalid", "schema_invalid")
"""Some releases need users as units, and others an account with or without a delta."""


@dataclass(slots=True)
class Compared:
    """What was compared: how many combinations of kind, source, setting and release, and the differences in words.

    Attributes:
        rows: By kind and setting, what each source makes of the row.
    """

    count: int = 0
    combinations: set[tuple[str, str, str]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    rows: dict[tuple[str, Setting], dict[str, str]] = field(default_factory=dict)


def others() -> list[Values]:
    """The rows of the others: three of each of six users, whose ids hostile ones come close to."""
    users = ("p1", "p2", "stra\u00dfe", "\u1e57", "id", "P2")
    return [
        {
            **PLAIN,
            "who": who,
            "ward": "ABC"[(i + j) % 3],
            "age": float((i + 2 * j) % 5),
            "ill": (i + j) % 2 == 0,
            "told": ("yes", "no")[j % 2],
            "cost": i - 3 * j,
            "dose": str(i / 2 - 1),
            "code": (i + j) % 3 + 1,
            "note": f"disk {j} full {i}",
            "memo": f"{i} {j}",
        }
        for i, who in enumerate(users)
        for j in range(3)
    ]


def compare(
    source: Source, setting: Setting, kinds: Iterable[Kind], found: Compared, *, only: Iterable[str] | None = None
) -> None:
    """Each of ``kinds`` in one more row of ``source``, or in the place of a plain row where units are replaced."""
    text, base = declaration(*setting), others()
    chosen = {name: release for name, release in releases().items() if only is None or name in only}
    plain: list[Line] = [dict(PLAIN)] if setting[1] == "replace-one" else []
    place = len(base) // 2
    drawn: dict[str, Played] = {}
    with source.opened(text, [*base[:place], *plain, *base[place:]]) as session:
        first = seen(session)
        for name, release in chosen.items():
            drawn[name] = play(session, session.schema("visits"), release, Tape())
            if drawn[name].status.partition(":")[0] not in ("answered", *NOT_HERE):
                found.faults.append(f"{source.name} {setting}, without a hostile row: {name}: {drawn[name].status}")
    for kind in kinds:
        row: Line = kind.line if kind.line is not None and source.name.startswith("csv") else kind.row
        where = f"{source.name} {' '.join(map(str, setting))}, {kind.name}"
        try:
            with source.opened(text, [*base[:place], row, *base[place:]]) as session:
                faults, alone = _rows(first, seen(session), setting)
                if kind.is_everywhere:
                    found.rows.setdefault((kind.name, setting), {})[source.name] = alone
                for name, release in chosen.items():
                    one = judged(session.schema("visits"), session, name, release, drawn[name], 1)
                    if one.status == "answered":
                        found.count += 1
                        found.combinations.add((kind.name, source.name, name))
                    faults += [f"{name}: {fault}" for fault in one.faults]
        except SiloquentError as refused:
            faults = [f"refused: {refused.code}: {refused}"]
        found.faults += [f"{where}: {fault}" for fault in faults]


def _rows(first: Seen, second: Seen, setting: Setting) -> tuple[list[str], str]:
    """What is wrong with the rows that count, and what became of the hostile one."""
    more, less = second - first, first - second
    replaced, faults = setting[1] == "replace-one", []
    if less.total() > replaced or more.total() > 1:
        faults.append(f"other rows change: {less.total()} gone, {more.total()} new")
    if setting == REPLACED and first.total() != second.total():
        faults.append("the number of rows is public, and changes")
    return faults, repr([tuple(value[:40] if isinstance(value, str) else value for value in row) for row in more])


def disagreements(found: Compared) -> Iterator[str]:
    """Kinds that every source can hold, and of which two make different rows."""
    for (kind, setting), rows in found.rows.items():
        if len(set(rows.values())) > 1:
            yield f"{kind} {setting}: {rows}"
