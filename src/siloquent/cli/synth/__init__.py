"""Commands of synthetic tables."""
