"""Neighbouring tables, and whether anything that an analyst sees differs between them."""
