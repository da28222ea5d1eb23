"""SELECT as parsed: its items, its sources and subqueries, its groups, its order."""
