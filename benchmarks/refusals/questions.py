"""Right questions about three tables, and mutations that make wrong ones of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

VISITS = """format = 1
attribute = [
  { name = "patient", type = "id" },
  { name = "ward", type = "category", values = ["icu", "er", "O'Neill", "day care"], other = "cell", null = "cell" },
  { name = "sex", type = "integer", lo = 1, hi = 2, outside = "drop", null = "drop", labels = { 1 = "female", 2 = "male" } },
  { name = "smoker", type = "boolean", null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 219, outside = "clamp", null = "drop" },
  { name = "cost", type = "real", lo = 0, hi = 1000, grid = 0.5, outside = "clamp", null = "drop" },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, outside = "drop", null = "drop" },
  { name = "note", type = "text", max_bytes = 100 },
]
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
size_hint = 100000
unit = { kind = "user", column = "patient", max_rows = 2 }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""
LOANS = """format = 1
attribute = [
  { name = "loan grade", type = "category", values = ["A", "B", "C"], null = "drop" },
  { name = "order", type = "integer", lo = 0, hi = 999, outside = "clamp", null = "cell", bins = { width = 100 } },
  { name = "rate", type = "real", lo = 0, hi = 30, grid = 0.01, outside = "clamp", null = "drop" },
  { name = "opened", type = "datetime", lo = 2020-01-01, hi = 2023-12-31, grid = "hour", outside = "drop", null = "drop" },
]
[table]
name = "Loans"
source = "csv:Loans.csv"
adjacency = "replace-one"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "2"
"""
SMALL = """format = 1
attribute = [
  { name = "kind", type = "category", values = ["x", "y"], null = "drop" },
  { name = "score", type = "integer", lo = 0, hi = 200, outside = "clamp", null = "drop", bins = { width = 50 } },
]
[table]
name = "small"
source = "csv:small.csv"
adjacency = "add-remove"
size_hint = 500
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "0.05"
"""
TABLES = {
    "visits": (VISITS, "patient,ward,sex,smoker,age,cost,day,note\np1,icu,1,0,30,2.5,2024-01-31,x\n"),
    "Loans": (LOANS, '"loan grade",order,rate,opened\nA,3,2.5,2021-01-01 10:00\n'),
    "small": (SMALL, "kind,score\nx,3\n"),
}
RIGHT = (
    "SELECT COUNT(*) FROM visits ERROR 500",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 500 CONFIDENCE 0.99",
    "SELECT ward, sex, COUNT(*) AS n FROM visits WHERE age >= 18 AND smoker GROUP BY ward, sex ERROR 800",
    "SELECT COUNT(*) FROM visits WHERE ward = 'icu' AND age BETWEEN 20 AND 60 ERROR 1 PERCENT",
    "SELECT COUNT(*) FROM visits WHERE ward IN ('icu', 'day care') OR NOT smoker ERROR 500",
    "SELECT COUNT(*) FROM visits WHERE ward = 'O''Neill' AND day >= DATE '2024-03-01' ERROR 500",
    "SELECT month(day), COUNT(*) FROM visits GROUP BY month(day) ERROR 500",
    "SELECT age // 20, COUNT(*) FROM visits GROUP BY age // 20 ERROR 500",
    "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 900000",
    "SELECT smoker, AVG(age) FROM visits GROUP BY smoker ERROR 20 FOR AT LEAST 5000 ROWS",
    "SELECT sex, MEDIAN(age) FROM visits GROUP BY sex ERROR 2000",
    "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1000 ERROR 600",
    "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR 900",
    "SELECT sex, COUNT(*), SUM(cost) FROM visits WHERE sex = 'female' GROUP BY sex ERROR 500, 900000",
    "SELECT COUNT(*) FROM visits WHERE ward LIKE 'i%' BUDGET 0.05 EPSILON",
    "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 100, 10) ERROR 500",
    "BIN visits ON COUNT(*) WHERE W = {age < 18, age >= 18 AND smoker} ERROR 500",
    'SELECT "loan grade", COUNT(*) FROM Loans GROUP BY "loan grade" ERROR 50',
    'SELECT "order", COUNT(*) FROM Loans WHERE "loan grade" = \'A\' GROUP BY "order" ERROR 50',
    'SELECT COUNT(*) FROM Loans WHERE rate > 2.5 AND "order" IS NOT NULL ERROR 50',
    "SELECT year(opened), SUM(rate) FROM Loans GROUP BY year(opened) ERROR 900",
    "SELECT COUNT(*) FROM Loans WHERE opened < TIMESTAMP '2021-06-01 10:00:00' ERROR 50 REUSE NONE",
    "SELECT QUANTILE(rate, 0.9) FROM Loans ERROR 100",
    "SELECT kind, COUNT(*) FROM small GROUP BY kind ERROR 300",
    "SELECT score, COUNT(*) FROM small GROUP BY score ERROR 350",
    "EXPLAIN PRIVACY SELECT COUNT(*) FROM small WHERE kind = 'x' ERROR 300",
)
WORDS = re.compile(r"[A-Za-z_]{3,}")
Mutation = Callable[[str, random.Random], str | None]


