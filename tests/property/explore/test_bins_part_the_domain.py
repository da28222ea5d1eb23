"""Every declared value lies in exactly one group of the declared bins, by whichever task they are read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import SchemaError
from siloquent.explore.plan.relations.public_joins import build_canonical_request, build_first_canonical_request
from siloquent.explore.plan.reuse.linear_measurements import compute_declaration_digest
from siloquent.explore.spec import parse
from siloquent.privacy.budget import Budget
from siloquent.schema import OUTSIDE, TOP_ALONE, TableSchema, build
from siloquent.share import ShareSpec
from siloquent.share.spec.agreement import build_agreed_feature
from siloquent.share.spec.encoding import Encoding
from siloquent.synth import SynthSpec
from siloquent.synth.plan.domain_splits import build_fine_domain

GRIDS = ("1", "1", "2", "5", "0.1", "0.01", "0.25", "1000", "1e-6")
COUNTED = "SELECT x, COUNT(*) FROM t GROUP BY x ERROR 1"


@dataclass(frozen=True)
class Declared:
    """A number with bins: ``bins`` by a model that shares no code with the product."""

    text: str
    values: list[Fraction]
    bins: list[int]
    is_by_width: bool

    @property
    def schema(self) -> TableSchema:
        return sq.read_schema(self.text)


def table_of(column: str) -> str:
    return f"""
