"""Rows by unit: which rows count, who holds them, one row for each unit, and rows of related tables."""
