"""Each class of error ends with its exit status, its code and a fix; none shows a stack trace."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest

from journeys.documents import faults
from siloquent import errors
from siloquent.cli.base.command import Options, run_guarded
from siloquent.cli.base.problems import Interrupted, build_usage_problem, point_at_error, report_problem
from siloquent.cli.base.screen import Screen
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.documents import problems
from siloquent.documents.problems import FIXES, OWNER_LOG, OwnerLog, Problem, build_problem, log_details
from siloquent.fixes import AskWith, UseOption, build_fix, run, use_budget

RAISED = [
    (errors.SiloquentError("x"), 1, "internal"),
    (errors.SchemaError("x"), 2, "schema_invalid"),
    (errors.UnknownName("table", "x", ["y"]), 2, "unknown_name"),
    (errors.LinkError("x"), 2, "link_invalid"),
    (errors.WorkspaceError("x"), 2, "workspace"),
    (errors.RequestError("x"), 2, "request_invalid"),
    (errors.Unanswered("x"), 2, "unanswered"),
    (errors.KernelInvalid("x"), 2, "kernel_invalid"),
    (errors.SyntaxProblem("x", position=3), 2, "syntax"),
    (errors.ConstraintProblem("x"), 2, "constraint"),
    (errors.TooFewReports("x"), 2, "too_few_reports"),
    (errors.AccuracyUnreachable("x"), 4, "accuracy_unreachable"),
    (errors.InstallationError("x"), 2, "installation"),
    (errors.MissingExtra("spark", "Spark"), 2, "missing_extra"),
    (errors.BudgetExceeded("a", asked="2", left="1"), 3, "budget_exceeded"),
    (errors.DataError(), 5, "data_source_failed"),
    (errors.ProtocolError(), 6, "protocol_failed"),
    (errors.LedgerError("x"), 7, "ledger"),
    (errors.KeyReused("x"), 7, "key_reused"),
    (errors.LedgerRolledBack("x"), 7, "ledger_rolled_back"),
    (errors.ChainBroken("x", seq=1), 7, "chain_broken"),
    (errors.ReleaseError("x"), 2, "release_invalid"),
    (errors.NotAllowed("x"), 8, "not_allowed"),
]


def test_every_class_of_error_is_tried_here() -> None:
    tree = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SiloquentError)
    }
    assert {type(error) for error, _, _ in RAISED} == tree


@pytest.mark.parametrize(("error", "status", "code"), RAISED, ids=lambda value: value if isinstance(value, str) else "")
def test_an_error_keeps_its_exit_status_and_code(
    error: errors.SiloquentError, status: int, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    problem = build_problem(error)
    assert report_problem(Screen(), problem) == status
    told = capfd.readouterr()
    assert told.out == ""
    assert f"[{code}]" in told.err
    assert "Traceback" not in told.err
    assert list(faults(problem.to_json(), json_schema("problem"))) == []
    assert report_problem(Screen(as_json=True), problem) == status
    told = capfd.readouterr()
    assert told.err == ""
    assert f'"code": "{code}"' in told.out


@pytest.mark.parametrize("code", FIXES)
def test_a_fix_of_our_own_belongs_to_a_code_that_exists(code: str) -> None:
    assert code in {found for _, _, found in RAISED}


def test_every_refusal_that_people_meet_has_a_fix() -> None:
    without = {code for error, _, code in RAISED if not build_problem(error).fix}
    assert without <= {"internal", "protocol_failed", "key_reused"}


def test_an_unforeseen_error_shows_a_report_id_and_nothing_of_itself() -> None:
    problem = build_problem(ZeroDivisionError("row p0001"))
    assert problem.exit_status == 1
    assert problem.instance.removeprefix("urn:uuid:") in problem.detail
    assert "p0001" not in str(problem.to_json())


def test_control_c_says_what_it_cost() -> None:
    assert (build_problem(KeyboardInterrupt()).spent, build_problem(KeyboardInterrupt()).exit_status) == (
        "nothing",
        130,
    )
    assert build_problem(Interrupted("the price is charged", "siloquent ask")).spent == "the price is charged"


def test_notes_of_an_error_are_shown_between_reason_and_fix(capfd: pytest.CaptureFixture[str]) -> None:
    error = errors.RequestError("why", fix="do this")
    error.add_note("more\x1b[2J")
    report_problem(Screen(), build_problem(error))
    said = capfd.readouterr().err
    assert said.index("why") < said.index("more[2J") < said.index("do this")


def test_quiet_does_not_silence_refusals(capfd: pytest.CaptureFixture[str]) -> None:
    report_problem(Screen(quiet=True), build_usage_problem("x", "siloquent --help"))
    assert "Fix: siloquent --help" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "position", "shown"),
    [
        ("SELECT wrad", 7, ["SELECT wrad", "       ^"]),
        ("a\nSELECT wrad", 9, ["SELECT wrad", "       ^"]),
        ("abc", 99, ["abc", "   ^"]),
        ("", 0, ["", "^"]),
    ],
)
def test_a_caret_points_at_the_character(text: str, position: int, shown: list[str]) -> None:
    assert point_at_error(text, position) == shown


def test_the_owners_log_is_readable_by_the_owner_alone(tmp_path: Path) -> None:
    problem = build_problem(ValueError("secret"))
    log_details(tmp_path, problem, ValueError("secret"))
    log = tmp_path / "owner.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert problem.instance in log.read_text()
    log_details(tmp_path, problem, ValueError("another"))
    assert "secret" in log.read_text()
    assert "another" in log.read_text()


def test_the_owners_log_follows_no_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (tmp_path / "owner.log").symlink_to(elsewhere)
    log_details(tmp_path, build_problem(ValueError()), ValueError("secret"))
    assert elsewhere.read_text() == ""


def test_a_log_that_cannot_be_written_says_nothing_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("siloquent.test")
    handler = OwnerLog(tmp_path / "nowhere")
    logger.addHandler(handler)
    try:
        logger.error("secret")
    finally:
        logger.removeHandler(handler)
    assert capfd.readouterr().err == ""


def test_without_a_workspace_no_log_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log_details(None, build_problem(ValueError()), ValueError())
    assert list(tmp_path.iterdir()) == []


def test_of_two_thousand_names_a_refusal_lists_the_first_ones_and_how_many_more() -> None:
    refused = errors.UnknownName("attribute", "A0007", [f"a{i:04}" for i in range(2_000)])
    assert refused.near == "a0007"
    assert "Did you mean 'a0007'?" in refused.detail
    assert refused.detail.endswith("a0039 and 1,960 more.")


HOSTILE = "a\x1b[2J\x1b]0;b\x07\x9bc\u202ed\x7f"


def test_no_word_of_another_machine_moves_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.write_table([(HOSTILE, "left")], [[HOSTILE]])
    screen.write_facts([(HOSTILE, HOSTILE)])
    screen.write_line(HOSTILE)
    screen.note(HOSTILE)
    report_problem(screen, Problem(HOSTILE, HOSTILE, HOSTILE, 1, HOSTILE, HOSTILE, notes=(HOSTILE,)))
    said = "".join(capfd.readouterr())
    assert said.count("b") >= 10
    assert not set(HOSTILE) & set(said) - set("a[2J]0;bcd")
    Screen(as_json=True).write_document({"told": HOSTILE})
    text = capfd.readouterr().out
    assert json.loads(text) == {"told": HOSTILE}
    assert not set(HOSTILE) & set(text) - set("a[2J]0;bcd")


def test_a_command_that_is_shown_keeps_its_lines_tabs_and_letters(capfd: pytest.CaptureFixture[str]) -> None:
    Screen().write_line("ask 'a\tb\nc \u0645\u06cc\u200c\u062e'")
    assert "\nc \u0645\u06cc\u200c\u062e'" in capfd.readouterr().out


def test_a_fix_names_the_workspace_that_was_given_and_can_be_pasted() -> None:
    words = Options(workspace=Path("my demo"), analyst="ana").language
    assert words.format_command(run("tables")) == "siloquent --workspace 'my demo' --analyst ana tables"
    check = build_fix("wait, then: ", run("check"))
    assert check.render(words) == "wait, then: siloquent --workspace 'my demo' check"
    assert words.format_command(run("init", "DIR")) == "siloquent init DIR"
    asked = words.format_question(AskWith("SELECT 1"))
    assert asked == "siloquent --workspace 'my demo' --analyst ana explain 'SELECT 1'"
    assert Options().language.format_command(run("tables")) == "siloquent tables"


def test_a_fix_at_a_server_is_a_command_at_that_server_or_the_owners() -> None:
    words = Options(server="https://clinic.example.org").language
    assert words.format_command(run("show", "visits")) == "siloquent --server https://clinic.example.org show visits"
    assert words.format_command(run("budget set", "visits")) == (
        "the workspace's owner runs: siloquent budget set visits"
    )
    assert words.format_owner() == "use a token of the role owner"


def test_an_option_of_a_fix_is_one_of_the_command_or_a_line_of_its_file() -> None:
    known = frozenset({"--rows", "--columns", "--epsilon", "--rho"})
    by_options = Options(typed=("synth", "run", "visits"), own_options=known).language
    in_file = Options(typed=("synth", "run", "spec.toml"), own_options=known).language
    for action, option, line in (
        (UseOption("rows", 1_000), "siloquent synth run visits --rows 1000", "rows = 1000"),
        (UseOption("columns", ["a b", "c"]), "siloquent synth run visits --columns 'a b,c'", 'columns = ["a b", "c"]'),
        (use_budget("rho", "0.1"), "siloquent synth run visits --rho 0.1", 'budget = { rho = "0.1" }'),
        (UseOption("clip", 8), "clip = 8", "clip = 8"),
    ):
        assert by_options.format_option(action) == option
        assert in_file.format_option(action) == line


@pytest.mark.parametrize(
    ("path", "fix"), [(("synth", "run"), "siloquent synth run --help"), (("explain",), "siloquent tables")]
)
def test_a_request_without_a_fix_of_its_own_sends_to_the_commands_help(
    path: tuple[str, ...], fix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def body() -> int:
        raise errors.RequestError("'abc' is not a number.")

    assert run_guarded(Options(path=path), body) == 2
    assert f"Fix: {fix}\n" in capfd.readouterr().err


@pytest.mark.parametrize("typed", ["no/x.csv", "no/x/y.csv"])
def test_a_place_that_was_typed_and_cannot_be_used_is_no_bug_of_ours(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def body() -> int:
        (Path(typed).parent / ".building").write_text("rows")
        return 0

    assert run_guarded(Options(typed=("synth", "rows", "-o", typed)), body) == 2
    told = capfd.readouterr().err
    assert f"{typed} cannot be used: No such file or directory." in told
    assert "repeating with the same --key costs no more" in told


def test_a_place_that_nobody_typed_stays_in_the_owners_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("siloquent.toml").touch()

    def body() -> int:
        (tmp_path / "secret" / "rows").write_text("rows")
        return 0

    assert run_guarded(Options(typed=("check", "visits")), body) == 1
    assert "secret" not in capfd.readouterr().err
    assert "secret" in (tmp_path / OWNER_LOG).read_text()


def test_the_owners_log_has_a_bounded_size_and_keeps_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "MAX_LOG_BYTES", 5_000)
    for number in range(60):
        log_details(tmp_path, build_problem(RuntimeError()), RuntimeError(f"fault {number} {'x' * 400}"))
    files = {one.name: one.stat().st_size for one in tmp_path.iterdir()}
    assert set(files) == {"owner.log", "owner.log.1"}
    assert max(files.values()) < 7_000
    assert "fault 59" in (tmp_path / "owner.log").read_text()
    assert not any(one.stat().st_mode & 0o077 for one in tmp_path.iterdir())
