"""Compilation of predicates and keys to cells and matrices, without data."""
