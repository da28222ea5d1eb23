"""What is written into a table file is what is declared; comments and order do not count, everything else does."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from property.schema.strategies import attributes
from siloquent.errors import SchemaError
from siloquent.schema import Attribute
from siloquent.schema.attribute import STEP_SECONDS
from siloquent.schema.build import parse_schema
from siloquent.schema.files.toml import read_toml
from unit.schema.declared import table_file


def literal(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(part) for part in value)}]"
    # TOML's basic strings escape as JSON does, and DEL besides.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def written(attribute: Attribute) -> dict[str, str]:
    """An attribute's keys as an owner writes them."""
    keys = {"name": literal(attribute.name), "type": literal(attribute.kind)}
    if attribute.is_numeric or attribute.is_temporal:
        grid = {seconds: word for word, seconds in STEP_SECONDS.items()}
        keys |= {"lo": literal(attribute.lo), "hi": literal(attribute.hi), "outside": literal(attribute.outside)}
        keys["grid"] = literal(grid[int(attribute.grid or 0)] if attribute.is_temporal else attribute.grid)
    if attribute.kind == "category":
        keys |= {"values": literal(attribute.values), "other": literal(attribute.other)}
    own = attribute.null == "value"
    keys["null"] = f"{{ value = {literal(attribute.null_value)} }}" if own else literal(attribute.null)
    return keys


def text_of(keys: dict[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in keys.items())} }}"


@settings(deadline=None)
@given(attribute=attributes)
def test_an_attribute_comes_back_as_it_was_written(attribute: Attribute) -> None:
    [found] = parse_schema(table_file(text_of(written(attribute)))).domain.attributes
    assert found == attribute
    assert [found.index(v) for v in (None, "1", 1.5, True)] == [attribute.index(v) for v in (None, "1", 1.5, True)]


@settings(deadline=None)
@given(attribute=attributes, data=st.data())
def test_the_digest_sees_facts_and_not_their_order(attribute: Attribute, data: st.DataObject) -> None:
    keys = written(attribute)
    shuffled = dict(data.draw(st.permutations(list(keys.items()))))
    one = parse_schema(table_file(text_of(keys)))
    other = parse_schema("# a comment\n" + table_file(text_of(shuffled)).replace("format = 1", "format  =  1  # one"))
    assert one.digest == other.digest
    changed = replace(attribute, name=attribute.name + "x")
    assert parse_schema(table_file(text_of(written(changed)))).digest != one.digest


@settings(deadline=None)
@given(text=st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_no_text_breaks_the_reader(text: str) -> None:
    for candidate in (text, table_file(text), table_file(budget=text), table_file(more=text)):
        with suppress(SchemaError):
            parse_schema(candidate)


def test_a_digest_is_the_same_in_every_version() -> None:
    # Ledgers keep digests for years: this one must never change.
    assert parse_schema(table_file()).digest == "a5eeda95dc3d2cbd3d5acf45248a3963473d1867f4007eccf807344085465cce"
    assert read_toml(table_file())["format"] == 1