def _misspell(text: str, draw: random.Random) -> str | None:
    """Swap, drop or double a letter of one word outside quotes."""
    found = [one for one in WORDS.finditer(text) if text[: one.start()].count("'") % 2 == 0]
    one = draw.choice(found)
    word, at = one[0], draw.randrange(1, len(one[0]) - 1)
    wrong = draw.choice(
        (
            word[:at] + word[at + 1 :],
            word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
        )
    )
    return text[: one.start()] + wrong + text[one.end() :]


def _of(pattern: str, *wrong: str) -> Mutation:
    """Replace one match of ``pattern`` by one of ``wrong``; None if there is no match."""

    def mutate(text: str, draw: random.Random) -> str | None:
        found = list(re.finditer(pattern, text))
        if not found:
            return None
        one = draw.choice(found)
        return text[: one.start()] + one.expand(draw.choice(wrong)) + text[one.end() :]

    return mutate


def _drop_bracket(text: str, draw: random.Random) -> str | None:
    places = [at for at, sign in enumerate(text) if sign in "(){}"]
    if not places:
        return None
    at = draw.choice(places)
    return text[:at] + text[at + 1 :]


def _drop_word(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    at = draw.randrange(len(words))
    return " ".join(words[:at] + words[at + 1 :])


TAIL = r"ERROR [\d.]+( PERCENT| ROWS)?"
MUTATIONS: dict[str, Mutation] = {
    "misspelt word": _misspell,
    "misspelt word, twice": lambda text, draw: _misspell(_misspell(text, draw) or text, draw),
    "column in single quotes": _of(r"\b(ward|sex|age|cost|kind|score|rate)\b(?=[ ,])", r"'\1'"),
    "column in backticks": _of(r"\b(ward|sex|age|cost|kind|score|rate)\b", r"`\1`", r"[\1]"),
    "name without its quotes": _of(r'"(loan grade|order)"', r"\1"),
    "value without quotes": _of(r"'(icu|A|x|day care|female)'", r"\1"),
    "value in double quotes": _of(r"'(icu|A|x|day care|female)'", r'"\1"'),
    "typographic quotes": _of(r"'(icu|A|x|day care|female)'", "‘\\1’", "“\\1”"),
    "quote not closed": _of(r"'(icu|A|x|day care|female)'", r"'\1", r"\1'"),
    "value in another case": _of(r"'(icu|A|x|female)'", "'ICU'", "'a'", "'X'", "'Female'"),
    "value out of the domain": _of(r"'(icu|A|x|female)'|(?<=[<>=] )\d+", "'surgery'", "99999", "-5", "'1'"),
    "no accuracy": _of(rf" {TAIL}.*", ""),
    "error without a number": _of(TAIL, "ERROR", "ERROR ROWS", "ERROR CONFIDENCE 0.9"),
    "error of nothing": _of(TAIL, "ERROR 0", "ERROR -5", "ERROR NaN", "ERROR inf", "ERROR 0.0"),
    "error with separators": _of(TAIL, "ERROR 1,000", "ERROR 1_000", "ERROR 1'000", "ERROR 1.000,5"),
    "error in another form": _of(TAIL, "ERROR = 200", "ERROR: 200", "ERROR '200'", "ERROR 5%", "ERROR +-200", "WITHIN 200", "ERROR 200 RELATIVE"),
    "error too small": _of(TAIL, "ERROR 0.0001", "ERROR 0.01", "ERROR 1e-6"),
    "too many errors": _of(TAIL, "ERROR 200, 300, 400"),
    "confidence in another form": _of(r"( CONFIDENCE [\d.]+)?$", " CONFIDENCE 95", " CONFIDENCE 95%", " CONFIDENCE 1", " CONFIDENCE 0,95", " CONFIDENCE", " CONFIDENCE 0", " CONFIDENCE 1.5"),
    "budget in another form": _of(rf"({TAIL}|BUDGET .*)", "BUDGET 0,1 EPSILON", "BUDGET 0.1", "EPSILON 0.1", "BUDGET 0.1 EPS", "BUDGET 0 EPSILON", "BUDGET 900 EPSILON", "BUDGET 0.1 RHO DELTA 1e-6", "BUDGET 1e-30 EPSILON", "BUDGET 0.01 RHO"),
    "comparison with NULL": _of(r"(= '[^']*'|>= \d+|> [\d.]+)", "= NULL", "!= NULL", "<> NULL", "IS NULL", "ISNULL", "IS TRUE"),
    "bounds the wrong way": _of(r"BETWEEN 20 AND 60|HISTOGRAM\(age, 0, 100, 10\)", "BETWEEN 60 AND 20", "BETWEEN -20 AND -5", "HISTOGRAM(age, 100, 0, 10)", "HISTOGRAM(age, 0, 100, 0)", "HISTOGRAM(age, 0, 100, -1)"),
    "date in another format": _of(r"(DATE|TIMESTAMP) '[^']*'", "'31.01.2024'", "'01/31/2024'", "2024-01-31", "DATE '2024/01/31'", "DATE '31-01-2024'", "'Jan 31, 2024'", "DATE 2024-01-31", "'2024-02-30'", "20240131"),
    "rows": _of(r"SELECT .*? FROM", "SELECT * FROM", "SELECT age, cost FROM", "SELECT TOP 5 * FROM"),
    "distinct": _of(r"COUNT\(\*\)", "COUNT(DISTINCT ward)", "COUNT(DISTINCT patient)", "COUNT(age)", "COUNT()", "COUNT(1)"),
    "another aggregate": _of(r"COUNT\(\*\)|SUM\(\w+\)|AVG\(\w+\)", "MAX(age)", "MIN(cost)", "MEAN(age)", "AVERAGE(age)", "STDEV(age)", "VARIANCE(cost)", "MODE(ward)", "CORR(age, cost)", "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)", "FIRST(ward)", "SUM(ward)", "AVG(ward)", "MEDIAN(ward)", "SUM(patient)"),
    "selection of rows": _of(rf" {TAIL}", " LIMIT 10 ERROR 500", " ORDER BY ward ERROR 500", " ORDER BY COUNT(*) ERROR 500", " LIMIT 5 OFFSET 5 ERROR 500", " LIMIT 0 ERROR 500", " HAVING COUNT(*) < 5 ERROR 500", " HAVING ward = 'icu' ERROR 500"),
    "aliases": _of(r"FROM (\w+)", r"FROM \1 AS t", r"FROM \1 t", r"FROM main.\1", r"FROM hospital.public.\1"),
    "key with an alias": _of(r"SELECT (ward|sex|kind),", r"SELECT \1 AS k,", r"SELECT \1 k,"),
    "other keys": _of(r"GROUP BY .*?(?= ERROR| HAVING| ORDER)", "GROUP BY 1", "GROUP BY ALL", "GROUP BY ROLLUP(ward, sex)", "GROUP BY COUNT(*)", "GROUP BY patient", "GROUP BY note", "GROUP BY age", "GROUP BY age, cost, day", "GROUP BY cost", "GROUP BY day, age", "GROUP BY sex", "GROUP BY"),
    "functions": _of(r"\b(month|year)\(|age // 20", "mnth(", "quarter(", "date_trunc('month', ", "strftime(", "EXTRACT(year FROM ", "round(age / 20)", "age / 20", "floor(age / 20)", "CAST(age AS int)", "age::int"),
    "condition of SQL": _of(r"WHERE .*?(?= GROUP| ERROR| BUDGET)", "WHERE age > (SELECT AVG(age) FROM visits)", "WHERE ward ILIKE 'i%'", "WHERE ward ~ '^i'", "WHERE 18 < age < 65", "WHERE age > 18 && smoker", "WHERE age > 18 || smoker", "WHERE COUNT(*) > 5", "WHERE age > ?", "WHERE ward = $1", "WHERE day > now() - INTERVAL '7 days'", "WHERE CASE WHEN age > 18 THEN 1 ELSE 0 END = 1", "WHERE EXISTS (SELECT 1)", "WHERE age = '30'", "WHERE ward = 3", "WHERE smoker = 'maybe'", "WHERE smoker > 0", "WHERE age LIKE '3%'", "WHERE note = 'x'", "WHERE patient = 'p1'", "WHERE age => 18", "WHERE age >= eighteen", "WHERE age = 18 or 19", "WHERE ward IN 'icu'", "WHERE ward IN ('icu', NULL)", "WHERE ward = icu", "WHERE age BETWEEN 18, 65", "WHERE age IN (18..65)", "WHERE ward <> 'icu", "WHERE age > 400", "WHERE age IS NULL", "WHERE cost / 2 > 10"),
    "other statements": lambda text, draw: draw.choice(("DELETE FROM visits", "SHOW TABLES", "DESCRIBE visits", f"{text}; {text}", f"{text} UNION {text}", f"WITH t AS ({text}) SELECT COUNT(*) FROM t ERROR 500", "INSERT INTO visits VALUES (1)", f"SELECT COUNT(*) FROM ({text}) ERROR 500", "count visits", "", "how many patients are there?", text.replace("SELECT", "SELECT COUNT(*) OVER (),"), text.replace("COUNT(*)", "COUNT(*) FILTER (WHERE smoker)"), text.replace("COUNT(*)", "SUM(CASE WHEN smoker THEN 1 ELSE 0 END)"))),
    "joins": _of(r"FROM visits", "FROM visits JOIN small ON visits.ward = small.kind", "FROM visits, small", "FROM visits LEFT JOIN small USING (ward)", "FROM visits NATURAL JOIN small", "FROM visits CROSS JOIN small"),
    "bracket left out": _drop_bracket,
    "word left out": _drop_word,
    "clauses in another order": _of(r"(WHERE .*?) (GROUP BY .*?)(?= ERROR)", r"\2 \1"),
    "comma for a word": _of(r"GROUP BY (\w+)", r"GROUP BY \1,", r"GROUP \1", r"GROUPBY \1", r"BY \1"),
    "commas left out": _of(r", ", " "),
    "averages without a size": _of(r" FOR AT LEAST 5000 ROWS", "", " FOR AT LEAST 0 ROWS", " FOR AT LEAST ROWS"),
}  # fmt: skip


def list_wrong_questions(draw: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield ``count`` different questions with the name of their mutation; some may happen to be right."""
    seen: set[str] = set(RIGHT)
    names, tries = list(MUTATIONS), 0
    while len(seen) < count + len(RIGHT) and tries < 40 * count:
        name = names[tries % len(names)]
        tries += 1
        text = MUTATIONS[name](draw.choice(RIGHT), draw)
        if text is not None and draw.random() < 0.15:  # a second slip of another kind
            text = MUTATIONS[draw.choice(names)](text, draw) or text
        if text is not None and text not in seen:
            seen.add(text)
            yield name, text
