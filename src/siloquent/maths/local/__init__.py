"""Estimates from reports under local privacy."""