format = 1
attribute = [{{ name = "x", {column} }}]
[table]
name = "t"
adjacency = "add-remove"
size_hint = 1000
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "900"
"""


def exact(value: Fraction) -> str:
    """``value`` as a decimal text; all of them here have one."""
    return format(Decimal(value.numerator) / Decimal(value.denominator), "f")


def declared(chance: random.Random) -> Declared:
    """A declaration of a few values, of bins of some width or of listed edges."""
    grid = Fraction(chance.choice(GRIDS))
    lo = grid * chance.randint(-40, 40)
    steps = chance.randint(1, 24)
    values = [lo + grid * i for i in range(steps)]
    kind = "integer" if grid.denominator == 1 and chance.random() < 0.7 else "real"
    null = chance.choice(['"drop"', '"cell"', f"{{ value = {exact(lo)} }}"])
    parts = f'type = "{kind}", lo = {exact(lo)}, hi = {exact(values[-1])}, grid = {exact(grid)}'
    parts += f', outside = "{chance.choice(["clamp", "drop"])}", null = {null}'
    if steps < 3 or chance.random() < 0.7:
        width = grid * chance.randint(1, chance.choice((1, 3, steps + 2)))
        bins = [int((value - lo) // width) for value in values]
        return Declared(table_of(f'{parts}, bins = {{ width = "{exact(width)}" }}'), values, bins, True)
    inner = sorted(chance.sample(range(1, steps - 1), chance.randint(1, steps - 2)))
    last = steps - 1 if chance.random() < 0.5 else steps  # hi itself, or one step beyond it
    edges = ", ".join(f'"{exact(lo + grid * place)}"' for place in (0, *inner, last))
    bins = [sum(place >= cut for cut in inner) for place in range(steps)]
    return Declared(table_of(f"{parts}, bins = {{ edges = [{edges}] }}"), values, bins, False)


def holds(label: object, value: Fraction) -> bool:
    """Whether ``label`` says of itself that it holds ``value``."""
    if not isinstance(label, str):
        return label is not None and Fraction(str(label)) == value
    ends = [Fraction(end.strip()) for end in label[1:-1].split(",")]
    return ends[0] <= value < ends[-1] if label.endswith(")") else ends[0] <= value <= ends[-1]


def faults(found: Declared) -> list[str]:
    """What is wrong with the bins of a declaration, in whichever way they are read."""
    attribute = found.schema.domain["x"]
    size, nulls = max(found.bins) + 1, attribute.null == "cell"
    labels, cells = attribute.list_bin_labels(), attribute.map_to_bins()
    wrong = []
    if cells[: attribute.steps].tolist() != found.bins or cells[-1] != OUTSIDE:
        wrong.append(f"explore reads {cells.tolist()} for {found.bins}")
    if len(labels) != size + nulls or (nulls and (labels[-1] is not None or cells[-2] != size)):
        wrong.append(f"{labels} for {size} bins")
    for value, own in zip(found.values, found.bins, strict=True):
        if [i for i, label in enumerate(labels[:size]) if holds(label, value)] != [own]:
            wrong.append(f"{labels} do not say that {value} is in bin {own} alone")
    starts = build_fine_domain(attribute).starts
    if (np.searchsorted(starts[starts < attribute.steps], np.arange(attribute.steps), side="right") - 1).tolist() != (
        found.bins
    ):
        wrong.append(f"synth begins bins at {starts.tolist()}")
    if attribute.steps > 1:
        feature = build_agreed_feature(found.schema, "x")
        encoding = Encoding((feature,), found.schema.domain["x"])
        read = encoding.compute_bins(0, np.arange(attribute.steps, dtype=np.int64))
        if read.tolist() != found.bins:
            wrong.append(f"share reads {read.tolist()}")
    return wrong


@pytest.mark.parametrize("part", range(4))
def test_every_value_belongs_to_exactly_one_group(part: int) -> None:
    chance = random.Random(part)
    widths = 0
    for _ in range(200):
        found = declared(chance)
        widths += found.is_by_width
        assert not faults(found), found.text
    assert 120 < widths < 195


def closed(lo: Decimal, hi: Decimal, grid: Decimal, width: Decimal) -> tuple[Decimal, ...]:
    """The rule of earlier versions: hi always in the bin before it."""
    inner = [lo + width * i for i in range(1, int((hi - lo) / width) + 1) if lo + width * i < hi]
    return (lo, *inner, hi) if hi > lo else ()


@contextmanager
def earlier_rule() -> Iterator[None]:
    with patch.object(build, "cut_by_width", closed):
        yield


def test_the_earlier_rule_would_be_seen() -> None:
    chance = random.Random(5)
    with earlier_rule():
        some = [found for found in (declared(chance) for _ in range(60)) if found.is_by_width and len(found.values) > 1]
        assert sum(bool(faults(found)) for found in some) > 20


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        yield session


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_by_bins_counts_every_row_in_its_own_group(session: Session, seed: int) -> None:
    chance = random.Random(100 + seed)
    found = declared(chance)
    rows = {place: 40 * (place + 1) for place in range(len(found.values))}
    column = [float(found.values[place]) for place, many in rows.items() for _ in range(many)]
    session.add_frame(found.schema, pa.table({"x": column}))
    answer = session.ask(f"{COUNTED} CONFIDENCE 0.999999999")
    right = Counter[int]()
    for place, many in rows.items():
        right[found.bins[place]] += many
    counted = [row[1] for row in answer.rows if row[0] is not None]
    assert len(counted) == max(found.bins) + 1
    assert all(abs(seen - right[number]) <= 1 for number, seen in enumerate(counted)), answer.rows


FIVE = table_of('type = "integer", lo = 0, hi = 4, outside = "clamp", null = "drop", bins = { width = 1 }')
EVEN = table_of('type = "integer", lo = 0, hi = 99, outside = "clamp", null = "cell", bins = { width = 10 }')
REAL = table_of(
    'type = "real", lo = 0, hi = 1.3, grid = 0.1, outside = "drop", null = "drop", bins = { width = "0.5" }'
)
ROWS = pa.table({"x": [value for value in range(5) for _ in range(1000 * (value + 1))]})


def test_bins_of_width_one_are_the_values(session: Session) -> None:
    session.add_frame(sq.read_schema(FIVE), ROWS)
    answer = session.ask(f"{COUNTED} CONFIDENCE 0.999999999")
    assert [row[0] for row in answer.rows] == [0, 1, 2, 3, 4]
    assert [round(row[1], -3) for row in answer.rows] == [1000, 2000, 3000, 4000, 5000]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ('type = "integer", lo = 0, hi = 120, {}, bins = {{ width = 50 }}', ["[0, 50)", "[50, 100)", "[100, 120]"]),
        ('type = "integer", lo = 0, hi = 100, {}, bins = {{ width = 50 }}', ["[0, 50)", "[50, 100)", "[100]"]),
        ('type = "integer", lo = 0, hi = 99, {}, bins = {{ width = 50 }}', ["[0, 50)", "[50, 99]"]),
        ('type = "real", lo = 0, hi = 1, grid = 0.5, {}, bins = {{ width = "0.5" }}', [0.0, 0.5, 1.0]),
        (
            'type = "real", lo = 0, hi = 1, grid = 0.1, {}, bins = {{ width = "0.5" }}',
            ["[0, 0.5)", "[0.5, 1.0)", "[1]"],
        ),
        ('type = "integer", lo = 7, hi = 7, {}, bins = {{ width = 5 }}', [7]),
        ('type = "integer", lo = 0, hi = 4, {}, bins = {{ edges = [0, 2, 4] }}', ["[0, 2)", "[2, 4]"]),
        ('type = "integer", lo = 0, hi = 4, {}, bins = {{ edges = [0, 2, 4, 5] }}', ["[0, 2)", "[2, 4)", "[4]"]),
        ('type = "integer", lo = 0, hi = 4, {}, bins = {{ edges = [0, 2, 5] }}', ["[0, 2)", "[2, 4]"]),
    ],
)
def test_the_names_of_groups_say_what_they_hold(column: str, labels: list[object]) -> None:
    schema = sq.read_schema(table_of(column.format('outside = "clamp", null = "drop"')))
    assert schema.domain["x"].list_bin_labels() == labels


@pytest.mark.parametrize("edges", ["[0, 2]", "[0, 2, 6]", "[1, 4]"])
def test_edges_begin_at_lo_and_end_at_hi_or_a_step_beyond(edges: str) -> None:
    with pytest.raises(SchemaError, match="begin at lo"):
        sq.read_schema(
            table_of(f'type = "integer", lo = 0, hi = 4, outside = "drop", null = "drop", bins = {{ edges = {edges} }}')
        )


# Ledgers of earlier versions


def test_bins_that_were_always_read_alike_keep_every_digest() -> None:
    schema = sq.read_schema(EVEN)
    assert schema.digest == "f08a8d46d4991dfd95beec257d2991c9101a4aca6c995f4b6ed5ded4cab72fec"
    assert compute_declaration_digest("x", schema.domain) == "b064b0f47816251f0a32a13c2b298849"
    assert build_canonical_request(parse(COUNTED), schema) == build_first_canonical_request(parse(COUNTED), schema)


def test_bins_of_fractions_keep_their_declaration_as_it_was_written() -> None:
    edges = sq.read_schema(REAL).domain["x"].edges
    assert [str(edge) for edge in edges] == ["0", "0.5", "1.0", "1.3"]


def test_a_key_of_the_same_bins_is_still_free(session: Session) -> None:
    with earlier_rule():
        session.add_frame(sq.read_schema(EVEN), ROWS)
        before = session.ask(COUNTED, key="monday")
    session.add_frame(sq.read_schema(EVEN), ROWS)
    again = session.ask(COUNTED, key="monday")
    assert (again.replayed, again.rows) == (True, before.rows)


def test_answers_by_other_groups_are_repeated_as_they_were_and_neither_drawn_from_nor_accused(session: Session) -> None:
    with earlier_rule():
        session.add_frame(sq.read_schema(FIVE), ROWS)
        before = session.ask(COUNTED, key="monday")
        release = session.save(before)
    session.add_frame(sq.read_schema(FIVE), ROWS)
    assert len(before.rows) == 4
    spent = session.get_remaining("t").amount
    again = session.ask(COUNTED, key="monday")
    assert (again.replayed, again.rows) == (True, before.rows)
    assert any("bins of column 'x' was" in note for note in again.notes)
    assert session.get_remaining("t").amount == spent
    after = session.ask(COUNTED)
    assert len(after.rows) == 5
    assert (after.accuracy.label, after.accuracy.sources) == ("fresh", ())
    assert session.get_remaining("t").amount < spent
    verdict = session.verify(release)
    assert verdict.ok, verdict.problems
    assert not verdict.compared
    assert session.verify(session.save(after)).compared


def test_releases_of_other_groups_are_repeated_as_they_were(session: Session) -> None:
    made, shared = SynthSpec("t", Budget(epsilon="1")), ShareSpec("t", "ill", ("x",), Budget(epsilon="1"))
    rows = ROWS.append_column("ill", pa.array([number % 2 == 0 for number in range(len(ROWS))]))
    text = FIVE.replace("attribute = [", 'attribute = [{ name = "ill", type = "boolean", null = "drop" }, ')
    with earlier_rule():
        session.add_frame(sq.read_schema(text), rows)
        rows_then = session.synth.synthesize(made, key="rows")
        sums_then = session.share.release(shared, key="sums")
    session.add_frame(sq.read_schema(text), rows)
    spent = session.get_remaining("t").amount
    rows_again = session.synth.synthesize(made, key="rows")
    sums_again = session.share.release(shared, key="sums")
    assert (rows_again.receipt, sums_again.part) == (rows_then.receipt, sums_then.part)
    assert all(np.array_equal(values, sums_then.values[name]) for name, values in sums_again.values.items())
    assert rows_again.rows.equals(rows_then.rows)
    assert session.get_remaining("t").amount == spent


def test_other_attributes_of_the_same_table_keep_their_keys(session: Session) -> None:
    schema = sq.read_schema(FIVE)
    for text in ("SELECT COUNT(*) FROM t ERROR 5", "SELECT x % 2, SUM(x) FROM t GROUP BY x % 2 ERROR 5"):
        assert build_canonical_request(parse(text), schema) == build_first_canonical_request(parse(text), schema)
    assert TOP_ALONE in build_canonical_request(parse(COUNTED), schema)
    assert TOP_ALONE in build_canonical_request(parse("BIN t ON COUNT(*) WHERE W = CUBE(x) ERROR 5"), schema)
