"""Corrected questions for refusals: edits of the asker's own text, each planned before it is offered."""
