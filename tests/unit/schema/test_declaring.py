"""From column names to a table file: short answers, proposals from names, and questions that several columns share."""

from __future__ import annotations

import shlex
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.build import parse_attribute, parse_schema
from siloquent.schema.declaring import (
    ColumnHeader,
    DeclarationQuestion,
    GivenAnswers,
    RawSource,
    TableDraft,
    compose_table_file,
    describe_meaning,
    find_next_question,
    list_open_questions,
    parse_meaning,
    read_answers,
    start_draft,
    write_answers,
)
from siloquent.schema.declaring.answers import KeptDeclaration, read_kept
from siloquent.schema.declaring.copying.code_lists import CODE_LISTS
from siloquent.schema.declaring.draft import apply_answers
from siloquent.schema.declaring.header import describe_header_doubt
from siloquent.schema.declaring.names import propose_meaning
from siloquent.schema.declaring.questions import answer_question, decide_defaults
from siloquent.schema.files.toml import read_toml
from siloquent.schema.formats.source_kinds import SourceKind
from siloquent.schema.meaning import compose_entry

VISITS = ("patient_id", "age", "sex", "ward", "cost1", "cost2", "day", "note")


def draft_of(*names: str, kind: SourceKind | None = None) -> TableDraft:
    return start_draft(
        RawSource("csv:t.csv", tuple(ColumnHeader(name, kind, str(kind or "")) for name in names)), name="t"
    )


def talk(draft: TableDraft, *typed: str) -> TableDraft:
    """Type one answer after the other; all must be needed and understood."""
    for text in typed:
        question = find_next_question(draft)
        assert question is not None
        draft = answer_question(draft, question, text)
    return draft


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("0..120", 'type = "integer", lo = 0, hi = 120, outside = "clamp"'),
        ("integer 0 to 120", 'type = "integer", lo = 0, hi = 120, outside = "clamp"'),
        ("0-120 by 20", 'type = "integer", lo = 0, hi = 120, bins = { width = 20 }, outside = "clamp"'),
        ("-5..5", 'type = "integer", lo = -5, hi = 5, outside = "clamp"'),
        ("0.00..99.99", 'type = "real", lo = 0.00, hi = 99.99, grid = 0.01, outside = "clamp"'),
        ("float 0..500", 'type = "real", lo = 0, hi = 500, grid = 0.01, outside = "clamp"'),
        ("0..1 step 0.25", 'type = "real", lo = 0, hi = 1, grid = 0.25, outside = "clamp"'),
        ("2024-01-01..2024-12-31", 'type = "date", lo = 2024-01-01, hi = 2024-12-31, outside = "drop"'),
        (
            "2024-01-01 00:00..2024-12-31 23:59",
            'type = "datetime", lo = 2024-01-01 00:00:00, hi = 2024-12-31 23:59:00, grid = "minute", outside = "drop"',
        ),
        ("F, M", 'type = "category", values = ["F", "M"], other = "cell"'),
        ("F | M", 'type = "category", values = ["F", "M"], other = "cell"'),
        ("<=50K, >50K", 'type = "category", values = ["<=50K", ">50K"], other = "cell"'),
        ('"a, b", c', 'type = "category", values = ["a, b", "c"], other = "cell"'),
        ("only,", 'type = "category", values = ["only"], other = "cell"'),
        ("codes 1..3, 9", 'type = "category", values = ["1", "2", "3", "9"], other = "cell"'),
        ("1, 2", 'type = "category", values = ["1", "2"], other = "cell"'),
        ("yes/no", 'type = "boolean"'),
        ("id", 'type = "id"'),
        ("text 200", 'type = "text", max_bytes = 200'),
    ],
)
def test_a_short_text_is_an_entry_of_a_table_file(text: str, entry: str) -> None:
    composed = compose_entry("x", parse_meaning(text, ColumnHeader("x")))
    assert composed == f'{{ name = "x", {entry} }}'


