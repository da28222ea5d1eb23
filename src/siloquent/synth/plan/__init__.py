"""From a spec and a declaration to steps, prices and the ways in which constraints are kept; no rows here."""
