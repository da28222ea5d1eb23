--: group-by order-by expression date-function
SELECT flag, line_status, SUM(quantity) AS sum_quantity, SUM(price) AS sum_price, SUM(price * (1 - discount)) AS sum_paid,
  SUM(price * (1 - discount) * (1 + tax)) AS sum_charged, AVG(quantity) AS avg_quantity, AVG(price) AS avg_price,
  AVG(discount) AS avg_discount, COUNT(*) AS parcels
FROM parcels WHERE shipped <= DATE '2024-12-01' - INTERVAL '90' DAY
GROUP BY flag, line_status ORDER BY flag, line_status

--: group-by order-by
SELECT flag, line_status, SUM(quantity) AS sum_quantity, SUM(price) AS sum_price, AVG(quantity) AS avg_quantity, COUNT(*) AS parcels
FROM parcels WHERE shipped <= DATE '2024-09-02' GROUP BY flag, line_status ORDER BY flag, line_status

--: rows join-link expression order-by limit ! purchases are rows of people
SELECT l.purchase, SUM(l.price * (1 - l.discount)) AS revenue, o.placed, o.priority
FROM buyers b, purchases o, parcels l
WHERE b.segment = 'online' AND b.buyer = o.buyer AND l.purchase = o.purchase AND o.placed < DATE '2023-03-15' AND l.shipped > DATE '2023-03-15'
GROUP BY l.purchase, o.placed, o.priority ORDER BY revenue DESC, o.placed LIMIT 10

--: exists date-function group-by order-by
SELECT priority, COUNT(*) AS purchases FROM purchases o
WHERE placed >= DATE '2023-07-01' AND placed < DATE '2023-07-01' + INTERVAL '3' MONTH
  AND EXISTS (SELECT * FROM parcels l WHERE l.purchase = o.purchase AND l.promised < l.received)
GROUP BY priority ORDER BY priority

--: join-link join-public expression group-by order-by date-function
SELECT n.title, SUM(l.price * (1 - l.discount)) AS revenue
FROM buyers b, purchases o, parcels l, sellers s, nations n
WHERE b.buyer = o.buyer AND l.purchase = o.purchase AND l.seller = s.seller AND b.nation = s.home AND s.home = n.nation
  AND n.region = 'asia' AND o.placed >= DATE '2022-01-01' AND o.placed < DATE '2022-01-01' + INTERVAL '1' YEAR
GROUP BY n.title ORDER BY revenue DESC

--: expression where date-function
SELECT SUM(price * discount) AS revenue FROM parcels
WHERE shipped >= DATE '2022-01-01' AND shipped < DATE '2022-01-01' + INTERVAL '1' YEAR AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND quantity < 24

--: expression where
SELECT SUM(price * discount) AS revenue FROM parcels
WHERE shipped >= DATE '2022-01-01' AND shipped < DATE '2023-01-01' AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24

--: where literals
SELECT SUM(price) AS revenue FROM parcels
WHERE shipped >= DATE '2022-01-01' AND shipped < DATE '2023-01-01' AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND quantity < 24

--: join-link join-public derived-table expression date-function group-by
SELECT seller_region, buyer_region, ship_year, SUM(volume) AS revenue FROM (
  SELECT n1.region AS seller_region, n2.region AS buyer_region, EXTRACT(YEAR FROM l.shipped) AS ship_year, l.price * (1 - l.discount) AS volume
  FROM sellers s, parcels l, purchases o, buyers b, nations n1, nations n2
  WHERE s.seller = l.seller AND o.purchase = l.purchase AND b.buyer = o.buyer AND s.home = n1.nation AND b.nation = n2.nation
    AND ((n1.region = 'europe' AND n2.region = 'asia') OR (n1.region = 'asia' AND n2.region = 'europe'))
    AND l.shipped BETWEEN DATE '2022-01-01' AND DATE '2023-12-31') AS shipping
GROUP BY seller_region, buyer_region, ship_year ORDER BY seller_region, buyer_region, ship_year

--: join-link join-public derived-table case arithmetic date-function
SELECT placed_year, SUM(CASE WHEN title = 'Brazil' THEN volume ELSE 0 END) / SUM(volume) AS share FROM (
  SELECT EXTRACT(YEAR FROM o.placed) AS placed_year, l.price * (1 - l.discount) AS volume, n2.title AS title
  FROM articles a, sellers s, parcels l, purchases o, buyers b, nations n1, nations n2
  WHERE a.article = l.article AND s.seller = l.seller AND l.purchase = o.purchase AND o.buyer = b.buyer AND b.nation = n1.nation
    AND n1.region = 'america' AND s.home = n2.nation AND o.placed BETWEEN DATE '2022-01-01' AND DATE '2023-12-31' AND a.material = 'steel') AS x
GROUP BY placed_year ORDER BY placed_year

