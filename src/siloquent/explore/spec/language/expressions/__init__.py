"""Conditions and expressions: their grammar, functions, constants and tests."""
