"""The data package: the only code that reads rows, and only against a permit.

``open_table`` gives the ``PrivateTable`` of a declared table; ``check`` reports problems in the rows to its owner.
"""

from typing import TYPE_CHECKING

from siloquent.data.check import CheckReport, TableFinding, check
from siloquent.data.engines.base import Engine, ReadLimits
from siloquent.data.refresh import RefreshReport, check_frame, replace_file, require_fit
from siloquent.data.sources import open_source
from siloquent.data.table import CellSums, PermitChecker, PrivateTable
from siloquent.data.table_factory import open_table
from siloquent.deprecation import keep_old_methods, keep_old_names

__all__ = [
    "CellSums",
    "CheckReport",
    "Engine",
    "PermitChecker",
    "PrivateTable",
    "ReadLimits",
    "RefreshReport",
    "TableFinding",
    "check",
    "check_frame",
    "open_source",
    "open_table",
    "replace_file",
    "require_fit",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {"Finding": "TableFinding", "Limits": "ReadLimits", "PermitBook": "PermitChecker"},
    )
    keep_old_methods(CheckReport, {"document": "to_json"})
