"""Rows of search."""
