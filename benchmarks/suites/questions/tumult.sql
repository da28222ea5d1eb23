--: plain
SELECT COUNT(*) AS count FROM patients

--: group-by
SELECT town, COUNT(*) AS count FROM patients GROUP BY town

--: group-by
SELECT town, insurer, COUNT(*) AS count FROM patients GROUP BY town, insurer

--: group-by boolean
SELECT smoker, AVG(weight) AS weight FROM patients GROUP BY smoker

--: group-by
SELECT age, COUNT(*) FROM patients GROUP BY age ORDER BY age

--: key-expression
SELECT age // 20 * 20 AS band, COUNT(*) AS n FROM patients GROUP BY band

--: key-expression
SELECT FLOOR(age / 5) * 5 AS band, COUNT(*) AS n FROM patients GROUP BY FLOOR(age / 5) * 5

--: key-expression
SELECT (age - age % 10) AS band, AVG(weight) AS w FROM patients GROUP BY 1 ORDER BY 1

--: key-expression function
SELECT ROUND(weight) AS w, COUNT(*) AS n FROM patients GROUP BY ROUND(weight)

--: key-expression
SELECT weight > 80 AS heavy, COUNT(*) AS n FROM patients GROUP BY heavy

--: key-expression case
SELECT CASE WHEN age < 18 THEN 0 ELSE 1 END AS adult, COUNT(*) AS n FROM patients GROUP BY adult

--: key-expression null
SELECT COALESCE(insurer, 'none') AS insurer, COUNT(*) AS n FROM patients GROUP BY 1

--: key-expression function
SELECT SUBSTR(town, 1, 1) AS initial, COUNT(*) AS n FROM patients GROUP BY initial

--: key-expression function
SELECT UPPER(town) AS t, COUNT(*) AS n FROM patients GROUP BY UPPER(town) ORDER BY t

--: key-expression function
SELECT CONCAT(sex, '-', town) AS who, COUNT(*) AS n FROM patients GROUP BY who

--: quantile
SELECT MEDIAN(age) AS age FROM patients

--: quantile group-by
SELECT town, MEDIAN(age) AS age, COUNT(*) AS n FROM patients GROUP BY town

--: quantile
SELECT QUANTILE(weight, 0.1) AS low, MEDIAN(weight) AS middle, QUANTILE(weight, 0.9) AS high FROM patients

--: quantile
SELECT QUANTILE_CONT(age, 0.25) AS q FROM patients

--: quantile
SELECT town, QUANTILE_DISC(weight, 0.75) AS q FROM patients GROUP BY town

--: quantile expression
SELECT MEDIAN(2 * age) AS double FROM patients

--: spread
SELECT STDDEV_POP(age) AS s, VAR_POP(age) AS v FROM patients

--: spread group-by
SELECT town, STDDEV_SAMP(age) AS s FROM patients GROUP BY town

--: spread expression
SELECT STDDEV(age * 12) AS months FROM patients

--: plain expression
SELECT SUM(age * 12) AS months FROM patients

--: plain expression
SELECT AVG(weight * 2.2) AS pounds FROM patients

--: where
SELECT COUNT(*) FROM patients WHERE age >= 18 AND age <= 64 AND town <> 'Corvo'

--: where
SELECT COUNT(*) FROM patients WHERE town = 'Brunn' OR (sex = 'male' AND smoker)

--: where
SELECT COUNT(*) FROM patients WHERE age IN (30, 31, 32) OR NOT age > 5

--: where
SELECT COUNT(*) FROM patients WHERE TRUE

--: where
SELECT COUNT(*) FROM patients WHERE town BETWEEN 'B' AND 'D'

--: where
SELECT COUNT(*) FROM patients WHERE town > 'Brunn'

--: where boolean
SELECT COUNT(*) FROM patients WHERE (age > 50) = smoker

--: where boolean
SELECT COUNT(*) FROM patients WHERE (age > 50) IS TRUE AND (weight > 90) IS NOT FALSE

--: where boolean
SELECT COUNT(*) FROM patients WHERE NOT smoker = TRUE

--: where null
SELECT COUNT(*) FROM patients WHERE weight IS NULL AND smoker IS NOT NULL

--: where literals
SELECT COUNT(*) FROM patients WHERE weight >= 62.50 AND weight < 1.0e2

--: where literals
SELECT COUNT(*) FROM patients WHERE age > '40'

--: where names
SELECT COUNT(*) FROM "patients" WHERE "age" > 40 AND "patients"."town" = 'Dinas';

--: where names
--dialect mysql
SELECT COUNT(*) FROM `patients` WHERE `age` > 40 AND `town` = "Dinas"

--: distinct-unit
SELECT COUNT(DISTINCT patient) FROM patients

--: distinct-unit
SELECT town, COUNT(DISTINCT patient) AS n FROM patients WHERE smoker GROUP BY town

--: distinct-value
SELECT COUNT(DISTINCT town) AS towns, COUNT(DISTINCT insurer) AS insurers FROM patients

