"""Stewards who know their tables' code books and nothing of privacy: from a header line to a right first answer.

Each steward is a script at a terminal: ``declare`` asks, the script types, ``check`` compares the rows, and the first
query that ``declare`` proposes is asked and compared with the truth. A round is one ``check``. A typed answer is a
statement that is not empty; Enter takes a proposal or a default. Long lists are files of a published code book.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.row import Options, Row
from siloquent.session import create_workspace

MAX_ROUNDS, MAX_TYPED = 3, 12
SECONDS = 120
_PROMPT = re.compile(rb"> (\[[^\n]*\] )?$")


@dataclass(frozen=True, slots=True)
class Steward:
    """A table, what its steward types about its columns, and code books: a file's name and the columns it lists."""

    file: str
    said: Sequence[str]
    books: Mapping[str, str] = field(default_factory=dict)


STEWARDS = {
    "adult": Steward(
        "explore-adult/adult.csv.gz",
        (
            "workclass = @workclass.txt",
            "education = @education.txt",
            "edunum = codes 1..16",
            "marital = @marital.txt",
            "occupation = @occupation.txt",
            "relationship = Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
            "race = White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
            "sex = Female, Male",
            "country = @country.txt",
            "label = <=50K, >50K",
            "fnlwgt, capgain, caploss, hourweek = 0..2000000",
        ),
        {f"{name}.txt": name for name in ("workclass", "education", "marital", "occupation", "country")},
    ),
    "pums": Steward(
        "pums/ma_pums_1000.csv.gz",
        ("sex, married = codes 0..1", "educ = codes 1..16", "race = codes 1..6", "income = 0.00..1000000.00"),
    ),
    "taxi": Steward(
        "explore-nyctaxi-sample/taxis.csv.gz",
        (
            "pickup, dropoff = 2019-01-01 00:00..2019-12-31 23:59",
            "passengers = 0..9",
            "distance..total = 0.00..1000.00",
            "color = yellow, green",
            "payment = credit card, cash",
            "*_zone = @zones.txt",
            "*_borough = Manhattan, Brooklyn, Queens, Bronx, Staten Island",
        ),
        {"zones.txt": "pickup_zone dropoff_zone"},
    ),
    "br2000": Steward(
        "kamino-br2000/br2000.csv.gz",
        (
            "a1, a6..a9, a12, a14 = zero, one",
            "a2, a4, a10 = zero, one, two, three, four, five, six, seven, eight, nine",
            "a3, a5, a11, a13 = 0..150",
        ),
    ),
    "bank": Steward(
        "pfds/bank_additional_full.csv.gz",
        (
            "job = @job.txt",
            "marital = divorced, married, single, unknown",
            "education = @education.txt",
            "default, housing, loan = no, yes, unknown",
            "contact = cellular, telephone",
            "month = @month-lower",
            "day_of_week = @weekday-lower",
            "duration, campaign, pdays, previous, nr_employed = 0..10000",
            "poutcome = failure, nonexistent, success",
            "emp_var_rate, cons_price_idx, cons_conf_idx, euribor3m = -100.000..100.000",
            "y = yes/no",
        ),
        {"job.txt": "job", "education.txt": "education"},
    ),
    "credit": Steward(
        "pfds/credit_default.csv.gz",
        (
            "SEX = codes 1..2",
            "EDUCATION = codes 0..6",
            "MARRIAGE = codes 0..3",
            "PAY_1..PAY_6 = codes -2..9",
            "LIMIT_BAL, BILL_AMT*, PAY_AMT* = -1000000.00..2000000.00",
            "default_payment_next_month = yes/no",
        ),
    ),
    "bridges": Steward(
        "smfd/bridges.csv.gz",
        (
            "river = A, M, O, Y",
            "location, length = text 20",
            "erected = 1800..2000 by 20",
            "purpose = WALK, AQUEDUCT, RR, HIGHWAY",
            "lanes = codes 1..6, ?",
            "clear_g = N, G, ?",
            "t_or_d = THROUGH, DECK, ?",
            "material = WOOD, IRON, STEEL, ?",
            "span = SHORT, MEDIUM, LONG, ?",
            "rel_l = S, S-F, F, ?",
            "type = WOOD, SUSPEN, SIMPLE-T, ARCH, CANTILEV, CONT-T, NIL, ?",
        ),
    ),
    "abalone": Steward(
        "smfd/abalone.csv.gz", ("sex = M, F, I", "length..shell_weight = 0.0000..5.0000", "rings = 0..50")
    ),
}


