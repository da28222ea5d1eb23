"""The data room: the only place where rows are read, and only against a permit.

``open_table`` gives the ``PrivateTable`` of a declared table; ``check`` tells its owner what is wrong with the rows.
"""

from siloquent.data.check import CheckReport, Finding, check
from siloquent.data.engines.base import Engine, Limits
from siloquent.data.opening import open_table
from siloquent.data.sources import open_source
from siloquent.data.table import CellSums, PermitBook, PrivateTable

__all__ = [
    "CellSums",
    "CheckReport",
    "Engine",
    "Finding",
    "Limits",
    "PermitBook",
    "PrivateTable",
    "check",
    "open_source",
    "open_table",
]