@pytest.mark.parametrize(
    ("text", "told", "fix"),
    [
        ("", "no meaning yet", "0..120"),
        ("int", "smallest and largest", "0..120"),
        ("date", "first and last", "2019-01-01..2024-12-31"),
        ("Private", "a list has a comma", "Private,"),
        ("0..1,000,000", "no other separators", "0..1000000"),
        ("9..1", "lo <= hi", ""),
        ("2024-01-31..2024-01-01", "lo <= hi", ""),
        ("2024-13-01..2024-12-31", "", ""),
        ('"a, b', "quotes", ""),
        ("codes 1..99999999", "lists no codes", "codes 1..7"),
        ("@nowhere", "no lists", ""),
        ("\x1b[2J\n", "not understood", ""),
    ],
)
def test_what_is_not_understood_is_refused_with_an_example(text: str, told: str, fix: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_meaning(text, ColumnHeader("x"))
    assert told in refused.value.detail
    assert fix in refused.value.fix


@given(text=st.text(max_size=40))
def test_any_text_is_a_valid_entry_or_refused(text: str) -> None:
    try:
        meaning = parse_meaning(text, ColumnHeader("x"))
    except RequestError:
        return
    if meaning.type:
        null = ', null = "drop" }' if meaning.has_cells else " }"
        parse_attribute(read_toml("a = " + compose_entry("x", meaning).removesuffix(" }") + null)["a"])


@pytest.mark.parametrize(
    "text", ["0..120 by 20", "0.00..99.99", "2024-01-01..2024-12-31", "F, M", "yes/no", "id", "text 9"]
)
def test_a_declared_attribute_is_copied_and_described_as_typed(text: str) -> None:
    meaning = parse_meaning(text, ColumnHeader("x"))
    assert describe_meaning(meaning) == text
    entry = compose_entry("x", meaning).removesuffix(" }") + (', null = "drop" }' if meaning.has_cells else " }")
    attribute = parse_attribute(read_toml(f"a = {entry}")["a"])
    copied = compose_entry("x", attribute.to_meaning())
    assert parse_attribute(read_toml(f"a = {copied}")["a"]) == attribute


@pytest.mark.parametrize("name", CODE_LISTS)
def test_code_lists_have_no_value_twice(name: str) -> None:
    assert len(set(CODE_LISTS[name])) == len(CODE_LISTS[name]) >= 7


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("patient_id", "id"), ("hhID", "id"), ("ID", "id"), ("patient", "id"), ("age", "0..120 by 10"),
        ("birth_date", "1900-01-01..2099-12-31"), ("created_at", "1970-01-01 00:00..2099-12-31 23:59"),
        ("is_member", "yes/no"), ("hours-per-week", "0..168"), ("last_name", "text 1000"), ("year", "1900..2100"),
    ],
)  # fmt: skip
def test_names_propose_a_meaning_that_is_valid(name: str, meaning: str) -> None:
    proposal = propose_meaning(ColumnHeader(name))
    assert proposal is not None
    assert proposal.meaning == meaning
    assert parse_meaning(proposal.meaning, ColumnHeader(name)).type


@pytest.mark.parametrize("name", ["default_payment_next_month", "nr_employed", "sex", "identity", "a1", "", "1"])
def test_a_name_that_may_mean_anything_proposes_nothing(name: str) -> None:
    assert propose_meaning(ColumnHeader(name)) is None


def test_types_of_the_source_bound_what_a_column_can_be() -> None:
    boolean, day, blob = (
        ColumnHeader("x", "boolean", "BOOLEAN"),
        ColumnHeader("x", "date", "DATE"),
        ColumnHeader("x", "other", "BLOB"),
    )
    proposals = [propose_meaning(one) for one in (boolean, day, blob)]
    assert [one and one.meaning for one in proposals] == ["yes/no", "1900-01-01..2099-12-31", "skip"]
    assert propose_meaning(ColumnHeader("age", "text", "VARCHAR")) is not None
    assert propose_meaning(ColumnHeader("created_at", "boolean", "BOOLEAN")) == proposals[0].__class__(
        "yes/no", "its type, BOOLEAN"
    )
    with pytest.raises(RequestError, match="holds DOUBLE, which cannot be read as category"):
        parse_meaning("A, B", ColumnHeader("x", "real", "DOUBLE"))
    assert parse_meaning("0..120", ColumnHeader("x", "real", "DOUBLE")).type == "real"


