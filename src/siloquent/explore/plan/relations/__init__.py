"""Plans over more than one table's rows: public tables, related tables, and rows of persons."""
