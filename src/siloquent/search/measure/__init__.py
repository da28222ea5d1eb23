"""The room where rows meet noise, and the owner's own exact rows for local scoring."""

from siloquent.search.measure.own import OwnRows, own_rows, own_table
from siloquent.search.measure.statistics import (
    SumBatch,
    cells_of,
    counted,
    kernel_of,
    measure,
    noisy,
)
from siloquent.search.records import unit_records, whole_records

__all__ = [
    "OwnRows",
    "SumBatch",
    "cells_of",
    "counted",
    "kernel_of",
    "measure",
    "noisy",
    "own_rows",
    "own_table",
    "unit_records",
    "whole_records",
]
