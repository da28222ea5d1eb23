--: names group-by
--dialect bigquery
SELECT city, COUNT(*) AS trips FROM `project.city.trips` GROUP BY city

--: names
--dialect bigquery
SELECT COUNT(*) FROM `trips` AS t WHERE t.`city` = "Oslo"

--: count-column
SELECT COUNT(tip) AS tipped FROM trips

--: case
SELECT COUNTIF(cancelled) AS cancelled FROM trips

--: group-by order-by
SELECT payment, COUNT(*) AS n FROM trips GROUP BY 1 ORDER BY 2 DESC

--: group-by order-by
SELECT city, payment, SUM(fare) AS fares FROM trips GROUP BY 1, 2 ORDER BY 1, 3 DESC

--: group-by
SELECT city, AVG(distance) AS mean, SUM(riders) AS riders FROM trips WHERE NOT cancelled GROUP BY ALL

--: distinct-unit
SELECT COUNT(DISTINCT driver) AS drivers FROM trips

--: distinct-unit group-by
SELECT city, COUNT(DISTINCT driver) AS drivers FROM trips GROUP BY city

--: distinct-unit where
SELECT COUNT(DISTINCT driver) AS drivers FROM trips WHERE fare > 100 AND payment = 'app'

--: distinct-unit function
SELECT APPROX_COUNT_DISTINCT(driver) AS drivers FROM trips

--: distinct-value
SELECT COUNT(DISTINCT zone) AS zones FROM trips WHERE riders = 6

--: date-function group-by
SELECT EXTRACT(MONTH FROM started) AS month, COUNT(*) AS n FROM trips GROUP BY month ORDER BY month

--: date-function group-by
SELECT EXTRACT(HOUR FROM started) AS hour, SUM(fare) AS fares FROM trips GROUP BY 1 ORDER BY 1

--: date-function group-by
SELECT DATE_TRUNC('month', started) AS month, COUNT(*) AS n FROM trips GROUP BY 1 ORDER BY 1

--: date-function group-by
SELECT month(started) AS m, COUNT(*) AS n FROM trips GROUP BY month(started)

--: date-function group-by
SELECT dayofweek(started) AS d, COUNT(*) AS n, AVG(tip) AS tip FROM trips GROUP BY 1

--: date-function group-by
SELECT EXTRACT(QUARTER FROM started) AS q, COUNT(*) AS n FROM trips GROUP BY q

--: date-function where
SELECT COUNT(*) FROM trips WHERE started >= '2024-03-01' AND started < '2024-04-01'

--: date-function where literals
SELECT COUNT(*) FROM trips WHERE started BETWEEN TIMESTAMP '2024-03-01 00:00:00' AND TIMESTAMP '2024-03-31 23:59:00'

--: date-function where
SELECT COUNT(*) FROM trips WHERE DATE_TRUNC('day', started) = DATE '2024-05-01'

--: date-function where
SELECT COUNT(*) FROM trips WHERE CAST(started AS DATE) < DATE '2024-02-01'

--: date-function expression
SELECT AVG(DATE_DIFF('minute', started, ended)) AS minutes FROM trips

--: date-function expression where
SELECT COUNT(*) FROM trips WHERE ended - started > INTERVAL 60 MINUTE

--: date-function where
SELECT COUNT(*) FROM trips WHERE started >= DATE '2024-12-01' - INTERVAL 30 DAY

--: where
SELECT COUNT(*) FROM trips WHERE city != 'Oslo' AND city <> 'Rome'

--: where
SELECT COUNT(*) FROM trips WHERE city LIKE 'R%' OR city LIKE '_ima'

--: where function
SELECT COUNT(*) FROM trips WHERE LOWER(city) = 'rome' OR UPPER(city) = 'OSLO'

--: where function
SELECT COUNT(*) FROM trips WHERE STARTS_WITH(city, 'P')

--: where function
SELECT COUNT(*) FROM trips WHERE SUBSTRING(city, 1, 2) IN ('Li', 'Os')

--: where function
SELECT COUNT(*) FROM trips WHERE LENGTH(payment) = 4

--: where function
SELECT COUNT(*) FROM trips WHERE city || '/' || payment = 'Rome/card'

--: where null
SELECT COUNT(*) FROM trips WHERE COALESCE(tip, 0) < 1

--: null expression
SELECT SUM(COALESCE(tip, 0)) AS tips, SUM(IFNULL(tip, 1)) AS more FROM trips

--: where null
SELECT COUNT(*) FROM trips WHERE tip IS DISTINCT FROM 0

--: where null
SELECT COUNT(*) FROM trips WHERE payment IS NOT DISTINCT FROM 'cash'

--: expression
SELECT SUM(fare + COALESCE(tip, 0)) AS paid FROM trips

--: expression
SELECT AVG(fare / distance) AS per_km FROM trips WHERE distance > 1

--: expression arithmetic
SELECT SUM(fare) / SUM(distance) AS per_km FROM trips

--: expression
SELECT city, SUM(fare * riders) AS person_fares FROM trips GROUP BY city

--: expression where
SELECT COUNT(*) FROM trips WHERE tip > 0.2 * fare

--: expression function
SELECT SUM(LEAST(fare, 50)) AS capped, SUM(GREATEST(distance, 1)) AS floored FROM trips

--: expression function
SELECT SUM(ROUND(fare)) AS rounded, SUM(CEIL(distance)) AS km FROM trips

--: expression function
SELECT SUM(SIGN(distance - 10)) AS far FROM trips

--: case
SELECT SUM(IF(payment = 'cash', fare, 0)) AS cash, SUM(IF(payment <> 'cash', fare, 0)) AS other FROM trips