def test_eight_columns_need_eight_short_answers() -> None:
    draft = talk(
        draft_of(*VISITS),
        "day = 2024-01-01..2024-12-31",
        "F, M",
        "icu, surgery",
        "0.00..999.99",
        "",
        "31.12.2024",
        "",
        "",
        "4",
        "5,000",
        "",
        "",
    )
    assert find_next_question(draft) is None
    text = compose_table_file(draft, origin="t.csv")
    schema = parse_schema(text)
    assert schema.unit.code == "user:patient_id:4"
    assert schema.size_hint == 5000
    assert [one.kind for one in schema.domain] == [
        "id",
        "integer",
        "category",
        "category",
        "real",
        "real",
        "date",
        "text",
    ]
    assert schema.domain["sex"].null == "cell"
    assert schema.domain["age"].null == "drop"
    assert (schema.reading.values.date, schema.reading.values.decimal) == ("%d.%m.%Y", ".")
    assert "no row was read" in text


def test_columns_of_one_kind_are_asked_about_together() -> None:
    names = ("PAY_1", "PAY_2", "x", "price", "total", "a1", "a2")
    questions = [one for one in list_open_questions(draft_of(*names)) if one.key == "columns"]
    assert [[column.name for column in one.columns] for one in questions] == [
        ["PAY_1", "PAY_2"],
        ["x"],
        ["price", "total"],
        ["a1", "a2"],
    ]


def test_one_answer_names_columns_by_name_number_range_and_pattern() -> None:
    draft = talk(draft_of("a1", "a2", "b", "c", "d e"), 'a1..a2 = 0..9; #3 = F, M; c = <=1, >1; "d e" = id')
    assert [describe_meaning(draft.meanings[one.name]) for one in draft.columns] == [
        "0..9",
        "0..9",
        "F, M",
        "<=1, >1",
        "id",
    ]
    draft = talk(draft_of("a1", "a2", "b"), "a* = codes 1..2; rest = skip")
    assert [draft.meanings[one.name].type for one in draft.columns] == ["category", "category", ""]
    with pytest.raises(RequestError, match=r"No column named 'agee'[.] Did you mean 'age'"):
        talk(draft_of("age", "x"), "agee = 0..9")


def test_proposals_are_corrected_and_the_others_accepted_in_one_answer() -> None:
    draft = talk(draft_of("age", "patient", "x"), "age = 18..99")
    assert describe_meaning(draft.meanings["age"]) == "18..99"
    assert draft.meanings["patient"].type == "id"
    dismissed = talk(draft_of("age", "patient", "x"), "no")
    assert [column.name for column in dismissed.open_columns] == ["age", "patient", "x"]


def test_empty_cells_are_a_group_left_out_or_a_value() -> None:
    draft = talk(draft_of("n", "c", "f"), "n = 0..9; c = A, B; f = yes/no", "n = 0; c = A; rest = drop")
    text = compose_table_file(decide_defaults(draft), origin="t.csv")
    schema = parse_schema(text)
    assert (schema.domain["n"].null_value, schema.domain["c"].null_value, schema.domain["f"].null) == (0, "A", "drop")
    with pytest.raises(RequestError, match="not one of its own values"):
        talk(draft_of("d"), "d = 2024-01-01..2024-01-31", "2025-01-01")


def test_the_person_is_an_id_whatever_was_said_before() -> None:
    draft = talk(draft_of("client_no", "x"), "client_no = 0..9; x = 0..9", "", "client_no", "3")
    assert draft.meanings["client_no"].type == "id"
    for wrong in ("0", "-1", "many", "1e9"):
        with pytest.raises(RequestError, match="whole number from 1"):
            talk(draft_of("p", "x"), "p = id; x = 0..9", "", "p", wrong)


def test_answers_survive_a_file() -> None:
    draft = talk(draft_of(*VISITS), "", "F, M", 'A, "B; C"', "0.00..999.99", "drop")
    kept = write_answers(KeptDeclaration("csv:t.csv", draft.answers, 'encoding = "cp1252"\nskip = 1', True))
    assert read_kept(kept) == KeptDeclaration("csv:t.csv", draft.answers, 'encoding = "cp1252"\nskip = 1', True)
    again, faults = apply_answers(draft_of(*VISITS), read_answers(kept))
    assert faults == []
    assert again.answers == draft.answers
    assert again.meanings == draft.meanings
    assert again.nulls == draft.nulls


