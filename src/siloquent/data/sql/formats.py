"""Values in declared formats as SQL: each column as every source has it, before the index functions read it.

The definition is ``ValueFormat.rewrite``. Typed columns have no formats: of them, only values declared as missing
become NULL, and moments in UTC become local times of the declared zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from siloquent.data.engines.base import SOURCE
from siloquent.data.sql.indices import (
    SourceColumn,
    build_case,
    build_float_literal,
    build_int_literal,
    cast_to_text,
    extract_match,
    limit_text,
    quote_name,
    try_cast,
)
from siloquent.schema.files.coercion import DATETIME_PATTERN, EARLIEST, LATEST, MAX_TEXT, NUMBER_PATTERN
from siloquent.schema.formats.value_formats import (
    FIRST_OF_19,
    GROUPINGS,
    MONTHS,
    PLAIN_FORMAT,
    ZONED_PATTERN,
    DatePattern,
    Family,
    ValueFormat,
    build_number_pattern,
    compile_date_formats,
)

_TYPED_NUMBERS = ("integer", "decimal", "real")
_MINUTE = 60_000_000


def is_rewritten(column: SourceColumn) -> bool:
    """Return whether the column's format is not that of every source."""
    return column.form != PLAIN_FORMAT


def select_rewritten(columns: Sequence[SourceColumn], *, raw: bool) -> exp.Select:
    """Return the rows of the source with the columns rewritten, under their own names.

    With ``raw``, also as stored (``raw_name``), where missing values are NULL and others are not rewritten.

    There are three steps, so that no text is computed twice: a text of bounded length, the text that every source has,
    and NULL for values declared as missing.
    """
    chosen = list({column.source: column for column in columns}.values())
    kept = list(columns) if raw else []
    stored = [exp.alias_(quote_name(c.source), c.raw_name, quoted=True) for c in kept]
    shown: list[exp.Expr] = [exp.alias_(_limit(c), c.source, quoted=True) for c in chosen]
    query = exp.select(*shown, *stored).from_(exp.to_table(SOURCE))
    shown = [exp.alias_(_rewrite(c), _name_rewritten(c), quoted=True) for c in chosen if is_rewritten(c)]
    query = exp.select("*", *shown).from_(query.subquery("stored"))
    missing = {c.source: list(_list_missing(c)) for c in chosen}
    shown = [exp.alias_(_drop(missing[c.source], _finish(c)), c.source, quoted=True) for c in chosen]
    shown += [exp.alias_(_drop(missing[c.source], quote_name(c.raw_name)), c.raw_name, quoted=True) for c in kept]
    return exp.select(*shown).from_(query.subquery("formatted"))


def drop_missing(column: SourceColumn, value: exp.Expr) -> exp.Expr:
    """Return ``value`` read from a column of texts or ids, NULL where the stored value is declared as missing."""
    return _drop(list(_list_missing(column)), value)


def _name_rewritten(column: SourceColumn) -> str:
    return f"w{column.position}"


def _limit(column: SourceColumn) -> exp.Expr:
    """Return a text of bounded length, since patterns are slow on long ones; other values as they are."""
    value: exp.Expr = quote_name(column.source)
    if column.kind != "text" or not is_rewritten(column):
        return value
    text = cast_to_text(value)
    return text if column.attribute.kind == "category" else limit_text(text, MAX_TEXT)


def _rewrite(column: SourceColumn) -> exp.Expr:
    value = quote_name(column.source)
    if column.kind == "text":
        return _rewrite_text(value, column.form, column.family)
    if column.zoned and column.form.time_zone and column.family in ("date", "datetime"):
        return _to_local(_bound_zoned(value), column.form.time_zone)
    return value


def _finish(column: SourceColumn) -> exp.Expr:
    """Return the value rewritten, a moment as local time."""
    if not is_rewritten(column):
        return quote_name(column.source)
    value = quote_name(_name_rewritten(column))
    if column.kind == "text" and column.form.time_zone and column.family in ("date", "datetime"):
        return _convert_zone(value, column.form.time_zone)
    return value


def _drop(missing: Sequence[exp.Expr], value: exp.Expr) -> exp.Expr:
    return build_case((exp.or_(*(one.copy() for one in missing)), exp.Null()), default=value) if missing else value


