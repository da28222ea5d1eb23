"""Tails of noise, and error bounds that follow from them."""
