"""What is wrong with a table's rows, counted exactly, for its owner's eyes alone."""

from siloquent.data.check.report import CheckReport, TableFinding
from siloquent.data.check.table import check

__all__ = ["CheckReport", "TableFinding", "check"]
