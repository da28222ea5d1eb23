--: plain
SELECT SUM(cost) AS total FROM visits

--: plain
SELECT COUNT(*) AS n, SUM(cost) AS total, AVG(days) AS stay FROM visits

--: plain
SELECT 2 * SUM(days) AS twice, COUNT(cost) AS known FROM visits

--: arithmetic
SELECT SUM(cost) / SUM(days) AS per_day FROM visits

--: arithmetic
SELECT ward, (SUM(cost) - 1000 * COUNT(*)) / 1000 AS beyond FROM visits GROUP BY ward

--: arithmetic function
SELECT ward, ABS(AVG(cost) - 2500) AS off, CEIL(AVG(days)) AS stay, FLOOR(AVG(days)) AS low FROM visits GROUP BY ward

--: arithmetic function
SELECT EXP(AVG(days) / 10) AS e FROM visits

--: group-by
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward

--: group-by
SELECT ward, outcome, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY ward, outcome

--: group-by boolean
SELECT emergency, COUNT(*) AS n FROM visits GROUP BY emergency

--: group-by
SELECT days, COUNT(*) AS n FROM visits GROUP BY days ORDER BY days

--: group-by
SELECT COUNT(*) AS n, ward AS station FROM visits GROUP BY station

--: group-by
SELECT v.ward w, count(*) n FROM visits v GROUP BY w ORDER BY n

--: group-by date-function
SELECT EXTRACT(YEAR FROM arrived) AS year, COUNT(*) AS n FROM visits GROUP BY year

--: group-by date-function
SELECT EXTRACT(DOW FROM arrived) AS weekday, COUNT(*) AS n FROM visits GROUP BY weekday

--: group-by date-function
SELECT QUARTER(arrived) AS q, AVG(cost) AS cost FROM visits GROUP BY q ORDER BY q

--: group-by date-function
SELECT STRFTIME(arrived, '%Y-%m') AS month, COUNT(*) AS n FROM visits GROUP BY month

--: group-by date-function
SELECT WEEK(arrived) AS w, COUNT(*) AS n FROM visits GROUP BY w

--: date-function expression
SELECT AVG(discharged - arrived) AS stay FROM visits

--: date-function expression
SELECT ward, AVG(DATE_DIFF('day', arrived, discharged)) AS stay FROM visits GROUP BY ward

--: date-function where
SELECT COUNT(*) FROM visits WHERE discharged > arrived

--: date-function where
SELECT COUNT(*) FROM visits WHERE discharged - arrived > 7

--: date-function where
SELECT COUNT(*) FROM visits WHERE arrived >= '2024-01-01' AND arrived <= '2024-12-31'

--: date-function where
SELECT COUNT(*) FROM visits WHERE arrived + INTERVAL 3 DAY < discharged

--: date-function where ! today changes
SELECT COUNT(*) FROM visits WHERE arrived > now() - random() * INTERVAL 7 DAY

--: where
SELECT COUNT(*) FROM visits WHERE ward = 'icu' AND (days > 3 OR emergency)

--: where boolean
SELECT COUNT(*) FROM visits WHERE emergency IS FALSE

--: where boolean
SELECT COUNT(*) FROM visits WHERE emergency = 1 AND ward <> 'er'

--: where boolean null
SELECT COUNT(*) FROM patients WHERE smoker IS NOT TRUE

--: where boolean null
SELECT COUNT(*) FROM patients WHERE smoker IS UNKNOWN OR sex IS NULL

--: where null
SELECT COUNT(*) FROM visits WHERE outcome IS DISTINCT FROM 'home'

--: where null
SELECT COUNT(*) FROM visits WHERE COALESCE(outcome, 'unknown') = 'unknown'

--: where null
SELECT COUNT(*) FROM visits WHERE NULLIF(ward, 'er') IS NULL

--: where
SELECT COUNT(*) FROM visits WHERE days IN (1, 2, 3, 5, 8, 13) AND cost NOT BETWEEN 100 AND 200

--: where literals
SELECT COUNT(*) FROM visits WHERE cost > 1.5e3 AND days < +10 AND days > -1

--: where literals
SELECT COUNT(*) FROM visits WHERE arrived = date('2023-03-03')

--: where function
SELECT COUNT(*) FROM visits WHERE ward LIKE '%ology' OR ward LIKE 'i__'

--: where function
SELECT COUNT(*) FROM visits WHERE LENGTH(TRIM(ward)) > 3 AND CHAR_LENGTH(ward) < 9

--: where expression
SELECT COUNT(*) FROM visits WHERE cost / 2 > 1000

--: where expression
SELECT COUNT(*) FROM visits WHERE cost > 500 * days

--: where expression
SELECT COUNT(*) FROM visits WHERE cost - 100 * days > 50 AND SQRT(cost) > 10

--: expression
SELECT SUM(cost * days) AS weighted FROM visits

--: expression
SELECT ward, SUM(cost / (1 + days)) AS rate FROM visits GROUP BY ward

--: expression
SELECT AVG(POWER(days, 2)) AS m2 FROM visits

--: expression function
SELECT SUM(SQRT(cost)) AS roots, SUM(LN(1 + cost)) AS logs FROM visits

--: expression function
SELECT SUM(CAST(emergency AS INTEGER)) AS emergencies, AVG(emergency::INT) AS share FROM visits

--: case
SELECT CASE WHEN days = 0 THEN 'day' WHEN days <= 7 THEN 'short' ELSE 'long' END AS stay, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY stay

--: case
SELECT SUM(CASE WHEN ward IN ('icu', 'er') THEN cost ELSE 0 END) / SUM(cost) AS share FROM visits

--: case
SELECT ward, SUM(CASE outcome WHEN 'died' THEN 1 ELSE 0 END) AS deaths FROM visits GROUP BY ward

