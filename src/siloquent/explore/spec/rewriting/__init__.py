"""Rewriting of queries: names as declared, and one form and one text per meaning."""
