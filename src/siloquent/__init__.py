"""siloquent: learn from data that you may not see.

>>> import siloquent as sq
>>> sq.count("visits").by("ward").within(rows=200).query().kind
'wcq'
"""

from typing import TYPE_CHECKING, Any

from siloquent.errors import PrivacyWarning, SiloquentError
from siloquent.version import VERSION

if TYPE_CHECKING:
    from siloquent.api import Session, read_schema
    from siloquent.api import open_session as open  # noqa: A004 - sq.open reads well and shadows nothing outside
    from siloquent.declaring import declare
    from siloquent.explore import (
        Answer,
        Query,
        average_of,
        count,
        deviation_of,
        distinct_of,
        median_of,
        parse,
        quantile_of,
        sum_of,
        variance_of,
    )
    from siloquent.remote import Timeouts, connect, connect_async
    from siloquent.schema import AccuracyDefaults, Attribute, TableBudget, Unit
    from siloquent.schema.declaring import Declaration, declare_attribute
    from siloquent.session import create_workspace

__version__ = VERSION
__all__ = [
    "AccuracyDefaults",
    "Answer",
    "Attribute",
    "Declaration",
    "PrivacyWarning",
    "Query",
    "Session",
    "SiloquentError",
    "TableBudget",
    "Timeouts",
    "Unit",
    "average_of",
    "connect",
    "connect_async",
    "count",
    "create_workspace",
    "declare",
    "declare_attribute",
    "deviation_of",
    "distinct_of",
    "median_of",
    "open",
    "parse",
    "quantile_of",
    "read_schema",
    "sum_of",
    "variance_of",
]

_HOMES = {
    "Answer": ("siloquent.explore", "Answer"),
    "Attribute": ("siloquent.schema", "Attribute"),
    "Declaration": ("siloquent.schema.declaring", "Declaration"),
    "Query": ("siloquent.explore", "Query"),
    "Session": ("siloquent.api", "Session"),
    "average_of": ("siloquent.explore", "average_of"),
    "AccuracyDefaults": ("siloquent.schema", "AccuracyDefaults"),
    "TableBudget": ("siloquent.schema", "TableBudget"),
    "Unit": ("siloquent.schema", "Unit"),
    "Timeouts": ("siloquent.remote", "Timeouts"),
    "connect": ("siloquent.remote", "connect"),
    "connect_async": ("siloquent.remote", "connect_async"),
    "count": ("siloquent.explore", "count"),
    "create_workspace": ("siloquent.session", "create_workspace"),
    "declare": ("siloquent.declaring", "declare"),
    "declare_attribute": ("siloquent.schema.declaring", "declare_attribute"),
    "deviation_of": ("siloquent.explore", "deviation_of"),
    "distinct_of": ("siloquent.explore", "distinct_of"),
    "median_of": ("siloquent.explore", "median_of"),
    "open": ("siloquent.api", "open_session"),
    "parse": ("siloquent.explore", "parse"),
    "quantile_of": ("siloquent.explore", "quantile_of"),
    "read_schema": ("siloquent.api", "read_schema"),
    "sum_of": ("siloquent.explore", "sum_of"),
    "variance_of": ("siloquent.explore", "variance_of"),
}


def __getattr__(name: str) -> Any:
    """Fetch a public name when it is first used, so that ``import siloquent`` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'siloquent' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
