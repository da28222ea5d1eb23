"""Formats in which values that cannot be read may be written, for the owner's check: the settings that would read them.

The formats tried are a fixed list. A finding names settings, never a value of a row that is not on that list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace

from sqlglot import exp

from siloquent.data.engines.base import SOURCE, Engine
from siloquent.data.sql.indices import SourceColumn, quote_name, try_cast
from siloquent.data.units.contribution_bounding import select_as_read
from siloquent.errors import SchemaError
from siloquent.schema import TableSchema
from siloquent.schema.files.coercion import is_long, read_boolean, read_datetime, read_number
from siloquent.schema.files.toml import quote_text
from siloquent.schema.formats.value_formats import (
    BETWEEN_FORMATS,
    MAX_FORMATS,
    MAX_SYMBOLS,
    MISSING_WORDS,
    SYMBOLS,
    ValueFormat,
    list_candidates,
)

MAX_TRIED = 1_000
"""The number of values that cannot be read on which formats are tried."""
ISO_DAYS = "%Y-%m-%d"
SMALL_PART = 100
"""A further format of dates is proposed if it reads at least this part of the values."""
_KEYS = {"date": "date_format", "datetime": "datetime_format"}


@dataclass(frozen=True, slots=True)
class FormatProposal:
    """Settings that would read values, each as a line of a table file, and the question whether they are meant."""

    lines: tuple[str, ...]
    question: str
    column: str = ""

    @property
    def fix(self) -> str:
        """The settings and the section that they belong to."""
        section = f"[reading.columns.{quote_text(self.column)}]" if self.column else "[reading]"
        return f"{' and '.join(self.lines)} under {section}"


def propose_format(
    schema: TableSchema, column: SourceColumn, columns: Sequence[SourceColumn], engine: Engine
) -> FormatProposal | None:
    """Return settings that would read most of the values of a column that cannot be read; None if there are none."""
    if column.kind != "text" or column.attribute.function or column.family == "text":
        return None
    texts = _find_unread(column, engine)
    counts = Counter(text.strip(" ") for text in texts)
    words = [word for word in MISSING_WORDS if counts[word]]
    others = [text for text in texts if text.strip(" ") not in words]
    chosen, best = _choose_form(schema, column, others, engine)
    if 2 * best <= len(others):
        chosen = column.form
    if words and 2 * (len(texts) - len(others) + best) > len(texts):
        chosen = replace(chosen, missing=(*chosen.missing, *words))
    if chosen == column.form:
        return None
    own = _needs_own(schema, column, chosen, columns, engine)
    return FormatProposal(
        tuple(_list_lines(column.form, chosen)), _ask(column.form, chosen), column.attribute.name if own else ""
    )


def _choose_form(
    schema: TableSchema, column: SourceColumn, texts: Sequence[str], engine: Engine
) -> tuple[ValueFormat, int]:
    """Return the format that reads most of ``texts``, and how many; dates may be written in several formats at once."""
    form, rest, total = column.form, list(texts), 0
    for tries in range(MAX_FORMATS if column.family in ("date", "datetime") else 1):
        forms = list(_list_forms(schema, replace(column, form=form), rest, adds=bool(tries)))
        read = [_count_read(column, one, rest) for one in forms]
        best = max(read, default=0)
        if not best or SMALL_PART * best < len(texts):
            break
        form, total = forms[read.index(best)], total + best
        rest = [text for text in rest if not _is_read(column, form, text)]
    if column.family == "date" and column.form.date == "" != form.date and _reads_some(column, engine):
        with suppress(SchemaError):
            form = replace(form, date=f"{form.date} {BETWEEN_FORMATS} {ISO_DAYS}")
    return form, total


def _reads_some(column: SourceColumn, engine: Engine) -> bool:
    """Return whether some values of a column can be read as it is declared."""
    read = quote_name(column.read_name)
    rows = select_as_read([column], raw=True).subquery("as_read")
    known = exp.not_(exp.Is(this=read, expression=exp.Null()))
    first = exp.select(try_cast(read.copy(), "VARCHAR").as_("t")).from_(rows).where(known).limit(1)
    return bool(_sample(engine, first))


def _list_forms(
    schema: TableSchema, column: SourceColumn, texts: Sequence[str], *, adds: bool
) -> Iterator[ValueFormat]:
    """Yield the column's format with each candidate's settings in place of its own, or beside those of dates.

    Args:
        texts: The values that cannot be read.
        adds: Whether a format of dates was chosen already, so that others come beside it.
    """
    if column.family in ("date", "datetime") and (adds or column.form.get_date_format(column.family)):
        yield from _list_more_dates(column)
        return
    plain = ValueFormat()
    if column.family == "number" and (symbols := _find_symbols(texts)):
        with_symbols = replace(column.form, symbols=tuple(dict.fromkeys((*column.form.symbols, *symbols))))
        yield with_symbols
        yield from (
            replace(with_symbols, decimal=one.decimal, thousands=one.thousands) for one in list_candidates("number")
        )
    for candidate in list_candidates(column.family):
        changed = {one.name: getattr(candidate, one.name) for one in fields(candidate)}
        if column.family != "number":
            changed = {name: value for name, value in changed.items() if value != getattr(plain, name)}
        else:
            changed = {name: changed[name] for name in ("decimal", "thousands")}
        yield replace(column.form, **changed)
    if column.family == "datetime" and not schema.source.startswith("spark"):
        yield replace(column.form, time_zone=column.form.time_zone or "UTC")


def _list_more_dates(column: SourceColumn) -> Iterator[ValueFormat]:
    """Yield the column's format with one more format of dates; none that reads the same text as another day."""
    before = column.form.get_date_format(column.family)
    for candidate in list_candidates(column.family):
        more = candidate.get_date_format(column.family)
        if more in (one.strip() for one in before.split(BETWEEN_FORMATS)):
            continue
        with suppress(SchemaError):
            text = f"{before} {BETWEEN_FORMATS} {more}"
            yield replace(column.form, date=text) if column.family == "date" else replace(column.form, datetime=text)


