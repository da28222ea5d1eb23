"""Requests and results: frozen values that check themselves."""

from siloquent.profile.spec.columns import ProfileColumn, build_columns, compute_columns_digest, parse_column
from siloquent.profile.spec.leakage import describe_leakage, format_leakage
from siloquent.profile.spec.report import (
    Dependency,
    FDReport,
    Leakage,
    build_dependencies,
    parse_dependency,
    parse_report,
)
from siloquent.profile.spec.request import ProfileSpec, parse_spec

__all__ = [
    "Dependency",
    "FDReport",
    "Leakage",
    "ProfileColumn",
    "ProfileSpec",
    "build_columns",
    "build_dependencies",
    "compute_columns_digest",
    "describe_leakage",
    "format_leakage",
    "parse_column",
    "parse_dependency",
    "parse_report",
    "parse_spec",
]