--: case
SELECT COUNT(CASE WHEN emergency THEN 1 ELSE NULL END) AS n FROM visits

--: case
SELECT AVG(CASE WHEN days > 10 THEN 10 ELSE days END) AS clipped FROM visits

--: filter
SELECT ward, AVG(cost) FILTER (WHERE emergency) AS urgent, AVG(cost) FILTER (WHERE NOT emergency) AS planned FROM visits GROUP BY ward

--: distinct-unit
SELECT COUNT(DISTINCT patient) AS patients FROM visits

--: distinct-unit group-by
SELECT ward, COUNT(DISTINCT patient) AS patients FROM visits GROUP BY ward

--: distinct-unit arithmetic
SELECT ward, COUNT(*) / COUNT(DISTINCT patient) AS visits_each FROM visits GROUP BY ward

--: distinct-unit derived-table
SELECT COUNT(*) FROM (SELECT DISTINCT patient FROM visits) AS t

--: distinct-unit derived-table
SELECT ward, COUNT(*) AS n FROM (SELECT DISTINCT patient, ward FROM visits) AS t GROUP BY ward

--: distinct-value
SELECT COUNT(DISTINCT ward) AS wards FROM visits WHERE outcome = 'died'

--: distinct-value expression
SELECT SUM(DISTINCT days) AS s FROM visits

--: group-by distinct-value
SELECT DISTINCT ward FROM visits

--: cte
WITH v AS (SELECT ward, cost FROM visits WHERE cost IS NOT NULL) SELECT ward, SUM(cost) AS total FROM v GROUP BY ward

--: cte
WITH a AS (SELECT * FROM visits WHERE days > 1), b AS (SELECT * FROM a WHERE emergency) SELECT COUNT(*) FROM b

--: cte case
WITH v AS (SELECT CASE WHEN days > 7 THEN 'long' ELSE 'short' END AS stay, cost FROM visits) SELECT stay, AVG(cost) AS cost FROM v GROUP BY stay

--: cte arithmetic
WITH t AS (SELECT SUM(cost) AS total FROM visits), c AS (SELECT COUNT(*) AS n FROM visits) SELECT total / n AS mean FROM t, c

--: cte having
WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, n FROM t WHERE n > 800

--: cte per-unit
WITH t AS (SELECT patient, SUM(cost) AS spent FROM visits GROUP BY patient) SELECT AVG(spent) AS mean, COUNT(*) AS n FROM t

--: cte per-unit
WITH t AS (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) SELECT n, COUNT(*) AS patients FROM t GROUP BY n

--: derived-table per-unit
SELECT SUM(worst) FROM (SELECT patient, MAX(days) AS worst FROM visits GROUP BY patient) t

--: derived-table
SELECT w, SUM(c) FROM (SELECT ward AS w, cost AS c FROM (SELECT * FROM visits WHERE days > 0) x) y GROUP BY w

--: derived-table min-max
SELECT MAX(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t

--: join-link
SELECT p.town, COUNT(*) AS n FROM visits v JOIN patients p ON v.patient = p.patient GROUP BY p.town

--: join-link
SELECT p.sex, AVG(v.cost) AS cost FROM patients p JOIN visits v USING (patient) WHERE p.age >= 65 GROUP BY p.sex

--: join-link
SELECT r.drug, SUM(r.doses) AS doses FROM prescriptions r JOIN visits v ON r.visit = v.visit WHERE v.ward = 'icu' GROUP BY r.drug

--: join-link
SELECT COUNT(*) FROM prescriptions r, visits v, patients p WHERE r.visit = v.visit AND v.patient = p.patient AND p.smoker

--: join-link cte
WITH old AS (SELECT patient FROM patients WHERE age > 80) SELECT COUNT(*) FROM visits v JOIN old USING (patient)

--: join-link case
SELECT SUM(CASE WHEN p.smoker THEN v.days ELSE 0 END) AS days FROM visits v JOIN patients p ON p.patient = v.patient

--: join-public
SELECT w.building, SUM(v.cost) AS cost FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.building

--: join-public ! its keys are not written
SELECT building, COUNT(*) AS n FROM visits NATURAL JOIN wards WHERE beds >= 30 GROUP BY building

--: join-public
SELECT class, generic, SUM(doses) AS doses FROM prescriptions JOIN drugs USING (drug) GROUP BY class, generic

--: exists
SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient = p.patient AND v.ward = 'icu')

--: in-subquery
SELECT AVG(age) AS age FROM patients WHERE patient IN (SELECT patient FROM visits WHERE outcome = 'died')

--: union
SELECT 'icu' AS w, COUNT(*) AS n FROM visits WHERE ward = 'icu' UNION ALL SELECT 'er', COUNT(*) FROM visits WHERE ward = 'er'

--: order-by limit
SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward ORDER BY total DESC LIMIT 2 OFFSET 1

--: having order-by
SELECT days, COUNT(*) AS n FROM visits GROUP BY days HAVING COUNT(*) > 150 ORDER BY n DESC

--: spread
SELECT VARIANCE(cost) AS v, STDDEV(cost) AS s FROM visits

--: quantile
SELECT MEDIAN(cost) AS middle FROM visits WHERE emergency

--: min-max ! one person's value
SELECT MIN(cost) AS low, MAX(cost) AS high FROM visits

--: rows ! rows of people
SELECT patient, ward FROM visits WHERE outcome = 'died'

--: rows window ! rows of people
SELECT ward, cost, AVG(cost) OVER (PARTITION BY ward) FROM visits

--: random ! chance on rows
SELECT AVG(cost) FROM visits ORDER BY random() LIMIT 100

--: join-other ! two people
SELECT COUNT(*) FROM patients a JOIN patients b ON a.town = b.town
