"""Units that tables share: how they are declared, and every way in which that is refused, each with its fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.errors import LinkError, SchemaError, UnknownName
from siloquent.schema import TableSchema, Unit
from siloquent.schema.build import parse_schema
from siloquent.schema.domains import DomainFolder
from unit.linked_shop import CU, LINES, ORDERS, UNIT

VIA = 'unit = { of = "customer", via = "o", on = { o = "o" }, max_rows = 9 }'
DIRECT = 'unit = { of = "customer", column = "c", max_rows = 9 }'


def read(folder: Path, name: str, **changed: str) -> TableSchema:
    """Parse one table of the shop, some declarations of which are changed."""
    for inner in ("units", "schemas"):
        (folder / inner).mkdir(exist_ok=True)
    texts = {"cu": CU, "o": ORDERS, "l": LINES} | {key: text for key, text in changed.items() if key != "customer"}
    (folder / "units" / "customer.toml").write_text(changed.get("customer", UNIT))
    for table, text in texts.items():
        (folder / "schemas" / f"{table}.toml").write_text(text)
    return parse_schema(texts[name], DomainFolder(folder))


def test_all_tables_of_a_unit_have_one_account(tmp_path: Path) -> None:
    tables = [read(tmp_path, name) for name in ("cu", "o", "l")]
    assert {one.account for one in tables} == {"unit.customer@1"}
    assert {one.unit.code for one in tables} == {"shared:customer"}
    assert [one.unit.max_rows for one in tables] == [1, 9, 9]
    assert [one.unit.column for one in tables] == ["c", "c", "customer"]
    assert [parent.name for parent in tables[2].ancestors] == ["o"]
    assert Unit.from_code("shared:customer").code == "shared:customer"


def test_the_owner_of_a_linked_table_has_another_name_where_the_units_is_taken(tmp_path: Path) -> None:
    named = LINES + '\n[[attribute]]\nname = "Customer"\ntype = "id"\n'
    assert read(tmp_path, "l", l=named).unit.column == "customer_unit"


def test_a_change_anywhere_on_the_way_to_the_unit_is_another_declaration(tmp_path: Path) -> None:
    before = read(tmp_path, "l").digest
    assert read(tmp_path, "l", o=ORDERS.replace("csv:o.csv", "csv:other.csv")).digest != before
    assert read(tmp_path, "l", customer=UNIT.replace("100000", "5")).digest != before
    assert read(tmp_path, "l", cu=CU.replace("csv:cu.csv", "csv:other.csv")).digest == before
    assert read(tmp_path, "l").digest == before


REFUSALS = [
    (
        "a budget of its own",
        ORDERS + '\n[budget]\naccountant = "pure"\nepsilon = "1"\n',
        "remove [budget] from schemas/o",
    ),
    (
        "an adjacency of its own",
        ORDERS.replace("[table]", '[table]\nadjacency = "add-remove"'),
        "remove adjacency from schemas/o",
    ),
    ("no kind of its own", ORDERS.replace(DIRECT, DIRECT.replace("{ of", '{ kind = "user", of')), "remove kind"),
    ("has two owners", ORDERS.replace("column", 'via = "l", on = { o = "o" }, column'), 'column = "c"'),
    ("no owner in 'customer'", ORDERS.replace('column = "c", ', ""), 'column = "..."'),
    ("but not which one", ORDERS.replace('column = "c"', 'on = { o = "o" }'), 'via = "TABLE"'),
    ("does not say which", ORDERS.replace('column = "c"', 'via = "cu"'), "on = {"),
    ("form a circle: o -> o", ORDERS.replace('column = "c"', 'via = "o", on = { o = "o" }'), "schemas/o.toml"),
    ("form a circle: o -> l -> o", ORDERS.replace('column = "c"', 'via = "l", on = { o = "o" }'), "schemas/o.toml"),
]


@pytest.mark.parametrize(("what", "text", "fix"), REFUSALS, ids=[one[0] for one in REFUSALS])
def test_a_wrong_link_is_refused_with_a_fix(tmp_path: Path, what: str, text: str, fix: str) -> None:
    with pytest.raises(LinkError) as refused:
        read(tmp_path, "o", o=text)
    assert what in refused.value.detail
    assert fix in str(refused.value.fix)
    assert refused.value.code == "link_invalid"


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ('{ kind = "user", column = "c", max_rows = 2 }', "has a unit of its own"),
        ('{ of = "x", column = "c", max_rows = 2 }', "belongs to the unit 'x'"),
    ],
)
def test_a_parent_with_another_unit_is_refused(tmp_path: Path, unit: str, told: str) -> None:
    with pytest.raises(LinkError, match=told):
        read(tmp_path, "l", o=ORDERS.replace(DIRECT, f"unit = {unit}"))


def test_a_link_compares_columns_that_are_exact_and_alike(tmp_path: Path) -> None:
    number = '[[attribute]]\nname = "o"\ntype = "integer"\nlo = 0\nhi = 99\noutside = "clamp"\nnull = "drop"\n'
    plain = '[[attribute]]\nname = "o"\ntype = "id"\n'
    with pytest.raises(LinkError, match="is of type integer") as refused:
        read(tmp_path, "l", l=LINES.replace(plain, number))
    fixed = LINES.replace(plain, '[[attribute]]\nname = "o"\ntype = "id"\n')
    assert '{ name = "o", type = "id" } in schemas/l.toml' in str(refused.value.fix)
    assert read(tmp_path, "l", l=fixed).link is not None
    text = '[[attribute]]\nname = "o"\ntype = "text"\nmax_bytes = 20\n'
    with pytest.raises(LinkError, match="unlike columns: 'o' is of type id, and 'o' of 'o' of type text"):
        read(tmp_path, "l", o=ORDERS.replace(plain, text))


def test_a_table_more_than_eight_links_away_is_refused_and_one_eight_away_is_read(tmp_path: Path) -> None:
    far = {f"t{n}": ORDERS.replace('"o"\nsource', f'"t{n}"\nsource').replace(
        DIRECT, VIA.replace('via = "o"', f'via = "{f"t{n - 1}" if n else "o"}"')) for n in range(9)}  # fmt: skip
    assert len(read(tmp_path, "t7", **far).ancestors) == 8
    with pytest.raises(LinkError, match="more than 8 links away"):
        read(tmp_path, "t8", **far)


def test_unknown_units_tables_and_columns_are_named_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"unit named 'custmer'\. Did you mean 'customer'\?") as refused:
        read(tmp_path, "o", o=ORDERS.replace('"customer"', '"custmer"'))
    assert "as units/custmer.toml, write:" in str(refused.value.fix)
    with pytest.raises(UnknownName, match="table named 'oo'"):
        read(tmp_path, "l", l=LINES.replace('via = "o"', 'via = "oo"'))
    with pytest.raises(UnknownName, match="attribute named 'nr'"):
        read(tmp_path, "l", l=LINES.replace("on = { o =", "on = { nr ="))


def test_a_fault_of_another_file_names_that_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"schemas/o\.toml: "):
        read(tmp_path, "l", o=ORDERS.replace('type = "id"', 'type = "idd"'))
    with pytest.raises(SchemaError, match=r"units/customer\.toml: .*adjacency"):
        read(tmp_path, "l", customer=UNIT.replace('"add-remove"', '"both"'))


def test_a_linked_table_is_not_read_without_its_workspace() -> None:
    with pytest.raises(LinkError, match="which a workspace declares"):
        parse_schema(ORDERS)


def test_an_unknown_key_of_the_unit_is_told_with_those_of_links(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"Known there: of, column, via, on, max_rows|Did you mean"):
        read(tmp_path, "o", o=ORDERS.replace("max_rows", "zebra = 1, max_rows"))


@pytest.mark.parametrize("there", ["../../{}", "../{}", "{}/x", "/{}", ".", "..", "", "units/../{}"])
@pytest.mark.parametrize("field", ["of", "via"])
def test_a_name_that_leads_elsewhere_is_unknown_and_nothing_there_is_listed(
    tmp_path: Path, field: str, there: str
) -> None:
    """An owner over HTTP sends table files, and may not look around on the machine."""
    folder = tmp_path / "outer" / "workspace"
    folder.mkdir(parents=True)
    for place in (tmp_path, folder.parent, folder):
        (place / "elsewhere.toml").write_text('secret = "elsewhere"')
    name = there.format("elsewhere")
    text = LINES.replace('of = "customer"' if field == "of" else 'via = "o"', f'{field} = "{name}"')
    with pytest.raises((UnknownName, LinkError, SchemaError)) as refused:
        read(folder, "l", l=text)
    assert "elsewhere" not in str(refused.value).replace(name or "nothing", "")
