"""Requests and results of a synthesis; no rows here."""
