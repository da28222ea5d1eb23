"""From what a table file calls its source to an engine that has it open."""

from siloquent.data.sources.csv import csv_header
from siloquent.data.sources.opening import open_source

__all__ = ["csv_header", "open_source"]