--: join-link join-public derived-table expression date-function
SELECT nation, placed_year, SUM(amount) AS profit FROM (
  SELECT s.home AS nation, EXTRACT(YEAR FROM o.placed) AS placed_year, l.price * (1 - l.discount) - 0.5 * l.quantity AS amount
  FROM articles a, sellers s, parcels l, purchases o
  WHERE s.seller = l.seller AND a.article = l.article AND o.purchase = l.purchase AND a.finish LIKE '%plated%') AS profit
GROUP BY nation, placed_year ORDER BY nation, placed_year DESC

--: rows join-link join-public expression order-by limit ! rows of people
SELECT b.buyer, SUM(l.price * (1 - l.discount)) AS revenue, b.balance, n.title
FROM buyers b, purchases o, parcels l, nations n
WHERE b.buyer = o.buyer AND l.purchase = o.purchase AND o.placed >= DATE '2022-10-01' AND l.flag = 'R' AND b.nation = n.nation
GROUP BY b.buyer, b.balance, n.title ORDER BY revenue DESC LIMIT 20

--: join-link case group-by order-by
SELECT l.mode, SUM(CASE WHEN o.priority = '1-urgent' OR o.priority = '2-high' THEN 1 ELSE 0 END) AS high,
  SUM(CASE WHEN o.priority <> '1-urgent' AND o.priority <> '2-high' THEN 1 ELSE 0 END) AS low
FROM purchases o, parcels l
WHERE o.purchase = l.purchase AND l.mode IN ('MAIL', 'SHIP') AND l.promised < l.received AND l.shipped < l.promised
  AND l.received >= DATE '2022-01-01' AND l.received < DATE '2022-01-01' + INTERVAL '1' YEAR
GROUP BY l.mode ORDER BY l.mode

--: where group-by case
SELECT mode, COUNT(*) AS late FROM parcels WHERE mode IN ('MAIL', 'SHIP') AND promised < received AND shipped < promised
  AND received >= DATE '2022-01-01' AND received < DATE '2023-01-01' GROUP BY mode ORDER BY mode

--: join-link outer per-unit derived-table group-by order-by
SELECT purchases, COUNT(*) AS buyers FROM (
  SELECT b.buyer, COUNT(o.purchase) AS purchases FROM buyers b LEFT OUTER JOIN purchases o ON b.buyer = o.buyer AND o.status <> 'returned'
  GROUP BY b.buyer) AS t
GROUP BY purchases ORDER BY buyers DESC, purchases DESC

--: join-public case arithmetic expression date-function
SELECT 100.00 * SUM(CASE WHEN a.finish LIKE 'promo%' THEN l.price * (1 - l.discount) ELSE 0 END) / SUM(l.price * (1 - l.discount)) AS promo
FROM parcels l, articles a WHERE l.article = a.article AND l.shipped >= DATE '2022-09-01' AND l.shipped < DATE '2022-09-01' + INTERVAL '1' MONTH

--: join-public case arithmetic
SELECT 100.00 * SUM(CASE WHEN finish LIKE 'promo%' THEN price ELSE 0 END) / SUM(price) AS promo FROM parcels JOIN articles USING (article)

--: cte expression scalar-subquery group-by date-function
WITH revenue AS (SELECT seller, SUM(price * (1 - discount)) AS total FROM parcels
  WHERE shipped >= DATE '2022-01-01' AND shipped < DATE '2022-01-01' + INTERVAL '3' MONTH GROUP BY seller)
SELECT s.seller, s.home, total FROM sellers s JOIN revenue r ON s.seller = r.seller
WHERE total = (SELECT MAX(total) FROM revenue) ORDER BY s.seller

--: group-by order-by limit expression
SELECT seller, SUM(price * (1 - discount)) AS total FROM parcels GROUP BY seller ORDER BY total DESC LIMIT 1

--: join-public scalar-subquery expression arithmetic
SELECT SUM(l.price) / 7.0 AS yearly FROM parcels l, articles a
WHERE a.article = l.article AND a.brand = 'B21' AND a.container = 'medium bag'
  AND l.quantity < (SELECT 0.5 * AVG(quantity) FROM parcels l2 WHERE l2.article = a.article)

--: join-public arithmetic
SELECT SUM(l.price) / 7.0 AS yearly FROM parcels l, articles a WHERE a.article = l.article AND a.brand = 'B21' AND l.quantity < 10

--: rows in-subquery join-link having order-by limit ! rows of people
SELECT b.buyer, o.purchase, o.placed, o.total, SUM(l.quantity) AS quantity FROM buyers b, purchases o, parcels l
WHERE o.purchase IN (SELECT purchase FROM parcels GROUP BY purchase HAVING SUM(quantity) > 150) AND b.buyer = o.buyer AND o.purchase = l.purchase
GROUP BY b.buyer, o.purchase, o.placed, o.total ORDER BY o.total DESC LIMIT 100

--: join-public where expression
SELECT SUM(l.price * (1 - l.discount)) AS revenue FROM parcels l, articles a
WHERE (a.article = l.article AND a.brand = 'B12' AND a.container IN ('small box') AND l.quantity BETWEEN 1 AND 21 AND a.size BETWEEN 1 AND 15 AND l.mode IN ('AIR', 'RAIL') AND l.instruction = 'in person')
   OR (a.article = l.article AND a.brand = 'B22' AND a.container IN ('medium bag') AND l.quantity BETWEEN 10 AND 30 AND a.size BETWEEN 1 AND 40 AND l.mode IN ('AIR', 'RAIL') AND l.instruction = 'in person')

