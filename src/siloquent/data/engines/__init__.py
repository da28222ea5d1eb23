"""What runs SQL over rows: DuckDB in this process, or Spark."""
