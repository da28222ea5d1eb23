"""Public tables: their declarations, their loaded values, and several of them joined to a private table."""