--: join-public where
SELECT SUM(l.price) AS revenue FROM parcels l JOIN articles a ON a.article = l.article
WHERE l.mode IN ('AIR', 'RAIL') AND (brand = 'B12' AND quantity BETWEEN 1 AND 21 OR brand = 'B22' AND quantity BETWEEN 10 AND 30)

--: in-subquery join-public expression
SELECT COUNT(*) FROM parcels WHERE article IN (SELECT article FROM articles WHERE material LIKE 's%') AND seller IN (SELECT seller FROM sellers WHERE home = 'CA')

--: exists join-link group-by order-by
SELECT l1.seller, COUNT(*) AS waiting FROM parcels l1 JOIN purchases o ON o.purchase = l1.purchase
WHERE o.status = 'sent' AND l1.received > l1.promised
  AND EXISTS (SELECT * FROM parcels l2 WHERE l2.purchase = l1.purchase AND l2.seller <> l1.seller)
  AND NOT EXISTS (SELECT * FROM parcels l3 WHERE l3.purchase = l1.purchase AND l3.seller <> l1.seller AND l3.received > l3.promised)
GROUP BY l1.seller ORDER BY waiting DESC, l1.seller

--: where group-by
SELECT seller, COUNT(*) AS late FROM parcels WHERE received > promised GROUP BY seller ORDER BY late DESC, seller

--: derived-table exists scalar-subquery function group-by order-by
SELECT code, COUNT(*) AS buyers, SUM(balance) AS balances FROM (
  SELECT SUBSTRING(phone FROM 1 FOR 2) AS code, balance FROM buyers b
  WHERE SUBSTRING(phone FROM 1 FOR 2) IN ('13', '17', '29')
    AND balance > (SELECT AVG(balance) FROM buyers WHERE balance > 0.00 AND SUBSTRING(phone FROM 1 FOR 2) IN ('13', '17', '29'))
    AND NOT EXISTS (SELECT * FROM purchases o WHERE o.buyer = b.buyer)) AS t
GROUP BY code ORDER BY code

--: where group-by order-by
SELECT phone, COUNT(*) AS buyers, SUM(balance) AS balances FROM buyers WHERE phone IN ('13', '17', '29') AND balance > 0.00 GROUP BY phone ORDER BY phone

--: cte join-link expression group-by
WITH paid AS (SELECT o.priority, l.price * (1 - l.discount) AS value FROM purchases o JOIN parcels l USING (purchase)) SELECT priority, SUM(value) AS value FROM paid GROUP BY priority

--: join-link per-unit derived-table expression
SELECT AVG(value) AS mean FROM (SELECT o.buyer, SUM(l.price * (1 - l.discount)) AS value FROM purchases o JOIN parcels l USING (purchase) GROUP BY o.buyer) AS t

--: join-link distinct-unit group-by
SELECT l.seller, COUNT(DISTINCT o.buyer) AS buyers FROM purchases o JOIN parcels l USING (purchase) GROUP BY l.seller

--: date-function group-by expression
SELECT EXTRACT(YEAR FROM shipped) AS y, SUM(price * (1 - discount)) AS revenue FROM parcels GROUP BY y ORDER BY y

--: date-function where
SELECT COUNT(*) FROM parcels WHERE received - shipped > 14

--: date-function where
SELECT COUNT(*) FROM parcels WHERE shipped >= DATE '2023-01-01' AND shipped < DATE '2023-01-01' + INTERVAL '90 days'

--: rollup expression
SELECT flag, line_status, SUM(price) AS price FROM parcels GROUP BY ROLLUP (flag, line_status) ORDER BY flag NULLS LAST, line_status NULLS LAST

--: join-public group-by
SELECT brand, material, COUNT(*) AS n FROM parcels JOIN articles USING (article) GROUP BY brand, material

--: join-public group-by distinct-value
SELECT a.brand, COUNT(DISTINCT l.seller) AS sellers FROM parcels l JOIN articles a ON l.article = a.article GROUP BY a.brand

--: join-public key-expression
SELECT s.rating >= 3 AS good, AVG(l.discount) AS discount FROM parcels l JOIN sellers s USING (seller) GROUP BY 1

--: arithmetic case where
SELECT mode, SUM(CASE WHEN received > promised THEN 1 ELSE 0 END) * 100.0 / COUNT(received) AS late FROM parcels GROUP BY mode ORDER BY late

--: window expression
SELECT mode, SUM(price) AS price, RANK() OVER (ORDER BY SUM(price) DESC) AS place FROM parcels GROUP BY mode

--: having in-subquery
SELECT seller, SUM(quantity) AS quantity FROM parcels GROUP BY seller HAVING SUM(quantity) > 19000 ORDER BY quantity DESC
