"""Rows of sketch."""