def test_answers_that_no_longer_fit_are_left_out_and_told() -> None:
    answers = GivenAnswers(columns=("age = 0..120", "gone = 0..9"), person="gone", epsilon="2,0")
    draft, faults = apply_answers(draft_of("age"), answers)
    assert describe_meaning(draft.meanings["age"]) == "0..120"
    assert ["gone" in fault.detail for fault in faults] == [True, True, False]
    assert "Did you mean 2.0?" in faults[2].detail


@pytest.mark.parametrize("text", ["x = 1", "columns = 3", "accept = 'yes'", "= no toml"])
def test_a_file_without_answers_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        read_answers(text)


NAMES = st.lists(st.text(min_size=0, max_size=12), min_size=1, max_size=12, unique_by=str.casefold)


@given(names=NAMES, said=st.sampled_from(["0..9", "A, B", "id", "yes/no", "text", "2024-01-01..2024-02-01"]))
def test_whatever_the_names_the_file_is_accepted(names: list[str], said: str) -> None:
    draft = talk(start_draft(RawSource("csv:t.csv", tuple(map(ColumnHeader, names))), name="t"))
    open_ones = [column.name for column in draft.columns if column.is_declarable]
    while (question := find_next_question(draft)) is not None:
        whose = "none" if question.default is None else ""
        texts = {"columns": said, "max_rows": "3", "person": whose}
        draft = answer_question(draft, question, texts.get(question.key, ""))
    if open_ones:
        schema = parse_schema(compose_table_file(draft, origin="a\nb\x1b.csv"))
        assert {one.name for one in schema.domain} <= set(names)


def test_names_that_no_attribute_can_have_are_left_out() -> None:
    draft = draft_of('say "x"', "a\nb", "y" * 100_000, "x[1]; DROP", "")
    assert [column.name for column in draft.open_columns] == ["x[1]; DROP"]
    with pytest.raises(RequestError, match="without double quotes"):
        talk(draft, "#1 = 0..9")
    done = decide_defaults(talk(draft, "0..9"))
    assert parse_schema(compose_table_file(done, origin="t.csv")).domain.names == ("x[1]; DROP",)


def test_more_columns_than_a_table_has_are_refused_until_some_are_left_out() -> None:
    draft = draft_of(*(f"x{i}" for i in range(4_000)))
    with pytest.raises(RequestError, match="at most 2,000") as refused:
        talk(draft, "0..9")
    assert refused.value.fix == "rest = skip"
    done = decide_defaults(talk(draft, "x1..x5 = 0..9; rest = skip"))
    assert len(parse_schema(compose_table_file(done, origin="t.csv")).domain.names) == 5


def test_a_file_without_a_header_is_noticed() -> None:
    def doubt(line: str, address: str = "csv:t.csv") -> str:
        return describe_header_doubt(RawSource(address, tuple(map(ColumnHeader, line.split(",")))), "t.csv")

    assert "2 of the 3 names" in doubt("39,State-gov,2024-01-05")
    assert "None of the 4 names" in doubt("Private,Bachelors,Never-married,Sales")
    assert "None of the 2 names" in doubt("anna,flu")
    assert "somebody's row" in doubt("anna,flu", "csv-records:t.csv")
    for usual in ("age,a1,q_2024", "patient,x", "a1,a2,a3,b", "River,Purpose", "Private,diagnosis"):
        assert not doubt(usual), usual
    assert not doubt("1,2", "duckdb:t#t")


def test_values_in_the_name_of_a_type_are_not_kept() -> None:
    for holds in ("ENUM('flu', 'hiv')", "Enum(categories=['flu'])", "STRUCT(a ENUM('flu'))"):
        assert "flu" not in ColumnHeader("x", "text", holds).holds
    assert ColumnHeader("x", "decimal", "DECIMAL(18,3)").holds == "DECIMAL(18,3)"


def test_names_with_what_cannot_be_seen_are_written_out() -> None:
    assert [ColumnHeader(name).shown for name in ("a b", "a\tb", "a\u202eb", "x" * 90)] == [
        "a b",
        "a\\tb",
        "a\\u202eb",
        "x" * 39 + "…",
    ]


