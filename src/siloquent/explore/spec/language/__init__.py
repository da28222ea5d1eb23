"""The query language: tokens, SQL, BIN and their rendering."""
