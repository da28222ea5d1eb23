"""Planning: from a spec and a declaration to steps, prices and the enforcement of constraints; no rows here."""
