"""Rows of profile."""
