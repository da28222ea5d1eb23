--: plain
SELECT COUNT(*) FROM residents

--: plain names
SELECT COUNT(*) AS n FROM census.residents

--: plain
SELECT COUNT(*), AVG(age), SUM(income) FROM residents

--: plain names
SELECT AVG(r.income) AS mean_income FROM residents AS r

--: group-by
SELECT sex, COUNT(*) FROM residents GROUP BY sex

--: group-by
SELECT sex, married, COUNT(*) AS n, AVG(income) AS income FROM residents GROUP BY sex, married

--: group-by names
SELECT Sex, COUNT(*) AS N FROM Residents GROUP BY Sex

--: group-by names
select educ , count ( * ) as c from residents group by educ

--: group-by names
SELECT "Marital Status", COUNT(*) FROM residents GROUP BY "Marital Status"

--: group-by names
--dialect tsql
SELECT [Marital Status], COUNT(*) FROM [residents] GROUP BY [Marital Status]

--: order-by limit
--dialect tsql
SELECT TOP 2 race, COUNT(*) AS n FROM residents GROUP BY race ORDER BY n DESC

--: order-by
SELECT educ, COUNT(*) AS n FROM residents WHERE educ IS NOT NULL GROUP BY educ ORDER BY educ DESC

--: order-by limit
SELECT state, SUM(income) AS total FROM residents GROUP BY state ORDER BY total DESC LIMIT 3

--: order-by limit
SELECT state, AVG(income) FROM residents GROUP BY state ORDER BY AVG(income) ASC LIMIT 2

--: where
SELECT COUNT(*) FROM residents WHERE age > 30 AND age < 60

--: where
SELECT COUNT(*) FROM residents WHERE age BETWEEN 20 AND 29 OR age BETWEEN 40 AND 49

--: where
SELECT COUNT(*) FROM residents WHERE NOT (sex = 'F') AND race IN ('a', 'b')

--: where
SELECT COUNT(*) FROM residents WHERE race NOT IN ('a', 'b') AND age NOT BETWEEN 10 AND 20

--: where null
SELECT COUNT(*) FROM residents WHERE income IS NULL

--: where null
SELECT COUNT(*) FROM residents WHERE income IS NOT NULL AND educ IS NULL

--: where boolean
SELECT COUNT(*) FROM residents WHERE married IS TRUE

--: where boolean
SELECT COUNT(*) FROM residents WHERE married IS NOT TRUE AND age >= 18

--: where boolean
SELECT COUNT(*) FROM residents WHERE married = TRUE AND NOT married = FALSE

--: where literals
SELECT COUNT(*) FROM residents WHERE income >= 5e4 AND income <> 100000

--: where literals
SELECT COUNT(*) FROM residents WHERE income >= CAST(50000 AS INTEGER)

--: where literals
SELECT COUNT(*) FROM residents WHERE height > '1.5'::DOUBLE

--: count-column
SELECT COUNT(income) FROM residents

--: count-column group-by
SELECT sex, COUNT(income) AS known, COUNT(*) AS n FROM residents GROUP BY sex

--: count-column plain
SELECT COUNT(1) FROM residents

--: distinct-unit
SELECT COUNT(DISTINCT pid) FROM residents

--: distinct-unit group-by
SELECT married, COUNT(DISTINCT pid) AS n FROM residents GROUP BY married

--: distinct-unit group-by
SELECT married, AVG(income) AS income, COUNT(DISTINCT pid) AS n FROM residents WHERE age >= 18 GROUP BY married

--: distinct-value
SELECT COUNT(DISTINCT educ) FROM residents

--: distinct-value group-by
SELECT sex, COUNT(DISTINCT race) AS races FROM residents GROUP BY sex

--: arithmetic
SELECT SUM(income) / COUNT(*) AS per_head FROM residents

--: arithmetic
SELECT sex, 100.0 * COUNT(*) / 5000 AS pct FROM residents GROUP BY sex

--: arithmetic
SELECT COUNT(*) * 2 + 1 AS twice, SUM(age) - COUNT(*) AS rest FROM residents

--: arithmetic function
SELECT race, ROUND(AVG(income), 0) AS income FROM residents GROUP BY race

--: arithmetic function
SELECT SQRT(SUM(age)) AS root, LN(COUNT(*)) AS logged FROM residents

--: arithmetic function
SELECT POWER(COUNT(*), 2) AS squared FROM residents

--: arithmetic
SELECT VAR_POP(age), STDDEV_POP(income) FROM residents

--: spread
SELECT STDDEV(age) AS spread FROM residents

--: spread
SELECT VARIANCE(age) AS v FROM residents

--: spread group-by
SELECT sex, STDDEV(income) AS spread, COUNT(*) AS n FROM residents GROUP BY sex

