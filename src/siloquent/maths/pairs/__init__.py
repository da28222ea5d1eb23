"""Exact counts of pairs of rows under comparisons."""
