"""Exact counts of the problems in a table, for its owner only."""

from siloquent.data.check.report import CheckReport, TableFinding
from siloquent.data.check.table import check

__all__ = ["CheckReport", "TableFinding", "check"]
