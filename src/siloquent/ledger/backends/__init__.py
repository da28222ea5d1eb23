"""The stores of a ledger: SQLite, PostgreSQL, memory."""
