"""Workbooks as sources: their parts, their sheets, and the rows of a sheet."""
