"""Every bad input is refused with a code, a reason, a fix to type and the truth about what was spent."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from journeys.clinic import TOML, WARDS, Done, Person, Types
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema

COUNT = "SELECT ward, COUNT(*) FROM visits GROUP BY ward "
HISTOGRAM = "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(cost, 0, 1000, 0.001) ERROR 200"

# question, exit status, code, words of the reason, words of the fix
QUESTIONS = {
    "an unknown table": (
        COUNT.replace("visits", "vists") + "ERROR 200",
        2,
        "unknown_name",
        "Did you mean 'visits'",
        "siloquent explain 'SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200'",
    ),
    "an unknown attribute": (
        "SELECT wrd, COUNT(*) FROM visits GROUP BY wrd ERROR 200",
        2,
        "unknown_name",
        "Did you mean 'ward'",
        "siloquent explain 'SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200",
    ),
    "a value in another case": (
        "SELECT COUNT(*) FROM visits WHERE ward = 'ICU' ERROR 200",
        2,
        "unknown_name",
        "Did you mean 'icu'",
        "ward = '\"'\"'icu'\"'\"' ERROR 200",
    ),
    "a value without quotes": (
        "SELECT COUNT(*) FROM visits WHERE ward = icu ERROR 200",
        2,
        "unknown_name",
        "No attribute named 'icu'",
        "WHERE ward = '\"'\"'icu'\"'\"' ERROR 200",
    ),
    "an undeclared value": (
        "SELECT COUNT(*) FROM visits WHERE ward = 'Z' ERROR 9",
        2,
        "unknown_name",
        "'Z'",
        "siloquent show visits",
    ),
    "an error that is no number": (COUNT + "ERROR NaN", 2, "request_invalid", "finite", "ERROR 60 "),
    "an infinite error": (COUNT + "ERROR inf", 2, "request_invalid", "finite", "ERROR 60 "),
    "an error beyond all numbers": (COUNT + "ERROR 1e999", 2, "syntax", "too large", "siloquent explain"),
    "an error of zero": (COUNT + "ERROR 0", 2, "request_invalid", "above 0", "ERROR 60 "),
    "a negative error": (COUNT + "ERROR -5", 2, "request_invalid", "above 0", "ERROR 60 "),
    "a budget of zero": (COUNT + "BUDGET 0 RHO", 2, "request_invalid", "above 0", "BUDGET"),
    "a negative budget": (COUNT + "BUDGET -1 EPSILON", 2, "request_invalid", "above 0", "BUDGET"),
    "certainty": (COUNT + "ERROR 200 CONFIDENCE 1", 2, "request_invalid", "between 0 and 1", "CONFIDENCE"),
    "no confidence": (COUNT + "ERROR 200 CONFIDENCE 0", 2, "request_invalid", "between 0 and 1", "CONFIDENCE"),
    "more than certainty": (COUNT + "ERROR 200 CONFIDENCE 1.5", 2, "request_invalid", "between 0 and 1", "CONFIDENCE"),
    "no accuracy at all": (COUNT, 2, "syntax", "neither an error bound", "GROUP BY ward ERROR 60 "),
    "an unreachable accuracy": (COUNT + "ERROR 0.5", 4, "accuracy_unreachable", "whole budget", "siloquent explain"),
    "too many bins": (HISTOGRAM, 2, "request_invalid", "100,000", "siloquent explain 'SELECT age, COUNT(*)"),
    "numbers without bins": (
        "SELECT cost, COUNT(*) FROM visits GROUP BY cost ERROR 9",
        2,
        "request_invalid",
        "bins",
        "SELECT cost // 100, COUNT(*) FROM visits GROUP BY cost // 100",
    ),
    "an extreme": ("SELECT MAX(age) FROM visits ERROR 2", 2, "request_invalid", "single people", "QUANTILE"),
    "distinct values": (
        "SELECT DISTINCT ward FROM visits ERROR 2",
        2,
        "request_invalid",
        "DISTINCT",
        "SELECT ward",
    ),
    "a relative error": (COUNT + "ERROR 200 RELATIVE", 2, "request_invalid", "true count", "ERROR"),
    "a condition on an id": (
        "SELECT COUNT(*) FROM visits WHERE patient = 'p1' ERROR 9",
        2,
        "request_invalid",
        "id",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "a condition on a text": (
        "SELECT COUNT(*) FROM visits WHERE note LIKE 'x%' ERROR 9",
        2,
        "request_invalid",
        "text",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "NULL that no row can have": (
        "SELECT COUNT(*) FROM visits WHERE age IS NULL ERROR 9",
        2,
        "request_invalid",
        "NULL",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "a nested aggregate": (
        "SELECT COUNT(*) FROM visits WHERE COUNT(*) > 3 ERROR 9",
        2,
        "request_invalid",
        "condition on rows",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "a sum of words": (
        "SELECT SUM(ward) FROM visits ERROR 9",
        2,
        "request_invalid",
        "number",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "two questions": (
        "SELECT COUNT(*) FROM visits ERROR 9; DROP TABLE visits",
        2,
        "request_invalid",
        "one query",
        "SELECT COUNT(*) FROM visits ERROR 50 ",
    ),
    "an order to write": ("DELETE FROM visits", 2, "request_invalid", "only read", "SELECT"),
    "a file function": (
        "SELECT COUNT(*) FROM read_csv('/etc/passwd') ERROR 9",
        2,
        "syntax",
        "is not valid here",
        "siloquent explain",
    ),
    "a subquery": (
        "SELECT COUNT(*) FROM visits WHERE age = (SELECT 1) ERROR 9",
        2,
        "request_invalid",
        "Subqueries",
        "SELECT COUNT(*) FROM visits ERROR",
    ),
    "deep nesting": (
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 5000 + "age > 1" + ")" * 5000 + " ERROR 9",
        2,
        "",
        "",
        "",
    ),
    "a flood": ("x" * 70_000, 2, "request_invalid", "64 KiB", "parts"),
    "an open quote": (
        "SELECT COUNT(*) FROM visits WHERE ward = 'A ERROR 9",
        2,
        "syntax",
        "is not closed",
        "siloquent explain",
    ),
    "a control character": (
        "SELECT COUNT(*) FROM visits WHERE \x1b[2J ERROR 9",
        2,
        "syntax",
        "U+001B",
        "siloquent explain",
    ),
    "nothing": ("", 2, "syntax", "ends unexpectedly", "siloquent explain"),
}


@pytest.fixture
def ready(types: Types) -> Types:
    """As ``types``, with the accounts open, so that a refusal leaves the ledger as it is."""
    assert types("explain", WARDS).status == 0
    return types


def refused(done: Done, owner: Person, status: int, code: str, reason: str, fix: str, head: str, spent: int) -> None:
    """One problem document, all of it filled in; no file of the ledger has moved."""
    document = done.document
    assert list(faults(document, json_schema("problem"))) == []
    assert (done.status, document["exit"]) == (status, status)
    assert document["code"] == code or not code
    assert reason in document["detail"]
    assert document["fix"]
    assert fix in document["fix"]
    assert document["spent"] == "nothing"
    assert done.err == ""
    assert owner.head() == head
    assert owner.spent() == spent


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_bad_question_costs_nothing_and_names_its_fix(name: str, ready: Types, owner: Person) -> None:
    question, status, code, reason, fix = QUESTIONS[name]
    head, spent = owner.head(), owner.spent()
    refused(ready("ask", question, "--yes", "--json"), owner, status, code, reason, fix, head, spent)
    refused(ready("explain", question, "--json"), owner, status, code, reason, fix, head, spent)


@pytest.mark.parametrize("name", ["an unknown attribute", "an open quote", "an unreachable accuracy"])
def test_people_read_the_same_on_standard_error(name: str, ready: Types) -> None:
    question, status, code, reason, fix = QUESTIONS[name]
    done = ready("ask", question, "--yes")
    assert (done.status, done.out) == (status, "")
    assert f"[{code}]" in done.err
    assert reason in done.err
    assert "Fix: " in done.err
    assert fix in done.err
    assert done.err.endswith("Spent: nothing.\n")
    assert "Traceback" not in done.err


def test_a_caret_shows_the_place(ready: Types) -> None:
    lines = ready("explain", "SELECT ward, COUNT(*) FORM visits GROUP BY ward ERROR 200").err.splitlines()
    at = next(number for number, line in enumerate(lines) if "FORM visits" in line and "SELECT" in line)
    assert lines[at].index("FORM") == lines[at + 1].index("^")


# what is changed in the table file, words of the reason, words of the fix
DECLARATIONS = {
    "no bounds": ("lo = 0, hi = 120, ", "", "no bounds", "lo = 0, hi = 100"),
    "bounds that are no numbers": (
        "lo = 0, hi = 1000",
        "lo = nan, hi = 1000",
        "finite",
        "in schemas/visits.toml, write: ",
    ),
    "infinite bounds": ("lo = 0, hi = 1000", "lo = 0, hi = inf", "finite", "in schemas/visits.toml, write: "),
    "bounds the wrong way round": ("lo = 0, hi = 120", "lo = 120, hi = 0", "lo <= hi", "lo = 0, hi = 120"),
    "no values": (
        'values = ["A", "B", "=1+1", "icu"], ',
        "",
        "no values",
        'in schemas/visits.toml, write: { name = "ward", type = "text"',
    ),
    "no word on NULL": ('outside = "clamp", null = "drop", bins', 'outside = "clamp", bins', "NULL", 'null = "drop"'),
    "no word on what lies outside": (
        'outside = "clamp", null = "drop", bins',
        'null = "drop", bins',
        "outside",
        "clamp",
    ),
    "a slip in a key": ("outside =", "outsde =", "Did you mean 'outside'", "in schemas/visits.toml, write: "),
    "no unit": ('unit = { kind = "row" }', "", "Missing 'unit'", "in schemas/visits.toml, write: "),
    "a user that is no attribute": (
        '{ kind = "row" }',
        '{ kind = "user", column = "pat", max_rows = 2 }',
        "pat",
        "in schemas/visits.toml, write: ",
    ),
    "no budget": (TOML[TOML.index("[budget]") :], "", "Missing 'budget'", "in schemas/visits.toml, write: "),
    "a budget of zero": ('epsilon = "1"', 'epsilon = "0"', "above 0", 'epsilon = "1"'),
    "a negative budget": ('epsilon = "1"', 'epsilon = "-1"', "above 0", 'epsilon = "1"'),
    "a budget that is no number": ('epsilon = "1"', 'epsilon = "nan"', "finite", "in schemas/visits.toml, write: "),
    "a delta of zero": ('delta = "1e-6"', 'delta = "0"', "delta between 0 and 1", 'delta = "1e-6"'),
    "no TOML": ("[table]", "[table", "not valid TOML", "in schemas/visits.toml, write: [table]"),
    "deep nesting": (
        "format = 1",
        "format = 1\nx = " + "[" * 5000,
        "nested too deeply",
        "siloquent schema table-file",
    ),
    "another format": ("format = 1", "format = 2", "format", "in schemas/visits.toml, write: format = 1"),
    "a program as a source": (
        "parquet:data",
        "exec:data",
        "csv:, csv-records:, xlsx:, parquet:",
        "in schemas/visits.toml, write: ",
    ),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_a_bad_declaration_stops_every_question_before_it_costs(name: str, ready: Types, owner: Person) -> None:
    old, new, reason, fix = DECLARATIONS[name]
    file = owner.folder / "schemas" / "visits.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    head, spent = owner.head(), owner.spent()
    code = "unknown_name" if name == "a user that is no attribute" else "schema_invalid"
    refused(ready("ask", WARDS, "--yes", "--json"), owner, 2, code, reason, fix, head, spent)
    refused(ready("check", "visits", "--json"), owner, 2, code, reason, fix, head, spent)
    assert ready("tables").status == 0


def write(path: str, data: bytes) -> Callable[[Path], None]:
    """Put other bytes in the place of the source, under another declaration."""

    def change(folder: Path) -> None:
        (folder / path).write_bytes(data)
        file = folder / "schemas" / "visits.toml"
        kind = path.rpartition(".")[2]
        file.write_text(file.read_text().replace("parquet:data/visits.parquet", f"{kind}:{path}"))

    return change


def linked(folder: Path) -> None:
    (folder / "data" / "visits.parquet").rename(folder / "data" / "real.parquet")
    (folder / "data" / "visits.parquet").symlink_to("real.parquet")


def declared(source: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "schemas" / "visits.toml"
        file.write_text(file.read_text().replace("parquet:data/visits.parquet", source))

    return change


HEADER = b"patient,age,ward,cost,note\n"
SOURCES = {
    "a source that is gone": (lambda folder: (folder / "data" / "visits.parquet").unlink(), 2, "schema_invalid"),
    "a source behind a link": (linked, 2, "schema_invalid"),
    "a way out of the workspace": (declared("parquet:data/../../secret.parquet"), 2, "schema_invalid"),
    "a CSV file that calls itself Parquet": (write("data/fake.parquet", HEADER + b"p1,1,A,1,x\n"), (2, 5), ""),
    "a cut Parquet file": (write("data/cut.parquet", b"PAR1" + bytes(100) + b"PAR1"), 5, "data_source_failed"),
    "a footer that lies": (write("data/lie.parquet", b"PAR1" + b"\xff\xff\xff\x7fPAR1"), 5, "data_source_failed"),
    "an empty CSV file": (write("data/empty.csv", b""), (2, 5), ""),
    "a CSV file without our columns": (write("data/other.csv", b"a,b\n1,2\n"), 2, "schema_invalid"),
    "a CSV file of zeros": (write("data/zeros.csv", bytes(5000)), (2, 5), ""),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_bad_source_is_one_clear_error_that_tells_the_truth_about_the_price(
    name: str, ready: Types, owner: Person
) -> None:
    change, status, code = SOURCES[name]
    change(owner.folder)
    spent = owner.spent()
    done = ready("ask", WARDS, "--key", "k", "--yes", "--json")
    assert done.status in (status if isinstance(status, tuple) else (status,))
    document = done.document
    assert document["code"] == code or not code
    assert document["fix"]
    assert (document["spent"] == "nothing") == (owner.spent() == spent)
    # Whatever was charged stays charged once, however often the same key comes back.
    charged = owner.spent()
    ready("ask", WARDS, "--key", "k", "--yes", "--json")
    assert owner.spent() == charged or document["spent"] == "nothing"


def test_details_of_a_failing_source_are_the_owners_alone(ready: Types, owner: Person) -> None:
    needle = b"SECRET-NEEDLE"
    (owner.folder / "data" / "visits.parquet").write_bytes(b"PAR1" + needle * 9 + b"PAR1")
    done = ready("ask", WARDS, "--yes")
    log = owner.folder / "owner.log"
    assert done.status == 5
    assert "NEEDLE" not in done.out + done.err
    assert "Traceback" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_key_that_belongs_to_another_question_is_refused(ready: Types, owner: Person) -> None:
    assert ready("ask", WARDS, "--key", "monday", "--yes").status == 0
    head, spent = owner.head(), owner.spent()
    done = ready("ask", WARDS.replace("200", "300"), "--key", "monday", "--yes", "--json")
    refused(done, owner, 7, "key_reused", "another question", "new key", head, spent)


@pytest.mark.parametrize("key", ["", "k" * 65, "k\u00e9y", "a\nb"])
def test_a_key_that_cannot_be_one_is_refused(key: str, ready: Types, owner: Person) -> None:
    head, spent = owner.head(), owner.spent()
    done = ready("ask", WARDS, "--key", key, "--yes", "--json")
    refused(done, owner, 2, "request_invalid", "printable", "--key", head, spent)


@pytest.mark.parametrize("limit", ["0.00001", "0"])
def test_a_price_above_the_allowed_one_is_refused(limit: str, ready: Types, owner: Person) -> None:
    head, spent = owner.head(), owner.spent()
    done = ready("ask", WARDS, "--max-cost", limit, "--json")
    refused(done, owner, 2, "request_invalid", "more than", "--max-cost", head, spent)


@pytest.mark.parametrize("limit", ["lots", "nan", "inf"])
def test_an_allowed_price_that_is_no_number_is_refused(limit: str, ready: Types, owner: Person) -> None:
    head, spent = owner.head(), owner.spent()
    refused(ready("ask", WARDS, "--max-cost", limit, "--json"), owner, 2, "request_invalid", "", "", head, spent)


@pytest.mark.slow
@pytest.mark.parametrize("flag", [(), ("--json",)], ids=["words", "json"])
def test_nothing_is_spent_where_nobody_can_say_yes(flag: tuple[str, ...], owner: Person) -> None:
    owner.types("explain", WARDS)
    head = owner.head()
    done = owner.types("ask", WARDS, *flag)
    assert done.status == 2
    assert "standard input is not a terminal" in done.out + done.err
    assert "--yes" in done.out + done.err
    assert owner.head() == head


def pasted(fix: str) -> tuple[str, ...]:
    """The words of a fix that is one command, as a shell would read them."""
    program, *words = shlex.split(fix)
    assert program == "siloquent"
    return tuple(words)


@pytest.mark.slow
def test_what_nobody_agreed_to_can_be_pasted_with_its_key_and_an_answered_key_is_free(owner: Person) -> None:
    question = owner.folder / "wards.sql"
    question.write_text(WARDS)
    assert owner.types("--analyst", "ana", "ask", "--file", "wards.sql", "--key", "s1", "--yes").status == 0
    spent = owner.spent()
    again = owner.types("--analyst", "ana", "ask", "--file", "wards.sql", "--key", "s1", "--json")
    assert (again.status, again.document["replayed"]) == (0, True)
    assert owner.spent() == spent
    question.write_text(WARDS.replace("ERROR 200", "ERROR 170") + " REUSE NONE")
    other = owner.types("--analyst", "ana", "ask", "--file", "wards.sql", "--key", "s2", "--json")
    assert other.status == 2
    assert "--file wards.sql --key s2" in other.document["fix"]
    assert owner.types(*pasted(other.document["fix"])).status == 0


def test_a_fix_of_what_is_too_dear_works_when_it_is_typed(ready: Types, owner: Person) -> None:
    # bo's share is a thousandth: what the whole budget would pay for is no help to him.
    unreachable = ready("--analyst", "bo", "explain", COUNT + "ERROR 0.5", "--json")
    assert unreachable.status == 4
    words = pasted(unreachable.document["fix"])
    assert "explain" in words
    assert ready(*words, "--json").document["left_after"] is not None
    for question in (WARDS, COUNT + "BUDGET 0.01 RHO"):
        refused = ready("--analyst", "bo", "ask", question, "--key", "k", "--yes", "--json")
        assert refused.status == 3, question
        words = pasted(refused.document["fix"])
        assert "--key k" in refused.document["fix"]
        assert ("BUDGET" in refused.document["fix"]) == ("BUDGET" in question)
        assert ready("explain", *words[words.index("ask") + 1 : -2], "--analyst", "bo", "--json").status == 0
    assert ready(*words, "--yes").status == 0


def test_the_fix_of_a_price_above_the_allowed_one_is_a_command(ready: Types) -> None:
    fix = ready("ask", WARDS, "--key", "k", "--max-cost", "0", "--json").document["fix"]
    assert ready(*pasted(fix)).status == 0


def test_an_analyst_without_a_share_is_refused(ready: Types, owner: Person) -> None:
    head, spent = owner.head(), owner.spent()
    done = ready("--analyst", "zoe", "ask", WARDS, "--yes", "--json")
    refused(done, owner, 8, "not_allowed", "'zoe' has no share", "budget set visits", head, spent)


@pytest.mark.parametrize(
    "words",
    [("check",), ("budget", "set", "visits"), ("epoch", "open", "visits"), ("ledger", "checkpoint", "-o", "c.json")],
    ids=" ".join,
)
def test_what_is_the_owners_is_refused_to_analysts(words: tuple[str, ...], ready: Types, owner: Person) -> None:
    head, spent = owner.head(), owner.spent()
    done = ready("--analyst", "ana", *words, "--json")
    refused(done, owner, 8, "not_allowed", "reserved for the owner", "siloquent ", head, spent)


def test_a_ledger_behind_its_head_is_refused_and_left_as_it_is(ready: Types, owner: Person) -> None:
    ledger = owner.folder / "ledger.sqlite"
    old = ledger.read_bytes()
    assert ready("ask", WARDS, "--yes").status == 0
    head = owner.head()
    for rest in ("-wal", "-shm"):
        (owner.folder / f"ledger.sqlite{rest}").unlink(missing_ok=True)
    ledger.write_bytes(old)
    done = ready("ask", WARDS, "--yes", "--json")
    assert (done.status, done.document["code"]) == (7, "ledger_rolled_back")
    assert done.document["fix"]
    assert owner.head() == head


def test_a_ledger_that_is_gone_is_refused(ready: Types, owner: Person) -> None:
    (owner.folder / "ledger.sqlite").unlink()
    done = ready("ask", WARDS, "--yes", "--json")
    assert done.status == 7
    assert done.document["fix"]


def test_a_changed_ledger_fails_its_verification(ready: Types, owner: Person) -> None:
    import sqlite3

    assert ready("ask", WARDS, "--yes").status == 0
    with sqlite3.connect(owner.folder / "ledger.sqlite") as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in names:
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE account SET spent_amount = 0")
    done = ready("ledger", "verify", "--json")
    assert done.status == 1
    assert done.document["ok"] is False
    assert done.document["problem"]


def test_a_changed_release_fails_its_verification(ready: Types, owner: Person) -> None:
    asked = ready("ask", WARDS, "--yes", "--json").document
    file = owner.folder / "releases" / asked["id"] / "answer.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    done = ready("verify", asked["id"], "--json")
    assert (done.status, done.document["ok"]) == (1, False)
    assert ready("release", "show", asked["id"]).status == 2


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_costs_nothing_twice(owner: Person) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "siloquent", "ask", WARDS, "--key", "k", "--yes"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=owner.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "Standard output cannot be written" in done.stderr
    assert "--key k --yes" in done.stderr
    charged = owner.spent()
    assert charged > 0
    assert owner.types("ask", WARDS, "--key", "k", "--yes").status == 0
    assert owner.spent() == charged


def test_a_release_that_cannot_be_kept_is_a_warning_beside_the_answer(ready: Types, owner: Person) -> None:
    releases = owner.folder / "releases"
    releases.rmdir()
    releases.write_text("a file in the way")
    done = ready("ask", WARDS, "--key", "k", "--yes")
    assert done.status == 0
    assert "icu" in done.out
    assert "its release was not written" in done.err


def test_an_unforeseen_error_is_our_bug_with_a_report_and_no_value(
    ready: Types, owner: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    from siloquent.api import Session

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("row p0001 of ward A")

    monkeypatch.setattr(Session, "prepare", broken)
    done = ready("ask", WARDS, "--yes", "--json")
    assert (done.status, done.document["code"]) == (1, "internal")
    assert "p0001" not in json.dumps(done.document)
    report = done.document["instance"].removeprefix("urn:uuid:")
    assert report in done.document["detail"]
    log = owner.folder / "owner.log"
    assert report in log.read_text()
    assert "row p0001" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(("condition", "plain"), [("age > '30'", "age > 30"), ("age > '1e2'", "age > 1e2")], ids=str)
def test_a_quoted_number_is_the_number(condition: str, plain: str, ready: Types) -> None:
    quoted, bare = (
        ready("explain", f"SELECT COUNT(*) FROM visits WHERE {one} ERROR 200", "--json") for one in (condition, plain)
    )
    assert (quoted.status, quoted.document["cost"]) == (0, bare.document["cost"])


def test_no_number_is_made_up_for_a_quoted_word(ready: Types) -> None:
    done = ready("explain", "SELECT COUNT(*) FROM visits WHERE age > 'old' ERROR 200", "--json")
    assert done.status == 2
    assert "left out: age > " in done.document["fix"]


def test_a_wrong_declaration_is_named_with_its_file(ready: Types, owner: Person) -> None:
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace("hi = 120", "hi = -1"))
    document = ready("show", "visits", "--json").document
    assert document["detail"].startswith("schemas/visits.toml: ")
    assert document["fix"]


def test_a_missing_workspace_is_no_wrong_declaration(tmp_path: Path, ready: Types) -> None:
    document = ready("--workspace", str(tmp_path / "no where"), "tables", "--json").document
    assert (document["code"], document["title"]) == ("workspace", "The workspace cannot be used")
    assert document["fix"] == f"siloquent init '{tmp_path}/no where'"


def test_paths_that_a_shell_would_cut_are_quoted(tmp_path: Path, ready: Types) -> None:
    said = ready("init", str(tmp_path / "my clinic")).err
    assert f"--workspace '{tmp_path}/my clinic' declare" in said
    assert f"--workspace '{tmp_path}/my clinic' check" in said


def test_a_limit_below_what_is_spent_says_where_that_stands(ready: Types, owner: Person) -> None:
    assert ready("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('epsilon = "1"', 'epsilon = "0.00001"'))
    document = ready("budget", "set", "visits", "--json").document
    assert document["fix"].startswith("siloquent ledger show visits")
    assert ready("ledger", "show", "visits").status == 0


def test_the_fix_of_a_changed_unit_opens_an_epoch_when_it_is_typed(ready: Types, owner: Person) -> None:
    assert ready("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('adjacency = "add-remove"', 'adjacency = "replace-one"'))
    fix = ready("explain", WARDS, "--json").document["fix"]
    command = "siloquent epoch open visits --statement 'the budgets add up'"
    assert command in fix
    assert ready(*shlex.split(command)[1:]).status == 0
    assert ready("ask", WARDS, "--yes").status == 0
