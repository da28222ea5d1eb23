"""From what a table file calls its source to an engine that has it open."""

from siloquent.data.sources.opening import open_source

__all__ = ["open_source"]
