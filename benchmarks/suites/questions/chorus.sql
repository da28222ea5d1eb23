--: plain
SELECT COUNT(*) FROM purchases

--: plain where
SELECT COUNT(*) AS sent FROM purchases WHERE status = 'sent'

--: count-column
SELECT COUNT(purchase) FROM purchases

--: count-column
SELECT COUNT(p.clerk) FROM purchases p WHERE p.total > 100.0

--: names
SELECT count(*) FROM shop.public.purchases;

--: names
SELECT "p"."status", COUNT(*) FROM "purchases" AS "p" GROUP BY "p"."status"

--: names
/* how many returned */ SELECT COUNT(*) -- all of them
FROM purchases WHERE status = 'returned' -- only these

--: names
SELECT ALL status, COUNT(*) FROM purchases GROUP BY status

--: group-by order-by
SELECT priority, COUNT(*) FROM purchases GROUP BY priority ORDER BY priority

--: group-by order-by
SELECT status, priority, SUM(total) FROM purchases GROUP BY status, priority ORDER BY status ASC, priority DESC

--: group-by
SELECT clerk, COUNT(*), SUM(total), AVG(total) FROM purchases GROUP BY clerk

--: group-by date-function
SELECT YEAR(placed), COUNT(*) FROM purchases GROUP BY YEAR(placed)

--: group-by date-function
SELECT EXTRACT(year FROM placed) AS y, EXTRACT(month FROM placed) AS m, COUNT(*) AS n FROM purchases GROUP BY y, m ORDER BY y, m

--: group-by date-function
SELECT date_trunc('year', placed) AS y, SUM(total) AS total FROM purchases GROUP BY y

--: group-by date-function
SELECT date_part('month', placed) AS m, COUNT(*) AS n FROM purchases GROUP BY m

--: where date-function
SELECT COUNT(*) FROM purchases WHERE placed >= date '2023-01-01' AND placed < date '2023-01-01' + interval '1' year

--: where date-function
SELECT COUNT(*) FROM purchases WHERE YEAR(placed) = 2022 AND MONTH(placed) IN (6, 7, 8)

--: where date-function
SELECT COUNT(*) FROM purchases WHERE placed > '2024-06-30'

--: where literals
SELECT COUNT(*) FROM purchases WHERE total BETWEEN 1e3 AND 2.5E4

--: where literals
SELECT COUNT(*) FROM purchases WHERE placed = CAST('2023-05-05' AS DATE)

--: where literals
SELECT COUNT(*) FROM purchases WHERE placed < '2021-01-01'::date

--: where
SELECT COUNT(*) FROM purchases WHERE (status = 'open' OR status = 'packed') AND NOT priority IN ('4-low')

--: where
SELECT COUNT(*) FROM purchases WHERE status IN ('open') AND priority NOT LIKE '%low'

--: where
SELECT COUNT(*) FROM purchases WHERE 1 = 1 AND total > 1000

--: where null
SELECT COUNT(*) FROM purchases WHERE clerk IS NULL OR clerk = 7

--: where null
SELECT COUNT(*) FROM purchases WHERE clerk <> 7

--: where null
SELECT COUNT(*) FROM purchases WHERE clerk NOT IN (1, 2, 3)

--: where function
SELECT COUNT(*) FROM purchases WHERE clerk % 2 = 0

--: where function
SELECT COUNT(*) FROM purchases WHERE MOD(clerk, 5) = 1

--: where function
SELECT COUNT(*) FROM purchases WHERE priority ILIKE '%URGENT'

--: distinct-unit
SELECT COUNT(DISTINCT buyer) FROM purchases

--: distinct-unit where
SELECT COUNT(DISTINCT buyer) FROM purchases WHERE placed >= '2024-01-01'

--: distinct-unit group-by
SELECT status, COUNT(DISTINCT buyer) AS buyers FROM purchases GROUP BY status ORDER BY buyers DESC

--: distinct-unit group-by date-function
SELECT YEAR(placed) AS y, COUNT(DISTINCT buyer) AS buyers FROM purchases GROUP BY 1

--: distinct-value
SELECT COUNT(DISTINCT clerk) FROM purchases WHERE status = 'open'

--: distinct-value ! purchases are not people
SELECT COUNT(DISTINCT purchase) FROM parcels

--: join-link
SELECT COUNT(*) FROM purchases JOIN buyers ON purchases.buyer = buyers.buyer

--: join-link
SELECT COUNT(*) FROM purchases o JOIN buyers b ON o.buyer = b.buyer WHERE b.segment = 'retail'

--: join-link group-by
SELECT b.nation, COUNT(*) AS n FROM buyers b JOIN purchases o ON b.buyer = o.buyer GROUP BY b.nation

--: join-link group-by
SELECT b.segment, SUM(o.total) AS total FROM purchases o INNER JOIN buyers b USING (buyer) GROUP BY b.segment ORDER BY total DESC

--: join-link
SELECT COUNT(*) FROM purchases, buyers WHERE purchases.buyer = buyers.buyer AND balance < 0

--: join-link
SELECT COUNT(*) FROM parcels l JOIN purchases o ON l.purchase = o.purchase WHERE o.status = 'returned'

--: join-link
SELECT COUNT(*) FROM parcels l JOIN purchases o ON l.purchase = o.purchase JOIN buyers b ON o.buyer = b.buyer WHERE b.newsletter

