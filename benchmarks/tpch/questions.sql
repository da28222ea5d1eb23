--: 1 groups of lines
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS quantity, SUM(l_extendedprice) AS base,
  SUM(l_extendedprice * (1 - l_discount)) AS paid, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
  AVG(l_quantity) AS avg_quantity, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_discount, COUNT(*) AS lines
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus

--: 2 public tables only
SELECT s_suppkey, MIN(ps_supplycost) AS cost FROM part JOIN partsupp ON p_partkey = ps_partkey
  JOIN supplier ON s_suppkey = ps_suppkey WHERE p_size = 15 GROUP BY s_suppkey ORDER BY cost LIMIT 100

--: 3 rows of orders
SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate ORDER BY revenue DESC LIMIT 10

--: 4 orders with late lines
SELECT o_orderpriority, COUNT(*) AS late FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority

--: 5 local suppliers
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name ORDER BY revenue DESC

--: 6 a forecast
SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24

--: 7 volume between two nations
SELECT seller, buyer, shipped, SUM(volume) AS revenue FROM (
  SELECT n1.n_name AS seller, n2.n_name AS buyer, EXTRACT(YEAR FROM l_shipdate) AS shipped,
    l_extendedprice * (1 - l_discount) AS volume
  FROM supplier, lineitem, orders, customer, nation n1, nation n2
  WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
    AND c_nationkey = n2.n_nationkey AND (n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY' OR n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')
    AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY seller, buyer, shipped ORDER BY seller, buyer, shipped

--: 8 a nation's share of a market
SELECT ordered, SUM(CASE WHEN seller = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS share FROM (
  SELECT EXTRACT(YEAR FROM o_orderdate) AS ordered, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS seller
  FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
    AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL') AS sold
GROUP BY ordered ORDER BY ordered

--: 9 profit by nation and year
SELECT n_name, EXTRACT(YEAR FROM o_orderdate) AS ordered,
  SUM(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
FROM part, supplier, lineitem, partsupp, orders, nation
WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
  AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_green
GROUP BY n_name, ordered ORDER BY n_name, ordered DESC

--: 10 rows of customers
SELECT c_custkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
GROUP BY c_custkey, c_acctbal ORDER BY revenue DESC LIMIT 20

--: 11 public tables only
SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS worth FROM partsupp JOIN supplier ON ps_suppkey = s_suppkey
  JOIN nation ON s_nationkey = n_nationkey WHERE n_name = 'GERMANY' GROUP BY ps_partkey ORDER BY worth DESC

--: 12 ways of shipping and late lines
SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high,
  SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l_shipmode ORDER BY l_shipmode

--: 13 customers by their number of orders
SELECT orders, COUNT(*) AS customers FROM (
  SELECT c_custkey, COUNT(o_orderkey) AS orders FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey AND NOT o_special
  GROUP BY c_custkey) AS counted
GROUP BY orders ORDER BY customers DESC, orders DESC

--: 14 the share of promotions
SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
  / SUM(l_extendedprice * (1 - l_discount)) AS promotions
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH

--: 15 the best supplier
WITH revenue AS (
  SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) AS total FROM lineitem
  WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH GROUP BY l_suppkey)
SELECT l_suppkey, total FROM revenue WHERE total = (SELECT MAX(total) FROM revenue) ORDER BY l_suppkey

--: 16 public tables only
SELECT p_brand, p_size, COUNT(DISTINCT ps_suppkey) AS suppliers FROM partsupp JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45' GROUP BY p_brand, p_size ORDER BY suppliers DESC

--: 17 small orders of a part
SELECT SUM(l_extendedprice) / 7.0 AS yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * AVG(l2.l_quantity) FROM lineitem l2 WHERE l2.l_partkey = p_partkey)

--: 18 rows of large orders
SELECT c_custkey, o_orderkey, SUM(l_quantity) AS quantity
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300)
GROUP BY c_custkey, o_orderkey ORDER BY quantity DESC LIMIT 100

--: 19 lines of three kinds of parts
SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
  p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5
  OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10
  OR p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15)

--: 20 suppliers with parts in stock
SELECT s_suppkey FROM supplier WHERE s_suppkey IN (
  SELECT ps_suppkey FROM partsupp JOIN part ON p_partkey = ps_partkey WHERE p_forest
    AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
      AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
ORDER BY s_suppkey

--: 21 suppliers that kept orders waiting
SELECT l1.l_suppkey, COUNT(*) AS waiting FROM lineitem l1 JOIN orders ON o_orderkey = l1.l_orderkey
WHERE o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
    AND l3.l_receiptdate > l3.l_commitdate)
GROUP BY l1.l_suppkey ORDER BY waiting DESC, l1.l_suppkey LIMIT 100

--: 22 customers without orders
SELECT c_code, COUNT(*) AS customers, SUM(c_acctbal) AS balances FROM customer
WHERE c_code IN (13, 31, 23, 29, 30, 18, 17)
  AND c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND c_code IN (13, 31, 23, 29, 30, 18, 17))
  AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
GROUP BY c_code ORDER BY c_code