--: having
SELECT race, COUNT(*) AS n FROM residents GROUP BY race HAVING COUNT(*) > 1200

--: having
SELECT state, SUM(income) AS total FROM residents GROUP BY state HAVING total > 40000000 AND total < 45000000

--: having
SELECT state, COUNT(*) AS n FROM residents GROUP BY state HAVING COUNT(*) > 640 OR COUNT(*) < 600

--: having
SELECT state, COUNT(*) AS n, AVG(age) AS a FROM residents GROUP BY state HAVING a BETWEEN 40 AND 50 AND n >= 600

--: derived-table
SELECT COUNT(*) FROM (SELECT age, income FROM residents) AS r

--: derived-table
SELECT SUM(age) FROM (SELECT age FROM residents WHERE age > 40)

--: derived-table expression
SELECT AVG(double_age) FROM (SELECT 2 * age AS double_age, sex FROM residents) x

--: derived-table group-by
SELECT s, COUNT(*) FROM (SELECT sex AS s, age AS a FROM residents) AS t WHERE a > 20 GROUP BY s

--: derived-table arithmetic
SELECT n * 2 AS twice FROM (SELECT COUNT(*) AS n FROM residents) AS t

--: derived-table order-by
SELECT race, n FROM (SELECT race, COUNT(*) AS n FROM residents GROUP BY race) AS t ORDER BY n DESC

--: derived-table arithmetic
SELECT educ, total / n AS mean FROM (SELECT educ, SUM(income) AS total, COUNT(*) AS n FROM residents GROUP BY educ) AS t

--: cte
WITH adults AS (SELECT * FROM residents WHERE age >= 18) SELECT sex, COUNT(*) FROM adults GROUP BY sex

--: cte
WITH t AS (SELECT race, income FROM residents WHERE married) SELECT race, AVG(income) AS income FROM t GROUP BY race

--: expression
SELECT SUM(income * 0.1) AS tax FROM residents

--: expression
SELECT SUM(age + hours) AS total FROM residents

--: expression
SELECT AVG(income / 1000) AS thousands FROM residents

--: expression where
SELECT COUNT(*) FROM residents WHERE hours * 50 > 2000

--: expression where
SELECT COUNT(*) FROM residents WHERE hours + age > 100

--: expression
SELECT sex, AVG(ABS(age - 50)) AS off FROM residents GROUP BY sex

--: case
SELECT SUM(CASE WHEN age >= 65 THEN 1 ELSE 0 END) AS old FROM residents

--: case group-by
SELECT CASE WHEN age < 18 THEN 'young' WHEN age < 65 THEN 'adult' ELSE 'old' END AS band, COUNT(*) AS n FROM residents GROUP BY 1

--: case
SELECT SUM(CASE WHEN sex = 'F' THEN income WHEN sex = 'M' THEN hours ELSE 0 END) AS mixed FROM residents

--: case
SELECT sex, AVG(CASE WHEN married THEN 1.0 ELSE 0.0 END) AS share FROM residents GROUP BY sex

--: case
SELECT COUNT(CASE WHEN income > 50000 AND sex = 'M' THEN 1 END) AS rich FROM residents

--: case
SELECT SUM(IF(married, income, 0)) AS of_married FROM residents

--: key-expression
SELECT age // 10 AS decade, COUNT(*) FROM residents GROUP BY age // 10 ORDER BY decade

--: key-expression function
SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM residents GROUP BY FLOOR(age / 10)

--: key-expression
SELECT age >= 65 AS old, COUNT(*) AS n FROM residents GROUP BY age >= 65

--: key-expression function
SELECT ROUND(age / 10, 0) AS band, AVG(income) AS income FROM residents GROUP BY band ORDER BY band

--: quantile
SELECT MEDIAN(age) FROM residents

--: quantile group-by
SELECT sex, MEDIAN(income) AS middle FROM residents GROUP BY sex

--: quantile
SELECT QUANTILE(age, 0.25) AS q1, QUANTILE(age, 0.75) AS q3 FROM residents

--: quantile
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY income) AS p90 FROM residents

--: min-max ! one person's value
SELECT MIN(age), MAX(age) FROM residents

--: min-max group-by ! one person's value
SELECT sex, MAX(income) AS richest FROM residents GROUP BY sex

--: rows ! rows of people
SELECT * FROM residents

--: rows ! rows of people
SELECT pid, income FROM residents WHERE age > 90

--: rows order-by limit ! rows of people
SELECT age, income FROM residents ORDER BY income DESC LIMIT 10

--: random ! chance on rows
SELECT COUNT(*) FROM residents WHERE random() < 0.1

--: distinct-value ! which values occur
SELECT DISTINCT income FROM residents

--: window ! rows of people
SELECT pid, RANK() OVER (ORDER BY income DESC) FROM residents

--: window arithmetic
SELECT race, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM residents GROUP BY race