def _list_missing(column: SourceColumn) -> Iterator[exp.Expr]:
    """Yield the conditions under which a value is one of those declared as missing."""
    form, family = column.form, column.family
    if not form.missing:
        return
    stored = quote_name(column.source)
    if column.kind in ("text", "integer", "boolean"):
        text = exp.Trim(this=cast_to_text(stored), expression=exp.Literal.string(" "))
        yield _is_one_of(text, [exp.Literal.string(word.strip(" ")) for word in form.missing])
    if column.kind in _TYPED_NUMBERS:
        numbers = (form if family == "number" else ValueFormat(missing=form.missing)).list_missing_numbers()
        if numbers:
            yield _is_one_of(try_cast(stored, "DOUBLE"), [build_float_literal(number) for number in numbers])
    elif column.kind == "text" and family == "number" and (numbers := form.list_missing_numbers()):
        number = try_cast(extract_match(quote_name(_name_rewritten(column)), NUMBER_PATTERN), "DOUBLE")
        yield _is_one_of(number, [build_float_literal(one) for one in numbers])
    elif family == "date" or family == "datetime":
        yield from _list_missing_moments(column, family)


def _list_missing_moments(column: SourceColumn, family: Family) -> Iterator[exp.Expr]:
    moments = column.form.list_missing_moments(family)
    if not moments:
        return
    value = _finish(column)
    if column.kind == "text":
        moment = try_cast(extract_match(cast_to_text(value), DATETIME_PATTERN), "TIMESTAMP")
        yield _is_one_of(exp.func("EPOCH_US", moment, dialect="duckdb"), [build_int_literal(one) for one in moments])
        return
    kind = "DATE" if column.kind == "date" else "TIMESTAMP"
    texts = [_format_moment(one, kind) for one in moments]
    yield _is_one_of(value, [exp.cast(exp.Literal.string(text), kind) for text in texts if text])


def _format_moment(moment: int, kind: str) -> str:
    from datetime import datetime, timedelta

    found = datetime(1970, 1, 1) + timedelta(microseconds=moment)
    if kind == "TIMESTAMP":
        return str(found)
    return str(found.date()) if found == datetime(found.year, found.month, found.day) else ""


def _is_one_of(value: exp.Expr, listed: list[exp.Expr]) -> exp.Expr:
    found = exp.In(this=value, expressions=listed) if listed else exp.false()
    return exp.func("COALESCE", found, exp.false())


def _rewrite_text(text: exp.Expr, form: ValueFormat, family: Family) -> exp.Expr:
    """Return a text as every source has it, NULL where it does not fit; not yet in the declared time zone."""
    if family == "number" and not form.is_plain_number:
        return _rewrite_number(text, form)
    if (family == "date" or family == "datetime") and (declared := form.get_date_format(family)):
        return _rewrite_dates(text, compile_date_formats(declared))
    if family == "boolean" and (form.true or form.false):
        word = exp.Lower(this=exp.Trim(this=text.copy(), expression=exp.Literal.string(" ")))
        branches = [
            (_is_one_of(word.copy(), [exp.Literal.string(one.strip(" ").lower()) for one in words]), meant)
            for words, meant in ((form.true, "true"), (form.false, "false"))
            if words
        ]
        return build_case(*((found, exp.Literal.string(meant)) for found, meant in branches), default=text)
    return text


def _rewrite_number(text: exp.Expr, form: ValueFormat) -> exp.Expr:
    for symbol in form.symbols:
        text = _replace(text, f"-{symbol}", f"{symbol}-")
    number = extract_match(text, build_number_pattern(form.decimal, form.thousands, form.symbols))
    for sign in GROUPINGS.get(form.thousands, (form.thousands,) if form.thousands else ()):
        number = _replace(number, sign, "")
    return number if form.decimal == "." else _replace(number, form.decimal, ".")


def _replace(text: exp.Expr, old: str, new: str) -> exp.Expr:
    return exp.Anonymous(this="REPLACE", expressions=[text, exp.Literal.string(old), exp.Literal.string(new)])


def _rewrite_dates(text: exp.Expr, patterns: Sequence[DatePattern]) -> exp.Expr:
    found = [_rewrite_date(text, one) for one in patterns]
    return exp.func("COALESCE", *found) if len(found) > 1 else found[0]


def _rewrite_date(text: exp.Expr, pattern: DatePattern) -> exp.Expr:
    def field(letter: str) -> exp.Expr:
        return _extract(text, pattern.pattern, pattern.groups[letter])

    groups = pattern.groups
    year = field("Y") if "Y" in groups else _expand_year(field("y"))
    month = _pad(field("m")) if "m" in groups else _find_month(field("b" if "b" in groups else "B"))
    parts: list[exp.Expr] = [year, exp.Literal.string("-"), month, exp.Literal.string("-"), _pad(field("d"))]
    if "H" in groups or "I" in groups:
        hour = _pad(field("H")) if "H" in groups else _expand_hour(field("I"), field("p"))
        parts += [exp.Literal.string(" "), hour]
        for letter in "MS":
            parts += [exp.Literal.string(":"), _pad(field(letter)) if letter in groups else exp.Literal.string("00")]
        parts += [exp.Literal.string("."), field("f")] if "f" in groups else []
    parts += [field("z")] if "z" in groups else []
    return build_case((exp.EQ(this=_extract(text, pattern.pattern, 0), expression=text.copy()), _concat(*parts)))