--: join-link group-by expression
SELECT o.priority, SUM(l.price * l.quantity) AS value FROM parcels l JOIN purchases o USING (purchase) GROUP BY o.priority

--: join-link distinct-unit
SELECT COUNT(DISTINCT o.buyer) FROM parcels l JOIN purchases o ON l.purchase = o.purchase WHERE l.mode = 'AIR'

--: join-link outer
SELECT COUNT(*) FROM buyers b LEFT JOIN purchases o ON b.buyer = o.buyer

--: join-link outer
SELECT COUNT(*) FROM buyers b LEFT JOIN purchases o ON b.buyer = o.buyer WHERE o.purchase IS NULL

--: join-link outer
SELECT b.segment, COUNT(o.purchase) AS n FROM buyers b LEFT OUTER JOIN purchases o ON b.buyer = o.buyer GROUP BY b.segment

--: join-unit
SELECT COUNT(*) FROM purchases a JOIN purchases b ON a.buyer = b.buyer WHERE a.status = 'open' AND b.status = 'returned'

--: join-link date-function
SELECT COUNT(*) FROM purchases o JOIN buyers b ON o.buyer = b.buyer WHERE o.placed > b.joined + INTERVAL 5 YEAR

--: join-link derived-table
SELECT COUNT(*) FROM (SELECT buyer FROM buyers WHERE segment = 'online') b JOIN (SELECT buyer, total FROM purchases WHERE total > 1000) o ON b.buyer = o.buyer

--: join-link cte
WITH rich AS (SELECT buyer FROM buyers WHERE balance > 5000), big AS (SELECT buyer, total FROM purchases WHERE total > 20000) SELECT COUNT(*), SUM(total) FROM rich JOIN big ON rich.buyer = big.buyer

--: join-public
SELECT n.region, COUNT(*) AS n FROM buyers b JOIN nations n ON b.nation = n.nation GROUP BY n.region

--: join-public
SELECT title, AVG(balance) AS balance FROM buyers JOIN nations USING (nation) WHERE region = 'europe' GROUP BY title

--: join-public join-link
SELECT n.region, SUM(o.total) AS total FROM purchases o JOIN buyers b ON o.buyer = b.buyer JOIN nations n ON b.nation = n.nation GROUP BY n.region

--: in-subquery
SELECT COUNT(*) FROM purchases WHERE buyer IN (SELECT buyer FROM buyers WHERE segment = 'public')

--: in-subquery
SELECT COUNT(*) FROM buyers WHERE buyer NOT IN (SELECT buyer FROM purchases)

--: in-subquery join-public
SELECT COUNT(*) FROM buyers WHERE nation IN (SELECT nation FROM nations WHERE region = 'america')

--: exists
SELECT COUNT(*) FROM buyers b WHERE EXISTS (SELECT 1 FROM purchases o WHERE o.buyer = b.buyer AND o.status = 'returned')

--: exists
SELECT COUNT(*) FROM buyers b WHERE NOT EXISTS (SELECT * FROM purchases o WHERE o.buyer = b.buyer)

--: per-unit derived-table
SELECT AVG(n) FROM (SELECT buyer, COUNT(*) AS n FROM purchases GROUP BY buyer) t

--: per-unit derived-table
SELECT COUNT(*) FROM (SELECT buyer, SUM(total) AS spent FROM purchases GROUP BY buyer HAVING SUM(total) > 100000) t

--: per-unit derived-table
SELECT COUNT(*) FROM (SELECT buyer, COUNT(DISTINCT status) AS k FROM purchases GROUP BY buyer) t WHERE k = 4

--: cte per-unit
WITH counts AS (SELECT buyer, COUNT(*) AS n FROM purchases GROUP BY buyer) SELECT COUNT(*) FROM counts WHERE n >= 10

--: scalar-subquery
SELECT COUNT(*) FROM purchases WHERE total > (SELECT AVG(total) FROM purchases)

--: arithmetic scalar-subquery
SELECT COUNT(*) * 100.0 / (SELECT COUNT(*) FROM purchases) AS pct FROM purchases WHERE status = 'open'

--: having
SELECT clerk, COUNT(*) FROM purchases GROUP BY clerk HAVING COUNT(*) > 140

--: having
SELECT clerk, SUM(total) FROM purchases GROUP BY clerk HAVING COUNT(*) > 140 AND SUM(total) > 1000

--: union
SELECT COUNT(*) FROM purchases WHERE status = 'open' UNION ALL SELECT COUNT(*) FROM purchases WHERE status = 'sent'

--: rows ! rows of people
SELECT buyer, total FROM purchases ORDER BY total DESC LIMIT 1

--: rows join-link ! rows of people
SELECT b.buyer, o.purchase FROM buyers b JOIN purchases o ON b.buyer = o.buyer

--: rows per-unit ! groups of people
SELECT buyer, COUNT(*) FROM purchases GROUP BY buyer

--: min-max ! one person's value
SELECT MAX(total) FROM purchases

--: join-other ! not along a link
SELECT COUNT(*) FROM purchases o JOIN visits v ON o.placed = v.arrived

--: join-other ! multiplies the rows of two people
SELECT COUNT(*) FROM purchases a, purchases b WHERE a.clerk = b.clerk