def _find_symbols(texts: Sequence[str]) -> list[str]:
    """Return the known symbols that stand at the beginning or end of ``texts``."""
    bare = [text.strip(" +-") for text in texts]
    return [one for one in SYMBOLS if any(text.startswith(one) or text.endswith(one) for text in bare)][:MAX_SYMBOLS]


def _sample(engine: Engine, query: exp.Select) -> list[str]:
    texts = [text for batch in engine.read_batches(query) for text in batch.column(0).to_pylist()]
    return [text for text in texts if text is not None and not is_long(text)]


def _find_unread(column: SourceColumn, engine: Engine) -> list[str]:
    """Return some of the texts that cannot be read."""
    read, raw = quote_name(column.read_name), quote_name(column.raw_name)
    unread = exp.and_(exp.Is(this=read, expression=exp.Null()), exp.not_(exp.Is(this=raw, expression=exp.Null())))
    rows = select_as_read([column], raw=True).subquery("as_read")
    return _sample(
        engine, exp.select(try_cast(raw.copy(), "VARCHAR").as_("t")).from_(rows).where(unread).limit(MAX_TRIED)
    )


def _count_read(column: SourceColumn, form: ValueFormat, texts: Sequence[str]) -> int:
    """Count the texts that a format reads."""
    return sum(_is_read(column, form, text) for text in texts)


def _is_read(column: SourceColumn, form: ValueFormat, text: str) -> bool:
    reads = {"number": read_number, "boolean": read_boolean}.get(column.family, read_datetime)
    return reads(form.rewrite(text, column.family)) is not None


def _needs_own(
    schema: TableSchema, column: SourceColumn, chosen: ValueFormat, columns: Sequence[SourceColumn], engine: Engine
) -> bool:
    """Return whether other columns read less with the settings: then they are declared for this column only."""
    if schema.reading.get_format(column.attribute.name) != schema.reading.values:
        return True
    words = set(chosen.missing) - set(column.form.missing)
    if any(words & set(attribute.values) for attribute in schema.domain):
        return True
    for other in columns:
        if other.family != column.family or other.kind != "text" or other.position == column.position:
            continue
        query = exp.select(quote_name(other.source)).from_(exp.to_table(SOURCE)).limit(MAX_TRIED)
        texts = _sample(engine, query)
        if _count_read(other, chosen, texts) < _count_read(other, other.form, texts):
            return True
    return False


def _list_lines(old: ValueFormat, new: ValueFormat) -> Iterator[str]:
    for one in fields(ValueFormat):
        value = getattr(new, one.name)
        if value != getattr(old, one.name):
            text = quote_text(value) if isinstance(value, str) else f"[{', '.join(map(quote_text, value))}]"
            yield f"{_KEYS.get(one.name, one.name)} = {text}"


def _ask(old: ValueFormat, new: ValueFormat) -> str:
    """Return the question whether the settings are meant."""
    asked = []
    if (old.decimal, old.thousands) != (new.decimal, new.thousands):
        signs = "decimal commas" if new.decimal == "," else "separators of thousands"
        asked.append(f"does it use {signs}")
    if new.symbols != old.symbols:
        more = [one for one in new.symbols if one not in old.symbols]
        asked.append(f"{'is' if len(more) == 1 else 'are'} {', '.join(more)} written beside numbers")
    for text in (new.date if new.date != old.date else "", new.datetime if new.datetime != old.datetime else ""):
        asked += [f"is it written as {text.replace(f' {BETWEEN_FORMATS} ', ' or as ')}"] if text else []
    if new.time_zone != old.time_zone:
        asked.append("do its moments have a time zone")
    if new.true != old.true:
        asked.append(f"are {new.true[-1]} and {new.false[-1]} true and false")
    if new.missing != old.missing:
        words = [word for word in new.missing if word not in old.missing]
        asked.append(f"{'does' if len(words) == 1 else 'do'} {', '.join(words)} mean that a value is missing")
    text = " and ".join(asked)
    return f"{text[:1].upper()}{text[1:]}?"
