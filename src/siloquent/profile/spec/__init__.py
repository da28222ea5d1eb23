"""What is asked and answered: frozen values that check themselves."""

from siloquent.profile.spec.columns import Column, column_from_plain, declared_columns, digest_of_columns
from siloquent.profile.spec.leakage import reveals, statement
from siloquent.profile.spec.report import (
    Dependency,
    FDReport,
    Leakage,
    dependencies_of,
    parse_dependency,
    report_from_plain,
)
from siloquent.profile.spec.request import ProfileSpec, spec_from_plain

__all__ = [
    "Column",
    "Dependency",
    "FDReport",
    "Leakage",
    "ProfileSpec",
    "column_from_plain",
    "declared_columns",
    "dependencies_of",
    "digest_of_columns",
    "parse_dependency",
    "report_from_plain",
    "reveals",
    "spec_from_plain",
    "statement",
]
