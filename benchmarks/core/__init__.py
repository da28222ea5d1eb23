"""Rows of core."""
