"""Rows of collect."""
