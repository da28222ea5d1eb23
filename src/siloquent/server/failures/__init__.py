"""Failures as problem documents, with fixes for clients of the API and for readers of its pages."""
