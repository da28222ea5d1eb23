"""Questions that can be read and have no answer here: the reason, and what to ask instead."""

from __future__ import annotations

import pytest

from siloquent.errors import RequestError
from siloquent.explore.spec import parse

REFUSED = {
    "SELECT MIN(age) FROM t ERROR 5": ("values of single people", "QUANTILE(age, 0.01)"),
    "SELECT ward, MAX(age) FROM t GROUP BY ward ERROR 5": ("values of single people", "QUANTILE(age, 0.99)"),
    'SELECT MAX("my age") FROM t ERROR 5': ("values of single people", 'QUANTILE("my age", 0.99)'),
    "SELECT COUNT(DISTINCT ward, sex) FROM t ERROR 5": ("of one attribute", "COUNT(DISTINCT ward)"),
    "SELECT SUM(DISTINCT ward) FROM t ERROR 5": ("DISTINCT is supported only", "COUNT(DISTINCT ward)"),
    "SELECT COUNT(DISTINCT ward) FROM t ERROR 5 ROWS": ("of values, not of rows", "ERROR 20"),
    "SELECT COUNT(*) FROM t ERROR 5 AT MOST 3 GROUPS EACH": ("applies only to COUNT(DISTINCT", "remove"),
    "SELECT COUNT(DISTINCT a) FROM t ERROR 5 AT MOST 0 GROUPS EACH": ("between 1 and", "AT MOST 3"),
    "SELECT COUNT(DISTINCT a) FROM t ERROR 5 PERCENT": ("share of the declared", "in values: ERROR 20"),
    "SELECT DISTINCT ward FROM t ERROR 5": ("DISTINCT", "GROUP BY ward"),
    "SELECT AVG(2) FROM t ERROR 5": ("an expression of attributes, not a constant", ""),
    "SELECT VAR(cost) FROM t ERROR 5": ("groups of a minimum size", "FOR AT LEAST"),
    "SELECT STDDEV(cost) FROM t ERROR 5": ("groups of a minimum size", "BUDGET"),
    "SELECT VAR_SAMP(cost) FROM t ERROR 5 FOR AT LEAST 1 ROWS": ("rows less 1", "VAR_POP"),
    "SELECT QUANTILE(cost, 1) FROM t ERROR 5": ("between 0 and 1", "QUANTILE(cost, 0.99)"),
    "SELECT QUANTILE(cost, 0.123456) FROM t ERROR 5": ("at most 4 decimal places", "0.9995"),
    "SELECT MODE(ward) FROM t ERROR 5": ("rank the groups", "LIMIT 1"),
    "SELECT CORR(a, b) FROM t ERROR 5": ("one attribute", "CUBE"),
    "SELECT MEDIAN(cost) FROM t ERROR 5 FOR AT LEAST 100 ROWS": ("AVG, VAR and STDDEV", "remove it"),
    "SELECT AVG(cost) FROM t ERROR 5 PERCENT": ("bounds counts only", "own unit"),
    "SELECT AVG(cost) FROM t ERROR 5 ROWS": ("attribute's unit", "without ROWS"),
    "SELECT AVG(cost) FROM t ERROR 5 FOR AT LEAST 0 ROWS": ("between 1 and", "5000 ROWS"),
    "SELECT AVG(cost) FROM t BUDGET 1 EPSILON FOR AT LEAST 10 ROWS": ("used with ERROR", "instead of BUDGET"),
    "SELECT SUM(cost) FROM t ERROR 5 FOR AT LEAST 100 ROWS": ("AVG, VAR and STDDEV", "remove it"),
    "SELECT SUM(DISTINCT cost) FROM t ERROR 5": ("DISTINCT", ""),
    "SELECT SUM(SUM(cost)) FROM t ERROR 5": ("cannot be nested", "each group"),
    "SELECT SUM(cost) FROM t ERROR 5 ROWS": ("attribute's unit", "without ROWS"),
    "SELECT SUM(cost) FROM t ERROR 5 PERCENT": ("bounds counts only", "own unit"),
    "SELECT ward, COUNT(*), SUM(cost) FROM t GROUP BY ward ERROR 5": ("1 error bounds for 2", "ERROR 200, 200"),
    "SELECT COUNT(*) FROM t ERROR 5, 50": ("2 error bounds for 1", "ERROR 200"),
    "SELECT COUNT(*), COUNT(*) FROM t ERROR 5, 50": ("2 error bounds for 1", "ERROR 200"),
    "SELECT a, 2 * COUNT(*) + a FROM t GROUP BY a ERROR 5": ("attribute outside", "SELECT a"),
    "SELECT COUNT(*) // 2 FROM t ERROR 5": ("// and %", "FLOOR"),
    "SELECT ROUND(COUNT(*), 99) FROM t ERROR 5": ("decimal places", "ROUND(AVG"),
    "SELECT a, 2 * COUNT(*) AS a FROM t GROUP BY a ERROR 5": ("same name", "AS"),
    "SELECT CAST(COUNT(*) AS TEXT) FROM t ERROR 5": ("not valid here", ""),
    "SELECT COUNT(*), SUM(cost) AS count FROM t ERROR 5, 50": ("same name", "AS"),
    "SELECT COUNT(*) FROM t ERROR 5 RELATIVE": ("relative to the true count", "PERCENT"),
    "SELECT COUNT(*) FROM t ERROR 5%": ("with PERCENT", "PERCENT"),
    "SELECT COUNT(*) OVER () FROM t ERROR 5": ("Window functions", "GROUP BY"),
    "SELECT ROW_NUMBER() OVER () FROM t ERROR 5": ("Window functions", "GROUP BY"),
    "SELECT COUNT(*) FROM (SELECT COUNT(*) FROM t) ERROR 5": ("over a subquery's groups", "inner query by itself"),
    "WITH u AS (SELECT 1 FROM t) SELECT COUNT(*) FROM u ERROR 5": ("with a name", "AS decade"),
    "SELECT COUNT(*) FROM t JOIN u USING (id) CROSS JOIN v ERROR 5": ("joined on one key", "USING (ward)"),
    "SELECT COUNT(*) FROM t LEFT JOIN u ON a = b ERROR 5": ("joined on one key", "USING (ward)"),
    "SELECT COUNT(*) FROM t JOIN u ON a = b ERROR 5": ("joined on one key", "FROM t JOIN u USING (a)"),
    'SELECT a, COUNT(*) FROM t JOIN u ON t.k = "u".k AND t.l = u.l GROUP BY a ERROR 5': (
        "joined on one key",
        "FROM t JOIN u USING (k)",
    ),
    "SELECT COUNT(*) FROM t, u ERROR 5": ("joined on one key", "USING (ward)"),
    "SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM u ERROR 5": ("UNION", "two queries"),
    "SELECT ward FROM t GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 5 OFFSET 5 ERROR 5": (
        "not selected",
        "add COUNT(*) to the SELECT list",
    ),
    "SELECT ward FROM t GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 5% ERROR 5": ("not a share", "LIMIT 3"),
    "SELECT ward FROM t GROUP BY ward ORDER BY COUNT(*), ward LIMIT 3 ERROR 5": (
        "keep declared order",
        "add COUNT(*) to the SELECT list",
    ),
    "SELECT ward FROM t GROUP BY ward HAVING ward = 'A' ERROR 5": ("only an aggregate", "WHERE"),
    "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) > 5 AND COUNT(*) < 9 ERROR 5": ("single threshold", "at no cost"),
    "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) < 9 ERROR 5": ("above a threshold", "COUNT(*) >"),
    "SELECT ward, SUM(cost) FROM t GROUP BY ward HAVING COUNT(*) > 5 ERROR 5": (
        "1 error bounds for 2",
        "ERROR 200, 200",
    ),
    "SELECT ward, SUM(cost) FROM t GROUP BY ward HAVING AVG(cost) > 5 ERROR 5, 5": ("COUNT, SUM, or", ""),
    "SELECT ward FROM t GROUP BY ward HAVING AVG(cost) > 5 ERROR 5": ("Without being selected", "SELECT list"),
    "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) > 5 ORDER BY COUNT(*) LIMIT 3 ERROR 5": ("not both", "counts"),
    "SELECT COUNT(*) FROM t HAVING COUNT(*) > 5 ERROR 5": ("require GROUP BY", "GROUP BY"),
    "SELECT 1, COUNT(*) FROM t GROUP BY 1 ERROR 5": ("not constants", "GROUP BY ward"),
    "SELECT a, COUNT(*) FROM t GROUP BY 2 ERROR 5": ("is an aggregate", "GROUP BY a"),
    "SELECT a, COUNT(*) FROM t GROUP BY 3 ERROR 5": ("not a position", "GROUP BY 1"),
    "SELECT age // 10 AS age, COUNT(*) FROM t GROUP BY age ERROR 5": ("both an attribute and", "GROUP BY 1"),
    "SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY 3 ERROR 5": ("not a position", "ORDER BY 1"),
    "SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY b ERROR 5": ("keep declared order", "ORDER BY a"),
    "SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY SUM(b) ERROR 5": ("for 2 aggregates", "ERROR 200, 200"),
    "SELECT a, COUNT(*) FROM t GROUP BY a LIMIT 0 ERROR 5": ("between 1 and", "LIMIT 3"),
    "SELECT a AS n, COUNT(*) AS n FROM t GROUP BY a ERROR 5": ("same name", "AS"),
    "SELECT u.a, COUNT(*) FROM t v GROUP BY 1 ERROR 5": ("not a table of this query", "remove the prefix"),
    "SELECT a, COUNT(*) FROM t GROUP BY a ERROR 5 LIMIT 3": ("before ERROR", "LIMIT 3 ERROR 200"),
    "SELECT DISTINCT COUNT(*) FROM t GROUP BY a ERROR 5": ("DISTINCT", "GROUP BY a"),
    "SELECT COUNT(*) FROM t GROUP BY COUNT(*) ERROR 5": ("not aggregates", "GROUP BY ward"),
    "SELECT * FROM t ERROR 5": ("Queries cannot return rows", "COUNT(*)"),
    "SELECT ward, COUNT(*) FROM t GROUP BY ward KEYS UNKNOWN ERROR 5": ("undeclared values", "declare"),
    "SELECT COUNT(*) FROM t ERROR 5; SELECT COUNT(*) FROM t ERROR 5": ("one query at a time", "one after another"),
    "SELECT MEDIAN(DISTINCT a) FROM t ERROR 5": ("DISTINCT is supported only", "COUNT(DISTINCT ward)"),
    "SELECT DISTINCT station FROM stays ERROR 5": ("DISTINCT", "SELECT station FROM stays GROUP BY station"),
    "SELECT MODE(a) FROM stays ERROR 5": ("rank the groups", "GROUP BY a ORDER BY COUNT(*) DESC"),
    "SELECT * FROM stays ERROR 5": ("Queries cannot return rows", "SELECT COUNT(*) FROM stays ERROR 200"),
    'SELECT "my key" FROM stays ERROR 5': ("only for groups", 'FROM stays GROUP BY "my key"'),
    "SELECT COUNT(*) FROM t ERROR 1,000": ("no thousands separators", "ERROR 1000"),
    "SELECT COUNT(*) FROM t ERROR 5 CONFIDENCE 0,95": ("no thousands separators", "0.95"),
    "DELETE FROM t": ("only read", "SELECT"),
    "SELECT COUNT(*) FROM t ERROR inf": ("finite number", "digits"),
    "SELECT COUNT(*) FROM t ERROR 0": ("above 0", "ERROR 200"),
    "SELECT COUNT(*) FROM t ERROR -1": ("above 0", "ERROR 200"),
    "SELECT COUNT(*) FROM t ERROR 5 CONFIDENCE 1": ("between 0 and 1", "0.9995"),
    "SELECT COUNT(*) FROM t ERROR 5 CONFIDENCE 95 PERCENT": ("between 0 and 1", "0.9995"),
    "SELECT COUNT(*) FROM t BUDGET 0 EPSILON": ("above 0", "BUDGET 0.01 EPSILON"),
    "SELECT COUNT(*) FROM t BUDGET 1 RHO DELTA 1e-6": ("RHO does not take DELTA", "RHO"),
    "BIN t ON AVG(cost) WHERE W = CUBE(ward) HAVING AVG(cost) > 5 ERROR 5": ("Without being selected", "SELECT list"),
    "BIN t ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 100, 0) ERROR 5": ("width above 0", ""),
    "BIN t ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 1e6, 1) ERROR 5": ("more than 100,000 bins", ""),
    "BIN t ON COUNT(*) WHERE W = CUBE(ward, ward) ERROR 5": ("distinct attributes", "CUBE(ward, sex)"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_with_a_reason_and_a_better_question(text: str) -> None:
    reason, fix = REFUSED[text]
    with pytest.raises(RequestError) as refused:
        parse(text)
    assert reason in refused.value.detail
    assert fix in refused.value.fix
    assert refused.value.spent == "nothing"
