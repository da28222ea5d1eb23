"""Checks for missing, unreadable, out-of-bounds and unlisted values, and for users with too many rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from siloquent.charts.text import number_of
from siloquent.data.check.formats import FormatProposal, propose_format
from siloquent.data.check.report import Kind, TableFinding
from siloquent.data.engines.base import Engine
from siloquent.data.sql.indices import SourceColumn, build_int_literal, build_out_of_bounds, index_column, quote_name
from siloquent.data.units.contribution_bounding import join_lookups, select_as_read
from siloquent.data.units.linked_rows import count_keys_of_several
from siloquent.schema import TableSchema

Condition = tuple[str, exp.Expr]


def check_values(
    schema: TableSchema, columns: Sequence[SourceColumn], engine: Engine
) -> tuple[int, int, list[TableFinding]]:
    """Return the number of rows, how many of them have a value in every column, and the problems in their values."""
    conditions = [(c, kind, condition) for c in columns for kind, condition in _list_conditions(c)]
    shown = [exp.alias_(exp.Count(this=exp.Star()), "rows")]
    complete = exp.Case().when(_join_all([_has_value(column) for column in columns]), exp.Literal.number(1))
    shown.append(exp.alias_(exp.Count(this=complete), "complete"))
    for number, (_, _, condition) in enumerate(conditions):
        ones = exp.Case().when(condition, exp.Literal.number(1))
        shown.append(exp.alias_(exp.Count(this=ones), f"c{number}"))
    counted = engine.aggregate(join_lookups(select_as_read(columns, raw=True), columns, *shown)).to_pylist()[0]
    found, rows = [], int(counted["rows"])
    counts = {(column.position, kind): int(counted[f"c{n}"]) for n, (column, kind, _) in enumerate(conditions)}
    for column, kind, _ in conditions:
        count = counts[column.position, kind]
        known = rows - counts.get((column.position, "null"), 0)
        if count:
            finding = _build_finding(kind, column, count, schema.name)
            if kind == "unreadable":
                finding = _add_format(finding, propose_format(schema, column, columns, engine), schema.name)
            whole = count == known and kind in _NOTHING
            found.append(_tell_whole_column(finding, column, known) if whole else finding)
    return rows, int(counted["complete"]), found


def _has_value(column: SourceColumn) -> exp.Expr:
    """Return the condition that a column has a value that is read."""
    known = exp.Paren(this=exp.not_(exp.Is(this=quote_name(column.read_name), expression=exp.Null())))
    if column.kind != "real":
        return known
    return exp.and_(known, exp.not_(exp.func("COALESCE", exp.IsNan(this=quote_name(column.raw_name)), exp.false())))


def _join_all(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Return the conjunction of conditions as a tree that is not deep: there may be thousands."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return exp.Paren(this=exp.And(this=_join_all(conditions[:half]), expression=_join_all(conditions[half:])))


MIN_WHOLE = 5
"""The number of values from which a column of which none counts is a problem of the declaration."""
_NOTHING = {
    "unreadable": "No value could be read as {kind}",
    "outside": "No value lies within the bounds",
    "unlisted": "No value is listed",
}
_KINDS = {
    **dict.fromkeys(("integer", "real"), "a number"),
    "boolean": "true or false",
    "category": "a text",
    "date": "a date",
    "datetime": "a moment",
    "id": "an id",
}


def _add_format(finding: TableFinding, proposal: FormatProposal | None, table: str) -> TableFinding:
    """Return the finding with the settings that would read the values, if there are any."""
    if proposal is None:
        return finding
    sentence = f"{finding.sentence} {proposal.question}"
    return replace(finding, sentence=sentence, fix=f"{proposal.fix} in schemas/{table}.toml")


def _tell_whole_column(finding: TableFinding, column: SourceColumn, known: int) -> TableFinding:
    """Return the finding about a column of which no value counts; unless it has very few, it is a problem."""
    first = _NOTHING[finding.kind].format(kind=_KINDS.get(column.attribute.kind, column.attribute.kind))
    kind: Kind = "nothing_counts" if known >= MIN_WHOLE and finding.kind != "unreadable" else finding.kind
    return replace(finding, kind=kind, sentence=f"{first}: {finding.sentence}")


def check_users(schema: TableSchema, columns: Sequence[SourceColumn], engine: Engine) -> list[TableFinding]:
    """Return findings about rows without a user, and users of whom only some rows count."""
    unit = schema.unit
    if unit.kind == "row":
        return []
    column = next(c for c in columns if c.attribute.name == unit.column)
    rows = select_as_read([column]).subquery("as_read")
    user = quote_name(column.read_name)
    by_user = (
        exp.select(exp.alias_(user, "u"), exp.alias_(exp.Count(this=exp.Star()), "n")).from_(rows).group_by(user.copy())
    )
    known, n = exp.not_(exp.Is(this=exp.column("u"), expression=exp.Null())), exp.column("n")
    most = exp.Literal.number(unit.max_rows)
    over = exp.and_(known, exp.GT(this=n, expression=most))
    totals = {
        "nobody": exp.Case().when(exp.not_(known.copy()), n.copy()),
        "users": exp.Case().when(over, exp.Literal.number(1)),
        "left_out": exp.Case().when(over.copy(), exp.Sub(this=n.copy(), expression=most.copy())),
    }
    shown = [_build_sum(value, alias) for alias, value in totals.items()]
    found = engine.aggregate(exp.select(*shown).from_(by_user.subquery("by_user"))).to_pylist()[0]
    counts = {key: int(value) for key, value in found.items()}
    return [*_build_user_findings(schema, counts), *_check_owners(schema, engine)]


def _check_owners(schema: TableSchema, engine: Engine) -> Iterator[TableFinding]:
    """Yield a finding about keys of the parent that several owners have."""
    link = schema.link
    if link is None:
        return
    several = count_keys_of_several(engine, len(link.on))
    if several:
        yield TableFinding(
            "several_owners",
            f"unit {schema.unit.of}",
            several,
            f"{number_of(several, 'key', 'keys')} of {link.parent.name} {'has' if several == 1 else 'have'} several "
            f"owners: their rows count for each {schema.unit.of} and are protected together with the rows of each, not "
            "separately.",
            f"correct the keys in the source of {link.parent.name}, if each belongs to one {schema.unit.of}",
        )


def _build_sum(value: exp.Expr, alias: str) -> exp.Expr:
    total = exp.func("COALESCE", exp.Sum(this=value), exp.Literal.number(0))
    return exp.alias_(exp.cast(total, "BIGINT"), alias)


def _build_user_findings(schema: TableSchema, found: dict[str, int]) -> Iterator[TableFinding]:
    unit, link = schema.unit, schema.link
    subject = f"unit {unit.of or unit.column}"
    fix = f"fill in {unit.column} in the source, or exclude these rows deliberately"
    if link is not None:
        fix = f"correct {', '.join(own for own, _ in link.on)} here or the keys of {link.parent.name}"
    declared = f'kind = "user", column = "{unit.column}"' if unit.kind == "user" else f'of = "{unit.of}"'
    if unit.kind == "shared":
        declared += f', column = "{unit.column}"' if link is None else f', via = "{link.parent.name}", on = {{ ... }}'
    if found["nobody"]:
        yield TableFinding(
            "no_user",
            subject,
            found["nobody"],
            f"{number_of(found['nobody'], 'row names', 'rows name')} no {unit.of or unit.column}: "
            f"{'it never counts' if found['nobody'] == 1 else 'they never count'}.",
            fix,
        )
    if found["users"]:
        yield TableFinding(
            "over_max_rows",
            subject,
            found["users"],
            f"{number_of(found['users'], 'user has', 'users have')} more than "
            f"{number_of(unit.max_rows, 'row', 'rows')}: "
            f"{number_of(found['left_out'], 'row does', 'rows do')} not count.",
            f"unit = {{ {declared}, max_rows = ... }} (more rows, more noise)",
        )


def _list_conditions(column: SourceColumn) -> Iterator[Condition]:
    """Yield the conditions counted for a column: SQL over ``read_name`` and ``raw_name``."""
    attribute, value, raw = column.attribute, quote_name(column.read_name), quote_name(column.raw_name)
    missing: exp.Expr = exp.Is(this=raw, expression=exp.Null())
    if column.kind == "real":
        missing = exp.or_(missing, exp.IsNan(this=raw.copy()))
    unread = exp.and_(exp.Is(this=value, expression=exp.Null()), exp.not_(exp.Paren(this=missing.copy())))
    if not attribute.function:
        if attribute.is_countable:
            yield "null", missing
        yield "too_long" if attribute.kind == "text" else "unreadable", unread
    if attribute.is_numeric or attribute.is_temporal:
        yield "outside", build_out_of_bounds(column)
    if attribute.kind == "integer":
        yield "rounded", exp.NEQ(this=value.copy(), expression=exp.func("ROUND", value.copy()))
    if attribute.kind == "category":
        unlisted = exp.EQ(this=index_column(column), expression=build_int_literal(attribute.other_index))
        yield "unlisted", exp.and_(exp.not_(exp.Is(this=value.copy(), expression=exp.Null())), unlisted)


def _build_finding(kind: str, column: SourceColumn, count: int, table: str) -> TableFinding:
    attribute = column.attribute
    subject = f"attribute {attribute.name}"
    they = "it is" if count == 1 else "they are"
    hold = number_of(count, "row holds", "rows hold")
    where = f'in the attribute named "{attribute.name}" of schemas/{table}.toml'
    if kind == "null":
        meaning = {
            "drop": f"{they} left out where it is asked about",
            "cell": "NULL has a cell of its own",
            "value": f"{they} read as {attribute.null_value!r}",
        }[attribute.null]
        fix = f'null = "cell" {where} counts them' if attribute.null == "drop" and attribute.is_countable else ""
        return TableFinding(
            "null", subject, count, f"{number_of(count, 'row has', 'rows have')} no {attribute.name}: {meaning}.", fix
        )
    if kind == "unreadable":
        sentence = f"{hold} a value that is not of type {attribute.kind}: it is read as NULL."
        return TableFinding(
            "unreadable", subject, count, sentence, f"{_FORMS[attribute.kind]}, or declare another type"
        )
    if kind == "too_long":
        sentence = f"{hold} a text longer than max_bytes: {they} read as NULL."
        return TableFinding("too_long", subject, count, sentence, f"max_bytes = ... {where}")
    if kind == "outside":
        meaning = "moved to the nearest bound" if attribute.outside == "clamp" else "left out"
        sentence = (
            f"{number_of(count, 'row lies', 'rows lie')} outside {attribute.lo}..{attribute.hi}: {they} {meaning}."
        )
        fix = f"lo = ..., hi = ... {where}, from what is known of the field and not from these rows"
        return TableFinding("outside", subject, count, sentence, fix)
    if kind == "rounded":
        sentence = f"{hold} a number with decimals: {they} rounded to whole numbers."
        return TableFinding("rounded", subject, count, sentence, f'type = "real", grid = "0.01" {where} keeps them')
    meaning = "such values share the cell (other)" if attribute.other == "cell" else f"{they} left out"
    fix = f'values = [...] {where}, or other = "cell"' if attribute.other == "drop" else f"values = [...] {where}"
    return TableFinding("unlisted", subject, count, f"{hold} a value that is not listed: {meaning}.", fix)


_FORMS = {
    "integer": "write numbers as 12, -3.5 or 1e3",
    "real": "write numbers as 12, -3.5 or 1e3, with a decimal point",
    "boolean": "write true or false, yes or no, 1 or 0",
    "date": "write dates as 2024-01-31",
    "datetime": "write timestamps as 2024-01-31 10:00:00, without a time zone or in UTC",
    "category": "write texts or whole numbers",
    "id": "write an id",
}
