"""Opening of the sources named in table files, each in an engine."""

from siloquent.data.sources.engine_factory import open_source

__all__ = ["open_source"]
