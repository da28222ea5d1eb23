"""The SQL engines: DuckDB in this process, or Spark."""
