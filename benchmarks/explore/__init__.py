"""Rows of explore."""
