"""Corrected lines for refused declarations, in their own words; they are read again before they are offered."""

from siloquent.schema.mending.search import mend_declaration

__all__ = ["mend_declaration"]