--: case
SELECT CASE payment WHEN 'cash' THEN 'cash' ELSE 'paperless' END AS how, COUNT(*) AS n FROM trips GROUP BY how

--: case group-by
SELECT CASE WHEN distance < 5 THEN 'short' WHEN distance < 20 THEN 'middle' ELSE 'long' END AS leg, AVG(fare) AS fare FROM trips GROUP BY leg ORDER BY leg

--: case
SELECT city, SUM(CASE WHEN cancelled THEN 0 ELSE fare END) AS earned FROM trips GROUP BY city

--: filter
SELECT city, COUNT(*) FILTER (WHERE cancelled) AS lost, COUNT(*) AS n FROM trips GROUP BY city

--: filter
SELECT SUM(fare) FILTER (WHERE payment = 'app' AND riders >= 2) AS shared FROM trips

--: arithmetic
--dialect bigquery
SELECT city, SAFE_DIVIDE(SUM(tip), SUM(fare)) AS rate FROM trips GROUP BY city

--: arithmetic
SELECT city, ROUND(100.0 * SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) / COUNT(*), 1) AS pct FROM trips GROUP BY city ORDER BY pct DESC

--: arithmetic function
SELECT CAST(AVG(fare) AS INTEGER) AS fare FROM trips

--: having
SELECT zone, COUNT(*) AS n FROM trips GROUP BY zone HAVING n >= 170 ORDER BY n DESC

--: having
SELECT city FROM trips GROUP BY city HAVING COUNT(*) > 1250

--: having distinct-unit
SELECT zone, SUM(fare) AS fares FROM trips GROUP BY zone HAVING COUNT(DISTINCT driver) > 105

--: cte
WITH paid AS (SELECT city, fare, tip FROM trips WHERE NOT cancelled) SELECT city, SUM(fare) AS fares FROM paid GROUP BY city

--: cte arithmetic
WITH t AS (SELECT city, COUNT(*) AS n, SUM(fare) AS f FROM trips GROUP BY city) SELECT city, f / n AS mean FROM t ORDER BY mean DESC

--: cte per-unit
WITH per_driver AS (SELECT driver, COUNT(*) AS n FROM trips GROUP BY driver) SELECT AVG(n) AS mean FROM per_driver

--: per-unit derived-table
SELECT AVG(earned) AS mean FROM (SELECT driver, SUM(fare) AS earned FROM trips GROUP BY driver) AS t

--: per-unit derived-table
SELECT COUNT(*) FROM (SELECT driver FROM trips GROUP BY driver HAVING COUNT(*) > 30) AS busy

--: per-unit derived-table group-by
SELECT n, COUNT(*) AS drivers FROM (SELECT driver, COUNT(*) AS n FROM trips GROUP BY driver) AS t GROUP BY n ORDER BY n

--: per-unit derived-table
SELECT AVG(longest) AS mean FROM (SELECT driver, MAX(distance) AS longest FROM trips GROUP BY driver) AS t

--: in-subquery join-unit
SELECT COUNT(*) FROM trips WHERE driver IN (SELECT driver FROM trips WHERE riders = 6)

--: join-public
SELECT z.borough, COUNT(*) AS n FROM trips AS t JOIN zones AS z ON t.zone = z.zone GROUP BY z.borough

--: join-public
SELECT borough, AVG(fare) AS fare FROM trips JOIN zones USING (zone) WHERE NOT airport GROUP BY borough ORDER BY borough

--: join-public
SELECT COUNT(*) FROM trips t, zones z WHERE t.zone = z.zone AND z.airport

--: join-public
SELECT airport, COUNT(DISTINCT driver) AS drivers FROM trips INNER JOIN zones ON trips.zone = zones.zone GROUP BY airport

--: join-public
SELECT COALESCE(z.borough, 'elsewhere') AS borough, COUNT(*) AS n FROM trips t LEFT JOIN zones z USING (zone) GROUP BY 1

--: union
SELECT city, COUNT(*) AS n FROM trips WHERE cancelled GROUP BY city UNION ALL SELECT payment, COUNT(*) AS n FROM trips GROUP BY payment

--: rollup
SELECT city, payment, COUNT(*) AS n FROM trips GROUP BY ROLLUP (city, payment)

--: rollup
SELECT city, payment, SUM(fare) AS fares FROM trips GROUP BY GROUPING SETS ((city), (payment), ())

--: quantile
SELECT APPROX_QUANTILE(fare, 0.5) AS middle FROM trips

--: quantile group-by
SELECT city, QUANTILE(fare, 0.9) AS p90 FROM trips GROUP BY city

--: quantile
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY tip) AS tip FROM trips

--: spread
SELECT city, VAR_POP(distance) AS v FROM trips GROUP BY city

--: spread
SELECT STDDEV_SAMP(fare) AS s, VAR_SAMP(distance) AS v FROM trips

--: rows ! rows of people
SELECT driver, MIN(started) FROM trips GROUP BY driver

--: rows ! rows of people
SELECT ARRAY_AGG(fare) FROM trips

--: rows ! rows of people
SELECT ANY_VALUE(city) FROM trips

--: min-max ! one person's value
SELECT city, MAX(fare) AS dearest FROM trips GROUP BY city

--: rows limit ! rows of people
SELECT * FROM trips WHERE cancelled LIMIT 5

--: rows per-unit ! groups of people
SELECT driver, COUNT(*) AS n FROM trips GROUP BY driver ORDER BY n DESC LIMIT 10

--: min-max date-function ! one person's value
SELECT MIN(started) AS first, MAX(ended) AS last FROM trips

--: random ! chance on rows
SELECT COUNT(*) FROM trips TABLESAMPLE 10 PERCENT
