"""Rows of share."""
