"""Answers as values, text and charts."""