def _extract(text: exp.Expr, pattern: str, group: int) -> exp.Expr:
    return exp.RegexpExtract(this=text.copy(), expression=exp.Literal.string(pattern), group=exp.Literal.number(group))


def _concat(*parts: exp.Expr) -> exp.Expr:
    return exp.func("CONCAT", *parts)


def _pad(digits: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="LPAD", expressions=[digits, exp.Literal.number(2), exp.Literal.string("0")])


def _expand_year(digits: exp.Expr) -> exp.Expr:
    is_late = exp.GTE(this=_pad(digits), expression=exp.Literal.string(str(FIRST_OF_19)))
    century = build_case((is_late, exp.Literal.string("19")), default=exp.Literal.string("20"))
    return _concat(century, _pad(digits.copy()))


def _expand_hour(hour: exp.Expr, half: exp.Expr) -> exp.Expr:
    """Return the two digits of an hour from 1 to 12 in the first or second half of a day."""
    is_late = exp.EQ(this=exp.Lower(this=half), expression=exp.Literal.string("pm"))
    shift = build_case((is_late, build_int_literal(12)), default=build_int_literal(0))
    within = exp.Mod(this=exp.Paren(this=try_cast(hour, "INTEGER")), expression=build_int_literal(12))
    total = exp.Add(this=exp.Paren(this=within), expression=exp.Paren(this=shift))
    return _pad(exp.cast(total, "VARCHAR"))


def _find_month(name: exp.Expr) -> exp.Expr:
    first = exp.Lower(this=exp.func("SUBSTRING", name, build_int_literal(1), build_int_literal(3)))
    branches = [
        (exp.EQ(this=first.copy(), expression=exp.Literal.string(month)), exp.Literal.string(f"{number:02}"))
        for number, month in enumerate(MONTHS, 1)
    ]
    return build_case(*branches, default=exp.Literal.string("00"))


def _convert_zone(iso: exp.Expr, time_zone: str) -> exp.Expr:
    """Return the text of a moment as local time; one without a zone is local already. Only DuckDB runs this."""
    base = try_cast(_extract(iso, ZONED_PATTERN, 1), "TIMESTAMP")
    zone = _extract(iso, ZONED_PATTERN, 2)
    digits = _replace(zone.copy(), ":", "")

    def read_digits(first: int) -> exp.Expr:
        piece = exp.func("SUBSTRING", digits.copy(), build_int_literal(first), build_int_literal(2))
        return exp.func("COALESCE", try_cast(piece, "BIGINT"), build_int_literal(0))

    hours = exp.Mul(this=read_digits(2), expression=build_int_literal(60))
    minutes = exp.Paren(this=exp.Add(this=hours, expression=read_digits(4)))
    begins = exp.func("SUBSTRING", zone.copy(), build_int_literal(1), build_int_literal(1))
    is_behind = exp.EQ(this=begins, expression=exp.Literal.string("-"))
    sign = build_case((is_behind, build_int_literal(-_MINUTE)), default=build_int_literal(_MINUTE))
    since = exp.Sub(
        this=exp.func("EPOCH_US", base, dialect="duckdb"),
        expression=exp.Mul(this=minutes, expression=exp.Paren(this=sign)),
    )
    utc = exp.Anonymous(this="MAKE_TIMESTAMP", expressions=[since])
    local = _to_local(exp.Anonymous(this="TIMEZONE", expressions=[exp.Literal.string("UTC"), utc]), time_zone)
    is_zoned = exp.EQ(this=_extract(iso, ZONED_PATTERN, 0), expression=iso.copy())
    return build_case((is_zoned, cast_to_text(local)), default=iso)


def _to_local(moment: exp.Expr, time_zone: str) -> exp.Expr:
    return exp.Anonymous(this="TIMEZONE", expressions=[exp.Literal.string(time_zone), moment])


def _bound_zoned(moment: exp.Expr) -> exp.Expr:
    """Return a moment in UTC within years 1 to 9999: no conversion fails for those."""
    lo, hi = (exp.cast(exp.Literal.string(f"{bound}+00"), "TIMESTAMPTZ") for bound in (EARLIEST, LATEST))
    clamped = exp.func("LEAST", exp.func("GREATEST", moment.copy(), lo), hi)
    return build_case((exp.Is(this=moment.copy(), expression=exp.Null()), exp.Null()), default=clamped)
