"""The quality report of a synthetic table."""