@pytest.mark.parametrize("name", ["it's", "-v", "a b", "a=b", "a;b", "a,b", "x*", "rest", "3", "\\", "ü", "#2"])
def test_the_option_of_a_question_names_the_column(name: str) -> None:
    draft = draft_of("other", name)
    question = next(one for one in list_open_questions(draft) if one.columns[-1].name == name)
    (option, said) = shlex.split(DeclarationQuestion("columns", "", columns=question.columns[-1:]).option)
    assert option == "--column"
    found, faults = apply_answers(draft, GivenAnswers((said.replace("...", "0..9"),)))
    assert not faults
    assert set(found.meanings) == {name}


def test_proposals_are_corrected_and_the_others_dismissed_at_once() -> None:
    draft = talk(draft_of("age", "day", "ward"), "age = 18..99; no")
    assert (draft.answers.accept, set(draft.meanings)) == (False, {"age"})
    assert set(talk(draft_of("age", "day", "ward"), "age = 18..99; yes").meanings) == {"age", "day"}


@pytest.mark.parametrize(
    ("said", "told", "fix"),
    [
        (GivenAnswers(max_rows="0"), "not '0'", "4"),
        (GivenAnswers(rows="8.000"), "not '8.000'", "8000"),
        (GivenAnswers(rows="8.5"), "not '8.5'", "1000"),
        (GivenAnswers(delta="0.5"), "at most 0.001", "1e-6"),
        (GivenAnswers(delta_events="some"), "above 0", "1"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_with_one_that_can(said: GivenAnswers, told: str, fix: str) -> None:
    (fault,) = apply_answers(draft_of("patient", "age"), said)[1]
    assert told in fault.detail
    assert fault.fix == fix
    key, _ = next((key, text) for key, text in vars_of(said) if text)
    assert not apply_answers(draft_of("patient", "age"), GivenAnswers(**{key: fix}))[1]  # type: ignore[arg-type]


def vars_of(said: GivenAnswers) -> list[tuple[str, str | None]]:
    return [(key, getattr(said, key)) for key in ("max_rows", "rows", "delta", "delta_events")]


@pytest.mark.parametrize(
    ("said", "events"),
    [(None, "1e-7"), ("yes", "1e-7"), ("", "1e-7"), ("no", "0"), ("2e-8", "2e-8"), ("1e-6", None)],
)
def test_a_part_of_delta_is_for_discoveries(said: str | None, events: str | None) -> None:
    draft = talk(draft_of("age", "note"), "", "", "", "", "")
    question = find_next_question(draft)
    assert question is not None
    assert (question.key, question.default) == ("delta_events", "yes")
    draft = draft if said is None else answer_question(draft, question, said)
    if events is None:
        with pytest.raises(RequestError, match="smaller than delta"):
            compose_table_file(draft, origin="t.csv")
        return
    budget = parse_schema(compose_table_file(draft, origin="t.csv")).budget
    assert (budget.delta, budget.delta_events) == (Fraction(1, 10**6), Fraction(events))


@pytest.mark.parametrize(
    ("said", "lo", "hi"),
    [("1.1.2024..31.12.2024", "2024-01-01", "2024-12-31"), ("date 05.02.2023 to 6.2.2023", "2023-02-05", "2023-02-06")],
)
def test_days_may_be_written_with_dots(said: str, lo: str, hi: str) -> None:
    meaning = parse_meaning(said, ColumnHeader("day"))
    assert (meaning.type, meaning.lo, meaning.hi) == ("date", lo, hi)


def test_a_day_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RequestError):
        parse_meaning("1.1.2024..32.1.2024", ColumnHeader("day"))


@given(st.decimals("0", "9999999", places=2), st.sampled_from([(".", ","), (",", "."), ("", ",")]))
def test_a_range_with_other_separators_is_offered_as_it_is_meant(number: Decimal, signs: tuple[str, str]) -> None:
    thousands, decimal = signs
    told = f"{number:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))
    said = f"0..{told}"
    try:
        meaning = parse_meaning(said, ColumnHeader("x"))
    except RequestError as refused:
        meaning = parse_meaning(refused.fix, ColumnHeader("x"))
    assert (Decimal(meaning.lo), Decimal(meaning.hi)) == (0, number)
