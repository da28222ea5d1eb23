"""A release on one table, and the same noise replayed on its neighbour: what the two tell apart must be paid for."""
