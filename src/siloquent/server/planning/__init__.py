"""Processes that price questions and jobs."""
