"""Rows of doors."""