--: distinct-value
SELECT COUNT(DISTINCT age) AS ages FROM patients WHERE town = 'Adelby'

--: distinct-value
SELECT town, COUNT(DISTINCT age // 10) AS decades FROM patients GROUP BY town

--: distinct-value ! several columns of one row
SELECT COUNT(DISTINCT (town, insurer)) AS pairs FROM patients

--: count-column
SELECT town, COUNT(weight) AS weighed FROM patients GROUP BY town

--: count-column expression
SELECT COUNT(weight + age) AS both FROM patients

--: arithmetic
SELECT town, COUNT(weight) / COUNT(*) AS share FROM patients GROUP BY town ORDER BY share DESC

--: arithmetic
SELECT AVG(weight) - AVG(age) AS gap FROM patients

--: arithmetic case
SELECT SUM(CASE WHEN smoker THEN 1 ELSE 0 END) * 1.0 / SUM(CASE WHEN NOT smoker THEN 1 ELSE 0 END) AS odds FROM patients

--: arithmetic function
SELECT town, ROUND(SUM(weight), -2) AS w FROM patients GROUP BY town

--: arithmetic case
SELECT town, CASE WHEN COUNT(*) > 200 THEN 'large' ELSE 'small' END AS size FROM patients GROUP BY town

--: arithmetic function
SELECT GREATEST(COUNT(*), 0) AS n, LEAST(AVG(age), 50) AS age FROM patients

--: filter
SELECT COUNT(*) FILTER (WHERE age < 18) AS young, COUNT(*) FILTER (WHERE age >= 18) AS grown FROM patients

--: filter
SELECT town, SUM(weight) FILTER (sex = 'male') AS w FROM patients GROUP BY town

--: rollup
SELECT town, COUNT(*) AS n FROM patients GROUP BY ROLLUP (town)

--: rollup
SELECT town, insurer, COUNT(*) AS n FROM patients GROUP BY CUBE (town, insurer)

--: having
SELECT town FROM patients GROUP BY town HAVING COUNT(*) >= 190

--: having
SELECT town, AVG(weight) AS w FROM patients GROUP BY town HAVING AVG(weight) < 85 ORDER BY w

--: having
SELECT town, COUNT(*) AS n FROM patients GROUP BY town HAVING town <> 'Corvo'

--: order-by
SELECT town, COUNT(*) AS n FROM patients GROUP BY town ORDER BY COUNT(*) DESC, town ASC

--: order-by
SELECT insurer, COUNT(*) AS n FROM patients GROUP BY insurer ORDER BY insurer NULLS FIRST

--: order-by
SELECT town, COUNT(*) AS n FROM patients GROUP BY town ORDER BY n / 2 DESC

--: order-by limit
SELECT town, COUNT(*) AS n FROM patients GROUP BY town ORDER BY n DESC FETCH FIRST 1 ROW ONLY

--: join-public
SELECT building, AVG(days) AS days FROM visits JOIN wards USING (ward) GROUP BY building

--: join-public
SELECT generic, COUNT(*) AS n FROM prescriptions p JOIN drugs d ON d.drug = p.drug WHERE d.class = 'statin' GROUP BY generic

--: join-public filter
SELECT class, COUNT(*) FILTER (WHERE reviewed) AS reviewed, COUNT(*) AS n FROM prescriptions JOIN drugs USING (drug) GROUP BY class

--: join-public expression
SELECT SUM(days / beds) AS load FROM visits JOIN wards USING (ward)

--: join-link
SELECT COUNT(*) FROM patients JOIN visits USING (patient)

--: join-link expression
SELECT d.class, SUM(r.doses * r.price) AS spent FROM prescriptions r JOIN drugs d USING (drug) JOIN visits v USING (visit) WHERE v.emergency GROUP BY d.class

--: join-link outer
SELECT p.town, COUNT(v.visit) AS n FROM patients p LEFT JOIN visits v USING (patient) GROUP BY p.town

--: per-unit
SELECT AVG(n) AS mean FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) AS t

--: per-unit
SELECT MEDIAN(spent) AS spent FROM (SELECT patient, SUM(cost) AS spent FROM visits GROUP BY patient) AS t

--: cte
WITH adults AS (SELECT *, age - 18 AS over FROM patients WHERE age >= 18) SELECT town, AVG(over) AS over FROM adults GROUP BY town

--: cte join-public
WITH t AS (SELECT * FROM visits JOIN wards USING (ward)) SELECT building, COUNT(*) AS n FROM t GROUP BY building

--: min-max ! one person's value
SELECT MIN(weight) AS low FROM patients

--: min-max group-by ! one person's value
SELECT town, MAX(age) AS oldest FROM patients GROUP BY town

--: rows ! rows of people
SELECT patient FROM patients LIMIT 3

--: rows ! rows of people
SELECT town, age FROM patients WHERE age > 90

--: rows ! groups of people
SELECT patient, SUM(cost) FROM visits GROUP BY patient

--: rows ! rows of people
SELECT FIRST(age) FROM patients
