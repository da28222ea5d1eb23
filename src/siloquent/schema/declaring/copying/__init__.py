"""Lists of values to copy from while a table is declared."""
