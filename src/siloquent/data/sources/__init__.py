"""Opening of the sources named in table files, each in an engine."""

from siloquent.data.sources.csv import read_public_header
from siloquent.data.sources.engine_factory import open_source

__all__ = ["open_source", "read_public_header"]