@dataclass(frozen=True, slots=True)
class Walk:
    """One steward's way: rounds of check, typed answers, and what was wrong at the end."""

    rounds: int
    typed: int
    wrong: str = ""


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants("first-answer"):
        return
    walks = {name: walk(name, steward, options.data) for name, steward in STEWARDS.items()}
    right = sum(not one.wrong for one in walks.values())
    wrong = "; ".join(f"{name}: {one.wrong}" for name, one in walks.items() if one.wrong)
    each = ", ".join(f"{name} {one.typed}" for name, one in walks.items())
    yield Row(
        "first-answer-right", ours=right, goal=len(walks), better="higher", unit="tables", how=wrong or ", ".join(walks)
    )
    yield Row(
        "first-answer-rounds", ours=max(one.rounds for one in walks.values()), goal=MAX_ROUNDS, unit="rounds of check"
    )
    yield Row(
        "first-answer-typed", ours=max(one.typed for one in walks.values()), goal=MAX_TYPED, unit="answers", how=each
    )


def walk(name: str, steward: Steward, data: Path) -> Walk:
    """Declare, check and ask; a failed step ends the walk."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        create_workspace(folder)
        text = gzip.decompress((data / steward.file).read_bytes())
        (folder / f"{name}.csv").write_bytes(text)
        table = list(csv.DictReader(text.decode().splitlines()))
        for book, columns in steward.books.items():
            values = sorted({row[column] for row in table for column in columns.split()} - {""})
            (folder / book).write_text("\n".join(values), encoding="utf-8")
        typed = sum(len(line.split("; ")) for line in steward.said)
        status, shown = converse(folder, ["declare", f"{name}.csv"], steward.said)
        typed += shown.count("> none")
        found = re.search(r"siloquent ask .*", shown)
        if status or found is None:
            return Walk(0, typed, " ".join(shown.split())[-300:])
        checked = _run(folder, "check", name, "--json")
        if checked.returncode:
            report = json.loads(checked.stdout)["tables"][0]
            return Walk(1, typed, "; ".join(one["sentence"] for one in report["findings"] if one["problem"])[:300])
        query = shlex.split(found[0])[2]
        asked = _run(folder, "ask", query, "--yes", "--json")
        return Walk(
            1, typed, "" if asked.returncode == 0 and is_right(query, asked.stdout, table) else f"{query}: wrong"
        )


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "siloquent", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def converse(folder: Path, words: Sequence[str], lines: Sequence[str]) -> tuple[int, str]:
    """Run a command at a terminal; at each prompt type the next line that the prompt is for, or Enter.

    Enter accepts proposals; questions about columns take the next line. Returns the exit status and the screen.
    """
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "siloquent", *words]
    waiting, shown = list(lines), b""
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = 0
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(ours, 65_536):
                shown += data
                if _PROMPT.search(shown):
                    asks_columns = b"What values are possible in" in shown[seen:]
                    # With an id column, whose rows these are has no default: here each row is another person.
                    asks_person = b"says whose row it is" in shown[seen:] and shown.endswith(b"> ")
                    seen = len(shown)
                    os.write(
                        ours,
                        (waiting.pop(0) if asks_columns and waiting else "none" if asks_person else "").encode()
                        + b"\n",
                    )
    os.close(ours)
    return process.returncode, shown.decode("utf-8", "replace").replace("\r\n", "\n")


def is_right(query: str, said: str, table: Sequence[Mapping[str, str]]) -> bool:
    """Return whether each group's count is within the query's error of the truth, and no value is left unnamed."""
    answer = json.loads(said)
    found = re.fullmatch(r'SELECT "?(\w+)"?, COUNT\(\*\) FROM \w+ GROUP BY \S+ ERROR ([0-9]+)', query)
    if found is None:
        return False
    truth = Counter(row[found[1]] for row in table)
    expected = [_count(label, truth) for label, *_ in answer["rows"]]
    counts = [row[1] for row in answer["rows"]]
    is_close = all(abs(count - true) <= int(found[2]) for count, true in zip(counts, expected, strict=True))
    return is_close and sum(expected) == len(table)


def _count(label: object, truth: Counter[str]) -> int:
    """Return the rows of one group: a value, a bin such as ``[0, 10)``, a boolean, or NULL."""
    if label is None:
        return truth[""]
    if isinstance(label, bool):
        return sum(truth[word] for word in (("yes", "1") if label else ("no", "0")))
    interval = re.fullmatch(r"\[(-?[0-9.]+)(?:, (-?[0-9.]+)([)\]]))?\]?", str(label))
    if interval is None:
        return truth[str(label)]
    lo, hi = float(interval[1]), float(interval[2] or interval[1])
    is_open = interval[3] == ")"
    return sum(
        count
        for value, count in truth.items()
        if lo <= float(value) and (float(value) < hi if is_open else float(value) <= hi)
    )
