"""Rows of synth."""
