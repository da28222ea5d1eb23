"""Access to the server: tokens, roles, limits, records."""
