"""Planted faults: each makes another program, in one place; the tests of a line are found, and they notice."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.mutants import coverage, planting
from benchmarks.mutants.coverage import Fixed, Ranked, Traced
from benchmarks.mutants.declared import Equivalent, Named, change_of, named, stale
from benchmarks.mutants.mutate import KINDS, Mutation, Signatures, mutations, uses
from benchmarks.mutants.places import PLACES, Planted, everything, parse_library, place_of, sample
from benchmarks.mutants.planting import Field, copied, in_turn, within
from benchmarks.mutants.verdicts import KeptVerdicts

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


def changed(source: str, kind: str) -> list[str]:
    return [one.apply(source) for one in mutations(source) if one.kind == kind]


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("number", "def f(): return 3", ["return 0", "return 2", "return 4", "return 6"]),
        ("number", "def f(): return 0", ["return (-1)", "return 1"]),
        ("number", "def f(): return 0.5", ["return (-0.5)", "return 0.0", "return 1.0", "return 1.5"]),
        ("boolean", "def f(): return g(encoded=True)", ["return g(encoded=False)"]),
        ("comparison", "def f(a, b): return a < b", ["return (a <= b)"]),
        ("comparison", "def f(a, b): return 0 <= a != b", ["return (0 <= a == b)", "return (0 < a != b)"]),
        ("arithmetic", "def f(a, b): return a * (b - a)", ["return (a + (b - a))", "return a * ((b + a))"]),
        ("arithmetic", "def f(a, b): a += b", ["a -= b"]),
        ("arithmetic", "def f(a): return -a", ["return (a)"]),
        ("logic", "def f(a, b): return not a or b", ["return (a) or b", "return (not a and b)"]),
        ("extreme", "def f(a, b): return max(a, b)", ["return (min(a, b))"]),
        ("extreme", "def f(a): return math.ceil(a)", ["return (math.floor(a))"]),
        ("argument", "def f(a): return g(a, side='right')", ["return (g(a))"]),
        ("identity", "def f(a): return 2 * math.ceil(a)", ["return 2 * (a)"]),
        ("call", "def f(a):\n    check(a)\n    return a", ["    pass"]),
        ("guard", "def f(a):\n    if a > 1:\n        raise ValueError", ["    if False:"]),
    ],
)
def test_each_kind_of_change(kind: str, source: str, expected: list[str]) -> None:
    results = changed(source, kind)
    assert len(results) == len(expected)
    for part in expected:
        assert any(line.endswith(part) for result in results for line in result.splitlines()), (part, results)


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: tuple[int, 3] = x) -> Literal[4]: return a",
        "@limit(3)\ndef f(a): return a",
        "def f(a): raise ValueError(a + 1)",
        "def f(a): assert a > 1",
        "def f(a): return f'{a + 1}'",
        "def f(a): log.info('rows', 3)",
        "from a import b",
        "if TYPE_CHECKING:\n    X = 3",
        "Name = int | str",
        "def f(a): return 'a' + a",
        "def f(a, b): return zip(a, b, strict=True)",
    ],
)
def test_what_no_test_could_notice_is_left_alone(source: str) -> None:
    assert mutations(source) == []


def test_a_change_that_could_not_run_is_left_out() -> None:
    signatures = Signatures()
    signatures.read(ast.parse("def g(a: int, *, b, c=1) -> int: ...\n@dataclass\nclass H:\n    x: int\n    y: int = 2"))
    found = mutations("def f():\n    return g(1, b=2, c=3) + H(x=1, y=2).x", signatures)
    assert [one.new for one in found if one.kind == "argument"] == ["(g(1, b=2))", "(H(x=1))"]
    assert [one.new for one in found if one.kind == "identity"] == ["(1)"]


@pytest.fixture(scope="module")
def library() -> dict[str, ast.Module]:
    return parse_library(SOURCE)


@pytest.fixture(scope="module")
def found(library: dict[str, ast.Module]) -> list[Planted]:
    return list(everything(SOURCE, library))


@pytest.mark.slow
def test_every_change_of_the_library_is_another_program_in_one_place(
    library: dict[str, ast.Module], found: list[Planted]
) -> None:
    assert {one.mutation.kind for one in found} == set(KINDS)
    for one in found[::97]:
        text = (SOURCE / "siloquent" / one.file).read_text("utf-8")
        result = one.mutation.apply(text)
        before, after = ast.dump(library[one.file]), ast.dump(ast.parse(result))
        assert before != after, one
        kept = len(text.encode()) - (one.mutation.end - one.mutation.start)
        assert len(result.encode()) == kept + len(one.mutation.new.encode())
        assert text.encode()[: one.mutation.start] == result.encode()[: one.mutation.start]
        compile(result, one.file, "exec")


def test_a_sample_is_the_same_each_time_and_has_its_share_of_each_place(found: list[Planted]) -> None:
    drawn = sample(found)
    assert [str(one) for one in drawn] == [str(one) for one in sample(found)]
    assert {place: sum(one.place == place for one in drawn) for place in PLACES} == {
        place: number for place, (_, number) in PLACES.items()
    }
    assert len({(one.file, one.mutation.line) for one in drawn}) == len(drawn)
    assert len(drawn) >= 150
    rest = [one for one in found if one.file != drawn[0].file]
    assert {str(one) for one in drawn if one.file != drawn[0].file} <= {str(one) for one in sample(rest)}


@pytest.mark.slow
def test_measure_rooms_plans_privacy_ledger_and_federation_are_places(library: dict[str, ast.Module]) -> None:
    for file in library:
        folders = file.split("/")
        wanted = (folders[0] in ("privacy", "ledger", "federation")) or any(
            part in ("measure", "plan", "plan.py", "measure.py") for part in folders[1:]
        )
        assert (place_of(file) is not None) == wanted, file


def test_what_is_written_down_speaks_of_lines_that_are_there(found: list[Planted]) -> None:
    assert stale(found, SOURCE) == []


def test_a_named_fault_whose_text_is_gone_fails_loudly() -> None:
    fault = Named("a", "x.py", "return a + b", "return a")
    assert fault.apply("def f(a, b):\n    return a + b\n") == "def f(a, b):\n    return a\n"
    assert fault.lines("def f(a, b):\n    return a + b\n") == range(2, 3)
    for text in ("def f(a, b):\n    return b + a\n", "return a + b\nreturn a + b\n"):
        with pytest.raises(ValueError, match="holds its text"):
            fault.apply(text)


def test_an_equivalent_ends_with_its_statement() -> None:
    one = planted("def f(a):\n    return a + 1\n", "number", "2")
    known = Equivalent("privacy/x.py", "f", "return a + 1", change_of(one), "because")
    assert known.matches(one)
    assert not known.matches(planted("def f(a):\n    return a + 1  # more\n", "number", "2"))
    assert not known.matches(planted("def f(a):\n    return a + 1\n", "number", "0"))


def planted(source: str, kind: str, new: str) -> Planted:
    (one,) = (each for each in mutations(source) if each.kind == kind and each.new == new)
    return Planted("privacy", "privacy/x.py", one)


def test_a_constant_is_covered_where_it_is_read() -> None:
    trees = {"a.py": ast.parse("TOP = 2 * PART\nPART = 3\ndef f():\n    return TOP"), "b.py": ast.parse("import a")}
    (one,) = (each for each in mutations("PART = 3") if each.new == "4")
    assert one.binds == ("PART",)
    assert uses(trees)["PART"] == {("a.py", 4)}


def test_a_default_is_covered_by_the_body() -> None:
    one: Mutation = next(iter(mutations("def f(a=1):\n    b = a\n    return b\n")))
    assert one.lines == range(2, 4)


def test_tests_of_the_task_and_of_few_lines_come_first() -> None:
    tests = [
        Traced("tests/unit/sketch/t.py::a", 3.0, {"x.py": 0b111}),
        Traced("tests/unit/sketch/t.py::b", 1.0, {"x.py": 0b100}),
        Traced("tests/unit/synth/t.py::c", 0.1, {"x.py": 0b1}),
        Traced("tests/unit/synth/t.py::d", 0.1, {"x.py": 0b11, "y.py": 0b11}),
    ]
    order = in_turn(tests, "sketch/measure/moments.py")
    assert [test.name[-1] for test in order] == ["b", "c", "a", "d"]
    assert [test.name[-1] for test in within(order, 3, 2.0)] == ["b", "c"]
    assert [test.name[-1] for test in within(order, 3, 0.1)] == ["b"]


def test_a_failed_test_is_named_whole() -> None:
    names = ["t.py::a[x]", "t.py::a[x - 1]", "t.py::a"]
    said = "FAILED t.py::a[x - 1] - assert 3 - 2\nFAILED t.py::a[x] - b\nERROR t.py::other - c\nFAILED t.py::a\n"
    assert planting.list_failed(said, names) == ["t.py::a[x - 1]", "t.py::a[x]", "t.py::other", "t.py::a"]


def test_files_that_speak_of_a_fault_come_first_and_slow_tests_last(tmp_path: Path) -> None:
    ranked = Ranked(tmp_path)
    parts = ranked.rank("search/measure/statistics.py", "SumBatch.unpack_sums")
    assert len(set(parts)) == len(parts) == 2 * len(ranked.files)
    assert all("search" in part.file.parts for part in parts[:4])
    assert not any(part.slow for part in parts[: len(ranked.files) // 2])


def test_whom_a_guard_refused_comes_before_all_others(tmp_path: Path) -> None:
    source = "def f(a):\n    if a > 1:\n        raise ValueError(\n            a)\n    return a\n"
    tests = [
        Traced("tests/unit/privacy/t.py::passed", 0.1, {"privacy/x.py": 0b100100}),
        Traced("tests/unit/synth/t.py::refused", 1.0, {"privacy/x.py": 0b11100, "y.py": 0b11}),
    ]
    guard, number = planted(source, "guard", "False"), planted(source, "number", "2")
    field = Field(tmp_path, Fixed(tests), {})
    assert [test.name[-7:] for test in field.covering(guard, tests)] == ["refused", ":passed"]
    assert [test.name[-7:] for test in field.covering(number, tests)] == [":passed", "refused"]


def test_a_fault_has_survived_when_all_tests_of_its_line_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "siloquent" / "privacy").mkdir(parents=True)
    source = "def f(a):\n    return a + 1\n"
    (tmp_path / "siloquent" / "privacy" / "x.py").write_text(source, "utf-8")
    tests = [Traced(f"tests/unit/data/t.py::t{nth}", 0.3, {"privacy/x.py": 0b100}) for nth in range(1_000)]
    ran: list[str] = []

    def run_tests(names: list[str], *_: object, **__: object) -> tuple[int, str]:
        ran.extend(names)
        return (1, f"FAILED {unlucky} - assert") if unlucky in names else (0, "")

    monkeypatch.setattr(planting, "run_tests", run_tests)
    field, fault = Field(tmp_path, Fixed(tests), {}), planted(source, "number", "2")
    unlucky = field.covering(fault, tests)[-1].name
    assert field.judge(fault).by == unlucky
    assert sorted(ran) == sorted(test.name for test in tests)
    unlucky = "none of them"
    assert field.judge(fault).survived
    ran.clear()
    assert field.judge(fault, batches=0).survived
    assert ran == []


def test_lines_of_an_earlier_text_move_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "src" / "siloquent"
    source.mkdir(parents=True)
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    monkeypatch.setattr(coverage, "CACHE", tmp_path / "cache")
    coverage.CACHE.mkdir()
    (source / "moved.py").write_text("a\nb\nc\n", "utf-8")
    coverage._keep_sources(tmp_path / "src")
    digest = coverage._digests(tmp_path / "src")["moved.py"]
    (source / "moved.py").write_text("new\na\nb2\nc\n", "utf-8")
    assert coverage._moved("moved.py", 0b1000, digest) == 0b10000
    assert coverage._moved("moved.py", 0b0100, digest) == 0b01000


@pytest.fixture(scope="module")
def clean_copy() -> Iterator[Path]:
    with copied(SOURCE) as copy:
        yield copy


NOTICED = {
    "data: a permit of another table of the same ledger opens the rows": "tests/unit/data/test_private_table.py::"
    "test_a_permit_of_another_account_of_the_same_ledger_opens_nothing[visits@2]",
    "data: which rows of a user count is drawn without the epoch": "tests/unit/data/test_which_rows_by_epoch.py::"
    "test_other_rows_count_in_another_epoch_table_or_ledger[epoch]",
    "ledger: verify accepts an event that was charged less than its price": "tests/unit/ledger/test_underpriced.py::"
    "test_an_event_charged_less_than_its_price_is_found[amount-laplace-memory]",
    "sketch: a silo's share of Laplace noise for one honest silo more": "tests/unit/sketch/test_together.py::"
    "test_each_silo_adds_the_share_of_noise_that_its_ledger_was_charged_for[0-pure-None]",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTICED)
def test_a_fault_is_noticed_and_leaves_no_trace(clean_copy: Path, library: dict[str, ast.Module], name: str) -> None:
    (fault,) = (one for one in named() if one.name == name)
    file = clean_copy / "siloquent" / fault.file
    text = file.read_text("utf-8")
    field = Field(clean_copy, Fixed([Traced(NOTICED[name], 1.0, {fault.file: (1 << 2_000) - 1})]), library)
    verdict = field.judge(fault)
    assert verdict.by == NOTICED[name]
    assert not verdict.survived
    assert file.read_text("utf-8") == text


@pytest.mark.slow
def test_a_test_that_fails_without_the_fault_does_not_count(
    clean_copy: Path, library: dict[str, ast.Module], tmp_path: Path
) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text("def test_always():\n    assert False\n", "utf-8")
    fault, name = named()[0], f"{os.path.relpath(file, ROOT)}::test_always"
    field = Field(clean_copy, Fixed([Traced(name, 1.0, {fault.file: (1 << 2_000) - 1})]), library)
    verdict = field.judge(fault)
    assert verdict.by == name
    assert field.check([verdict])[0].survived


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    """A kept verdict holds while the faulty file, and the test that noticed or all tests, are what they were."""
    (tmp_path / "siloquent").mkdir()
    (tmp_path / "siloquent" / "one.py").write_text("a = 1\nb = 2\n")
    test = tmp_path / "test_one.py"
    test.write_text("first")
    planted: list[str] = []

    class Counting(Field):
        def judge(self, fault: Planted | Named, *, batches: int | None = None) -> planting.Verdict:
            planted.append(str(getattr(fault, "name", "")))
            return planting.Verdict(fault, f"{test}::test" if "seen" in planted[-1] else "", 3)

    field = Counting(tmp_path, Fixed([Traced(f"{test}::test", 0.1, {})]), {})
    seen, missed = Named("seen", "one.py", "a = 1", "a = 2"), Named("missed", "one.py", "b = 2", "b = 3")

    def judge() -> list[str]:
        kept = KeptVerdicts(field, tmp_path / "verdicts.jsonl")
        planted.clear()
        assert [kept.judge(one).survived for one in (seen, missed)] == [False, True]
        return list(planted)

    assert judge() == ["seen", "missed"]
    assert judge() == []
    test.write_text("second")
    assert judge() == ["seen", "missed"], "another test may notice more, or less"
    (tmp_path / "siloquent" / "one.py").write_text("a = 1\nb = 2\nc = 3\n")
    assert judge() == ["seen", "missed"]
    assert judge() == []
