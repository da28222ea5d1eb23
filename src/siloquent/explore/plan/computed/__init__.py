"""Computed columns of a query: its expressions as exact programs over cells, with bounds derived from declarations."""
