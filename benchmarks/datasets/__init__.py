"""Published data sets with their declarations and printed figures."""
